//! The world in random orders of events.

use std::cell::Cell;

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::ledger::Broken;
use super::moves::{Case, cases};
use super::world::{Tally, World};

/// How many orders are tried, and how many moves the longest has.
const CASES: u32 = 120_000;
const LONGEST: usize = 96;

/// Plays a case. A failure prints it as a list of moves, which is a case to be played here again.
pub fn replay(case: &Case) -> Result<Tally, Broken> {
    let mut world = World::new(case);
    for (at, step) in case.moves.iter().enumerate() {
        world.make(*step).map_err(|broken| format!("at move {at}, {step:?}: {broken}"))?;
    }
    world.end(case.ending).map_err(|broken| format!("at the end: {broken}"))?;
    Ok(world.tally)
}

/// INV-4, INV-11; cases 23, 25, 31, 48, 49: see `ledger`.
#[test]
fn inv_4_inv_11_every_promise_is_kept_in_any_order_of_events() {
    let total = Cell::new(Tally::default());
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&cases(LONGEST), |case| {
        let tally = replay(&case).map_err(TestCaseError::fail)?;
        total.set(total.get().plus(tally));
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    let total = total.get();
    println!("{CASES} orders of events: {total:?}");
    // What was never reached was not tested.
    let Tally { events, runs, restarts, stuck, given_up, leftovers, killed_outside } = total;
    for (what, count) in [
        ("events", events / 10),
        ("runs", runs / 10),
        ("restarts", restarts),
        ("stuck", stuck),
        ("given up", given_up),
        ("leftovers", leftovers),
        ("killed outside", killed_outside),
    ] {
        assert!(count >= 1000, "{what}: only {count} in {total:?}");
    }
}
