//! A call that the kernel refused.

use nix::errno::Errno;

/// Which call failed and how. Says nothing about the object: the caller knows it and adds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {errno}")]
pub struct SysError {
    /// The call as `man 2` names it.
    pub call: &'static str,
    /// What the kernel said.
    pub errno: Errno,
}

/// Result of a wrapper in [`crate::sys`].
pub type Result<T> = std::result::Result<T, SysError>;

impl SysError {
    /// The error of `call` with this errno.
    pub const fn new(call: &'static str, errno: Errno) -> Self {
        Self { call, errno }
    }

    /// The error of the `call` that has just failed, from the thread's errno.
    pub fn last(call: &'static str) -> Self {
        Self { call, errno: Errno::last() }
    }

    /// Turns the result of a nix call into ours.
    pub fn from_nix<T>(call: &'static str, result: nix::Result<T>) -> Result<T> {
        result.map_err(|errno| Self { call, errno })
    }

    /// Turns the result of a std I/O call into ours; an error without an errno becomes `EIO`.
    pub fn from_io<T>(call: &'static str, result: std::io::Result<T>) -> Result<T> {
        result
            .map_err(|error| Self { call, errno: Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)) })
    }
}
