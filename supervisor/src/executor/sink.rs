//! Where a stream of output goes, written to without ever waiting.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::Errno;
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
    /// What could not be opened again: another user's, or `/dev/tty`, which we have not. A write to it waits for room, so none is larger
    /// than the room that there is for certain when it is writable.
    Shared { fd: OwnedFd, portion: usize },
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

/// Room of a writable pipe in bytes: `PIPE_BUF` of Linux.
const ROOM_OF_PIPE: usize = 4096;

/// What a writable terminal takes for certain: its buffers grow by 256 bytes, which count as used with the first byte in them
/// (drivers/tty/tty_buffer.c), so one byte, and what becomes of it on the way, a tab or a line's end.
const ROOM_OF_TERMINAL: usize = 1;

impl Sink {
    /// Takes the target.
    pub(super) fn new(target: OwnedFd) -> Self {
        match fd::identify(target.as_fd()).map(|identity| identity.kind) {
            Ok(Kind::Socket) => Self::Socket(target),
            Ok(Kind::File | Kind::Directory) => Self::File(target),
            Ok(Kind::Pipe) => Self::own_or_shared(target, ROOM_OF_PIPE),
            Ok(Kind::Character) | Err(_) => Self::own_or_shared(target, ROOM_OF_TERMINAL),
        }
    }

    fn own_or_shared(target: OwnedFd, portion: usize) -> Self {
        match fd::reopen_for_writing(target.as_fd()) {
            Ok(own) => Self::Own(own),
            Err(_) => Self::Shared { fd: target, portion },
        }
    }

    /// Hands over what is taken now.
    pub(super) fn write(&self, bytes: &[u8]) -> Taken {
        let written = match self {
            Self::Own(fd) | Self::File(fd) => fd::write(fd.as_fd(), bytes),
            Self::Socket(fd) => fd::send(fd.as_fd(), bytes),
            Self::Shared { fd, portion } => fd::write(fd.as_fd(), &bytes[..bytes.len().min(*portion)]),
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
            Self::Shared { .. } => true,
            Self::Own(_) | Self::Socket(_) | Self::File(_) => false,
        }
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(fd) | Self::Socket(fd) | Self::File(fd) | Self::Shared { fd, .. } => fd.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests;
