//! Processes that leave their run: a root task can write itself into any cgroup. They are found, told and ended; and a stranger's meddling
//! with the task's cgroup hides nothing.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal::SIGTERM;
use tests::{Finished, Place};

/// A group in the place, beside the tree of proctor. Removed when dropped, which fails the test while somebody lives in it.
struct Elsewhere(PathBuf);

impl Elsewhere {
    fn new(place: &Place) -> Self {
        let dir = place.cgroup().join("elsewhere");
        fs::create_dir(&dir).expect("a group beside");
        Self(dir)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let removed = fs::remove_dir(&self.0);
        if !std::thread::panicking() {
            removed.expect("nobody lives in the group beside");
        }
    }
}

/// The process was told and ended, and the claim is broken by it.
#[track_caller]
fn assert_escaped(run: &Finished, pid: u64) {
    let report = &run.report;
    assert!(run.number("/escaped") >= 1, "{report:#}\n{}", run.stderr);
    let processes = report["escaped_processes"].as_array().expect("a list");
    let found = processes.iter().find(|process| process["pid"] == pid);
    let found = found.unwrap_or_else(|| panic!("pid {pid} is not told: {report:#}"));
    assert_eq!(found["alive"], "gone", "{report:#}");
    assert!(found["cgroup"].as_str().is_some_and(|path| path.contains("elsewhere")), "{report:#}");
    assert_eq!(run.claim("contained"), "violated", "{report:#}");
    let reasons = report["audit"]["claims"]["contained"]["reasons"].to_string();
    assert!(reasons.contains(&format!("(pid {pid})")) && reasons.contains("elsewhere"), "{reasons}");
    assert!(run.stderr.contains("ended outside its cgroup"), "{}", run.stderr);
    assert_eq!(run.claim("stayed_out"), "proven", "{report:#}");
}

fn pid(line: &str) -> u64 {
    line.trim().parse().expect("a pid")
}

/// Case 5: the main process moves itself. The leaf reads `populated 0`, and yet the run goes on until it ends.
#[test]
fn a_main_process_that_moves_itself_is_ended() {
    let place = Place::new("escape-main");
    let _elsewhere = Elsewhere::new(&place);
    let script = "echo $$ >$CG/elsewhere/cgroup.procs; echo out; echo $$ >pid; exec sleep 1000";
    let running = place.shell(&["--grace", "10m"], script);
    let main = pid(&place.wait_line("pid"));
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_signaled(15);
    assert_eq!(run.number("/main/pid"), main);
    assert_eq!(run.text(), "out\n");
    assert_escaped(&run, main);
}

/// Case 5: and it is killed through its pidfd when it does not obey, where `cgroup.kill` does not reach it. INV-2.
#[test]
fn a_deaf_main_process_that_moves_itself_is_killed() {
    let place = Place::new("escape-deaf-main");
    let _elsewhere = Elsewhere::new(&place);
    let script =
        "trap '' TERM; echo $$ >$CG/elsewhere/cgroup.procs; echo $$ >pid; while :; do sleep 0.02; done";
    let running = place.shell(&["--grace", "200ms"], script);
    let main = pid(&place.wait_line("pid"));
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_signaled(9);
    assert_escaped(&run, main);
}

/// The main process ends while a child of it is elsewhere: the run is not over before that one is.
#[test]
fn a_child_that_moves_itself_is_ended_with_the_run() {
    for (name, deaf) in [("obeys", ""), ("deaf", "trap '' TERM; ")] {
        let place = Place::new("escape-child");
        let _elsewhere = Elsewhere::new(&place);
        let child = format!(
            "{deaf}echo 0 >$CG/elsewhere/cgroup.procs; echo child; sh -c 'echo $PPID' >pid; while :; do sleep 0.02; done"
        );
        let script = format!("({child}) & while [ ! -s pid ]; do sleep 0.01; done; exit 5");
        let run = place.shell(&["--grace", "300ms"], &script).finish();
        run.assert_exited(5);
        assert_eq!(run.text(), "child\n", "{name}");
        run.assert_complete();
        assert_escaped(&run, pid(&place.wait_line("pid")));
    }
}

/// One that forks on outside: its children are born outside, too, and are no less the task's.
#[test]
fn an_escaped_process_that_forks_on_is_ended_with_its_children() {
    let place = Place::new("escape-forks");
    let _elsewhere = Elsewhere::new(&place);
    let script = "(trap '' TERM; echo 0 >$CG/elsewhere/cgroup.procs; sh -c 'echo $PPID' >pid; \
                  while :; do setsid sleep 0.05 & sleep 0.001; done) & \
                  while [ ! -s pid ]; do sleep 0.01; done; exit 0";
    let run = place.shell(&["--grace", "200ms"], script).finish();
    run.assert_exited(0);
    assert_escaped(&run, pid(&place.wait_line("pid")));
}

/// One that hops from child to child outside, never the same number for long: it is chased until it is gone.
#[test]
fn an_escaped_process_that_hops_from_child_to_child_is_caught() {
    let place = Place::new("escape-hops");
    let _elsewhere = Elsewhere::new(&place);
    // For a minute at the most, should it not be caught.
    let hop = "open my $procs, '>', \"$ENV{CG}/elsewhere/cgroup.procs\"; print $procs $$; close $procs; \
               $SIG{TERM} = 'IGNORE'; open my $ready, '>', 'ready'; print $ready \"yes\\n\"; close $ready; \
               my $end = time + 60; while (time < $end) { exit 0 if fork; select(undef, undef, undef, 0.001) }";
    std::fs::write(place.file("hop.pl"), hop).expect("write");
    let script = "perl hop.pl & while [ ! -s ready ]; do sleep 0.01; done; exit 0";
    let run = place.shell(&["--grace", "100ms"], script).finish();
    run.assert_exited(0);
    assert!(run.number("/escaped") >= 1, "{:#}", run.report);
    assert_eq!(run.claim("contained"), "violated", "{:#}", run.report);
    let elsewhere = fs::read_to_string(place.cgroup().join("elsewhere/cgroup.procs")).expect("members");
    assert_eq!(elsewhere, "", "{:#}", run.report);
}

/// Case 5 as it was met: somebody else empties and removes the cgroup while the task runs, and the stop must not take "empty" for
/// "ended".
#[test]
fn a_stranger_that_moves_the_main_process_and_removes_the_leaf_hides_nothing() {
    let place = Place::new("moved");
    let _elsewhere = Elsewhere::new(&place);
    let script = "trap '' TERM; echo $$ >pid; while read line; do :; done <fifo; sleep 1000";
    nix::unistd::mkfifo(&place.file("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
    let running = place.shell(&["--grace", "200ms"], script);
    let main = place.wait_line("pid");
    let leaf = place.leaf("sh");
    // Opened for writing too, so that the task's open succeeds and it blocks in read without a child.
    let _writer = fs::File::options().read(true).write(true).open(place.file("fifo")).expect("open");
    fs::write(place.cgroup().join("elsewhere/cgroup.procs"), &main).expect("move it away");
    fs::remove_dir(&leaf).expect("the leaf is empty");
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_signaled(9);
    assert_escaped(&run, pid(&main));
    let reasons = run.report["audit"]["claims"]["contained"]["reasons"].to_string();
    let mover = format!("pid {}, uid 0", std::process::id());
    assert!(reasons.contains(&mover), "who moved it ({mover}) is not told: {reasons}");
}
