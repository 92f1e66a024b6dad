//! What an executor costs while it guards a task.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::sys::signal::Signal;
use tests::{Place, binary, wait_until};

/// The budget for each executor, in KiB of private memory, with five at once.
const BUDGET_KIB: u64 = 64;
/// The same for a debug build, which nobody runs: its frames are several times as large, so that its stack touches more pages. Measured:
/// 56 to 80 KiB, where a release build has 48. What differs are clean pages of the program file that no other executor happens to have
/// touched. This bound finds a buffer that is kept, not a page.
const DEBUG_BUDGET_KIB: u64 = 112;
const EXECUTORS: usize = 5;

/// One field of `smaps_rollup`, in KiB.
fn field(rollup: &str, name: &str) -> u64 {
    let line = rollup.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    number.unwrap_or_else(|| panic!("no field {name} in {rollup}"))
}

/// Whether the program was built with debug assertions, by the profile's directory that it is in. A path that says nothing is taken for
/// a release build: the tighter bound holds.
fn is_debug(program: &Path) -> bool {
    program.parent().is_some_and(|dir| dir.ends_with("debug"))
}

#[test]
fn an_executor_at_rest_is_small() {
    let place = Place::new("memory");
    let files = place.files().display().to_string();
    let runs: Vec<_> = (0..EXECUTORS)
        .map(|number| {
            let script = format!("echo begun; touch ready.{number}; exec sleep 300");
            place.start_reported(&binary(), None, &["--cwd", &files, "--", "sh", "-c", &script])
        })
        .collect();
    for number in 0..EXECUTORS {
        wait_until("the tasks", || fs::metadata(place.file(&format!("ready.{number}"))).ok());
    }
    let mut executors = Vec::new();
    for tree in place.groups() {
        let pids = fs::read_to_string(place.cgroup().join(tree).join("executors/cgroup.procs"));
        executors.extend(pids.expect("the executors").lines().map(str::to_owned));
    }
    assert_eq!(executors.len(), EXECUTORS, "{executors:?}");
    let budget = if is_debug(&binary()) { DEBUG_BUDGET_KIB } else { BUDGET_KIB };
    let mut figures = Vec::new();
    for pid in &executors {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).expect("its name");
        assert_eq!(comm.trim_end(), "proctor-exec");
        // At rest: it waits in poll, and its last turn is over.
        wait_until("an executor at rest", || {
            fs::read_to_string(format!("/proc/{pid}/stat")).ok()?.contains(") S ").then_some(())
        });
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("its memory");
        let [clean, dirty, pss] = ["Private_Clean", "Private_Dirty", "Pss"].map(|name| field(&rollup, name));
        figures.push((clean + dirty, dirty, pss));
    }
    let list: Vec<String> =
        figures.iter().map(|(private, _, pss)| format!("{private} ({pss} with its share)")).collect();
    println!("private memory of {EXECUTORS} executors at rest, KiB: {}; budget {budget}", list.join(", "));
    for run in &runs {
        run.signal(Signal::SIGTERM);
    }
    runs.into_iter().for_each(|run| run.finish().assert_proven());
    let most = figures.iter().map(|(private, ..)| *private).max().unwrap_or(0);
    assert!(most > 0 && most <= budget, "{most} KiB private, {budget} allowed");
}

/// Memory that output needs is given back when the output is quiet.
#[test]
fn heavy_output_does_not_stay_in_memory() {
    let place = Place::new("memory-output");
    let files = place.files().display().to_string();
    let script = "head -c 50000000 /dev/zero; touch ready; exec sleep 300";
    let mut command = place.command(binary());
    command.args(["run", "--quiet", "--cwd", &files, "--", "sh", "-c", script]);
    let sink = fs::File::create(place.file("sink")).expect("a file for the output");
    command
        .stdin(std::process::Stdio::null())
        .stdout(sink.try_clone().expect("one more"))
        .stderr(std::process::Stdio::null());
    let run = tests::Running::spawn_as_is(command);
    wait_until("the output", || fs::metadata(place.file("ready")).ok());
    wait_until("the last byte", || (sink.metadata().expect("the sink").len() == 50_000_000).then_some(()));
    let mut last = [1];
    sink_reader(&place).read_exact_at(&mut last, 49_999_999).expect("read the last byte");
    assert_eq!(last, [0]);
    let tree = place.groups().pop().expect("one tree");
    let pid = fs::read_to_string(place.cgroup().join(tree).join("executors/cgroup.procs")).expect("it");
    let budget = if is_debug(&binary()) { DEBUG_BUDGET_KIB } else { BUDGET_KIB };
    let private = wait_until("the memory given back", || {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", pid.trim())).ok()?;
        // Not the clean pages: those of the program file that this executor alone has touched lately, since no other one moved output.
        let private = field(&rollup, "Private_Dirty");
        (private <= budget).then_some(private)
    });
    println!("private and dirty memory after 50 MB of output, KiB: {private}");
    run.signal(Signal::SIGTERM);
    run.finish();
}

fn sink_reader(place: &Place) -> fs::File {
    fs::File::open(place.file("sink")).expect("read the output")
}
