//! Signals to ourselves, read as data.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::{Result, SysError, fd};

/// Blocks every signal that can be blocked. What must be seen is read from a [`ChildSignals`].
pub fn block_all() -> Result<()> {
    SysError::from_nix("sigprocmask", sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None))
}

/// Readable while a SIGCHLD is pending. It tells only that something happened: look at the children themselves.
#[derive(Debug)]
pub struct ChildSignals(OwnedFd);

impl ChildSignals {
    /// SIGCHLD must be blocked.
    pub fn new() -> Result<Self> {
        let mut set = SigSet::empty();
        set.add(nix::sys::signal::Signal::SIGCHLD);
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
        Ok(Self(SysError::from_nix("signalfd", fd)?.into()))
    }

    /// Forgets what is pending, so that the descriptor is quiet until the next child changes. Call it before looking.
    pub fn clear(&self) -> Result<()> {
        let mut buffer = [0; size_of::<libc::signalfd_siginfo>()];
        while matches!(fd::read(self.0.as_fd(), &mut buffer)?, fd::Read::Bytes(_)) {}
        Ok(())
    }
}

impl AsFd for ChildSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Stops this process as Ctrl-Z would, whatever it does with SIGTSTP; returns when it is continued.
pub fn stop_self() -> Result<()> {
    SysError::from_nix("raise", nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP))
}
