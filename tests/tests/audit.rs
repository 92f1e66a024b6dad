//! The audit on the running kernel: every claim proven, and every claim broken on purpose. Needs root.

use std::fs;
use std::path::Path;
use std::process::Command;

use supervisor::audit::{
    Audit, Claim, ClaimReport, Doubt, ExecutorLife, KilledBy, Level, Life, ProcessKey, Program, State,
    Status, Subject, Verdict,
};
use supervisor::cgroup::CgroupId;
use tests::Stage;

const RUN: &str = "tasks/t/run-1";

/// A stage that is watched, with an executor and a run that is empty yet.
struct Scene {
    stage: Stage,
    audit: Audit,
    executor: ProcessKey,
    run: CgroupId,
}

fn stage(test: &str) -> Stage {
    Stage::new(test, Path::new(env!("CARGO_BIN_EXE_actor")))
}

impl Scene {
    fn new(test: &str) -> Self {
        Self::at_level(test, Level::Births)
    }

    fn at_level(test: &str, level: Level) -> Self {
        let mut stage = stage(test);
        let mut audit = Audit::load(level).unwrap_or_else(|error| panic!("{}", error.why()));
        audit.watch(stage.id("executors"), stage.id("tasks")).expect("watch");
        let pid = stage.bear(".", "executor", "executors");
        let executor = audit.executor(pid).expect("the executor's birth was seen");
        stage.make("tasks/t");
        let run = stage.make(RUN);
        Self { stage, audit, executor, run }
    }

    /// The main process is born.
    fn main(&mut self) -> u32 {
        self.stage.bear("executor", "main", RUN)
    }

    fn verdict(&mut self, main: Option<u32>, executor_life: ExecutorLife) -> Verdict {
        let subject = Subject { executor: Some(self.executor), executor_life, run: self.run, main };
        self.audit.verdict(&subject).expect("a verdict")
    }

    /// Detaches the program that sees births, until none is seen: a process that another test has forked and that has not executed its
    /// program yet holds a copy of the link for a moment.
    fn blind_to_births(&mut self) {
        self.audit.fault_detach(Program::SchedProcessFork);
        tests::wait_until("a birth that is not seen", || {
            let pid = self.stage.bear(".", "probe", "executors");
            let seen = self.audit.executor(pid);
            self.stage.tell(".", "end probe 0");
            seen.is_none().then_some(())
        });
    }

    /// The same for exits.
    fn blind_to_exits(&mut self) {
        self.audit.fault_detach(Program::SchedProcessExit);
        tests::wait_until("an exit that is not seen", || {
            let pid = self.stage.bear(".", "probe", "executors");
            let executor = self.audit.executor(pid);
            self.stage.tell(".", "end probe 0");
            let subject =
                Subject { executor, executor_life: ExecutorLife::Exited, run: self.run, main: None };
            let claim = self.audit.verdict(&subject).expect("a verdict").claims.stayed_out;
            let unseen = matches!(claim, Claim::Unproven { why } if why.contains(&Doubt::ExecutorExitUnseen));
            unseen.then_some(())
        });
    }

    /// The verdict after all of the run has ended and its leaf was removed.
    fn end(&mut self, main: u32) -> Verdict {
        self.stage.tell("executor", "end main 0");
        self.stage.remove(RUN);
        self.verdict(Some(main), ExecutorLife::Alive)
    }
}

/// The statuses of C1 to C4 as one word, and the report for a message.
fn statuses(verdict: &Verdict) -> String {
    let claims = &verdict.audit.claims;
    let letter = |claim: &ClaimReport| match claim.status {
        Status::Proven => 'P',
        Status::Violated => 'V',
        Status::Unproven => 'U',
    };
    [&claims.stayed_out, &claims.contained, &claims.undisturbed, &claims.ended].map(letter).iter().collect()
}

#[track_caller]
fn assert_statuses(verdict: &Verdict, expected: &str) {
    assert_eq!(statuses(verdict), expected, "{:#?}", verdict.audit);
}

#[track_caller]
fn assert_reason(claim: &ClaimReport, parts: &[&str]) {
    for part in parts {
        assert!(claim.reasons.iter().any(|reason| reason.contains(part)), "no {part:?} in {claim:#?}");
    }
}

#[test]
fn a_quiet_run_is_proven() {
    let mut scene = Scene::new("quiet");
    let main = scene.main();
    scene.stage.bear("executor/main", "child", RUN);
    let running = scene.verdict(Some(main), ExecutorLife::Alive);
    assert_statuses(&running, "PPPU");
    assert_eq!((running.audit.births, running.audit.exits), (Some(2), Some(0)));
    scene.stage.tell("executor/main", "end child 0");
    let verdict = scene.end(main);
    assert_statuses(&verdict, "PPPP");
    let audit = &verdict.audit;
    assert_eq!((audit.state, &audit.reason), (State::Active, &None));
    assert_eq!(
        (audit.births, audit.exits, audit.migrations, audit.lost_events),
        (Some(2), Some(2), Some(0), Some(0))
    );
    assert_eq!((verdict.killed_by, verdict.escaped), (None, vec![]));
    assert_eq!(
        verdict.audit.headline(),
        "stayed out, contained, undisturbed, ended: proven (2 born, 2 exited, 0 moved)"
    );
    scene.stage.tell(".", "end executor 0");
    let after = scene.verdict(Some(main), ExecutorLife::Exited);
    assert_statuses(&after, "PPPP");
    assert_eq!(scene.audit.executor(scene.executor.tgid), Some(scene.executor), "also after its exit");
}

#[test]
fn an_executor_that_joins_is_caught() {
    let mut scene = Scene::new("join");
    let main = scene.main();
    scene.stage.migrate("executor", RUN);
    scene.stage.migrate("executor", "executors");
    let verdict = scene.end(main);
    assert_statuses(&verdict, "VPVP");
    let pid = format!("actor (pid {}) was moved to", scene.executor.tgid);
    assert_reason(&verdict.audit.claims.stayed_out, &["1 time, last the run", &pid, "to the run by itself"]);
    assert_eq!(verdict.audit.migrations, Some(1));
}

#[test]
fn an_executor_in_the_tasks_directory_is_caught() {
    let mut scene = Scene::new("join-tasks");
    let main = scene.main();
    scene.stage.migrate("executor", "tasks");
    scene.stage.migrate("executor", "executors");
    let verdict = scene.end(main);
    assert_statuses(&verdict, "VPPP");
    assert_reason(&verdict.audit.claims.stayed_out, &["/tasks", "by itself"]);
}

#[test]
fn a_process_that_leaves_is_found_and_named() {
    let mut scene = Scene::new("leave");
    let main = scene.main();
    let child = scene.stage.bear("executor/main", "child", RUN);
    scene.stage.migrate("executor/main/child", "outside");
    let escaped = scene.audit.escaped(scene.run).expect("the map can be read");
    assert_eq!(escaped.len(), 1);
    assert_eq!((escaped[0].pid, escaped[0].comm.as_str(), escaped[0].alive), (child, "actor", Life::Alive));
    assert!(escaped[0].cgroup.ends_with("/outside"), "{escaped:?}");
    assert!(escaped[0].open().is_some());
    scene.stage.tell("executor/main", "end child 0");
    assert!(escaped[0].open().is_none());
    assert_eq!(scene.audit.escaped(scene.run).expect("the map can be read"), []);
    let verdict = scene.end(main);
    assert_statuses(&verdict, "PVPP");
    assert_reason(
        &verdict.audit.claims.contained,
        &["1 move", &format!("(pid {child})"), "/outside by itself"],
    );
    assert_eq!(verdict.escaped.len(), 1);
    assert_eq!((verdict.escaped[0].pid, verdict.escaped[0].alive), (child, Life::Gone));
}

#[test]
fn coming_back_mends_nothing() {
    let mut scene = Scene::new("back");
    let main = scene.main();
    scene.stage.migrate("executor/main", "outside");
    scene.stage.migrate("executor/main", RUN);
    assert_eq!(scene.audit.escaped(scene.run).expect("the map can be read"), []);
    let verdict = scene.end(main);
    assert_statuses(&verdict, "PVPP");
    assert_eq!(verdict.audit.migrations, Some(2));
}

#[test]
fn one_that_outlives_its_run_breaks_the_end() {
    let mut scene = Scene::new("outlive");
    let main = scene.main();
    scene.stage.migrate("executor/main", "outside");
    scene.stage.remove(RUN);
    let verdict = scene.verdict(Some(main), ExecutorLife::Alive);
    assert_statuses(&verdict, "PVPV");
    assert_reason(&verdict.audit.claims.ended, &["still live (1)"]);
    assert_eq!((verdict.escaped[0].pid, verdict.escaped[0].alive), (main, Life::Alive));
    scene.stage.tell("executor", "end main 0");
    assert_statuses(&scene.verdict(Some(main), ExecutorLife::Alive), "PVPP");
}

#[test]
fn a_birth_outside_is_found() {
    let mut scene = Scene::new("outside");
    let main = scene.main();
    let child = scene.stage.bear("executor/main", "child", "outside");
    let escaped = scene.audit.escaped(scene.run).expect("the map can be read");
    assert_eq!(escaped.iter().map(|process| process.pid).collect::<Vec<_>>(), [child]);
    scene.stage.tell("executor/main", "end child 0");
    let verdict = scene.end(main);
    assert_statuses(&verdict, "PVPP");
    assert_reason(
        &verdict.audit.claims.contained,
        &["1 birth", &format!("(pid {child}) was born"), "/outside"],
    );
    assert_eq!(verdict.audit.births, Some(1), "births are those inside");
}

#[test]
fn a_stranger_is_caught() {
    let mut scene = Scene::new("stranger");
    let main = scene.main();
    let stranger = scene.stage.bear(".", "stranger", "outside");
    scene.stage.migrate("stranger", RUN);
    scene.stage.tell(".", "end stranger 0");
    let verdict = scene.end(main);
    assert_statuses(&verdict, "PPVP");
    assert_reason(
        &verdict.audit.claims.undisturbed,
        &["1 move", &format!("(pid {stranger}) was moved to the run by itself")],
    );
}

#[test]
fn a_foreign_birth_is_caught() {
    let mut scene = Scene::new("foreign");
    let main = scene.main();
    let stranger = scene.stage.bear(".", "stranger", RUN);
    scene.stage.tell(".", "end stranger 0");
    let verdict = scene.end(main);
    assert_statuses(&verdict, "PPVP");
    let birth = format!("(pid {stranger}) was born in");
    let parent = format!("of pid {}", scene.stage.keeper());
    assert_reason(&verdict.audit.claims.undisturbed, &["1 birth", &birth, &parent]);
}

/// The classic fault: forked in `executors/`, then moved.
#[test]
fn a_main_process_that_was_moved_in_is_no_birth() {
    let mut scene = Scene::new("moved-in");
    let main = scene.stage.bear("executor", "main", "executors");
    scene.stage.migrate("executor/main", RUN);
    let verdict = scene.end(main);
    assert_statuses(&verdict, "UUVU");
    assert!(
        matches!(&verdict.claims.contained, Claim::Unproven { why } if why == &[Doubt::MainUnseen { reported: main }])
    );
}

/// A break that was mended before the verdict: only what it missed gives it away.
#[test]
fn an_unseen_birth_costs_every_proof() {
    let mut scene = Scene::new("unseen");
    scene.blind_to_births();
    let main = scene.main();
    scene.audit.fault_attach(Program::SchedProcessFork).expect("attach again");
    let verdict = scene.end(main);
    assert_statuses(&verdict, "UUUU");
    assert_eq!(verdict.audit.state, State::Active);
    assert_reason(&verdict.audit.claims.stayed_out, &[&format!("main process {main} was not seen")]);
}

#[test]
fn an_unseen_exit_costs_the_end() {
    let mut scene = Scene::new("unseen-exit");
    let main = scene.main();
    scene.blind_to_exits();
    scene.stage.tell("executor", "end main 0");
    scene.audit.fault_attach(Program::SchedProcessExit).expect("attach again");
    scene.stage.remove(RUN);
    let verdict = scene.verdict(Some(main), ExecutorLife::Alive);
    assert_statuses(&verdict, "PPPU");
    assert_reason(&verdict.audit.claims.ended, &["1 and 0 inside", "0 found alive"]);
    scene.blind_to_exits();
    scene.stage.tell(".", "end executor 0");
    scene.audit.fault_attach(Program::SchedProcessExit).expect("attach again");
    let verdict = scene.verdict(Some(main), ExecutorLife::Exited);
    assert_statuses(&verdict, "UUUU");
    assert_reason(&verdict.audit.claims.stayed_out, &["executor's exit was not seen"]);
}

#[test]
fn each_program_that_is_detached_is_noticed() {
    let mut scene = Scene::new("detached");
    let main = scene.main();
    assert_statuses(&scene.end(main), "PPPP");
    for program in Program::ALL {
        scene.audit.fault_detach(program);
        let verdict = scene.verdict(Some(main), ExecutorLife::Alive);
        assert_statuses(&verdict, "UUUU");
        assert_eq!(verdict.audit.state, State::Degraded);
        assert!(
            verdict.audit.reason.as_ref().is_some_and(|reason| reason.contains(program.name())),
            "{verdict:#?}"
        );
        scene.audit.fault_attach(program).expect("attach again");
    }
    assert_statuses(&scene.verdict(Some(main), ExecutorLife::Alive), "PPPP");
}

#[test]
fn an_executor_that_is_older_than_the_audit_proves_nothing() {
    let mut stage = stage("older");
    let pid = stage.bear(".", "executor", "executors");
    let mut audit = Audit::load(Level::Anomalies).unwrap_or_else(|error| panic!("{}", error.why()));
    audit.watch(stage.id("executors"), stage.id("tasks")).expect("watch");
    assert_eq!(audit.executor(pid), None);
    stage.make("tasks/t");
    let run = stage.make(RUN);
    let main = stage.bear("executor", "main", RUN);
    stage.tell("executor", "end main 0");
    stage.remove(RUN);
    let subject = Subject { executor: None, executor_life: ExecutorLife::Alive, run, main: Some(main) };
    let verdict = audit.verdict(&subject).expect("a verdict");
    // Its child has a parent of no class: that is evidence.
    assert_statuses(&verdict, "UUVU");
    assert_reason(&verdict.audit.claims.stayed_out, &["executor's birth was not seen"]);
}

#[test]
fn a_run_that_is_older_than_the_watch_proves_nothing() {
    let mut stage = stage("older-run");
    stage.make("tasks/t");
    let run = stage.make(RUN);
    let mut audit = Audit::load(Level::Anomalies).unwrap_or_else(|error| panic!("{}", error.why()));
    audit.watch(stage.id("executors"), stage.id("tasks")).expect("watch");
    let pid = stage.bear(".", "executor", "executors");
    let main = stage.bear("executor", "main", RUN);
    let subject =
        Subject { executor: audit.executor(pid), executor_life: ExecutorLife::Alive, run, main: Some(main) };
    let verdict = audit.verdict(&subject).expect("a verdict");
    assert_statuses(&verdict, "UUUU");
    assert_eq!(verdict.audit.births, None);
}

#[test]
fn the_sender_of_the_fatal_signal_is_named() {
    let mut scene = Scene::new("sender");
    let main = scene.main();
    assert_eq!(scene.stage.tell("executor", "signal main 15"), "signaled 15");
    let verdict = scene.verdict(Some(main), ExecutorLife::Alive);
    let by = KilledBy { pid: scene.executor.tgid, comm: "actor".into(), uid: 0, kernel: false };
    assert_eq!(verdict.killed_by, Some(by));
}

#[test]
fn the_writer_of_cgroup_kill_is_named() {
    let mut scene = Scene::new("cgroup-kill");
    let main = scene.main();
    fs::write(scene.stage.group(RUN).join("cgroup.kill"), "1").expect("kill the run");
    assert_eq!(scene.stage.tell("executor", "reap main"), "signaled 9");
    scene.stage.remove(RUN);
    let verdict = scene.verdict(Some(main), ExecutorLife::Alive);
    assert_statuses(&verdict, "PPPP");
    let by = verdict.killed_by.expect("it was killed");
    assert_eq!((by.pid, by.uid, by.kernel), (std::process::id(), 0, true));
}

/// INV-6: what the ring buffer loses is counted, and costs no verdict.
#[test]
fn inv_6_a_full_buffer_loses_detail_and_is_counted() {
    const MOVES: u32 = 6000;
    let mut scene = Scene::new("full");
    let main = scene.main();
    scene.stage.make("tasks/t/run-1/one");
    let (one, other) = (scene.stage.group("tasks/t/run-1/one"), scene.stage.group(RUN));
    scene
        .stage
        .tell("executor/main", &format!("shuttle {} {} {}", MOVES / 2, one.display(), other.display()));
    scene.stage.remove("tasks/t/run-1/one");
    let verdict = scene.end(main);
    assert_statuses(&verdict, "PPPP");
    assert_eq!(verdict.audit.migrations, Some(u64::from(MOVES)));
    let lost = verdict.audit.lost_events.expect("the audit is on");
    assert!(lost > 0 && lost < u64::from(MOVES), "{lost}");
}

#[test]
fn many_escapes_are_all_counted_and_the_first_are_kept() {
    let mut scene = Scene::new("many");
    let main = scene.main();
    let (out, back) = (scene.stage.group("outside"), scene.stage.group(RUN));
    scene.stage.tell("executor/main", &format!("shuttle 100 {} {}", out.display(), back.display()));
    let verdict = scene.end(main);
    assert_statuses(&verdict, "PVPP");
    assert_reason(&verdict.audit.claims.contained, &["100 moves", "and 97 more"]);
    assert_eq!((verdict.audit.lost_events, verdict.not_kept), (Some(0), 68));
}

#[test]
fn two_audits_do_not_disturb_each_other() {
    let mut one = Scene::new("first");
    let mut other = Scene::new("second");
    let mains = (one.main(), other.main());
    one.stage.migrate("executor/main", "outside");
    assert_statuses(&other.end(mains.1), "PPPP");
    assert_statuses(&one.end(mains.0), "PVPP");
}

#[test]
fn a_forgotten_run_is_unknown() {
    let mut scene = Scene::new("forget");
    let main = scene.main();
    assert_statuses(&scene.end(main), "PPPP");
    scene.audit.forget(scene.run, None).expect("forget");
    scene.audit.forget(scene.run, None).expect("forgetting twice is no error");
    assert_statuses(&scene.verdict(Some(main), ExecutorLife::Alive), "UUUU");
    scene.audit.forget(scene.run, Some(scene.executor)).expect("forget");
}

/// `actor load` as the given command makes it.
fn load(mut command: Command) -> String {
    let output = command.output().expect("start it");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

#[test]
fn without_rights_the_reason_says_what_to_do() {
    let place = tests::Place::new("rights");
    let actor = place.file("actor");
    // Not by fs::copy: a process that another test forks meanwhile would hold the file open for writing, and nobody could execute it.
    let mut install = Command::new("install");
    install.args(["--mode=755", env!("CARGO_BIN_EXE_actor")]).arg(&actor);
    assert!(install.status().expect("start install").success());
    let mut command = place.command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&actor).arg("load");
    let why = load(command);
    assert!(why.starts_with("the kernel does not let this user load eBPF"), "{why}");
    assert!(why.contains("EPERM") || why.contains("not permitted"), "{why}");
    assert!(why.ends_with("run proctor as root, or give it CAP_BPF and CAP_PERFMON"), "{why}");
}

#[test]
fn in_a_pid_namespace_the_audit_is_off() {
    let place = tests::Place::new("pidns");
    let mut command = place.command("unshare");
    command.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_actor"), "load"]);
    let why = load(command);
    assert!(why.contains("pid namespace"), "{why}");
    // Only the children would be in the namespace: their numbers would be wrong just the same.
    let mut command = place.command("unshare");
    command.args(["--pid", env!("CARGO_BIN_EXE_actor"), "load"]);
    let why = load(command);
    assert!(why.contains("pid namespace"), "{why}");
}

#[test]
fn a_torn_object_is_refused() {
    let place = tests::Place::new("torn");
    let object = place.file("object");
    let whole = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../supervisor-ebpf/prebuilt/proctor.bpf.o"));
    let whole = whole.expect("the object");
    for len in [0, 10, 64, 1000, whole.len() / 2] {
        fs::write(&object, &whole[..len]).expect("write");
        let mut command = place.command(env!("CARGO_BIN_EXE_actor"));
        command.arg("load").env("PROCTOR_BPF_OBJECT", &object);
        let why = load(command);
        assert!(why.contains("the eBPF object is not what proctor needs"), "{len} bytes: {why}");
    }
    let mut command = place.command(env!("CARGO_BIN_EXE_actor"));
    command.arg("load").env("PROCTOR_BPF_OBJECT", place.file("absent"));
    assert!(load(command).contains("cannot read the eBPF object"));
}
