//! Kills at random moments: of `proctor run`, of its keeper, and the polite end.

use std::fs;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use supervisor::sys::pidfd;
use tests::{Finished, Place, Running};

use crate::chance::{Chance, lives_until};
use crate::traces::Traces;

const AT_ONCE: u64 = 4;

/// A task with three children that ignore SIGTERM, as it does itself.
const STUBBORN: &str = "trap '' TERM; for i in 1 2 3; do sleep 300 & done; touch \"$READY\"; wait";

/// Does `one` this many times, several at once, each with chances of its own. The seed is named when it fails.
fn storm(test: &str, seed: u64, times: u64, one: impl Fn(&Place, &mut Chance) + Sync) {
    let before = Traces::look();
    let place = Place::new(test);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|worker| {
                let (place, one) = (&place, &one);
                let mut chance = Chance::new(seed + worker);
                scope.spawn(move || (0..times / AT_ONCE).for_each(|_| one(place, &mut chance)))
            })
            .collect();
        for (worker, result) in workers.into_iter().map(|worker| worker.join()).enumerate() {
            if let Err(panic) = result {
                #[expect(clippy::print_stderr, reason = "for who repeats it")]
                {
                    eprintln!("failed with seed {}", seed + worker as u64);
                }
                std::panic::resume_unwind(panic);
            }
        }
    });
    place.wait_empty();
    before.assert_no_more();
}

/// How long a start takes here until the task has begun: moments are spread over a bit more than that.
fn start_takes(test: &str) -> Duration {
    let place = Place::new(test);
    let ready = place.file("measure");
    let begin = Instant::now();
    let run = stubborn(&place, "measure");
    tests::wait_until("the task's beginning", || fs::metadata(&ready).ok());
    let takes = begin.elapsed();
    run.signal(Signal::SIGKILL);
    run.finish();
    place.wait_empty();
    takes
}

/// Starts the stubborn task; it touches this file.
fn stubborn(place: &Place, ready: &str) -> Running {
    let ready = format!("READY={}", place.file(ready).display());
    place.start(&["run", "--quiet", "--grace", "100ms", "--env", &ready, "--", "sh", "-c", STUBBORN])
}

#[test]
fn sigkill_of_proctor_at_200_random_moments_leaves_nothing() {
    let most = start_takes("measure-kill") * 3 / 2;
    storm("kill", 0x5eed_0001, 200, |place, chance| {
        let begin = Instant::now();
        let run = stubborn(place, &format!("ready.{}", chance.next()));
        // Moments of 0 to 30 ms hit the start of a release build, more of them that of a debug build.
        assert!(lives_until(run.pid(), begin, chance.moment(most.max(Duration::from_millis(30)))));
        run.signal(Signal::SIGKILL);
        // The end of its stderr would be that of the last process that has it, which is what the place waits for.
        let killed = run.finish();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.status), Some(9));
    });
}

/// The keeper of this `proctor run`, held by a pidfd. None when there is none (yet).
fn keeper_of(pid: i32) -> Option<std::os::fd::OwnedFd> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()).find_map(|child| {
        let handle = pidfd::open(child).ok()?;
        // Looked at after it is held, so that the name is of the one that is held.
        let comm = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
        (comm.trim_end() == "proctor-keeper").then_some(handle)
    })
}

#[test]
fn sigkill_of_the_keeper_at_50_random_moments_leaves_nothing_and_is_told() {
    let most = start_takes("measure-keeper");
    storm("keeper", 0x5eed_0002, 52, |place, chance| {
        let options = ["--", "sh", "-c", "echo begun; (sleep 0.05) & wait; exit 7"];
        let begin = Instant::now();
        let run = place.start_reported(&tests::binary(), None, &options);
        let pid = run.pid();
        let keeper = tests::wait_until("a keeper, or the end", || match keeper_of(pid) {
            Some(keeper) => Some(Some(keeper)),
            None if lives_until(pid, begin, Duration::ZERO) => None,
            None => Some(None),
        });
        let Some(keeper) = keeper else { panic!("it ended before it had a keeper: {:?}", run.finish()) };
        let is_alive = lives_until(pid, Instant::now(), chance.moment(most));
        // One that has ended meanwhile cannot be killed any more, which is one of the moments.
        let _ = pidfd::send_signal(keeper.as_fd(), Signal::SIGKILL as i32);
        let run = run.finish();
        match run.code() {
            // The executor guards the task without it, and the end is what the task made it.
            7 => {
                assert_eq!(
                    run.report["outcome"],
                    serde_json::json!({"kind": "exited", "code": 7}),
                    "{run:?}"
                );
                assert_eq!(run.text(), "begun\n", "{run:?}");
                assert_eq!(run.report["output"]["complete"], true, "{run:?}");
                assert_eq!(run.report["left_behind"], serde_json::Value::Null, "{run:?}");
                assert_no_false_proof(&run);
            }
            // It was killed before it had told of the executor, which may have started the task: all of it was ended.
            125 if is_alive => {
                assert!(run.stderr.contains("keeper"), "{run:?}");
                assert!(["", "begun\n"].contains(&run.text().as_str()), "{run:?}");
                assert_eq!(run.stderr.lines().count(), 1, "one clear line: {run:?}");
            }
            code => panic!("exit code {code}: {run:?}"),
        }
    });
}

/// A claim may be proven or not, but no stranger and no executor was anywhere.
fn assert_no_false_proof(run: &Finished) {
    for claim in ["stayed_out", "contained", "undisturbed", "ended"] {
        assert_ne!(run.claim(claim), "violated", "{claim}: {:#}", run.report["audit"]);
    }
}

#[test]
fn sigterm_at_100_random_moments_ends_sanely() {
    let most = start_takes("measure-term") * 3 / 2;
    storm("term", 0x5eed_0003, 100, |place, chance| {
        let begin = Instant::now();
        let run = place.start_reported(&tests::binary(), None, &["--", "sleep", "300"]);
        assert!(lives_until(run.pid(), begin, chance.moment(most.max(Duration::from_millis(30)))));
        run.signal(Signal::SIGTERM);
        let run = run.finish();
        let report = &run.report;
        match (run.code(), std::os::unix::process::ExitStatusExt::signal(&run.status)) {
            // Before it had set up anything.
            (_, Some(15)) => assert!(report.is_null() && run.text().is_empty(), "{run:?}"),
            // The usual end; or it had been born and not yet become `sleep`, so there was nobody to ask.
            (code @ (143 | 137), None) => {
                assert_eq!(report["outcome"]["signal"], code - 128, "{run:?}");
                assert_eq!(code == 137, report["timings"]["running_us"].is_null(), "{run:?}");
                assert_eq!(report["ended_by"], "requested", "{run:?}");
                assert_eq!(report["left_behind"], serde_json::Value::Null, "{run:?}");
                run.assert_proven();
            }
            other => panic!("{other:?}: {run:?}"),
        }
    });
}
