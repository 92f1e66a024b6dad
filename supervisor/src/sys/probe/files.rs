//! The few file operations of the probes, below a directory descriptor.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::poll::PollFlags;
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::super::{Result, SysError};

/// `mkdirat(2)`, mode 0755.
///
/// # Errors
/// As mkdirat(2).
pub fn make_directory(dir: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    SysError::from_nix("mkdirat", mkdirat(dir, name, Mode::from_bits_truncate(0o755)))
}

/// `unlinkat(AT_REMOVEDIR)`.
///
/// # Errors
/// As unlinkat(2); `EBUSY`: a cgroup that is not empty yet.
pub fn remove_directory(dir: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    SysError::from_nix("unlinkat", unlinkat(dir, name, UnlinkatFlags::RemoveDir))
}

/// Opens an existing file for reading.
///
/// # Errors
/// As openat(2).
pub fn open_to_read(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    SysError::from_nix("openat", openat(dir, name, flags, Mode::empty()))
}

/// Opens an existing file for writing. Writes nothing.
///
/// # Errors
/// As openat(2).
pub fn open_to_write(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    SysError::from_nix("openat", openat(dir, name, flags, Mode::empty()))
}

/// One `write(2)`, as interface files want it.
///
/// # Errors
/// As write(2).
pub fn write_word(file: BorrowedFd<'_>, word: &[u8]) -> Result<()> {
    SysError::from_nix("write", nix::unistd::write(file, word)).map(|_written| ())
}

/// The beginning of an interface file, read anew: at most one page, which is more than any that we ask for has.
///
/// # Errors
/// As pread(2).
pub fn read_again(file: BorrowedFd<'_>) -> Result<Vec<u8>> {
    let mut text = vec![0; 4096];
    loop {
        match nix::sys::uio::pread(file, &mut text, 0) {
            Ok(length) => {
                text.truncate(length);
                return Ok(text);
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(SysError::new("pread", errno)),
        }
    }
}

/// Waits until the kernel tells that an interface file changed since it was last read (`POLLPRI`).
///
/// # Errors
/// `ETIMEDOUT`: it did not.
pub fn wait_for_change(file: BorrowedFd<'_>, limit: Duration) -> Result<()> {
    super::child::wait_ready(file.as_fd(), PollFlags::POLLPRI, limit)
}
