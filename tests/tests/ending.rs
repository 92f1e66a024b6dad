//! How a task ends: by itself, by a stop, by a kill. Every place is empty afterwards, or the test fails.

use nix::sys::signal::Signal::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};
use tests::{Place, wait_until};

/// Seconds in the report's unit.
const SECOND: u64 = 1_000_000;

/// The abort that hung (cases 10 and 14): the main process ignores the signal while its child writes without end. The writer notes each line
/// in a file after it has written it, so all that the file has must have come through.
#[test]
fn a_stop_ends_a_deaf_task_that_writes_for_ever_after_the_grace() {
    let place = Place::new("abort");
    let script = r#"trap "" TERM
        { exec 3>>count; i=0; while :; do i=$((i+1)); echo $i; echo $i >&3; done; } & wait"#;
    let running = place.shell(&["--grace", "1s"], script);
    place.wait_line("count");
    running.signal(SIGTERM);
    let run = running.finish();

    run.assert_signaled(9);
    run.assert_complete();
    assert_eq!(run.report["ended_by"], "requested", "{:#}", run.report);
    let stop = run.stop_us();
    assert!((SECOND..SECOND * 3 / 2).contains(&stop), "the stop took {stop} us: {:#}", run.report["timings"]);

    let noted = std::fs::read_to_string(place.file("count")).expect("the writer's notes");
    let noted = noted.lines().count();
    let text = run.text();
    let whole: Vec<&str> = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
    for (at, line) in whole.iter().enumerate() {
        assert_eq!(line.trim_end(), (at + 1).to_string(), "a gap in {} lines", whole.len());
    }
    assert!(noted > 0 && (noted..=noted + 1).contains(&whole.len()), "{noted} written, {} came", whole.len());
    assert_eq!(run.number("/output/stdout_bytes"), text.len() as u64);
    run.assert_proven();
}

/// Cases 23 and 25: the second signal does not wait for the grace.
#[test]
fn a_second_signal_kills_at_once() {
    for (name, second) in [("term", SIGTERM), ("int", SIGINT)] {
        let place = Place::new("impatient");
        let script = "trap 'echo got >>signals' TERM INT; echo yes >ready; while :; do sleep 0.02; done";
        let running = place.shell(&["--grace", "10m"], script);
        place.wait_line("ready");
        running.signal(SIGTERM);
        place.wait_line("signals");
        running.signal(second);
        let run = running.finish();
        run.assert_signaled(9);
        assert!(run.stop_us() < 30 * SECOND, "{name}: {:#}", run.report);
        // One signal for each stop, and the second stop is a kill.
        assert_eq!(place.wait_line("signals"), "got\n", "{name}");
        assert!(run.stderr.contains("once more to kill now"), "{name}: {}", run.stderr);
        run.assert_proven();
    }
}

/// Cases 23 and 25 (y2): who obeys does not wait for the grace. SIGINT to proctor is a stop as well.
#[test]
fn an_obeying_task_ends_at_once() {
    for signal in [SIGTERM, SIGINT] {
        let place = Place::new("obeying");
        let running = place.shell(&["--grace", "10m"], "echo yes >ready; exec sleep 1000");
        place.wait_line("ready");
        running.signal(signal);
        let run = running.finish();
        // The task gets its own stop signal, whichever came to proctor.
        run.assert_signaled(15);
        assert_eq!(run.report["ended_by"], "requested");
        assert_eq!(run.number("/leftovers_killed"), 0);
        assert!(run.stop_us() < 10 * SECOND, "{:#}", run.report);
        run.assert_proven();
    }
}

/// Case 23 (t1): a shell does not pass the signal on; what it started gets it when the shell is dead.
#[test]
fn the_rest_gets_the_signal_after_the_main_process() {
    let place = Place::new("rest");
    let running = place.shell(&["--grace", "10m"], "echo yes >ready; sleep 1000; true");
    place.wait_line("ready");
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_signaled(15);
    assert!(run.stop_us() < 10 * SECOND, "{:#}", run.report);
    run.assert_proven();
}

/// Case 23 (t2): a trap's exit code is the task's, and bash may first wait for its foreground child.
#[test]
fn the_exit_code_of_a_trap_is_the_tasks() {
    let place = Place::new("trap");
    let script = "trap 'exit 7' TERM; echo yes >ready; sleep 0.3; sleep 0.3; while :; do sleep 0.05; done";
    let running = place.program(&["--grace", "10m"], &["bash", "-c", script]);
    place.wait_line("ready");
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_exited(7);
    assert!(run.stderr.contains("exited with code 7 as asked for"), "{}", run.stderr);
    run.assert_proven();
}

/// Case 25: the signal is the one that was chosen, by name or number; others are not sent.
#[test]
fn the_stop_signal_is_the_chosen_one() {
    for signal in ["USR1", "SIGUSR1", "10"] {
        let place = Place::new("signal");
        let script = "trap 'exit 3' USR1; trap 'exit 4' TERM; trap 'exit 5' INT; echo yes >ready; \
                      while :; do sleep 0.02; done";
        let running = place.shell(&["--stop-signal", signal, "--grace", "10m"], script);
        place.wait_line("ready");
        running.signal(SIGTERM);
        running.finish().assert_exited(3);
    }
}

/// Case 13: the timeout fires although the shell only waits for its child, and the child goes too.
#[test]
fn a_timeout_ends_the_whole_tree() {
    let place = Place::new("timeout");
    let run = place.shell(&["--timeout", "200ms", "--grace", "10m"], "sleep 60; true").finish();
    run.assert_signaled(15);
    assert_eq!(run.report["ended_by"], "timeout", "{:#}", run.report);
    let lasted = run.number("/timings/stopping_us") - run.number("/timings/running_us");
    assert!((200_000..10 * SECOND).contains(&lasted), "{:#}", run.report["timings"]);
    assert!(run.stop_us() < 10 * SECOND, "{:#}", run.report["timings"]);
    assert!(run.stderr.contains("when its time was over"), "{}", run.stderr);
    run.assert_proven();
}

/// Case 13: after the timeout comes the grace, and after the grace the kill.
#[test]
fn a_timeout_that_is_ignored_ends_with_a_kill() {
    let place = Place::new("deaf-timeout");
    let script = "trap '' TERM; sleep 60; sleep 60";
    let run = place.shell(&["--timeout", "200ms", "--grace", "300ms"], script).finish();
    run.assert_signaled(9);
    assert_eq!(run.report["ended_by"], "timeout", "{:#}", run.report);
    assert!((300_000..10 * SECOND).contains(&run.stop_us()), "{:#}", run.report["timings"]);
    run.assert_proven();
}

/// Case 21: whether a run is over with its main process or with its last one is an option, and the code is the main process's.
#[test]
fn until_all_waits_for_the_last_process() {
    let place = Place::new("until-all");
    let script = "(while [ ! -e go ]; do sleep 0.02; done; echo late) & echo early; echo yes >ready; exit 3";
    let running = place.shell(&["--until", "all"], script);
    place.wait_line("ready");
    std::fs::write(place.file("go"), "").expect("let it end");
    let run = running.finish();
    run.assert_exited(3);
    assert_eq!(run.text(), "early\nlate\n");
    assert_eq!(run.number("/leftovers_killed"), 0);
    assert_eq!(run.report["ended_by"], serde_json::Value::Null);
    run.assert_proven();
}

/// A task that was stopped (SIGSTOP, Ctrl-Z) can handle its signal only when it goes on: as with a frozen one, it is let. Its children, too.
#[test]
fn a_stopped_task_goes_on_for_its_stop_signal() {
    let place = Place::new("stopped");
    let script = "trap 'exit 9' TERM; (trap 'echo child; exit' TERM; echo yes >child; sh -c 'kill -STOP $PPID'; \
                  while :; do sleep 0.02; done) & while [ ! -s child ]; do sleep 0.01; done; echo $$ >ready; kill -STOP $$; \
                  while :; do sleep 0.02; done";
    let running = place.shell(&["--grace", "10m"], script);
    let main = place.wait_line("ready");
    wait_until("a stopped task", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", main.trim())).ok()?;
        stat.rsplit_once(") ")?.1.starts_with('T').then_some(())
    });
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_exited(9);
    assert_eq!(run.text(), "child\n");
    run.assert_proven();
}

/// Case 25: no grace means no signal that could be handled.
#[test]
fn without_grace_nothing_is_asked_first() {
    let place = Place::new("grace-0");
    let script = "trap 'echo got >signals' TERM; echo yes >ready; while :; do sleep 0.02; done";
    let running = place.shell(&["--grace", "0"], script);
    place.wait_line("ready");
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_signaled(9);
    assert!(std::fs::read(place.file("signals")).is_err(), "the trap ran");
    run.assert_proven();
}

/// Case 3: a loop that forks is ended by one kill, and who writes it is not hit itself: it lives to report (INV-12).
#[test]
fn a_loop_of_forks_ends_with_one_kill() {
    let place = Place::new("fork-loop");
    let script = "trap '' TERM; echo yes >ready; while :; do (sleep 0.01 &); done";
    let running = place.shell(&["--grace", "0"], script);
    place.wait_line("ready");
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_signaled(9);
    assert_eq!(run.claim("stayed_out"), "proven", "{:#}", run.report["audit"]);
    run.assert_proven();
}

/// Case 26: a bomb that fills its limit and goes on. The limit counts by user, so the user is one that nobody else uses.
#[test]
fn a_fork_bomb_is_gone_within_a_second() {
    let place = Place::new("bomb");
    let user = (1_000_000_000 + std::process::id()).to_string();
    let options = ["--user", &user, "--group", &user, "--rlimit", "nproc=100", "--grace", "0"];
    let running = place.program(&options, &["perl", "-e", "$SIG{TERM} = 'IGNORE'; fork while 1"]);
    let leaf = place.leaf("perl");
    wait_until("a full bomb", || {
        let members = std::fs::read_to_string(leaf.join("cgroup.procs")).ok()?;
        (members.lines().count() >= 100).then_some(())
    });
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_signaled(9);
    assert!(run.stop_us() < SECOND, "{:#}", run.report["timings"]);
    assert!(run.number("/audit/births") >= 100, "{:#}", run.report["audit"]);
    run.assert_proven();
}

/// Case 22 and INV-11: on some kernels what is cloned into a group that was ever killed dies at birth, so no run may meet an old one.
#[test]
fn after_a_kill_a_task_starts_again() {
    let place = Place::new("again");
    let sibling = place.cgroup().join("sibling");
    for _ in 0..5 {
        let running = place.shell(&["--name", "same", "--grace", "0"], "echo yes >ready; exec sleep 1000");
        place.wait_line("ready");
        running.signal(SIGTERM);
        let run = running.finish();
        run.assert_signaled(9);
        run.assert_proven();
        std::fs::remove_file(place.file("ready")).expect("for the next one");
        std::fs::create_dir(&sibling).expect("a sibling");
        std::fs::write(sibling.join("cgroup.kill"), "1").expect("kill the sibling");
        place.shell(&["--name", "same"], "exit 0").finish().assert_exited(0);
        std::fs::remove_dir(&sibling).expect("remove the sibling");
    }
}

/// What the caller has proctor ignore (nohup, a shell's job in the background) stays ignored; SIGTERM, the way to end it, does not.
#[test]
fn signals_that_the_caller_ignores_stop_nothing() {
    let place = Place::new("nohup");
    let mut command = place.command("sh");
    let script = "trap '' HUP INT QUIT TERM; exec \"$0\" run --grace 10m -- sh -c \
                  'trap \"exit 7\" TERM; trap \"exit 8\" HUP INT; echo yes >ready; while :; do sleep 0.02; done'";
    command.args(["-c", script]).arg(tests::binary()).current_dir(place.files());
    let running = tests::Running::spawn(command);
    place.wait_line("ready");
    for signal in [SIGHUP, SIGINT, SIGQUIT] {
        running.signal(signal);
    }
    // An ignored signal is dropped when it is sent, so proctor has all that will ever come of them when it gets this one.
    running.signal(SIGTERM);
    let run = running.finish();
    assert_eq!(run.code(), 7, "{}", run.stderr);
    assert_eq!(run.stderr.matches("stopping with").count(), 1, "{}", run.stderr);
}

/// INV-11 seen from the caller: its own cgroup was killed once, empty, before it came. Only directories made since are cloned into.
#[test]
fn a_callers_cgroup_that_was_killed_once_is_no_obstacle() {
    let place = Place::new("killed-caller");
    std::fs::write(place.cgroup().join("cgroup.kill"), "1").expect("kill the empty place");
    let run = place.shell(&[], "echo alive").finish();
    run.assert_exited(0);
    assert_eq!(run.text(), "alive\n");
    run.assert_proven();

    // Nor does the detour leave anything when proctor itself is killed.
    let running = place.shell(&[], "echo yes >ready; exec sleep 1000");
    place.wait_line("ready");
    running.signal(SIGKILL);
    running.finish();
    place.wait_empty();
}
