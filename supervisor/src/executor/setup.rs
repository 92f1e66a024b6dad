//! What an executor begins with.

use std::os::fd::OwnedFd;

use crate::cgroup::Cgroup;
use crate::sys::SysError;
use crate::wire::WireError;

/// What an executor is born with.
#[derive(Debug)]
pub struct Setup {
    /// The task's spec, sealed.
    pub spec: OwnedFd,
    /// The socket to whoever it works for.
    pub link: OwnedFd,
    /// The task's standard input.
    pub stdin: OwnedFd,
    /// Where its output goes.
    pub output: OutputSetup,
    /// `tasks/<task>`.
    pub task: Cgroup,
}

/// The ways of output, with their descriptors.
#[derive(Debug)]
pub enum OutputSetup {
    /// A pipe for each stream.
    Split {
        /// Where stdout goes.
        stdout: OwnedFd,
        /// Where stderr goes.
        stderr: OwnedFd,
    },
    /// One pipe for both.
    Merged {
        /// Where both go.
        target: OwnedFd,
    },
    /// A terminal, whose slave side is `Setup::stdin` too.
    Terminal {
        /// The side that we read.
        master: OwnedFd,
        /// Where what is shown goes.
        target: OwnedFd,
        /// Where stderr goes by a pipe, if it is not shown on the terminal.
        stderr: Option<OwnedFd>,
    },
}

/// Why an executor could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// A system call failed before the task was touched.
    #[error("the executor cannot begin")]
    Sys(#[from] SysError),
    /// The spec is not readable: two versions of proctor at work, or a fault.
    #[error("the executor cannot read the task's spec")]
    Spec(#[from] WireError),
}
