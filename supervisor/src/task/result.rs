//! How a run ended.

use super::Signal;

/// Number of a run of a task, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunNumber(pub u32);

impl RunNumber {
    /// The first start of a task.
    pub const FIRST: Self = Self(1);

    /// The next one.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl std::fmt::Display for RunNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The status of a main process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStatus {
    /// It exited with this code.
    Exited(u8),
    /// This signal ended it.
    Signaled(Signal),
    /// Nobody can know any more. Never taken for success.
    Unknown,
}

/// Why the program never ran: which step failed, on what, and the kernel's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFailure {
    /// The step, as users may know it: `exec`, `chdir`, `setuid` …
    pub step: String,
    /// The path or cgroup concerned, as text; empty where there is none.
    pub object: String,
    /// The errno, positive.
    pub errno: i32,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The main process exited with this code.
    Exited(u8),
    /// A signal ended the main process.
    Signaled(Signal),
    /// It ended, and how cannot be known.
    Unknown,
    /// It never ran.
    NotStarted(StartFailure),
}

/// Why proctor itself ended a run, or its rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// Somebody asked for it.
    Requested,
    /// Somebody asked for it without grace.
    Killed,
    /// Its time was over.
    Timeout,
    /// The main process had ended while others lived on.
    MainEnded,
    /// Whoever it was run for is gone.
    Abandoned,
}
