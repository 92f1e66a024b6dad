//! The signals to `proctor run`.

use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use super::error::RunError;
use crate::sys::signal::{HeldBack, is_ignored};

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

/// The signals that we act on. What the caller has us ignore (nohup, a job in the background) stays ignored, as in any other program.
pub(super) struct Signals {
    terminate: SignalStream,
    interrupt: Option<SignalStream>,
    hang_up: Option<SignalStream>,
    quit: Option<SignalStream>,
    suspend: Option<SignalStream>,
}

impl Signals {
    pub(super) fn new() -> Result<Self, RunError> {
        // tokio's handler is installed a moment before it knows whom to tell: a signal in between would be lost, and the caller would wait
        // for an end that nobody was asked for.
        let _held_back = HeldBack::begin().map_err(RunError::sys("hold signals back"))?;
        let stream = |kind| signal(kind).map_err(RunError::io("watch for signals"));
        let unless_ignored = |kind: SignalKind| match is_ignored(kind.as_raw_value()) {
            true => Ok(None),
            false => stream(kind).map(Some),
        };
        Ok(Self {
            terminate: stream(SignalKind::terminate())?,
            interrupt: unless_ignored(SignalKind::interrupt())?,
            hang_up: unless_ignored(SignalKind::hangup())?,
            quit: unless_ignored(SignalKind::quit())?,
            suspend: unless_ignored(SignalKind::from_raw(TSTP))?,
        })
    }

    /// Can be cancelled.
    pub(super) async fn next(&mut self) -> Wish {
        let Self { terminate, interrupt, hang_up, quit, suspend } = self;
        tokio::select! {
            _ = terminate.recv() => Wish::End,
            () = came(interrupt) => Wish::End,
            () = came(quit) => Wish::End,
            () = came(hang_up) => Wish::HangUp,
            () = came(suspend) => Wish::Suspend,
        }
    }
}

/// Never, for a signal that is ignored.
async fn came(stream: &mut Option<SignalStream>) {
    match stream {
        Some(stream) => drop(stream.recv().await),
        None => std::future::pending().await,
    }
}

/// `SIGTSTP`.
pub(super) const TSTP: i32 = 20;
