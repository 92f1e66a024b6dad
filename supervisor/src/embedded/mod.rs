//! `proctor run`: daemon and client in one foreground process, with a keeper of its own; no service is needed.
//!
//! Order matters: everything that can be wrong with the request was found before (in [`crate::cli`]), the audit is attached before the
//! keeper starts, and the keeper alone makes what has to be removed again. So whenever this process dies, by SIGKILL too, the keeper sees
//! its socket close and leaves nothing behind.

mod channel;
mod error;
mod holders;
mod keeper;
mod keys;
mod manners;
mod patience;
mod proof;
mod relay;
mod report;
mod salvage;
mod session;
mod signals;
mod stdio;
mod terminal;

pub use error::{RunError, describe};
pub use holders::Holder;
pub use proof::AuditWish;
pub use report::{Figures, NOT_EXECUTABLE, NOT_FOUND, OWN_FAILURE, Report};
pub use terminal::Interrupt;

use std::os::fd::OwnedFd;

use crate::task::TaskSpec;

/// A task to run in the foreground.
#[derive(Debug)]
pub struct Request {
    /// The task.
    pub spec: TaskSpec,
    /// Whether the audit is wanted.
    pub audit: AuditWish,
    /// Its standard input, and where its stdout and its stderr go. When the first two are terminals, it gets a terminal of its own.
    pub stdio: [OwnedFd; 3],
    /// What Ctrl-C does there.
    pub interrupt: Interrupt,
}

/// Runs the task to its end and tells what became of it. `notice` gets lines for people while it runs.
///
/// # Errors
/// [`RunError`]; then nothing of the task is left, and no report can be given.
pub fn run(request: Request, notice: &mut dyn FnMut(&str)) -> Result<Report, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(RunError::io("start the event loop"))?;
    runtime.block_on(session::run(request, notice))
}
