//! The guardians die: what is then told, and that nothing stays (case 31, INV-3, INV-4).

use std::fs;

use nix::sys::signal::Signal::{self, SIGKILL, SIGSTOP, SIGTERM};
use tests::{Place, Running, wait_until};

/// The keeper and the executor of a proctor whose task runs.
struct Guardians {
    keeper: i32,
    executor: i32,
}

impl Guardians {
    fn of(running: &Running) -> Self {
        let keeper = child_named(running.pid(), "proctor-keeper");
        Self { keeper, executor: child_named(keeper, "proctor-exec") }
    }
}

/// To a process of the running proctor's, which is its parent and has not reaped it: the number is its own.
fn send(pid: i32, signal: Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).expect("signal a guardian");
}

/// Case 31: a dead executor is never exit code 0, nor any code of the task's; the message names it; the task is ended.
#[test]
fn a_dead_executor_is_no_success() {
    for (name, script) in [
        ("waits", "echo yes >ready; exec sleep 1000"),
        ("deaf", "trap '' TERM HUP; echo yes >ready; setsid sleep 1000 & while :; do sleep 0.02; done"),
    ] {
        let place = Place::new("dead-executor");
        let running = place.shell(&["--grace", "10m"], script);
        place.wait_line("ready");
        let guardians = Guardians::of(&running);
        send(guardians.executor, SIGKILL);
        let run = running.finish();
        assert_eq!(run.code(), 125, "{name}: {}", run.stderr);
        assert!(run.stderr.contains("executor was killed by signal 9"), "{name}: {}", run.stderr);
        assert_ne!(run.report["outcome"]["kind"], "exited", "{name}: {:#}", run.report);
        assert_eq!(run.report["output"]["complete"], false, "{name}: {:#}", run.report);
        // What only the executor knew is not made up.
        for figure in ["/output/stdout_bytes", "/output/lost_bytes", "/timings/duration_us"] {
            assert_eq!(run.report.pointer(figure), Some(&serde_json::Value::Null), "{figure}");
        }
        assert!(!run.stderr.contains("0 bytes") && !run.stderr.contains("after 0"), "{}", run.stderr);
        assert_eq!(run.number("/executor/pid"), guardians.executor as u64);
        assert_eq!(run.report["left_behind"], serde_json::Value::Null, "{name}");
    }
}

/// The same when it is the task that does it: a root task can, and it gains nothing.
#[test]
fn a_task_that_kills_its_executor_is_ended() {
    let place = Place::new("parricide");
    let run = place.shell(&[], "kill -9 $PPID; while :; do sleep 0.02; done").finish();
    assert_eq!(run.code(), 125, "{}", run.stderr);
    assert!(run.stderr.contains("executor was killed by signal 9"), "{}", run.stderr);
}

/// The keeper is not needed for a task to live on and to end in good order; what it would have removed is removed.
#[test]
fn without_its_keeper_a_task_goes_on_to_its_own_end() {
    let place = Place::new("dead-keeper");
    let script =
        "trap 'exit 7' TERM; echo yes >ready; while [ ! -e go ]; do sleep 0.02; done; echo end; exit 5";
    let running = place.shell(&["--grace", "10m"], script);
    place.wait_line("ready");
    let Guardians { keeper, executor } = Guardians::of(&running);
    send(keeper, SIGKILL);
    wait_until("the keeper's end", || (parent(executor) == Some(running.pid())).then_some(()));
    fs::write(place.file("go"), "").expect("let it end");
    let run = running.finish();
    run.assert_exited(5);
    assert_eq!(run.text(), "end\n");
    run.assert_complete();
    assert!(run.stderr.contains("keeper was killed"), "{}", run.stderr);
    assert_eq!(run.report["left_behind"], serde_json::Value::Null, "{:#}", run.report);
    run.assert_proven();
}

/// And it can still be stopped.
#[test]
fn without_its_keeper_a_task_is_stopped() {
    let place = Place::new("dead-keeper-stop");
    let script = "trap 'exit 7' TERM; setsid sleep 1000 & echo yes >ready; while :; do sleep 0.02; done";
    let running = place.shell(&["--grace", "10m"], script);
    place.wait_line("ready");
    let Guardians { keeper, executor } = Guardians::of(&running);
    send(keeper, SIGKILL);
    wait_until("the keeper's end", || (parent(executor) == Some(running.pid())).then_some(()));
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_exited(7);
    assert!(run.number("/leftovers_killed") >= 1, "{:#}", run.report);
}

/// Both at once, in either order: `proctor run` itself ends what is left.
#[test]
fn without_both_guardians_nothing_stays() {
    for keeper_first in [true, false] {
        let place = Place::new("both-dead");
        let script = "trap '' TERM; setsid sh -c 'sleep 1000 & sleep 1000' & echo yes >ready; while :; do sleep 0.02; done";
        let running = place.shell(&["--grace", "10m"], script);
        place.wait_line("ready");
        let Guardians { keeper, executor } = Guardians::of(&running);
        let order = if keeper_first { [keeper, executor] } else { [executor, keeper] };
        // A stopped one cannot clean up between the two.
        send(order[0], SIGSTOP);
        send(order[1], SIGKILL);
        send(order[0], SIGKILL);
        let run = running.finish();
        assert_eq!(run.code(), 125, "{}", run.stderr);
        assert!(run.stderr.contains("executor"), "{}", run.stderr);
        assert_ne!(run.report["outcome"]["kind"], "exited", "{:#}", run.report);
    }
}

/// A guardian that hangs cannot end its task, and says nothing: the second signal ends both.
#[test]
fn a_hanging_executor_does_not_hold_up_the_second_signal() {
    let place = Place::new("stopped-executor");
    let running = place.shell(&["--grace", "10m"], "echo yes >ready; exec sleep 1000");
    place.wait_line("ready");
    let Guardians { executor, .. } = Guardians::of(&running);
    send(executor, SIGSTOP);
    running.signal(SIGTERM);
    running.signal(Signal::SIGINT);
    let run = running.finish();
    assert_eq!(run.code(), 125, "{}", run.stderr);
    assert!(run.stderr.contains("executor"), "{}", run.stderr);
    assert_ne!(run.report["outcome"]["kind"], "exited", "{:#}", run.report);
}

fn comm(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // proc(5): state and parent follow the name's closing parenthesis.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// The child of this name.
fn child_named(of: i32, name: &str) -> i32 {
    wait_until(name, || {
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.find(|pid| comm(*pid) == name && parent(*pid) == Some(of))
    })
}
