//! What is to be done.

use crate::task::{Outcome, RunNumber, Signal, StopCause};

/// What the executor shall do. All can be done without waiting; what comes of it arrives as an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make the leaf of this run and start the program in it.
    Spawn(RunNumber),
    /// Count what lives now that the main process has ended: these are leftovers.
    CountLeftovers,
    /// Thaw the leaf, so that signals can be handled.
    Thaw,
    /// Send the main process this signal.
    SignalMain(Signal),
    /// Send it to each process of the leaf and each escaped one.
    SignalRest(Signal),
    /// Write `cgroup.kill`.
    KillLeaf,
    /// SIGKILL to the main process, wherever it is.
    KillMain,
    /// SIGKILL to each escaped process.
    KillEscaped,
    /// Tell that it cannot be ended for now, with the processes that are left.
    ReportStuck,
    /// Everything is dead: read what the pipes hold, hand it over, say [`super::Event::Drained`].
    Drain,
    /// Stop handing over output, say [`super::Event::Drained`].
    GiveUpOutput,
    /// The run is over: remove its leaf, record and tell the result.
    Finish(RunEnd),
}

/// The result of a run as far as this machine knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// Which run.
    pub run: RunNumber,
    /// How it ended.
    pub outcome: Outcome,
    /// What made us end it: the first cause of several, but a kill goes before the request that it cut short. None when it ended by
    /// itself, also when somebody asked for the end while its last output was handed over.
    pub cause: Option<StopCause>,
}
