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

/// Blocks none. A caller that blocks signals hands that on to us, and then no request to end would reach us.
pub fn unblock_all() -> Result<()> {
    SysError::from_nix("sigprocmask", sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None))
}

/// Holds back all signals to this thread while it lives. What came meanwhile is delivered at its end. A process that is started meanwhile
/// begins with all of them blocked: no signal meets it before it is ready for any.
#[derive(Debug)]
pub struct HeldBack(SigSet);

impl HeldBack {
    /// From now on.
    pub fn begin() -> Result<Self> {
        let mut before = SigSet::empty();
        SysError::from_nix(
            "sigprocmask",
            sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before)),
        )?;
        Ok(Self(before))
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        // It can only fail for an unknown way of setting the mask.
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.0), None);
    }
}

/// Gives SIGCHLD its default action. A caller that ignores it hands that on to us, and then the kernel reaps our children itself: nobody
/// would hear of their end, nor how it was.
pub fn hear_of_children() -> Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of ours.
    SysError::from_nix("sigaction", unsafe { sigaction(Signal::SIGCHLD, &default) }).map(drop)
}

/// Makes a write beyond `RLIMIT_FSIZE` an error (`EFBIG`) in this process, in place of its death by SIGXFSZ.
pub fn survive_large_files() -> Result<()> {
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    // SAFETY: to ignore a signal runs no code of ours.
    SysError::from_nix("sigaction", unsafe { sigaction(Signal::SIGXFSZ, &ignore) }).map(drop)
}

/// Gives the signals that ask a program to end or to stop their default action; those that are ignored stay so.
pub fn let_go() {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGTSTP] {
        if !is_ignored(signal as i32) {
            // SAFETY: the default action runs no code of ours. It cannot fail for a signal that can be caught.
            let _ = unsafe { sigaction(signal, &default) };
        }
    }
}

/// Whether this process ignores the signal, as `nohup` asks for with SIGHUP and a shell for jobs in the background with SIGINT.
pub fn is_ignored(number: i32) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call changes nothing, and when it succeeds it has filled in all of `now`.
    unsafe {
        libc::sigaction(number, std::ptr::null(), now.as_mut_ptr()) == 0
            && now.assume_init().sa_sigaction == libc::SIG_IGN
    }
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
    stopping(|| SysError::from_nix("raise", raise(Signal::SIGTSTP)))
}

/// SIGTSTP to our own process group, as the terminal sends it on Ctrl-Z. We stop with the others, in the same call: later, we would miss
/// that somebody has continued them already. Returns as [`stop_self`] does.
pub fn suspend_group() -> Result<()> {
    stopping(|| SysError::from_nix("kill", kill(Pid::from_raw(0), Signal::SIGTSTP)))
}

/// Sends us a SIGTSTP that has its default action.
fn stopping(send: impl FnOnce() -> Result<()>) -> Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of ours.
    let before = unsafe { sigaction(Signal::SIGTSTP, &default) };
    let before = SysError::from_nix("sigaction", before)?;
    let stopped = send();
    // SAFETY: puts back what was installed a moment ago, which is as sound as it was then.
    SysError::from_nix("sigaction", unsafe { sigaction(Signal::SIGTSTP, &before) })?;
    stopped
}
