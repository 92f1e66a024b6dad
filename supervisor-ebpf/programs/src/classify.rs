//! The rules: what a birth and what a move mean. Pure, and every combination is written down.
//!
//! A process is known by how it stands (`PROCESSES`), a cgroup by what place it is (`CLASSES`). Both are read before the rules are asked;
//! the entry points count what the rules answer. No rule needs the cgroup a process came from: the destination is compared with the
//! process's own run, so the tracepoints' silence about the source does not matter.
//!
//! Each process that the rules track is counted exactly once as born: in `births` of the run it belongs to, or in `outside` of it. It stays
//! a process of that run until it exits, wherever it is moved, and its exit is counted in `exits` or `outside_exits` of the same run.
//!
//! **Births**, by how the parent stands and where the child begins (`clone3` puts a child anywhere without any attach event):
//!
//! | parent                    | elsewhere, or `tasks/` itself | `executors/`   | run R                              | another run S               |
//! |---------------------------|-------------------------------|----------------|------------------------------------|-----------------------------|
//! | stranger                  | nothing                       | an executor    | birth of R, foreign                | the same for S              |
//! | executor                  | misplaced                     | an executor    | birth of R, the first is its main  | the same for S              |
//! | of run R, inside or not   | outside of R                  | outside of R   | birth of R                         | outside of R, foreign to S  |
//!
//! * A child that a member puts into `executors/` is no executor: its own children in a run would pass for births by an executor then.
//! * A stranger's child in `executors/` is one, and no other than the run's own puts anything into it: who bore the main process is on the
//!   run's record, and what another executor bears there is foreign.
//! * A member that is outside gives a normal birth when the child is in the run: it cloned it into the run, or it was moved away between
//!   the fork and the fork's tracepoint. The child descends from the run's own births either way.
//! * A child that a member of R puts into S belongs to R, as a process of R that was moved to S does. So it is in no figure of S but
//!   `foreign`, and who ends what escaped from R finds it.
//!
//! **Moves**, by how the process stands and where it goes:
//!
//! | process         | elsewhere, `executors/`       | `tasks/` itself  | its run R      | another run S                      |
//! |-----------------|-------------------------------|------------------|----------------|------------------------------------|
//! | stranger        | nothing                       | nothing          | -              | stranger in S                      |
//! | executor        | nothing                       | executor entered | -              | executor entered, also in S        |
//! | inside R        | left R                        | left R           | moved inside R | left R, stranger in S              |
//! | escaped from R  | nothing more                  | nothing more     | returned to R  | stranger in S                      |
//!
//! * A process that was born outside and is moved into its own run returns; it is no stranger.
//! * A stranger is not tracked, so it counts each time it is moved into a cgroup of a run, also from one to another of the same run.

//!
//! A thread that begins in another cgroup than the thread that made it (`clone3` again) is judged as a move of its process.
//!
//! **Moves of a child before its birth was seen.** Between a child's appearance and its `sched_process_fork` another process can move it. The
//! birth is judged by where the child is then, so the place it was made in is lost. What may have been missed is counted as unknown:
//!
//! * An executor puts no child elsewhere, so one that begins there was moved: it may have been a birth in a run. The birth tells it
//!   (misplaced), and alone can: the move's own event comes after the move, by then the birth may be over and the child look like any stranger.
//! * An executor's child that is moved into a run or into `executors/` looks like a birth there. The move tells it, when it comes first.
//! * A member's child that is moved into its own run may have been made outside. The move tells it likewise.
//!
//! In the other cases the birth says enough: a member's child that is moved out counts as born outside.

/// The id of a run: of the cgroup `tasks/<task>/run-<n>`, or of `tasks/<task>` for that directory itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunId(pub u64);

/// What a cgroup is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// No part of our tree, or one that we do not judge.
    Elsewhere,
    /// `executors/` or below.
    Executors,
    /// `tasks/` itself.
    Tasks,
    /// A run's directory or below, or a task's own directory.
    Run(RunId),
}

/// What a process is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not tracked.
    Stranger,
    /// Born in `executors/`.
    Executor,
    /// A process of the run, inside it now.
    Inside(RunId),
    /// A process of the run, outside it now.
    Escaped(RunId),
}

/// Who gave birth inside a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parentage {
    /// An executor: the first such child is the run's main process, and that executor's others are its births too.
    Executor,
    /// A process of the same run.
    Member,
    /// Neither.
    Foreign,
}

/// What a birth means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// Nothing to us.
    Untracked,
    /// An executor's child where no executor puts one: somebody moved it before this, from a place that nobody saw.
    Misplaced,
    /// An executor is born.
    Executor,
    /// A process of the run is born inside it.
    Inside { run: RunId, parentage: Parentage },
    /// A process of the run is born outside it; `intrudes` is the other run it is in then.
    Outside { run: RunId, intrudes: Option<RunId> },
}

/// What a move means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Nothing that counts.
    Nothing,
    /// An executor entered `tasks/` (no run) or a run.
    ExecutorEntered { run: Option<RunId> },
    /// A process left its run; `intrudes` is the other run it is in now.
    Left { run: RunId, intrudes: Option<RunId> },
    /// A process came back into its run, or into it for the first time when it was born outside.
    Returned { run: RunId },
    /// A process moved from one cgroup of its run to another.
    Inside { run: RunId },
    /// A process that is not of this run came into it.
    Stranger { intrudes: RunId },
}

/// What the move of a child means whose birth was not seen yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YoungMove {
    /// Something may have been missed.
    Unknown,
    /// The birth will tell.
    Later,
    /// It is a stranger's child, and a stranger.
    Stranger,
}

/// The runs of a verdict as plain numbers, 0 for none. The entry points take these and match the verdict for its kind alone: what a variant
/// does not have would be carried along uninitialised, and Linux 5.10 refuses to spill such a value to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// The run that the process is of, or that an executor entered.
    pub run: u64,
    /// The other run that it is in now.
    pub intrudes: u64,
}

impl Birth {
    #[inline(always)]
    pub fn runs(self) -> Runs {
        match self {
            Self::Untracked | Self::Misplaced | Self::Executor => Runs { run: 0, intrudes: 0 },
            Self::Inside { run, parentage: _ } => Runs { run: run.0, intrudes: 0 },
            Self::Outside { run, intrudes: None } => Runs { run: run.0, intrudes: 0 },
            Self::Outside { run, intrudes: Some(other) } => Runs { run: run.0, intrudes: other.0 },
        }
    }
}

impl Move {
    #[inline(always)]
    pub fn runs(self) -> Runs {
        match self {
            Self::Nothing | Self::ExecutorEntered { run: None } => Runs { run: 0, intrudes: 0 },
            Self::ExecutorEntered { run: Some(run) } | Self::Returned { run } | Self::Inside { run } => {
                Runs { run: run.0, intrudes: 0 }
            }
            Self::Left { run, intrudes: None } => Runs { run: run.0, intrudes: 0 },
            Self::Left { run, intrudes: Some(other) } => Runs { run: run.0, intrudes: other.0 },
            Self::Stranger { intrudes } => Runs { run: 0, intrudes: intrudes.0 },
        }
    }
}

/// Judges the birth of a process at `place` from a parent that stands so.
#[inline(always)]
pub fn birth(parent: Standing, place: Place) -> Birth {
    match (parent, place) {
        (Standing::Stranger, Place::Elsewhere | Place::Tasks) => Birth::Untracked,
        (Standing::Executor, Place::Elsewhere | Place::Tasks) => Birth::Misplaced,
        (Standing::Stranger | Standing::Executor, Place::Executors) => Birth::Executor,
        (Standing::Stranger, Place::Run(run)) => Birth::Inside { run, parentage: Parentage::Foreign },
        (Standing::Executor, Place::Run(run)) => Birth::Inside { run, parentage: Parentage::Executor },
        (
            Standing::Inside(run) | Standing::Escaped(run),
            Place::Elsewhere | Place::Executors | Place::Tasks,
        ) => Birth::Outside { run, intrudes: None },
        (Standing::Inside(run) | Standing::Escaped(run), Place::Run(at)) => {
            if at.0 == run.0 {
                Birth::Inside { run, parentage: Parentage::Member }
            } else {
                Birth::Outside { run, intrudes: Some(at) }
            }
        }
    }
}

/// Judges the move to `place` of a process that stands so.
#[inline(always)]
pub fn movement(process: Standing, place: Place) -> Move {
    match (process, place) {
        (Standing::Stranger, Place::Elsewhere | Place::Executors | Place::Tasks) => Move::Nothing,
        (Standing::Stranger, Place::Run(at)) => Move::Stranger { intrudes: at },
        (Standing::Executor, Place::Elsewhere | Place::Executors) => Move::Nothing,
        (Standing::Executor, Place::Tasks) => Move::ExecutorEntered { run: None },
        (Standing::Executor, Place::Run(at)) => Move::ExecutorEntered { run: Some(at) },
        (Standing::Inside(run), Place::Elsewhere | Place::Executors | Place::Tasks) => {
            Move::Left { run, intrudes: None }
        }
        (Standing::Inside(run), Place::Run(at)) => {
            if at.0 == run.0 {
                Move::Inside { run }
            } else {
                Move::Left { run, intrudes: Some(at) }
            }
        }
        (Standing::Escaped(_), Place::Elsewhere | Place::Executors | Place::Tasks) => Move::Nothing,
        (Standing::Escaped(run), Place::Run(at)) => {
            if at.0 == run.0 {
                Move::Returned { run }
            } else {
                Move::Stranger { intrudes: at }
            }
        }
    }
}

/// Judges the move to `place` of a child whose birth was not seen yet, from a parent that stands so.
#[inline(always)]
pub fn young(parent: Standing, place: Place) -> YoungMove {
    match (parent, place) {
        (Standing::Stranger, _) => YoungMove::Stranger,
        (Standing::Executor, Place::Elsewhere | Place::Tasks) => YoungMove::Later,
        (Standing::Executor, Place::Executors | Place::Run(_)) => YoungMove::Unknown,
        (Standing::Inside(_) | Standing::Escaped(_), Place::Elsewhere | Place::Executors | Place::Tasks) => {
            YoungMove::Later
        }
        (Standing::Inside(run) | Standing::Escaped(run), Place::Run(at)) => {
            if at.0 == run.0 {
                YoungMove::Unknown
            } else {
                YoungMove::Later
            }
        }
    }
}
