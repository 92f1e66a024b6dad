//! The signals to `proctor run`.

use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use super::error::RunError;

/// What somebody wants of us by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// The end of the task; once more, at once.
    End,
    /// The caller's terminal is gone: the end, and nobody to be impatient.
    HangUp,
    /// That we stop as a job of a shell.
    Suspend,
}

/// The signals that we act on.
pub(super) struct Signals {
    end: [SignalStream; 3],
    hang_up: SignalStream,
    suspend: SignalStream,
}

impl Signals {
    pub(super) fn new() -> Result<Self, RunError> {
        let stream = |kind| signal(kind).map_err(RunError::io("watch for signals"));
        Ok(Self {
            end: [
                stream(SignalKind::interrupt())?,
                stream(SignalKind::terminate())?,
                stream(SignalKind::quit())?,
            ],
            hang_up: stream(SignalKind::hangup())?,
            suspend: stream(SignalKind::from_raw(TSTP))?,
        })
    }

    /// Can be cancelled.
    pub(super) async fn next(&mut self) -> Wish {
        let [interrupt, terminate, quit] = &mut self.end;
        tokio::select! {
            _ = interrupt.recv() => Wish::End,
            _ = terminate.recv() => Wish::End,
            _ = quit.recv() => Wish::End,
            _ = self.hang_up.recv() => Wish::HangUp,
            _ = self.suspend.recv() => Wish::Suspend,
        }
    }
}

/// `SIGTSTP`.
const TSTP: i32 = 20;
