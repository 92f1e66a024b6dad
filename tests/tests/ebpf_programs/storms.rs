//! Many at once: exits that race, moves that race with births, kills of whole groups.

use std::fs;

use supervisor::audit::probe::Run;
use supervisor::audit::{Claim, ExecutorLife};

use crate::ground::{Dir, Ground, Totals};

/// Moves everything that appears in `from`, but `stay`, to `to` as fast as it can, until `is_over`.
fn sweep(from: &Dir, to: &Dir, stay: Option<u32>, mut is_over: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !is_over() {
        assert!(
            begin.elapsed() < tests::PATIENCE,
            "the figures that end the sweep never came: some birth was not counted"
        );
        let pids = fs::read_to_string(from.path.join("cgroup.procs")).expect("read the pids");
        for pid in pids.lines().filter_map(|pid| pid.parse().ok()).filter(|pid| Some(*pid) != stay) {
            // It may be gone already.
            let _ = to.take(pid);
        }
    }
}

#[test]
fn five_threads_that_exit_at_once_are_one_exit() {
    let ground = Ground::new("race");
    ground.play("in EX { in RUN { race 300 } }");
    ground.expect(Run { births: 301, exits: 301, ..Run::default() }, Totals::one_executor(0));
}

#[test]
fn fifty_that_are_killed_at_once_are_fifty_exits() {
    let mut ground = Ground::new("killed");
    let mut actors = ground.start("in EX { repeat 50 { born RUN { pause } } say born wait }");
    actors.hear("born");
    fs::write(ground.run.path.join("cgroup.kill"), "1").expect("kill the group");
    actors.end();
    let run = Run { births: 50, exits: 50, ..Run::default() };
    ground.expect(run, Totals::one_executor(0));
    // INV-11: the killed leaf is retired; a fresh one takes the next run.
    ground.run.remove();
    let next = ground.another_run();
    ground.play(&format!("in EX {{ in {next} {{ }} }}"));
    assert_eq!(ground.counted(&next), Run { births: 1, exits: 1, ..Run::default() });
    assert_eq!(ground.counted(&ground.run), Run { removed: 1, ..run });
}

#[test]
fn every_child_is_accounted_for_however_it_is_moved_about() {
    const CHILDREN: u64 = 2000;
    let ground = Ground::new("sweep");
    let script =
        format!("in EX {{ in RUN {{ say main hear repeat {CHILDREN} {{ call {{ }} }} say done }} }}");
    let mut actors = ground.start(&script);
    let main = actors.hear("main");
    actors.tell();
    sweep(&ground.run, &ground.other, Some(main), || {
        ground.audit.run_figures(ground.run.id).expect("read").is_some_and(|run| {
            run.births + run.outside > CHILDREN || ground.audit.watched().expect("read") == 0
        })
    });
    actors.hear("done");
    actors.end();
    let run = ground.counted(&ground.run);
    // Each child was born once, inside or (moved before its birth was seen) outside, and exited once on the same account.
    assert_eq!(run.births + run.outside, CHILDREN + 1, "{run:?}");
    assert_eq!((run.births, run.outside), (run.exits, run.outside_exits), "{run:?}");
    assert!(run.left > 0, "the sweep caught nobody: {run:?}");
    assert_eq!((run.strangers, run.foreign, run.returned, run.executor_entered), (0, 0, 0, 0), "{run:?}");
    let totals = ground.totals();
    let Totals { dead_attaches, .. } = totals;
    assert_eq!(totals, Totals { dead_attaches, ..Totals::one_executor(0) });
    assert_eq!(ground.audit.watched().expect("read"), 0);
    println!("{} of {CHILDREN} were moved out, {} before their birth was seen", run.left, run.outside);
}

#[test]
fn a_birth_that_was_hidden_by_a_move_costs_the_proof() {
    const CHILDREN: u64 = 2000;
    let mut ground = Ground::new("young");
    let mut actors = ground
        .start(&format!("in EX {{ say executor hear repeat {CHILDREN} {{ in RUN {{ }} }} say done hear }}"));
    let executor = actors.hear("executor");
    let key = ground.audit.executor(executor).expect("the executor is on record");
    actors.tell();
    // Children of an executor that are moved out before their birth was seen leave no other trace than the count of such moves.
    sweep(&ground.run, &ground.other, None, || {
        let run = ground.counted(&ground.run);
        let young = ground.totals().young_moves;
        run.births + young >= CHILDREN
    });
    actors.hear("done");
    actors.tell();
    actors.end();
    let (run, totals) = (ground.counted(&ground.run), ground.totals());
    assert!(run.births + totals.young_moves >= CHILDREN, "{run:?} {totals:?}");
    assert_eq!((run.births, run.strangers), (run.exits, 0), "{run:?}");
    let verdict = ground.verdict(Some(key), ExecutorLife::Exited, None);
    let is_proven = verdict.claims.stayed_out == Claim::Proven;
    assert_eq!(is_proven, totals.young_moves == 0, "{:?} {totals:?}", verdict.claims);
    println!("{} births were hidden by a move, {} were seen", totals.young_moves, run.births);
}
