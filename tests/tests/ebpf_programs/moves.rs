//! Members that leave their run, come back, and have children meanwhile.

use supervisor::audit::probe::Run;
use supervisor::audit::{Claim, ExecutorLife, Fact, Life, Movement};

use crate::ground::{Ground, Totals};

#[test]
fn a_member_that_is_moved_out_has_left_and_is_known() {
    let mut ground = Ground::new("moved-out");
    let mut actors = ground.start("in EX { say executor in RUN { name rover say main hear } }");
    let executor = actors.hear("executor");
    let executor = ground.audit.executor(executor).expect("the executor is on record");
    let main = actors.hear("main");
    ground.other.take(main).expect("move it out");
    let escaped = ground.audit.escaped(ground.run.id).expect("read");
    let [rover] = escaped.as_slice() else { panic!("{escaped:?}") };
    assert_eq!((rover.pid, rover.comm.as_str(), rover.alive), (main, "rover", Life::Alive));
    assert!(rover.cgroup.ends_with("/other"), "{}", rover.cgroup);
    actors.end();
    ground.expect(Run { births: 1, exits: 1, left: 1, ..Run::default() }, Totals::one_executor(0));

    let verdict = ground.verdict(Some(executor), ExecutorLife::Exited, Some(main));
    let Claim::Violated { by } = &verdict.claims.contained else { panic!("{:?}", verdict.claims) };
    assert_eq!(by.len(), 1);
    assert_eq!(by[0].fact, Fact::Left { times: 1 });
    let [event] = by[0].examples.as_slice() else { panic!("{by:?}") };
    assert_eq!((event.movement, event.subject.tgid), (Movement::Left, main));
    assert_eq!((event.by.pid, event.by.uid), (std::process::id(), 0), "the test moved it");
    assert_eq!(event.cgroup, Some(ground.other.id));
    assert_eq!((&verdict.claims.stayed_out, &verdict.claims.undisturbed), (&Claim::Proven, &Claim::Proven));
}

#[test]
fn a_member_that_is_moved_to_another_run_breaks_both() {
    let mut ground = Ground::new("other-run");
    let other = ground.another_run();
    let mut actors = ground.start("in EX { in RUN { say main hear } }");
    other.take(actors.hear("main")).expect("move it");
    actors.end();
    ground.expect(Run { births: 1, exits: 1, left: 1, ..Run::default() }, Totals::one_executor(0));
    assert_eq!(ground.counted(&other), Run { strangers: 1, ..Run::default() });
}

#[test]
fn a_child_that_is_cloned_outside_is_counted_outside() {
    let ground = Ground::new("outside");
    ground.play("in EX { in RUN { in OTHER { } } }");
    let run = Run { births: 1, exits: 1, outside: 1, outside_exits: 1, ..Run::default() };
    ground.expect(run, Totals::one_executor(0));
}

#[test]
fn a_member_may_escape_and_return() {
    let ground = Ground::new("return");
    ground.play("in EX { in RUN { move OTHER move RUN call { } } }");
    let run = Run { births: 2, exits: 2, left: 1, returned: 1, ..Run::default() };
    ground.expect(run, Totals::one_executor(0));
}

#[test]
fn children_of_an_escaped_process_are_outside_until_they_come_home() {
    let ground = Ground::new("escaped-family");
    // Out: it leaves. Its child and grandchild are born outside. The grandchild goes into the run and has a child there.
    ground.play("in EX { in RUN { move OTHER call { call { move RUN call { } } } } }");
    let run =
        Run { births: 2, exits: 2, left: 1, outside: 2, outside_exits: 2, returned: 1, ..Run::default() };
    ground.expect(run, Totals::one_executor(0));
}

#[test]
fn an_escaped_process_that_clones_into_its_run_gives_a_birth() {
    let ground = Ground::new("escaped-clone");
    ground.play("in EX { in RUN { move OTHER in RUN { } } }");
    let run = Run { births: 2, exits: 2, left: 1, ..Run::default() };
    ground.expect(run, Totals::one_executor(0));
}

#[test]
fn a_process_without_its_leader_can_be_moved_out() {
    let ground = Ground::new("leaderless");
    let mut actors = ground.start("in EX { in RUN { leader-exits { say led hear } } }");
    ground.other.take(actors.hear("led")).expect("move it");
    actors.end();
    ground.expect(Run { births: 1, exits: 1, left: 1, ..Run::default() }, Totals::one_executor(0));
}

#[test]
fn a_move_to_where_it_is_counts_nothing() {
    let ground = Ground::new("no-op");
    let mut actors = ground.start("in EX { in RUN { say main hear } }");
    let main = actors.hear("main");
    ground.run.take(main).expect("write its pid");
    actors.end();
    ground.expect(Run { births: 1, exits: 1, ..Run::default() }, Totals::one_executor(0));
}

#[test]
fn an_escaped_process_may_outlive_its_run() {
    let mut ground = Ground::new("outlives");
    let mut actors = ground.start("in EX { born RUN { move OTHER say out hear } }");
    let out = actors.hear("out");
    tests::wait_until("the executor's exit", || (ground.totals().executor_exits == 1).then_some(()));
    ground.run.remove();
    let run = Run { births: 1, left: 1, removed: 1, ..Run::default() };
    assert_eq!(ground.counted(&ground.run), run);
    let verdict = ground.verdict(None, ExecutorLife::Exited, Some(out));
    let Claim::Violated { by } = &verdict.claims.ended else { panic!("{:?}", verdict.claims) };
    assert_eq!(by[0].fact, Fact::AliveAfterRemoval { processes: 1 });
    actors.tell();
    actors.end();
    tests::wait_until("its exit", || (ground.audit.watched().expect("read") == 0).then_some(()));
    ground.expect(Run { exits: 1, ..run }, Totals { rmdirs: 1, ..Totals::one_executor(0) });
}
