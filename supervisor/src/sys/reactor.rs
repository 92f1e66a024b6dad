//! Descriptors in tokio's reactor: here because handing one over is `unsafe`.

use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

use super::{Result, SysError};

/// Registers a descriptor with the reactor of the current runtime.
///
/// # Errors
/// `EPERM`: a file of this kind cannot be waited for.
pub fn register(fd: OwnedFd) -> Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is open and the same descriptor for as long as it lives, and the AsyncFd owns it.
    let registered = unsafe { AsyncFd::register(fd) };
    SysError::from_io("epoll_ctl", registered.map_err(Into::into))
}
