//! Whether a task is started again.

use std::time::Duration;

use super::Outcome;

/// When a task is started again after its run ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Never.
    Never,
    /// After anything but `exit 0`.
    OnFailure(Delays),
    /// Always.
    Always(Delays),
}

/// How often and how soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// How many restarts at most, beside the first start. None: any number.
    pub attempts: Option<u32>,
    /// The wait before each.
    pub delay: Duration,
}

/// What follows a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another run, so much later.
    Again(Duration),
    /// None.
    Nothing,
}

impl RestartPolicy {
    /// Decides after a run that nobody stopped. `restarts` counts those that were made already.
    pub fn after(self, outcome: &Outcome, restarts: u32) -> Next {
        let delays = match (self, outcome) {
            // A program that cannot be started will not start by being tried again.
            (_, Outcome::NotStarted(_)) | (Self::Never, _) | (Self::OnFailure(_), Outcome::Exited(0)) => {
                return Next::Nothing;
            }
            (Self::OnFailure(delays) | Self::Always(delays), _) => delays,
        };
        match delays.attempts {
            Some(attempts) if restarts >= attempts => Next::Nothing,
            Some(_) | None => Next::Again(delays.delay),
        }
    }
}
