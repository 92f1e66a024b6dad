//! One of our message sockets, in the asynchronous world.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::unix::AsyncFd;

use crate::sys::socket::{self, Message, Received};
use crate::sys::{Errno, Result, SysError, reactor};

/// Sends at once, receives when something comes.
#[derive(Debug)]
pub(super) struct Channel(AsyncFd<OwnedFd>);

impl Channel {
    /// Needs the runtime that will wait on it.
    pub(super) fn new(socket: OwnedFd) -> Result<Self> {
        reactor::register(socket).map(Self)
    }

    pub(super) fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        socket::send(self.0.get_ref().as_fd(), bytes, fds)
    }

    /// The next message; None when the other side is gone. Can be cancelled without losing one.
    pub(super) async fn receive(&self) -> Result<Option<Message>> {
        loop {
            let mut ready = SysError::from_io("epoll_wait", self.0.readable().await)?;
            match socket::receive(self.0.get_ref().as_fd()) {
                Ok(Received::Message(message)) => return Ok(Some(message)),
                Ok(Received::Closed) => return Ok(None),
                Ok(Received::Empty) => ready.clear_ready(),
                // A message that was too long: not of ours.
                Err(SysError { errno: Errno::EMSGSIZE, .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
