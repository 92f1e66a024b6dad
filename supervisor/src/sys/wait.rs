//! Reaping (`waitid(2)`). INV-3: each child has exactly one reaper, and a status is taken from exactly the child it is asked of.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;

use super::{Result, SysError};

/// What a look at our children found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    /// This one has ended and waits to be reaped. It is still ours: its number cannot be used again yet.
    Ended(i32),
    /// There are children, none has ended.
    Running,
    /// There are none at all.
    None,
}

/// How a child ended, as `siginfo_t` of `waitid` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By `exit(2)` with this code.
    Exited(u8),
    /// By this signal.
    Signaled(u8),
}

/// Looks for an ended child without reaping it.
pub fn peek() -> Result<Children> {
    match waitid(libc::P_ALL, 0, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) {
        // SAFETY: for waitid the kernel fills si_pid, or leaves it zero when no child has ended.
        Ok(info) => Ok(match unsafe { info.si_pid() } {
            0 => Children::Running,
            pid => Children::Ended(pid),
        }),
        Err(SysError { errno: Errno::ECHILD, .. }) => Ok(Children::None),
        Err(error) => Err(error),
    }
}

/// Reaps the child of this pidfd if it has ended.
///
/// # Errors
/// `ECHILD`: it is not a child of ours, or was reaped.
pub fn reap(pidfd: BorrowedFd<'_>) -> Result<Option<Ended>> {
    let info = waitid(libc::P_PIDFD, pidfd.as_raw_fd() as libc::id_t, libc::WEXITED | libc::WNOHANG)?;
    // SAFETY: see `peek`.
    Ok(if unsafe { info.si_pid() } == 0 { None } else { Some(ended(&info)) })
}

/// Reaps this child, which [`peek`] has just shown to have ended: the number is safe because only we can free it.
pub fn reap_ended(pid: i32) -> Result<Ended> {
    waitid(libc::P_PID, pid as libc::id_t, libc::WEXITED).map(|info| ended(&info))
}

fn ended(info: &libc::siginfo_t) -> Ended {
    // SAFETY: waitid returned a child, so si_status is filled.
    let status = unsafe { info.si_status() };
    match info.si_code {
        libc::CLD_EXITED => Ended::Exited(status as u8),
        _ => Ended::Signaled(status as u8),
    }
}

fn waitid(kind: libc::idtype_t, id: libc::id_t, flags: i32) -> Result<libc::siginfo_t> {
    loop {
        // SAFETY: siginfo_t is plain data; zero is a valid value of it.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is a valid place for one siginfo_t.
        if unsafe { libc::waitid(kind, id, &mut info, flags) } == 0 {
            return Ok(info);
        }
        match SysError::last("waitid") {
            SysError { errno: Errno::EINTR, .. } => {}
            error => return Err(error),
        }
    }
}
