//! Where a task is in its life.

use std::time::Duration;

use crate::task::{RunNumber, Signal, StartFailure, StopCause, WaitStatus};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Created,
    Starting(Run),
    Running { run: Run, timeout_at: Option<Duration> },
    Stopping { run: Run, stage: Stage },
    Draining { run: Run, give_up_at: Option<Duration> },
    Backoff { next: RunNumber, at: Duration },
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) number: RunNumber,
    pub(super) main: Main,
    pub(super) failure: Option<StartFailure>,
    pub(super) cause: Option<StopCause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Main {
    Alive,
    Ended(WaitStatus),
    Unborn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Graceful { signal: Signal, kill_at: Duration, rest: Rest },
    Killing { again_at: Duration, stuck: Stuck },
}

/// Whether those beside the main process have had their signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Unsignalled,
    Signalled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    ReportAt(Duration),
    Reported,
}
