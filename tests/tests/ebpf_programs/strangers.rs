//! Those who do not belong: strangers, members of other runs, and executors where they must not be.

use supervisor::audit::probe::Run;

use crate::ground::{Ground, Totals};

#[test]
fn a_stranger_that_is_moved_in_is_counted_and_its_exit_is_not() {
    let ground = Ground::new("stranger");
    let mut actors = ground.start("call { say stranger hear }");
    let stranger = actors.hear("stranger");
    ground.run.take(stranger).expect("move it in");
    assert_eq!(ground.counted(&ground.run), Run { strangers: 1, ..Run::default() });
    actors.end();
    ground.expect(Run { strangers: 1, ..Run::default() }, Totals::default());
}

#[test]
fn children_of_a_stranger_are_births_and_the_first_is_foreign() {
    let ground = Ground::new("stranger-family");
    ground.play("call { move RUN call { call { } } }");
    let run = Run { strangers: 1, births: 2, exits: 2, foreign: 1, ..Run::default() };
    ground.expect(run, Totals::default());
}

#[test]
fn a_stranger_that_clones_into_the_run_is_foreign_and_no_main_process() {
    let ground = Ground::new("foreign");
    ground.play("in RUN { }");
    ground.expect(Run { births: 1, exits: 1, foreign: 1, ..Run::default() }, Totals::default());
    assert_eq!(ground.record(&ground.run).main_tgid, 0);
}

#[test]
fn what_another_executor_bears_in_the_run_is_foreign() {
    let ground = Ground::new("second-executor");
    let mut actors = ground.start("in EX { in RUN { say main } hear } in EX { in RUN { call { } } }");
    let main = actors.hear("main");
    actors.tell();
    actors.end();
    let totals = Totals { executor_births: 2, executor_exits: 2, ..Totals::default() };
    ground.expect(Run { births: 3, exits: 3, foreign: 1, ..Run::default() }, totals);
    assert_eq!(ground.record(&ground.run).main_tgid, main);
}

#[test]
fn a_member_that_clones_into_another_run_breaks_both() {
    let mut ground = Ground::new("two-runs");
    let other = ground.another_run();
    ground.play(&format!("in EX {{ in RUN {{ in {other} {{ }} }} }}"));
    let run = Run { births: 1, exits: 1, outside: 1, outside_exits: 1, ..Run::default() };
    ground.expect(run, Totals::one_executor(0));
    assert_eq!(ground.counted(&other), Run { foreign: 1, ..Run::default() });
    assert_eq!(ground.record(&other).main_tgid, 0);
}

#[test]
fn a_member_that_clones_into_executors_makes_no_executor() {
    let ground = Ground::new("false-executor");
    // Its own child in the run is an ordinary birth of the run.
    ground.play("in EX { in RUN { in EX { in RUN { } } } }");
    let run = Run { births: 2, exits: 2, outside: 1, outside_exits: 1, ..Run::default() };
    ground.expect(run, Totals::one_executor(0));
    assert_eq!(ground.audit.executor_figures().expect("read").len(), 1);
}

#[test]
fn a_thread_of_a_stranger_that_is_born_in_the_run_is_a_stranger() {
    let ground = Ground::new("thread-in");
    ground.thread_trees();
    ground.play("move TASK/threads thread-in RUN { }");
    ground.expect(Run { strangers: 1, ..Run::default() }, Totals { mkdirs: 1, ..Totals::default() });
}

#[test]
fn a_thread_of_a_member_that_is_born_outside_has_left() {
    let ground = Ground::new("thread-out");
    ground.thread_trees();
    ground.play("in EX { in RUN { thread { } thread-in TASK/threads { threads 2 } thread-in RUN { } } }");
    let run = Run { births: 1, exits: 1, left: 1, ..Run::default() };
    ground.expect(run, Totals { mkdirs: 1, ..Totals::one_executor(0) });
}

#[test]
fn an_executor_that_enters_is_caught() {
    let ground = Ground::new("enters");
    let mut actors = ground.start("in EX { say executor move RUN }");
    let pid = actors.hear("executor");
    actors.end();
    ground.expect(Run { executor_entered: 1, ..Run::default() }, Totals::one_executor(0));
    let executors = ground.audit.executor_figures().expect("read");
    let [(key, executor)] = executors.as_slice() else { panic!("{executors:?}") };
    assert_eq!((key.tgid, executor.entered, executor.entered_cgroup), (pid, 1, ground.run.id.get()));
}

#[test]
fn a_detour_does_not_hide_an_executor() {
    let ground = Ground::new("detour");
    ground.play("in EX { move OTHER move RUN call { } }");
    let run = Run { executor_entered: 1, births: 1, exits: 1, ..Run::default() };
    ground.expect(run, Totals::one_executor(0));
}

#[test]
fn an_executor_may_go_elsewhere() {
    let ground = Ground::new("elsewhere");
    ground.play("in EX { move OTHER }");
    ground.expect(Run::default(), Totals::one_executor(0));
    assert_eq!(ground.audit.executor_figures().expect("read")[0].1.entered, 0);
}

#[test]
fn an_executor_in_the_directory_of_tasks_is_caught() {
    let ground = Ground::new("in-tasks");
    ground.play("in EX { move TASKS }");
    ground.expect(Run::default(), Totals::one_executor(0));
    assert_eq!(ground.audit.executor_figures().expect("read")[0].1.entered, 1);
}

#[test]
fn a_fork_of_an_executor_is_an_executor() {
    let ground = Ground::new("fork-then-move");
    ground.play("in EX { call { move RUN } }");
    let totals = Totals { executor_births: 2, executor_exits: 2, ..Totals::default() };
    ground.expect(Run { executor_entered: 1, ..Run::default() }, totals);
}

#[test]
fn the_pid_of_a_zombie_moves_nothing() {
    let ground = Ground::new("zombie");
    let mut actors = ground.start("fork { say zombie } hear wait");
    let zombie = actors.hear("zombie");
    let stat = format!("/proc/{zombie}/stat");
    tests::wait_until("a zombie", || {
        std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z ")).then_some(())
    });
    // The kernel may take the write or refuse it: nothing moves either way.
    let written = ground.run.take(zombie);
    actors.end();
    let dead_attaches = u64::from(written.is_ok());
    ground.expect(Run::default(), Totals { dead_attaches, ..Totals::default() });
}

#[test]
fn the_pid_of_a_zombie_of_the_run_is_no_stranger_there() {
    let ground = Ground::new("zombie-inside");
    let mut actors = ground.start("in EX { in RUN { fork { say zombie } hear wait } }");
    let zombie = actors.hear("zombie");
    let stat = format!("/proc/{zombie}/stat");
    tests::wait_until("a zombie", || {
        std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z ")).then_some(())
    });
    let written = ground.run.take(zombie);
    actors.tell();
    actors.end();
    let dead_attaches = u64::from(written.is_ok());
    let totals = Totals { dead_attaches, ..Totals::one_executor(0) };
    ground.expect(Run { births: 2, exits: 2, ..Run::default() }, totals);
}
