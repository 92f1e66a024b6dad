//! Groups that a task makes in its leaf, and leaves that are frozen.

use std::fs;

use nix::sys::signal::Signal::SIGTERM;
use tests::{Place, wait_until};

/// Case 7: a task that made groups below its leaf and lives in one of them is ended, and the groups go bottom up.
#[test]
fn groups_that_the_task_made_are_emptied_and_removed() {
    let place = Place::new("nested");
    let script = "leaf=$CG/$(cd $CG; echo proctor.run-*)/tasks/nested/run-1; mkdir -p $leaf/a/b $leaf/c; \
                  sleep 1000 & echo $! >$leaf/c/cgroup.procs; echo $$ >$leaf/a/b/cgroup.procs; echo yes >ready; sleep 1000";
    let running = place.shell(&["--name", "nested", "--grace", "10m"], script);
    place.wait_line("ready");
    let leaf = place.leaf("nested");
    assert_eq!(
        fs::read_to_string(leaf.join("cgroup.procs")).expect("members"),
        "",
        "nobody is in the leaf itself"
    );
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_signaled(15);
    // Who moves inside of the run has not left it.
    run.assert_proven();
    assert!(run.number("/audit/migrations") >= 2, "{:#}", run.report["audit"]);
}

/// Case 7: the same when the main process ends by itself and leaves a deaf one in a group of its own.
#[test]
fn a_deaf_leftover_in_a_group_of_its_own_is_killed() {
    let place = Place::new("nested-deaf");
    let script = "leaf=$CG/$(cd $CG; echo proctor.run-*)/tasks/nested/run-1; mkdir $leaf/sub; \
                  (trap '' TERM; echo 0 >$leaf/sub/cgroup.procs; echo yes >ready; while :; do sleep 0.02; done) & \
                  while [ ! -e ready ]; do sleep 0.01; done; exit 3";
    let run = place.shell(&["--name", "nested", "--grace", "300ms"], script).finish();
    run.assert_exited(3);
    assert!(run.number("/leftovers_killed") >= 1, "{:#}", run.report);
    run.assert_proven();
}

/// A frozen task is thawed for its stop signal: the trap runs and the code is its own.
#[test]
fn a_frozen_task_is_stopped_gracefully() {
    let place = Place::new("frozen");
    let script = "trap 'exit 9' TERM; echo yes >ready; while :; do sleep 0.02; done";
    let running = place.shell(&["--grace", "10m"], script);
    place.wait_line("ready");
    freeze(&place);
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_exited(9);
    run.assert_proven();
}

/// It may have frozen itself.
#[test]
fn a_task_that_froze_itself_is_stopped_gracefully() {
    let place = Place::new("self-frozen");
    let script = "trap 'exit 9' TERM; leaf=$CG/$(cd $CG; echo proctor.run-*)/tasks/cold/run-1; \
                  (echo 1 >$leaf/cgroup.freeze) & while :; do sleep 0.02; done";
    let running = place.shell(&["--name", "cold", "--grace", "10m"], script);
    wait_frozen(&place.leaf("cold"));
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_exited(9);
    run.assert_proven();
}

/// A kill needs no thaw.
#[test]
fn a_frozen_task_is_killed() {
    let place = Place::new("frozen-kill");
    let script = "trap '' TERM; echo yes >ready; while :; do sleep 0.02; done";
    let running = place.shell(&["--grace", "0"], script);
    place.wait_line("ready");
    freeze(&place);
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_signaled(9);
    run.assert_proven();
}

/// A leaf is for one run: what it was when the run ended does not meet the next one.
#[test]
fn a_task_that_died_frozen_starts_again() {
    let place = Place::new("frozen-again");
    for _ in 0..2 {
        let running = place.shell(&["--grace", "0"], "echo yes >ready; exec sleep 1000");
        place.wait_line("ready");
        freeze(&place);
        running.signal(SIGTERM);
        running.finish().assert_signaled(9);
        fs::remove_file(place.file("ready")).expect("for the next one");
    }
    place.shell(&[], "exit 0").finish().assert_exited(0);
}

fn freeze(place: &Place) {
    let leaf = place.leaf("sh");
    fs::write(leaf.join("cgroup.freeze"), "1").expect("freeze");
    wait_frozen(&leaf);
}

fn wait_frozen(leaf: &std::path::Path) {
    wait_until("a frozen leaf", || {
        fs::read_to_string(leaf.join("cgroup.events")).ok()?.contains("frozen 1").then_some(())
    });
}
