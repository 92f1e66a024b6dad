use super::*;
use crate::audit::breach::Fact;
use crate::audit::decode::Actor;
use crate::audit::verdict::Verdict;
use supervisor_ebpf::abi::ProcessKey;

fn namer(id: CgroupId) -> String {
    format!("/cgroup-{id}")
}

fn left() -> AuditEvent {
    AuditEvent {
        time: 1,
        subject: ProcessKey { start: 1, tgid: 20, pad: 0 },
        comm: Comm::new(*b"worker\0\0\0\0\0\0\0\0\0\0"),
        cgroup: CgroupId::new(5),
        run: CgroupId::new(7),
        by: Actor { pid: 30, uid: 1000, comm: Comm::new(*b"mover\0\0\0\0\0\0\0\0\0\0\0") },
        movement: Movement::Left,
    }
}

fn claims() -> Claims {
    Claims {
        stayed_out: Claim::Proven,
        contained: Claim::Violated {
            by: vec![Breach { fact: Fact::Left { times: 1 }, examples: vec![left()] }],
        },
        undisturbed: Claim::Proven,
        ended: Claim::Unproven { why: vec![Doubt::NotRemoved] },
    }
}

fn report() -> AuditReport {
    let run = Run {
        births: 3,
        exits: 2,
        left: 1,
        returned: 2,
        moved_inside: 4,
        strangers: 8,
        executor_entered: 16,
        foreign: 1000,
        outside: 1000,
        ..Run::default()
    };
    let figures = Figures { state: State::Active, reason: None, run: Birth::Seen(run), lost_events: Some(0) };
    AuditReport::new(&claims(), figures, &namer)
}

#[test]
fn the_json_has_the_promised_keys() {
    let expected = serde_json::json!({
        "state": "active",
        "reason": null,
        "claims": {
            "stayed_out": { "status": "proven", "reasons": [] },
            "contained": { "status": "violated", "reasons": [
                "processes of the run were moved out of it (1 move): worker (pid 20) was moved to /cgroup-5 by \
                 mover (pid 30, uid 1000)"
            ] },
            "undisturbed": { "status": "proven", "reasons": [] },
            "ended": { "status": "unproven", "reasons": ["the run's cgroup has not been removed yet"] },
        },
        "births": 3,
        "exits": 2,
        "migrations": 31,
        "lost_events": 0,
    });
    assert_eq!(serde_json::to_value(report()).unwrap(), expected);
}

#[test]
fn the_headline_begins_with_what_is_worst() {
    assert_eq!(
        report().headline(),
        "contained: VIOLATED (processes of the run were moved out of it (1 move): worker (pid 20) was moved to \
         /cgroup-5 by mover (pid 30, uid 1000)); ended: unproven (the run's cgroup has not been removed yet); \
         stayed out, undisturbed: proven (3 born, 2 exited, 31 moved)"
    );
}

#[test]
fn an_audit_that_is_off_says_so_once_and_counts_nothing() {
    let report = Verdict::off("switched off by --no-audit").audit;
    assert_eq!(
        report.headline(),
        "stayed out, contained, undisturbed, ended: unproven (switched off by --no-audit)"
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["state"], "off");
    assert_eq!(json["reason"], "switched off by --no-audit");
    assert_eq!(json["births"], serde_json::Value::Null, "nobody counted, which is not 0");
    assert_eq!(json["claims"]["ended"]["status"], "unproven");
}

#[test]
fn one_that_moves_itself_is_named_once() {
    let event = AuditEvent { by: Actor { pid: 20, ..left().by }, ..left() };
    assert_eq!(story(&event, &namer), "worker (pid 20) was moved to /cgroup-5 by itself");
}

#[test]
fn the_killer_is_named_only_when_its_signal_was_fatal() {
    let killed = Run {
        main_exited: 9,
        main_status: 15,
        signal: 15,
        sender: 30,
        sender_uid: 1000,
        sender_comm: *b"killer\0\0\0\0\0\0\0\0\0\0",
        ..Run::default()
    };
    let by = KilledBy { pid: 30, comm: "killer".into(), uid: 1000, kernel: false };
    assert_eq!(KilledBy::of(&killed), Some(by.clone()));
    let rows = [
        ("core dumped", Run { main_status: 0x8f, ..killed }, Some(by.clone())),
        ("by the kernel", Run { sender_kernel: 1, ..killed }, Some(KilledBy { kernel: true, ..by })),
        ("still alive", Run { main_exited: 0, ..killed }, None),
        ("exited by itself", Run { main_status: 0x0f00, ..killed }, None),
        ("another signal came last", Run { signal: 1, ..killed }, None),
        ("no signal on record", Run { signal: 0, ..killed }, None),
    ];
    for (name, run, expected) in rows {
        assert_eq!(KilledBy::of(&run), expected, "{name}");
    }
}
