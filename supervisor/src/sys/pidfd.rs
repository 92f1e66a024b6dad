//! Processes by handle (`pidfd_open(2)`, `pidfd_send_signal(2)`): a signal through a pidfd can never reach another process that got
//! the same number. INV-2.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{Result, SysError};

/// `pidfd_open(2)`: a handle for the process that has this number now. Check afterwards that it is the one you mean.
///
/// # Errors
/// `ESRCH`: there is none. `EINVAL`/`ENOENT`: the number is a thread's.
pub fn open(pid: i32) -> Result<OwnedFd> {
    // SAFETY: takes two integers and gives a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(SysError::last("pidfd_open"));
    }
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// `pidfd_send_signal(2)` to the whole process.
///
/// # Errors
/// `ESRCH`: it has ended. `EPERM`: not ours to signal.
pub fn send_signal(pidfd: BorrowedFd<'_>, signal: i32) -> Result<()> {
    // SAFETY: a null siginfo means "as kill(2) would"; the descriptor is borrowed for the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if result < 0 { Err(SysError::last("pidfd_send_signal")) } else { Ok(()) }
}
