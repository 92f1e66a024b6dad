//! What a hostile look at the core has found: odd surroundings and strangers' deeds that once broke it. Each test names the fault.

use std::fs;

use tests::{Place, wait_until};

/// Clock ticks that a process has used.
fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a living process");
    let fields = stat.rsplit_once(')').expect("a name").1.split_ascii_whitespace();
    fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum()
}

/// A task of root can leave its leaf, and anybody can remove the empty leaf then. Its `cgroup.events` is ready for ever from there on.
#[test]
fn a_removed_leaf_costs_no_time() {
    let place = Place::new("removed-leaf");
    let script = "own=$(sed -n s/^0:://p /proc/self/cgroup); echo $own >leaf; echo $$ >$CG/cgroup.procs; \
                  while [ ! -e removed ]; do sleep 0.02; done; echo wake up; echo yes >awake; \
                  while [ ! -e go ]; do sleep 0.05; done; exit 3";
    let running = place.shell(&["--name", "t", "--no-audit"], script);
    place.wait_line("leaf");
    let leaf = place.leaf("t");
    wait_until("an empty leaf", || fs::remove_dir(&leaf).ok());
    fs::write(place.file("removed"), "").expect("tell that it is removed");
    place.wait_line("awake");
    let executors = leaf.ancestors().nth(3).expect("the tree").join("executors/cgroup.procs");
    let executor: i32 = fs::read_to_string(executors).expect("executors").trim().parse().expect("one");
    let before = ticks(executor);
    let begin = std::time::Instant::now();
    wait_until("a while", || (begin.elapsed().as_millis() > 500).then_some(()));
    let used = ticks(executor) - before;
    fs::write(place.file("go"), "").expect("let it end");
    running.finish().assert_exited(3);
    assert!(used <= 3, "the executor used {used} ticks in half a second of quiet");
}
