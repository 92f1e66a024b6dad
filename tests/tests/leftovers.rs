//! What a task leaves behind: processes that outlive its main process, and pipes that they hold.

use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::Signal::SIGTERM;
use tests::{Place, wait_until};

/// Cases 10 and 11 together, the pair that pulls apart: the end of the pipe is not waited for, though a child that left the session
/// holds it for five minutes, and yet no byte that was written is lost, ever.
#[test]
fn nobody_waits_for_the_end_of_output_and_no_byte_is_lost() {
    const RUNS: u32 = 2000;
    const AUDITED_EVERY: u32 = 50;
    let place = Place::new("both-rules");
    let run = place.shell(&[], "setsid sleep 300 & echo done").finish();
    run.assert_exited(0);
    assert_eq!(run.text(), "done\n");
    assert_eq!(run.number("/leftovers_killed"), 1, "{:#}", run.report);
    assert_eq!(run.report["output"]["held_open_by"], serde_json::json!([]), "{:#}", run.report);
    run.assert_complete();
    run.assert_proven();
    assert!(run.number("/timings/duration_us") < 30_000_000, "{:#}", run.report["timings"]);

    let next = AtomicU32::new(0);
    let mut expected = vec![b'x'; 60_000];
    expected.extend(b"end");
    let one = |number: u32| {
        // Every other one leaves a holder of its output behind.
        let holder = if number.is_multiple_of(2) { "setsid sleep 300 & " } else { "" };
        let script = format!("{holder}head -c 60000 /dev/zero | tr '\\0' x; printf end");
        let options: &[&str] = if number.is_multiple_of(AUDITED_EVERY) { &[] } else { &["--no-audit"] };
        let run = place.shell(options, &script).finish();
        assert_eq!(run.code(), 0, "run {number}: {}", run.stderr);
        assert_eq!(run.stdout.len(), 60_003, "run {number}: {:#}\n{}", run.report, run.stderr);
        assert!(run.stdout == expected, "run {number}: other bytes");
        assert_eq!(run.number("/output/stdout_bytes"), 60_003, "run {number}: {:#}", run.report);
        run.assert_complete();
        assert_eq!(run.number("/leftovers_killed"), u64::from(number.is_multiple_of(2)), "run {number}");
        if number.is_multiple_of(AUDITED_EVERY) {
            run.assert_proven();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let number @ 0..RUNS = next.fetch_add(1, Ordering::Relaxed) {
                    one(number);
                }
            });
        }
    });
}

/// Case 20: children that left the session and the process group are ended like all others.
#[test]
fn a_stop_ends_children_that_left_the_session() {
    let place = Place::new("sessions");
    let script = "setsid sh -c 'setsid sleep 1000 & echo yes >ready; sleep 1000' & sleep 1000";
    let running = place.shell(&["--grace", "10m"], script);
    place.wait_line("ready");
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_signaled(15);
    // What the main shell and the one in the new session had started by then, at least those two.
    assert!(run.number("/leftovers_killed") >= 2, "{:#}", run.report);
    run.assert_proven();
}

/// Case 21: a double-forked daemon is counted and ended, whatever the main process's code.
#[test]
fn a_daemon_does_not_outlive_its_task() {
    let place = Place::new("daemon");
    let run = place.shell(&[], "(setsid sh -c 'sleep 1000 & sleep 1000' &) ; exit 4").finish();
    run.assert_exited(4);
    assert!(run.number("/leftovers_killed") >= 1, "{:#}", run.report);
    assert!(run.stderr.contains("killed"), "{}", run.stderr);
    run.assert_proven();
}

/// Cases 20 and 21: what ignores the signal is killed when the grace is over; the code stays the main process's.
#[test]
fn a_deaf_leftover_is_killed_after_the_grace() {
    let place = Place::new("deaf-leftover");
    let script = "(trap '' TERM; echo yes >ready; while :; do sleep 0.02; done) & while [ ! -e ready ]; do sleep 0.01; done; exit 6";
    let run = place.shell(&["--grace", "300ms"], script).finish();
    run.assert_exited(6);
    assert!(run.number("/leftovers_killed") >= 1, "{:#}", run.report);
    assert_eq!(run.report["ended_by"], "main_ended", "{:#}", run.report);
    assert!((300_000..30_000_000).contains(&run.stop_us()), "{:#}", run.report["timings"]);
    run.assert_proven();
}

/// A leftover may end in good order: it gets the same signal, and its last words are part of the output.
#[test]
fn a_leftover_has_its_grace_and_its_last_words() {
    let place = Place::new("last-words");
    let script = "(trap 'echo last words; exit' TERM; echo yes >ready; while :; do sleep 0.02; done) & \
                  while [ ! -e ready ]; do sleep 0.01; done; echo main";
    let run = place.shell(&["--grace", "10m"], script).finish();
    run.assert_exited(0);
    assert_eq!(run.text(), "main\nlast words\n");
    run.assert_complete();
}

/// `held_open_by`: a process of somebody else, which proctor must not touch, holds the task's stdout. It is named and not waited for.
#[test]
fn a_stranger_that_holds_the_pipe_is_named_and_not_waited_for() {
    let place = Place::new("holder");
    let running = place.shell(&["--grace", "10m"], "echo $$ >pid; echo out; exec sleep 1000");
    let pid = place.wait_line("pid");
    let script = format!("exec 3>/proc/{}/fd/1; echo held; exec sleep 1000", pid.trim());
    let mut holder = place.command("sh");
    holder.args(["-c", &script]).stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let mut holder = holder.spawn().expect("start the holder");
    let holder_pid = u64::from(holder.id());
    // It holds the pipe once it says so, and it is called sleep once it is that.
    wait_until("the holder", || {
        let fds = std::fs::read_link(format!("/proc/{holder_pid}/fd/3")).ok();
        let comm = std::fs::read_to_string(format!("/proc/{holder_pid}/comm")).ok();
        (fds.is_some() && comm? == "sleep\n").then_some(())
    });
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_signaled(15);
    assert_eq!(run.text(), "out\n");
    let held = serde_json::json!([{"pid": holder_pid, "comm": "sleep"}]);
    assert_eq!(run.report["output"]["held_open_by"], held, "{:#}", run.report["output"]);
    assert!(run.stderr.contains(&format!("sleep (pid {holder_pid})")), "{}", run.stderr);
    run.assert_complete();
    run.assert_proven();
    assert!(holder.try_wait().expect("ask").is_none(), "the stranger was ended");
    holder.kill().and_then(|()| holder.wait()).expect("end the holder");
}

/// The same, and the stranger goes on writing: its bytes are no reason to read for ever.
#[test]
fn a_stranger_that_goes_on_writing_delays_nothing() {
    let place = Place::new("writer");
    let running = place.shell(&["--grace", "10m"], "echo $$ >pid; exec sleep 1000");
    let pid = place.wait_line("pid");
    let mut holder = place.command("sh");
    holder.args(["-c", &format!("exec yes stranger >/proc/{}/fd/1", pid.trim())]);
    let mut holder = holder.stdin(std::process::Stdio::null()).spawn().expect("start the writer");
    wait_until("the writer", || {
        (std::fs::read_to_string(format!("/proc/{}/comm", holder.id())).ok()? == "yes\n").then_some(())
    });
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_signaled(15);
    assert!(run.stdout.starts_with(b"stranger\n"), "{} bytes", run.stdout.len());
    // With no reader left the next write ends it.
    holder.wait().expect("the writer's end");
}
