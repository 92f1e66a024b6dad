//! `cgroup.events`: whether anything lives in a group.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::{Errno, SysError, dir};

/// Whether a group, with all below it, holds a living process. A zombie does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Population {
    /// At least one.
    Populated,
    /// None.
    Empty,
    /// The group was removed, which needs that there is none. Its file is ready for ever from now on: do not wait on it.
    Removed,
}

/// An open `cgroup.events`. Wait for [`crate::sys::poll::Interest::Priority`] on it and read again; the kernel announces at most one
/// change in 10 ms, so who is in a hurry reads again earlier.
#[derive(Debug)]
pub struct Events(OwnedFd);

impl Events {
    pub(super) fn new(file: OwnedFd) -> Self {
        Self(file)
    }

    /// Reads the file anew.
    pub fn population(&self) -> Result<Population, SysError> {
        let mut buffer = [0; 256];
        match dir::reread(self.0.as_fd(), &mut buffer) {
            Ok(text) => Ok(if value(text, b"populated") == Some(b"0") {
                Population::Empty
            } else {
                Population::Populated
            }),
            Err(SysError { errno: Errno::ENODEV, .. }) => Ok(Population::Removed),
            Err(error) => Err(error),
        }
    }
}

/// The value of `key` in a flat keyed file (`KEY VALUE` lines).
fn value<'t>(text: &'t [u8], key: &[u8]) -> Option<&'t [u8]> {
    text.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(key)?.strip_prefix(b" "))
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn a_key_is_found_whole() {
        assert_eq!(value(b"populated 0\nfrozen 1\n", b"populated"), Some(&b"0"[..]));
        assert_eq!(value(b"populated 0\nfrozen 1\n", b"frozen"), Some(&b"1"[..]));
        assert_eq!(value(b"populated 0\n", b"pop"), None);
        assert_eq!(value(b"", b"populated"), None);
    }
}
