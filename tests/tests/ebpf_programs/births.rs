//! Births and exits inside a run.

use supervisor::audit::probe::Run;

use crate::ground::{Ground, Totals};

/// Counters of a run in which this many processes were born and exited.
fn lived(processes: u64) -> Run {
    Run { births: processes, exits: processes, ..Run::default() }
}

#[test]
fn an_executor_comes_and_goes() {
    let ground = Ground::new("executor");
    ground.play("in EX { }");
    ground.expect(Run::default(), Totals::one_executor(0));
    let executors = ground.audit.executor_figures().expect("read");
    let [(key, executor)] = executors.as_slice() else { panic!("{executors:?}") };
    assert_eq!((executor.entered, executor.entered_cgroup, executor.status), (0, 0, 0));
    assert!(key.start > 0 && executor.exited > key.start, "{key:?} {executor:?}");
}

#[test]
fn a_process_born_by_clone3_is_the_main_process() {
    let ground = Ground::new("clone3");
    let mut actors = ground.start("in EX { in RUN { exec { say main exit 7 } } }");
    let main = actors.hear("main");
    actors.end();
    ground.expect(lived(1), Totals::one_executor(1));
    let run = ground.record(&ground.run);
    assert_eq!((run.main_tgid, run.main_status), (main, 7 << 8));
    assert!(run.main_start > 0 && run.main_exited > run.main_start, "{run:?}");
    assert_eq!((run.signal, run.sender), (0, 0));
}

#[test]
fn only_the_first_birth_is_the_main_process() {
    let ground = Ground::new("first");
    let mut actors = ground.start("in EX { in RUN { say first exit 1 } in RUN { exit 2 } }");
    let first = actors.hear("first");
    actors.end();
    ground.expect(lived(2), Totals::one_executor(0));
    let run = ground.record(&ground.run);
    assert_eq!((run.main_tgid, run.main_status), (first, 1 << 8));
}

#[test]
fn forks_inside_are_births() {
    let ground = Ground::new("forks");
    ground.play("in EX { in RUN { repeat 3 { call { } } } }");
    ground.expect(lived(4), Totals::one_executor(0));
}

#[test]
fn orphans_of_orphans_are_births() {
    let ground = Ground::new("orphans");
    let mut actors = ground.start("in EX { in RUN { fork { fork { say orphan hear } } } wait }");
    actors.hear("orphan");
    actors.end();
    tests::wait_until("the orphan's exit", || (ground.audit.watched().expect("read") == 0).then_some(()));
    ground.expect(lived(3), Totals::one_executor(0));
}

#[test]
fn threads_are_no_births() {
    let ground = Ground::new("threads");
    ground.play("in EX { in RUN { threads 3 } }");
    ground.expect(lived(1), Totals::one_executor(0));
}

#[test]
fn a_vfork_is_one_birth() {
    let ground = Ground::new("vfork");
    ground.play("in EX { in RUN { vfork { } } }");
    ground.expect(lived(2), Totals::one_executor(1));
}

#[test]
fn an_exec_by_another_thread_keeps_the_identity() {
    let ground = Ground::new("thread-exec");
    ground.play("in EX { in RUN { thread-exec { exec { } } } }");
    ground.expect(lived(1), Totals::one_executor(2));
}

#[test]
fn a_leader_that_exits_first_is_no_exit_of_the_process() {
    let mut ground = Ground::new("leader");
    let mut actors = ground.start("in EX { in RUN { leader-exits { say led hear } } }");
    let main = actors.hear("led");
    assert_eq!(ground.counted(&ground.run), Run { births: 1, ..Run::default() });
    actors.tell();
    actors.end();
    ground.expect(lived(1), Totals::one_executor(0));
    // The status is the one that the last thread gave the whole process.
    assert_eq!(ground.record(&ground.run).main_status, 5 << 8);
    let verdict = ground.verdict(None, supervisor::audit::ExecutorLife::Exited, Some(main));
    assert_eq!(verdict.killed_by, None);
}

#[test]
fn groups_that_the_task_makes_belong_to_its_run() {
    let ground = Ground::new("nested");
    ground.play(
        "in EX { in RUN { mkdir RUN/n mkdir RUN/n/m move RUN/n/m call { } move RUN rmdir RUN/n/m rmdir RUN/n } }",
    );
    let run = Run { moved_inside: 2, ..lived(2) };
    ground.expect(run, Totals { mkdirs: 2, rmdirs: 2, ..Totals::one_executor(0) });
}

#[test]
fn a_thread_in_a_threaded_group_stays_in_the_run() {
    let ground = Ground::new("threaded");
    ground.play(
        "in EX { in RUN { mkdir RUN/t write RUN/t/cgroup.type threaded \
         thread { move-thread RUN/t move-thread RUN } rmdir RUN/t } }",
    );
    let run = Run { moved_inside: 2, ..lived(1) };
    ground.expect(run, Totals { mkdirs: 1, rmdirs: 1, ..Totals::one_executor(0) });
}

#[test]
fn a_removed_run_is_marked_and_its_classes_are_forgotten() {
    let ground = Ground::new("removed");
    ground.play("in EX { in RUN { } }");
    let again = ground.run.path.clone();
    ground.run.remove();
    ground.expect(Run { removed: 1, ..lived(1) }, Totals { rmdirs: 1, ..Totals::one_executor(0) });
    // A fresh directory of the same name is another run.
    let fresh = ground.task.child("run-1");
    assert_eq!(fresh.path, again);
    assert_ne!(fresh.id, ground.run.id);
    ground.play("in EX { in RUN { } }");
    assert_eq!(ground.counted(&fresh), lived(1));
    assert_eq!(ground.counted(&ground.run), Run { removed: 1, ..lived(1) });
}
