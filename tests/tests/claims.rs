//! What `proctor run` proves, and that it proves nothing that is not so. Everything from outside: a command line, a report.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::Signal;
use supervisor::sys::pidfd;
use tests::{Finished, Place, Running, binary, faulty_binary, wait_until};

/// A task that touches a file and sleeps.
const TOUCH_AND_SLEEP: &str = "touch ready; exec sleep 300";

/// Starts `proctor run` with a task that touches `ready` and sleeps, in the place's directory.
fn sleeper(place: &Place, program: &Path, fault: Option<&str>) -> Running {
    let files = place.files().display().to_string();
    // A short grace: an executor that joined is a leftover of its own task, which nothing ends but the kill.
    let options = ["--name", "t", "--grace", "500ms", "--cwd", &files, "--", "sh", "-c", TOUCH_AND_SLEEP];
    place.start_reported(program, fault, &options)
}

/// The event that tests wait for.
fn ready(place: &Place) {
    wait_until("the file that the task touches", || fs::metadata(place.file("ready")).ok().map(drop));
}

fn stop(run: Running) -> Finished {
    run.signal(Signal::SIGTERM);
    run.finish()
}

/// The one process in the leaf, once what touched the file is gone.
fn main_of(leaf: &Path) -> u32 {
    wait_until("one process in the leaf", || {
        fs::read_to_string(leaf.join("cgroup.procs")).expect("read the leaf").trim().parse().ok()
    })
}

/// The reasons of a claim as one text.
fn reasons(run: &Finished, claim: &str) -> String {
    run.report["audit"]["claims"][claim]["reasons"].to_string()
}

/// INV-12, the question that nobody could answer: how to assert that the executor never joins. When the file is there the claim is
/// proven, by counters and not by the time that passed.
#[test]
fn inv_12_the_executor_stayed_out() {
    let place = Place::new("stayed-out");
    let run = sleeper(&place, &binary(), None);
    ready(&place);
    let run = stop(run);
    run.assert_proven();
    assert_eq!(run.report["outcome"]["signal"], 15, "{}", run.stderr);
    assert_eq!(run.report["audit"]["state"], "active");
    assert_eq!(run.report["audit"]["births"], run.report["audit"]["exits"]);
    assert!(run.stderr.contains("stayed out, contained, undisturbed, ended: proven"), "{}", run.stderr);
}

/// INV-12: the same with an executor that does join.
#[test]
fn inv_12_an_executor_that_joins_is_caught() {
    let place = Place::new("joins");
    let run = sleeper(&place, &faulty_binary(), Some("executor-joins"));
    ready(&place);
    let run = stop(run);
    assert_eq!(run.claim("stayed_out"), "violated", "{:#}", run.report);
    assert_eq!(run.claim("undisturbed"), "violated", "{:#}", run.report);
    let executor = run.report["executor"]["pid"].as_u64().expect("the executor's pid");
    let reasons = reasons(&run, "stayed_out");
    let story = format!("proctor-exec (pid {executor}) was moved to the run by itself");
    assert!(reasons.contains(&story), "{reasons}");
    assert!(run.stderr.contains("stayed out") && run.stderr.contains("VIOLATED"), "{}", run.stderr);
    // The faulty build without its fault is proctor: it was the fault that was found.
    let run = place.start_reported(&faulty_binary(), None, &["--", "true"]).finish();
    run.assert_proven();
}

#[test]
fn a_process_that_is_moved_out_breaks_contained_and_is_ended_all_the_same() {
    let place = Place::new("moved-out");
    let aside = place.cgroup().join("aside");
    fs::create_dir(&aside).expect("a cgroup beside");
    let run = sleeper(&place, &binary(), None);
    ready(&place);
    let main = main_of(&place.leaf("t"));
    fs::write(aside.join("cgroup.procs"), main.to_string()).expect("move it");
    let run = stop(run);
    assert_eq!(run.claim("contained"), "violated", "{:#}", run.report);
    let why = reasons(&run, "contained");
    assert!(why.contains(&format!("(pid {main})")) && why.contains("/aside"), "{why}");
    assert!(why.contains(&format!("pid {}", std::process::id())), "the test moved it: {why}");
    for claim in ["stayed_out", "undisturbed", "ended"] {
        assert_eq!(run.claim(claim), "proven", "{claim}: {:#}", run.report["audit"]);
    }
    assert_eq!(run.report["escaped_processes"][0]["pid"], main, "{:#}", run.report);
    assert!(fs::metadata(format!("/proc/{main}")).is_err(), "it lives");
    fs::remove_dir(&aside).expect("nothing is left beside");
}

#[test]
fn a_stranger_that_is_moved_in_breaks_undisturbed() {
    let place = Place::new("moved-in");
    let run = sleeper(&place, &binary(), None);
    ready(&place);
    let leaf = place.leaf("t");
    let mut stranger = place.command("sleep").arg("300").spawn().expect("a stranger");
    fs::write(leaf.join("cgroup.procs"), stranger.id().to_string()).expect("move it in");
    let run = stop(run);
    assert_eq!(run.claim("undisturbed"), "violated", "{:#}", run.report);
    let why = reasons(&run, "undisturbed");
    assert!(why.contains(&format!("sleep (pid {})", stranger.id())), "{why}");
    assert_eq!((run.claim("stayed_out"), run.claim("contained")), ("proven", "proven"), "{:#}", run.report);
    // It was in the task's cgroup, so it ended with it.
    stranger.wait().expect("reap the stranger");
}

/// A birth outside by the task itself: no event of a move tells of it.
#[test]
fn case_55_births_by_clone3_are_seen_inside_and_outside() {
    let place = Place::new("clone3");
    let aside = place.cgroup().join("aside");
    fs::create_dir(&aside).expect("a cgroup beside");
    let scenario = env!("CARGO_BIN_EXE_scenario");
    // Inside: the main process by the executor, and its children by itself.
    let run = place.run_reported(&["--", scenario, "repeat 20 { call { } }"]);
    run.assert_proven();
    assert_eq!((&run.report["audit"]["births"], &run.report["audit"]["exits"]), (&21.into(), &21.into()));

    let script = format!("in {} {{ }}", aside.display());
    let run = place.run_reported(&["--", scenario, &script]);
    assert_eq!(run.claim("contained"), "violated", "{:#}", run.report);
    assert!(reasons(&run, "contained").contains("/aside"), "{:#}", run.report);
    fs::remove_dir(&aside).expect("nothing is left beside");
}

#[test]
fn a_birth_that_was_not_seen_is_no_proof() {
    let place = Place::new("unseen");
    let run = sleeper(&place, &faulty_binary(), Some("birth-unseen"));
    ready(&place);
    let run = stop(run);
    for claim in ["stayed_out", "contained", "undisturbed", "ended"] {
        assert_eq!(run.claim(claim), "unproven", "{claim}: {:#}", run.report["audit"]);
        assert!(reasons(&run, claim).contains("sched_process_fork"), "{:#}", run.report["audit"]);
    }
    assert_eq!(run.report["audit"]["state"], "degraded");
}

/// Ways to be root and have no audit.
fn without_rights() -> Vec<String> {
    ["setpriv", "--bounding-set", "-sys_admin,-bpf,-perfmon", "--inh-caps", "-all", "--"]
        .map(String::from)
        .into()
}

fn in_a_pid_namespace() -> Vec<String> {
    ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--"].map(String::from).into()
}

/// `proctor run` behind `wrapper`.
fn wrapped(place: &Place, wrapper: &[String], arguments: &[&str]) -> (Finished, PathBuf) {
    let report = place.file("report");
    let (program, rest) = wrapper.split_first().expect("a program");
    let mut command = place.command(program);
    command.args(rest).arg(binary()).args(["run", "--report"]).arg(&report).args(arguments);
    command.stdin(Stdio::null());
    let run = Running::spawn(command).with_report(report.clone()).finish();
    (run, report)
}

fn unproven_with(run: &Finished, why: &str) {
    for claim in ["stayed_out", "contained", "undisturbed", "ended"] {
        assert_eq!(run.claim(claim), "unproven", "{claim}: {:#}\n{}", run.report["audit"], run.stderr);
        assert!(reasons(run, claim).contains(why), "{:#}", run.report["audit"]);
    }
    assert_eq!(run.report["audit"]["state"], "off");
    assert!(run.stderr.contains(why), "people are told: {}", run.stderr);
}

#[test]
fn without_rights_the_task_runs_and_nothing_is_proven() {
    let place = Place::new("no-rights");
    let (run, _) = wrapped(&place, &without_rights(), &["--", "sh", "-c", "echo ran; exit 3"]);
    assert_eq!((run.code(), run.text().as_str()), (3, "ran\n"), "{}", run.stderr);
    unproven_with(&run, "CAP_BPF");
}

#[test]
fn in_a_pid_namespace_the_task_runs_and_nothing_is_proven() {
    let place = Place::new("pid-ns");
    let (run, _) = wrapped(&place, &in_a_pid_namespace(), &["--", "sh", "-c", "echo ran; exit 3"]);
    assert_eq!((run.code(), run.text().as_str()), (3, "ran\n"), "{}", run.stderr);
    unproven_with(&run, "pid namespace");
}

#[test]
fn a_required_audit_that_cannot_be_had_is_a_refusal_before_anything_starts() {
    for wrapper in [without_rights(), in_a_pid_namespace()] {
        let place = Place::new("required");
        let touched = place.file("touched");
        let touch = touched.display().to_string();
        let (run, report) = wrapped(&place, &wrapper, &["--require-audit", "--", "touch", &touch]);
        assert_eq!(run.code(), 125, "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "one clear line: {}", run.stderr);
        assert!(run.stderr.contains("audit"), "{}", run.stderr);
        assert!(fs::metadata(&touched).is_err(), "the task ran");
        assert!(fs::metadata(&report).is_err(), "a report of nothing");
    }
    // Where it can be had it is no hindrance.
    let place = Place::new("required");
    place.run_reported(&["--require-audit", "--", "true"]).assert_proven();
}

#[test]
fn an_audit_that_nobody_wants_says_so() {
    let place = Place::new("no-audit");
    let run = place.run_reported(&["--no-audit", "--", "true"]);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    unproven_with(&run, "--no-audit");
}

/// The name of this test's thread, which is what the kernel calls the sender.
fn own_comm() -> String {
    fs::read_to_string("/proc/thread-self/comm").expect("own name").trim_end().to_owned()
}

#[test]
fn the_sender_of_the_fatal_signal_is_named() {
    let place = Place::new("killed-by");
    let run = sleeper(&place, &binary(), None);
    ready(&place);
    let main = main_of(&place.leaf("t"));
    let handle = pidfd::open(main as i32).expect("a pidfd of the task");
    pidfd::send_signal(handle.as_fd(), Signal::SIGKILL as i32).expect("kill it");
    let run = run.finish();
    assert_eq!(run.code(), 128 + 9, "{}", run.stderr);
    let expected =
        serde_json::json!({"pid": std::process::id(), "comm": own_comm(), "uid": 0, "kernel": false});
    assert_eq!(run.report["killed_by"], expected);
    run.assert_proven();
    assert!(run.stderr.contains(&format!("pid {}", std::process::id())), "{}", run.stderr);
}

#[test]
fn an_ordinary_end_names_no_killer() {
    let place = Place::new("no-killer");
    let run = place.run_reported(&["--", "sh", "-c", "exit 9"]);
    assert_eq!(run.report["killed_by"], serde_json::Value::Null);
    // One that ends itself by a signal is its own.
    let run = place.run_reported(&["--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(run.report["killed_by"]["pid"], run.report["main"]["pid"], "{:#}", run.report);
}
