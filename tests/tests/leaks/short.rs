//! Many short tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::{PollTimeout, poll};
use tests::Place;

use crate::traces::Traces;

const TASKS: usize = 500;
const AT_ONCE: usize = 4;

/// Case 1 and INV-12, without the audit: somebody looks every millisecond whether a process of proctor stands in a task's cgroup.
#[derive(Debug, Default)]
struct Watchman {
    /// By tree, so that numbers that are used again do not meet.
    executors: BTreeMap<PathBuf, BTreeSet<i32>>,
    tasks: BTreeMap<PathBuf, BTreeSet<i32>>,
    looks: u64,
}

impl Watchman {
    fn look(&mut self, place: &Path) {
        self.looks += 1;
        for tree in groups(place) {
            // The tasks first: one that stands where it must not is in no other group then.
            for leaf in groups(&tree.join("tasks")).iter().flat_map(|task| groups(task)) {
                let members = pids(&leaf);
                self.tasks.entry(tree.clone()).or_default().extend(members);
            }
            let executors = pids(&tree.join("executors"));
            self.executors.entry(tree).or_default().extend(executors);
        }
    }

    fn assert_apart(&self) {
        for (tree, tasks) in &self.tasks {
            let executors = self.executors.get(tree).cloned().unwrap_or_default();
            let both: Vec<_> = tasks.intersection(&executors).collect();
            assert!(both.is_empty(), "executors {both:?} stood in a task's cgroup of {}", tree.display());
        }
        let seen =
            |groups: &BTreeMap<PathBuf, BTreeSet<i32>>| groups.values().filter(|g| !g.is_empty()).count();
        let (tasks, executors) = (seen(&self.tasks), seen(&self.executors));
        #[expect(clippy::print_stdout, reason = "a figure worth reading")]
        {
            println!("{} looks met the tasks of {tasks} trees and the executors of {executors}", self.looks);
        }
        assert!(executors > TASKS / 10, "who saw only {executors} executors has not looked");
    }
}

fn groups(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn pids(group: &Path) -> Vec<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[test]
fn case_1_five_hundred_tasks_leave_nothing_and_no_executor_in_their_cgroups() {
    let before = Traces::look();
    let place = Place::new("short");
    let is_over = AtomicBool::new(false);
    let mut watchman = Watchman::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|worker| {
                let place = &place;
                scope.spawn(move || {
                    for number in 0..TASKS / AT_ONCE {
                        let script = format!("echo {worker}-{number}; exit {}", number % 100);
                        let run = place.run_reported(&["--name", "t", "--", "sh", "-c", &script]);
                        assert_eq!(run.code() as usize, number % 100, "{}", run.stderr);
                        assert_eq!(run.text(), format!("{worker}-{number}\n"));
                        run.assert_proven();
                    }
                })
            })
            .collect();
        let watch = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                watchman.look(place.cgroup());
                // A clock, not a wait for something: it says how often to look.
                poll(&mut [], PollTimeout::from(1u8)).expect("wait a millisecond");
            }
        });
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        watch.join().expect("the watchman");
        results.into_iter().for_each(|result| result.expect("a worker"));
    });
    watchman.assert_apart();
    // The caller of `proctor run` has come back: nothing may be there that would go away by itself later.
    assert_eq!(place.groups(), Vec::<String>::new());
    let processes = pids(place.cgroup());
    assert!(processes.is_empty(), "{processes:?}");
    before.assert_no_more();
}

/// What the watchman would see of a task that lives longer than a look.
#[test]
fn the_watchman_sees_an_executor_that_joins() {
    let place = Place::new("watchman");
    let options = ["--name", "t", "--grace", "200ms", "--", "sleep", "300"];
    let run = place.start_reported(&tests::faulty_binary(), Some("executor-joins"), &options);
    let leaf = place.leaf("t");
    let tree = leaf.ancestors().nth(3).expect("a tree").to_owned();
    tests::wait_until("two processes in the leaf", || (pids(&leaf).len() == 2).then_some(()));
    let mut watchman = Watchman::default();
    watchman.look(place.cgroup());
    let inside = watchman.tasks.get(&tree).cloned().unwrap_or_default();
    run.signal(nix::sys::signal::Signal::SIGTERM);
    let run = run.finish();
    let executor = run.report["executor"]["pid"].as_i64().expect("the executor's pid") as i32;
    assert!(inside.contains(&executor), "{inside:?} {executor}");
    place.wait_empty();
}
