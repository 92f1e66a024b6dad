//! Where a task is in its life.

use std::time::Duration;

use crate::task::{RunNumber, Signal, StartFailure, StopCause, WaitStatus};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Created,
    Starting(Run),
    Running { run: Run, timeout_at: Option<Duration> },
    Stopping { run: Run, stage: Stage },
    Draining { run: Run, hand_over: HandOver },
    Backoff { next: RunNumber, at: Duration },
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) number: RunNumber,
    pub(super) main: Main,
    pub(super) failure: Option<StartFailure>,
    pub(super) cause: Option<StopCause>,
    pub(super) asked: Asked,
    pub(super) rest: Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Main {
    Alive,
    Ended(WaitStatus),
    Unborn,
}

/// Whether somebody asked for the end of the task at any time of this run, whatever ends the run. No other run follows then, and the
/// last output is not waited for without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    No,
    Yes,
}

/// Whether those that outlived the main process were counted, and in a graceful stop have had their signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Uncounted,
    Counted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Graceful { signal: Signal, kill_at: Duration },
    Killing { again_at: Duration, stuck: Stuck },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    ReportAt(Duration),
    Reported,
}

/// How long the last output may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandOver {
    /// As long as its reader wants: nobody is in a hurry, as with a plain pipe.
    Unhurried,
    /// So long, since somebody asked for the end.
    Until(Duration),
    /// No longer.
    GivenUp,
}

impl State {
    /// The run that is on.
    pub(super) fn run_mut(&mut self) -> Option<&mut Run> {
        match self {
            Self::Starting(run)
            | Self::Running { run, .. }
            | Self::Stopping { run, .. }
            | Self::Draining { run, .. } => Some(run),
            Self::Created | Self::Backoff { .. } | Self::Over => None,
        }
    }
}

impl Run {
    pub(super) fn new(number: RunNumber) -> Self {
        Self {
            number,
            main: Main::Alive,
            failure: None,
            cause: None,
            asked: Asked::No,
            rest: Rest::Uncounted,
        }
    }

    /// Notes why it is ended. The first cause stays; a kill goes before the friendlier request that it cut short.
    pub(super) fn blame(&mut self, cause: StopCause) {
        self.cause = match (self.cause, cause) {
            (None | Some(StopCause::Requested), StopCause::Killed) => Some(StopCause::Killed),
            (None, cause) => Some(cause),
            (Some(first), _) => Some(first),
        };
    }
}
