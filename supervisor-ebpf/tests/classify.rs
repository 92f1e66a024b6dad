//! The rules of the programs against their table, without a kernel. `tests/tests/ebpf_programs.rs` has them in the kernel.

#[path = "../programs/src/classify.rs"]
mod classify;

use classify::{Birth, Move, Parentage, Place, RunId, Runs, Standing, YoungMove, birth, movement, young};

const R: RunId = RunId(10);
const S: RunId = RunId(11);

const PLACES: [Place; 5] = [Place::Elsewhere, Place::Executors, Place::Tasks, Place::Run(R), Place::Run(S)];

/// One line of a table: how a process stands, and what is expected at each of `PLACES`.
type Line<T> = (Standing, [T; 5]);

fn compare<T: std::fmt::Debug + PartialEq>(table: &[Line<T>], rule: impl Fn(Standing, Place) -> T) {
    for (standing, expected) in table {
        for (place, expected) in PLACES.iter().zip(expected) {
            assert_eq!(&rule(*standing, *place), expected, "{standing:?} at {place:?}");
        }
    }
}

fn inside(run: RunId, parentage: Parentage) -> Birth {
    Birth::Inside { run, parentage }
}

fn outside(run: RunId, intrudes: Option<RunId>) -> Birth {
    Birth::Outside { run, intrudes }
}

#[test]
fn births() {
    let of_r = [
        outside(R, None),
        outside(R, None),
        outside(R, None),
        inside(R, Parentage::Member),
        outside(R, Some(S)),
    ];
    let table = [
        (
            Standing::Stranger,
            [
                Birth::Untracked,
                Birth::Executor,
                Birth::Untracked,
                inside(R, Parentage::Foreign),
                inside(S, Parentage::Foreign),
            ],
        ),
        (
            Standing::Executor,
            [
                Birth::Misplaced,
                Birth::Executor,
                Birth::Misplaced,
                inside(R, Parentage::Executor),
                inside(S, Parentage::Executor),
            ],
        ),
        (Standing::Inside(R), of_r),
        (Standing::Escaped(R), of_r),
    ];
    compare(&table, birth);
}

#[test]
fn moves() {
    let entered = |run| Move::ExecutorEntered { run };
    let left = |intrudes| Move::Left { run: R, intrudes };
    let stranger = |intrudes| Move::Stranger { intrudes };
    let nothing = Move::Nothing;
    let table = [
        (Standing::Stranger, [nothing, nothing, nothing, stranger(R), stranger(S)]),
        (Standing::Executor, [nothing, nothing, entered(None), entered(Some(R)), entered(Some(S))]),
        (Standing::Inside(R), [left(None), left(None), left(None), Move::Inside { run: R }, left(Some(S))]),
        (Standing::Escaped(R), [nothing, nothing, nothing, Move::Returned { run: R }, stranger(S)]),
    ];
    compare(&table, movement);
}

#[test]
fn moves_before_the_birth_was_seen() {
    use YoungMove::{Later, Stranger, Unknown};
    let table = [
        (Standing::Stranger, [Stranger; 5]),
        (Standing::Executor, [Later, Unknown, Later, Unknown, Unknown]),
        (Standing::Inside(R), [Later, Later, Later, Unknown, Later]),
        (Standing::Escaped(R), [Later, Later, Later, Unknown, Later]),
    ];
    compare(&table, young);
}

#[test]
fn runs_of_verdicts() {
    let runs = |run, intrudes| Runs { run, intrudes };
    let births = [
        (Birth::Untracked, runs(0, 0)),
        (Birth::Misplaced, runs(0, 0)),
        (Birth::Executor, runs(0, 0)),
        (inside(R, Parentage::Foreign), runs(10, 0)),
        (outside(R, None), runs(10, 0)),
        (outside(R, Some(S)), runs(10, 11)),
    ];
    for (birth, expected) in births {
        assert_eq!(birth.runs(), expected, "{birth:?}");
    }
    let moves = [
        (Move::Nothing, runs(0, 0)),
        (Move::ExecutorEntered { run: None }, runs(0, 0)),
        (Move::ExecutorEntered { run: Some(R) }, runs(10, 0)),
        (Move::Left { run: R, intrudes: None }, runs(10, 0)),
        (Move::Left { run: R, intrudes: Some(S) }, runs(10, 11)),
        (Move::Returned { run: R }, runs(10, 0)),
        (Move::Inside { run: R }, runs(10, 0)),
        (Move::Stranger { intrudes: S }, runs(0, 11)),
    ];
    for (movement, expected) in moves {
        assert_eq!(movement.runs(), expected, "{movement:?}");
    }
}
