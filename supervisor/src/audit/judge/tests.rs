use super::*;
use crate::audit::decode::{Actor, Comm};
use proptest::prelude::*;
use supervisor_ebpf::abi::ProcessKey;

const MAIN: u32 = 4711;

/// A run that went well: three births, three exits, removed.
fn good() -> Snapshot<'static> {
    Snapshot {
        watch: Watch::On(Attachment::Unbroken),
        executor: Birth::Seen(Executor { exited: 99, ..Executor::default() }),
        executor_life: ExecutorLife::Exited,
        run: Birth::Seen(Run {
            births: 3,
            exits: 3,
            removed: 1,
            main_tgid: MAIN,
            main_start: 7,
            main_exited: 9,
            ..Run::default()
        }),
        faults: Faults::default(),
        main: Some(MAIN),
        alive: 0,
        events: &[],
        entries: &[],
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Proven,
    Violated,
    Unproven,
}
use Status::{Proven as P, Unproven as U, Violated as V};

fn status(claim: &Claim) -> Status {
    match claim {
        Claim::Proven => P,
        Claim::Violated { .. } => V,
        Claim::Unproven { .. } => U,
    }
}

/// In the order C1 to C4.
fn statuses(claims: &Claims) -> [Status; 4] {
    let Claims { stayed_out, contained, undisturbed, ended } = claims;
    [stayed_out, contained, undisturbed, ended].map(status)
}

fn run(change: impl FnOnce(&mut Run)) -> impl FnOnce(&mut Snapshot<'static>) {
    |snapshot| match &mut snapshot.run {
        Birth::Seen(run) => change(run),
        Birth::Unseen => unreachable!("the good snapshot has a run"),
    }
}

fn executor(change: impl FnOnce(&mut Executor)) -> impl FnOnce(&mut Snapshot<'static>) {
    |snapshot| match &mut snapshot.executor {
        Birth::Seen(executor) => change(executor),
        Birth::Unseen => unreachable!("the good snapshot has an executor"),
    }
}

/// One row of the table: what differs from the good run, and what becomes of the claims.
type Row = (&'static str, Box<dyn FnOnce(&mut Snapshot<'static>)>, [Status; 4]);

fn row(
    name: &'static str,
    change: impl FnOnce(&mut Snapshot<'static>) + 'static,
    expected: [Status; 4],
) -> Row {
    (name, Box::new(change), expected)
}

fn rows() -> Vec<Row> {
    vec![
        row("all is well", |_| {}, [P, P, P, P]),
        row(
            "the executor still lives",
            |s| {
                s.executor = Birth::Seen(Executor::default());
                s.executor_life = ExecutorLife::Alive;
            },
            [P, P, P, P],
        ),
        row(
            "no main process was started",
            |s| {
                s.main = None;
                s.run = Birth::Seen(Run { removed: 1, ..Run::default() });
            },
            [P, P, P, P],
        ),
        row("it came back and moved inside", run(|r| (r.returned, r.moved_inside) = (2, 5)), [P, P, P, P]),
        row("oom victims", run(|r| r.oom_victims = 1), [P, P, P, P]),
        // Violations.
        row("executor entered", executor(|e| (e.entered, e.entered_cgroup) = (1, 55)), [V, P, P, P]),
        row("an executor entered this run", run(|r| r.executor_entered = 1), [P, P, V, P]),
        row("left", run(|r| r.left = 1), [P, V, P, P]),
        row("left and came back", run(|r| (r.left, r.returned) = (1, 1)), [P, V, P, P]),
        row("born outside, and gone", run(|r| (r.outside, r.outside_exits) = (1, 1)), [P, V, P, P]),
        row("stranger", run(|r| r.strangers = 1), [P, P, V, P]),
        row("foreign birth", run(|r| r.foreign = 1), [P, P, V, P]),
        row(
            "everything at once",
            |s| {
                run(|r| (r.left, r.strangers, r.exits) = (1, 1, 2))(s);
                executor(|e| e.entered = 1)(s);
                s.alive = 1;
            },
            [V, V, V, V],
        ),
        // The end.
        row("not removed yet", run(|r| r.removed = 0), [P, P, P, U]),
        row(
            "one lives in the run",
            |s| {
                run(|r| (r.exits, r.removed) = (2, 0))(s);
                s.alive = 1;
            },
            [P, P, P, U],
        ),
        row(
            "one that left lives on",
            |s| {
                run(|r| (r.left, r.exits) = (1, 2))(s);
                s.alive = 1;
            },
            [P, V, P, V],
        ),
        row(
            "one that was born outside lives on",
            |s| {
                run(|r| r.outside = 1)(s);
                s.alive = 1;
            },
            [P, V, P, V],
        ),
        row("an exit is missing and nobody lives", run(|r| r.exits = 2), [P, P, P, U]),
        row("an exit too many", run(|r| r.exits = 4), [P, P, P, U]),
        row(
            "two miscounts do not cancel out",
            run(|r| (r.exits, r.outside, r.outside_exits) = (2, 1, 2)),
            [P, V, P, U],
        ),
        row("found alive just before its exit was counted", |s| s.alive = 1, [P, P, P, P]),
        // The observation.
        row("audit off", |s| s.watch = Watch::Off { why: "--no-audit".into() }, [U, U, U, U]),
        row(
            "fork detached",
            |s| s.watch = Watch::On(Attachment::Broken(Program::SchedProcessFork)),
            [U, U, U, U],
        ),
        row("failed update", |s| s.faults.failed = 1, [U, U, U, U]),
        row("young move", |s| s.faults.young_moves = 1, [U, U, U, U]),
        row("identity", |s| s.faults.identity_mismatches = 1, [U, U, U, U]),
        row("skipped run", |s| s.faults.skipped_runs = 1, [U, U, U, U]),
        row("executor unseen", |s| s.executor = Birth::Unseen, [U, U, U, U]),
        row("executor's exit unseen", executor(|e| e.exited = 0), [U, U, U, U]),
        row("run unseen", |s| s.run = Birth::Unseen, [U, U, U, U]),
        row("main unseen", run(|r| (r.main_tgid, r.births, r.exits) = (0, 2, 2)), [U, U, U, U]),
        row("another main", run(|r| r.main_tgid = 4712), [U, U, U, U]),
        // Evidence outlives doubt.
        row(
            "left, and a failed update",
            |s| {
                run(|r| r.left = 1)(s);
                s.faults.failed = 1;
            },
            [U, V, U, U],
        ),
        row(
            "entered, and detached",
            |s| {
                executor(|e| e.entered = 3)(s);
                s.watch = Watch::On(Attachment::Broken(Program::CgroupAttachTask));
            },
            [V, U, U, U],
        ),
        row(
            "stranger, and the executor unseen",
            |s| {
                run(|r| r.strangers = 1)(s);
                s.executor = Birth::Unseen;
            },
            [U, U, V, U],
        ),
        row(
            "alive after removal, and a failed update",
            |s| {
                run(|r| r.exits = 2)(s);
                s.alive = 1;
                s.faults.failed = 1;
            },
            [U, U, U, V],
        ),
        row(
            "executor entered, and the run unseen",
            |s| {
                executor(|e| e.entered = 1)(s);
                s.run = Birth::Unseen;
            },
            [V, U, U, U],
        ),
    ]
}

#[test]
fn every_row_of_the_table() {
    for (name, change, expected) in rows() {
        let mut snapshot = good();
        change(&mut snapshot);
        assert_eq!(statuses(&judge(&snapshot)), expected, "{name}");
    }
}

#[test]
fn off_is_the_only_reason_when_off() {
    let mut snapshot = good();
    snapshot.watch = Watch::Off { why: "no BPF rights".into() };
    snapshot.executor = Birth::Unseen;
    snapshot.faults.failed = 3;
    let claims = judge(&snapshot);
    let only = Claim::Unproven { why: vec![Doubt::Off { why: "no BPF rights".into() }] };
    assert_eq!(claims.stayed_out, only);
    assert_eq!(claims.contained, only);
    assert_eq!(claims.undisturbed, only);
}

#[test]
fn reasons_carry_the_events_that_show_them() {
    let event = |movement, pid| AuditEvent {
        time: 1,
        subject: ProcessKey { start: 1, tgid: pid, pad: 0 },
        comm: Comm::default(),
        cgroup: None,
        run: None,
        by: Actor { pid: 1, uid: 0, comm: Comm::default() },
        movement,
    };
    let events: Vec<AuditEvent> =
        (10..20).map(|pid| event(Movement::Left, pid)).chain([event(Movement::Stranger, 30)]).collect();
    let mut snapshot = Snapshot { events: &events, ..good() };
    if let Birth::Seen(run) = &mut snapshot.run {
        (run.left, run.strangers) = (10, 1);
    }
    let claims = judge(&snapshot);
    let Claim::Violated { by } = claims.contained else { panic!("not violated") };
    assert_eq!(by, [Breach { fact: Fact::Left { times: 10 }, examples: events[..EXAMPLES].to_vec() }]);
    let Claim::Violated { by } = claims.undisturbed else { panic!("not violated") };
    assert_eq!(by, [Breach { fact: Fact::Strangers { times: 1 }, examples: events[10..].to_vec() }]);
}

/// Mostly 0, as in life.
fn rare() -> impl Strategy<Value = u64> {
    prop_oneof![6 => Just(0), 1 => 1u64..4]
}

prop_compose! {
    fn any_run()(
        births in 0u64..4, exits in 0u64..4, outside in rare(), outside_exits in rare(), left in rare(),
        strangers in rare(), foreign in rare(), executor_entered in rare(), returned in rare(),
        removed in 0u64..2, main_tgid in prop_oneof![4 => Just(MAIN), 1 => Just(0), 1 => Just(1)],
    ) -> Run {
        Run { births, exits, outside, outside_exits, left, strangers, foreign, executor_entered, returned,
              removed, main_tgid, ..Run::default() }
    }
}

prop_compose! {
    fn any_snapshot()(
        watch in prop_oneof![
            1 => Just(Watch::Off { why: "off".into() }),
            8 => Just(Watch::On(Attachment::Unbroken)),
            1 => Just(Watch::On(Attachment::Broken(Program::CgroupRmdir))),
        ],
        executor in prop::option::weighted(0.9, (rare(), 0u64..2)),
        exited in any::<bool>(),
        run in prop::option::weighted(0.9, any_run()),
        faults in (rare(), rare(), rare(), rare()),
        main in prop::option::weighted(0.9, Just(MAIN)),
        alive in rare(),
    ) -> Snapshot<'static> {
        Snapshot {
            watch,
            executor: executor.map_or(Birth::Unseen, |(entered, exited)| {
                Birth::Seen(Executor { entered, exited, ..Executor::default() })
            }),
            executor_life: if exited { ExecutorLife::Exited } else { ExecutorLife::Alive },
            run: run.map_or(Birth::Unseen, Birth::Seen),
            faults: Faults {
                failed: faults.0, young_moves: faults.1, identity_mismatches: faults.2, skipped_runs: faults.3,
            },
            main,
            alive,
            events: &[], entries: &[],
        }
    }
}

/// The rules once more, written flat: three questions for each claim.
fn model(s: &Snapshot<'_>) -> [Status; 4] {
    let e = match s.executor {
        Birth::Seen(e) => Some(e),
        Birth::Unseen => None,
    };
    let r = match s.run {
        Birth::Seen(r) => Some(r),
        Birth::Unseen => None,
    };
    let any = |test: &dyn Fn(&Run) -> bool| r.as_ref().is_some_and(test);
    let balanced = |r: &Run| r.births == r.exits && r.outside == r.outside_exits;
    let broken = [
        e.is_some_and(|e| e.entered > 0),
        any(&|r| r.left > 0 || r.outside > 0),
        any(&|r| r.strangers > 0 || r.foreign > 0 || r.executor_entered > 0),
        any(&|r| r.removed != 0 && !balanced(r) && s.alive > 0),
    ];
    let sound = s.watch == Watch::On(Attachment::Unbroken)
        && s.faults == Faults::default()
        && e.is_some_and(|e| s.executor_life == ExecutorLife::Alive || e.exited != 0)
        && any(&|r| s.main.is_none_or(|main| main == r.main_tgid));
    let complete = [true, true, true, any(&|r| r.removed != 0 && balanced(r))];
    std::array::from_fn(|claim| {
        if broken[claim] {
            V
        } else if sound && complete[claim] {
            P
        } else {
            U
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]
    #[test]
    fn judge_agrees_with_the_plain_model(snapshot in any_snapshot()) {
        let claims = judge(&snapshot);
        prop_assert_eq!(statuses(&claims), model(&snapshot));
        for claim in [claims.stayed_out, claims.contained, claims.undisturbed, claims.ended] {
            match claim {
                Claim::Proven => {}
                Claim::Violated { by } => prop_assert!(!by.is_empty()),
                Claim::Unproven { why } => prop_assert!(!why.is_empty()),
            }
        }
    }
}
