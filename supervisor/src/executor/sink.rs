//! Where a stream of output goes, written to without ever waiting.

use crate::sys::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::fd::{self, Kind, Write};

/// The target of a stream. The file description that we were given is shared with others, the caller's shell among them, so its flags
/// are not ours to change.
#[derive(Debug)]
pub(super) enum Sink {
    /// Opened once more, with flags of our own: pipes, FIFOs, terminals.
    Own(OwnedFd),
    /// A socket: not waiting is asked for with each call.
    Socket(OwnedFd),
    /// A file: a write is done when it returns.
    File(OwnedFd),
    /// What could not be opened again. Writable means room for `PIPE_BUF` bytes, so no more than that is written at once.
    Shared(OwnedFd),
}

/// What came of handing bytes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// So many were taken.
    Bytes(usize),
    /// None now; wait until it is writable.
    Full,
    /// The reader is gone.
    Closed,
    /// These bytes are lost, later ones may not be: a full disk, say.
    Lost,
}

/// `PIPE_BUF` of Linux.
const ATOMIC: usize = 4096;

impl Sink {
    /// Takes the target.
    pub(super) fn new(target: OwnedFd) -> Self {
        match fd::identify(target.as_fd()).map(|identity| identity.kind) {
            Ok(Kind::Socket) => Self::Socket(target),
            Ok(Kind::File | Kind::Directory) => Self::File(target),
            Ok(Kind::Pipe | Kind::Character) | Err(_) => match fd::reopen_for_writing(target.as_fd()) {
                Ok(own) => Self::Own(own),
                Err(_) => Self::Shared(target),
            },
        }
    }

    /// Hands over what is taken now.
    pub(super) fn write(&self, bytes: &[u8]) -> Taken {
        let written = match self {
            Self::Own(fd) | Self::File(fd) => fd::write(fd.as_fd(), bytes),
            Self::Socket(fd) => fd::send(fd.as_fd(), bytes),
            Self::Shared(fd) => fd::write(fd.as_fd(), &bytes[..bytes.len().min(ATOMIC)]),
        };
        match written {
            Write::Bytes(n) => Taken::Bytes(n),
            Write::Full => Taken::Full,
            Write::Closed(Errno::EPIPE | Errno::ECONNRESET | Errno::ENOTCONN | Errno::EBADF) => Taken::Closed,
            Write::Closed(_) => Taken::Lost,
        }
    }

    /// Whether it must be known to be writable before each write.
    pub(super) fn waits_before_write(&self) -> bool {
        match self {
            Self::Shared(_) => true,
            Self::Own(_) | Self::Socket(_) | Self::File(_) => false,
        }
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(fd) | Self::Socket(fd) | Self::File(fd) | Self::Shared(fd) => fd.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests;
