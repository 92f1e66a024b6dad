//! Files below a directory descriptor. Names are single path components that we chose or read from the directory itself.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::{Result, SysError, fd};

/// Opens a directory by path.
pub fn open(path: &Path) -> Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    SysError::from_nix("open", nix::fcntl::open(path, flags, Mode::empty()))
}

/// Opens the directory `name` below `dir`; a symbolic link there is refused.
pub fn open_at(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    SysError::from_nix("openat", openat(dir, name, flags, Mode::empty()))
}

/// `mkdirat(2)` with mode 0755.
pub fn make_at(dir: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    SysError::from_nix("mkdirat", mkdirat(dir, name, Mode::from_bits_truncate(0o755)))
}

/// `unlinkat(2)` of an empty directory.
pub fn remove_at(dir: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    SysError::from_nix("unlinkat", unlinkat(dir, name, UnlinkatFlags::RemoveDir))
}

/// Names of the directories directly below `dir`.
pub fn directories(dir: BorrowedFd<'_>) -> Result<Vec<CString>> {
    // A descriptor of its own: reading a directory moves the offset, which a duplicate would share.
    let own = openat(dir, c".", OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty());
    let mut listing = SysError::from_nix("fdopendir", own.and_then(Dir::from_fd))?;
    let mut names = Vec::new();
    for entry in listing.iter() {
        let entry = SysError::from_nix("readdir", entry)?;
        if entry.file_type() == Some(nix::dir::Type::Directory)
            && !matches!(entry.file_name().to_bytes(), b"." | b"..")
        {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// Opens the file `name` below `dir` for reading.
pub fn open_file_at(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    SysError::from_nix("openat", openat(dir, name, flags, Mode::empty()))
}

/// Writes `text` in one `write(2)` to the existing file `name` below `dir`, as kernel interface files want it.
pub fn write_at(dir: BorrowedFd<'_>, name: &CStr, text: &[u8]) -> Result<()> {
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let file = SysError::from_nix("openat", openat(dir, name, flags, Mode::empty()))?;
    match nix::unistd::write(file.as_fd(), text) {
        Ok(n) if n == text.len() => Ok(()),
        Ok(_) => Err(SysError::new("write", Errno::EIO)),
        Err(errno) => Err(SysError::new("write", errno)),
    }
}

/// Reads the file `name` below `dir`, at most `limit` bytes of it.
pub fn read_at(dir: BorrowedFd<'_>, name: &CStr, limit: usize) -> Result<Vec<u8>> {
    let file = open_file_at(dir, name)?;
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    while text.len() < limit {
        match fd::read(file.as_fd(), &mut chunk)? {
            fd::Read::Bytes(n) => text.extend_from_slice(&chunk[..n]),
            fd::Read::Empty | fd::Read::End => break,
        }
    }
    text.truncate(limit);
    Ok(text)
}

/// Reads an open interface file from its beginning into `buffer`, in one call: what fits of it.
pub fn reread<'b>(file: BorrowedFd<'_>, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
    loop {
        match nix::sys::uio::pread(file, buffer, 0) {
            Ok(n) => return Ok(&buffer[..n]),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(SysError::new("pread", errno)),
        }
    }
}
