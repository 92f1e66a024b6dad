//! Who sent the signal that ended the main process.

use supervisor::audit::{ExecutorLife, KilledBy};

use crate::ground::Ground;

/// Plays a script that says `main` once, does `then`, and gives what is on record of the fatal signal.
fn killed(test: &str, script: &str, then: impl FnOnce(&Ground, u32)) -> Option<KilledBy> {
    let mut ground = Ground::new(test);
    let mut actors = ground.start(script);
    let main = actors.hear("main");
    then(&ground, main);
    actors.end();
    tests::wait_until("its exit", || (ground.record(&ground.run).main_exited != 0).then_some(()));
    ground.verdict(None, ExecutorLife::Exited, Some(main)).killed_by
}

fn own_comm() -> String {
    let comm = std::fs::read_to_string("/proc/thread-self/comm").expect("own name");
    comm.trim_end().to_owned()
}

#[test]
fn another_process_is_named() {
    let killed = killed("kill", "in EX { in RUN { say main pause } }", |_, main| {
        let main = nix::unistd::Pid::from_raw(main as i32);
        nix::sys::signal::kill(main, nix::sys::signal::Signal::SIGTERM).expect("kill it");
    });
    let expected = KilledBy { pid: std::process::id(), comm: own_comm(), uid: 0, kernel: false };
    assert_eq!(killed, Some(expected));
}

#[test]
fn a_sender_that_is_not_root_is_named_with_its_user() {
    let mut ground = Ground::new("kill-user");
    let mut actors = ground.start("in EX { in RUN { become 65534 say main pause } }");
    let main = actors.hear("main");
    let mut killer = ground.start(&format!("become 65534 name assassin say killer kill {main} 9"));
    let pid = killer.hear("killer");
    killer.end();
    actors.end();
    let killed = ground.verdict(None, ExecutorLife::Exited, Some(main)).killed_by;
    assert_eq!(killed, Some(KilledBy { pid, comm: "assassin".to_owned(), uid: 65534, kernel: false }));
}

#[test]
fn cgroup_kill_is_the_kernels_doing_for_its_writer() {
    let killed = killed("cgroup-kill", "in EX { in RUN { say main pause } }", |ground, _| {
        std::fs::write(ground.run.path.join("cgroup.kill"), "1").expect("kill the group");
    });
    let killed = killed.expect("the sender is on record");
    assert_eq!((killed.pid, killed.kernel), (std::process::id(), true), "{killed:?}");
}

#[test]
fn a_process_that_signals_itself_is_its_own_sender() {
    let mut own = 0;
    let killed = killed("raise", "in EX { in RUN { name hamlet say main raise 15 } }", |_, main| own = main);
    assert_eq!(killed, Some(KilledBy { pid: own, comm: "hamlet".to_owned(), uid: 0, kernel: false }));
}

#[test]
fn an_exit_has_no_sender_though_a_signal_came_before() {
    // SIGCHLD of its own child, and nothing that ended it.
    let killed = killed("exit", "in EX { in RUN { say main call { } exit 3 } }", |_, _| {});
    assert_eq!(killed, None);
}
