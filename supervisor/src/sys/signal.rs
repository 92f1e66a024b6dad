//! Signals to ourselves, read as data.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, kill, raise, sigaction, sigprocmask,
};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

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
        set.add(Signal::SIGCHLD);
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

/// Stops this process as Ctrl-Z stops one that does nothing with SIGTSTP; returns when it is continued, or at once where the kernel
/// does not stop for it because nobody could continue it (an orphaned process group, `setpgid(2)`).
pub fn stop_self() -> Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of ours.
    let before = unsafe { sigaction(Signal::SIGTSTP, &default) };
    let before = SysError::from_nix("sigaction", before)?;
    let stopped = SysError::from_nix("raise", raise(Signal::SIGTSTP));
    // SAFETY: puts back what was installed a moment ago, which is as sound as it was then.
    SysError::from_nix("sigaction", unsafe { sigaction(Signal::SIGTSTP, &before) })?;
    stopped
}

/// SIGTSTP to our own process group, us included: what the terminal does on Ctrl-Z.
pub fn suspend_group() -> Result<()> {
    SysError::from_nix("kill", kill(Pid::from_raw(0), Signal::SIGTSTP))
}
