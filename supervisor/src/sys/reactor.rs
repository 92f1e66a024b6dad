//! Descriptors in tokio's reactor: here because handing one over is `unsafe`.

use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{Result, SysError};

/// Registers a descriptor with the reactor of the current runtime, for reading and writing.
///
/// # Errors
/// `EPERM`: a file of this kind cannot be waited for.
pub fn register(fd: OwnedFd) -> Result<AsyncFd<OwnedFd>> {
    register_for(fd, Interest::READABLE | Interest::WRITABLE)
}

/// Registers it for `interest` alone: what else happens on it wakes nobody.
///
/// # Errors
/// As [`register`].
pub fn register_for(fd: OwnedFd, interest: Interest) -> Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is open and the same descriptor for as long as it lives, and the AsyncFd owns it.
    let registered = unsafe { AsyncFd::register_with_interest(fd, interest) };
    SysError::from_io("epoll_ctl", registered.map_err(Into::into))
}
