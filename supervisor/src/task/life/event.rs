//! What happens to a task.

use crate::task::{StartFailure, StopPolicy, WaitStatus};

/// What the executor found out or was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Begin.
    Start,
    /// The program runs.
    Spawned,
    /// It does not. Comes with a main process to reap, or without.
    SpawnFailed(StartFailure, Born),
    /// The main process was reaped.
    MainEnded(WaitStatus),
    /// What there is now.
    Looked(Sight),
    /// Stop gracefully.
    Stop(StopPolicy),
    /// End it now.
    Kill,
    /// Whoever it was run for is gone: end it now, start nothing any more.
    Abandon,
    /// All output that can be had is handed over, or was given up.
    Drained,
    /// The time of [`Life::deadline`](super::Life::deadline) has come.
    Tick,
}

/// Whether a failed start left a process to reap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Born {
    /// The clone was made; a step in the child failed.
    Yes,
    /// There never was a process.
    No,
}

/// What is alive of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// In the leaf or below it.
    pub leaf: Presence,
    /// Children of the executor outside the leaf, beside the main process: escaped ones.
    pub escaped: Presence,
}

/// Something is there or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// At least one living process.
    Some,
    /// None.
    None,
}
