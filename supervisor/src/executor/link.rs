//! The socket to whoever the task is run for.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::socket;
use crate::wire::{FromExecutor, ToExecutor};

/// Sends and receives; once the other side is gone, it is quiet.
#[derive(Debug)]
pub(super) struct Link(State);

#[derive(Debug)]
enum State {
    Open(OwnedFd),
    /// The other side is gone; the executor was not told yet.
    Lost,
    Closed,
}

/// What came.
#[derive(Debug)]
pub(super) enum Received {
    /// Something is asked for.
    Request(ToExecutor),
    /// The other side is gone. Said once.
    Gone,
}

impl Link {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self(State::Open(socket))
    }

    /// To wait on; none when nothing can come any more.
    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            State::Open(socket) => Some(socket.as_fd()),
            State::Lost | State::Closed => None,
        }
    }

    /// The next message, if there is one now.
    pub(super) fn receive(&mut self) -> Option<Received> {
        loop {
            let State::Open(socket) = &self.0 else {
                let gone = matches!(self.0, State::Lost).then_some(Received::Gone);
                self.0 = State::Closed;
                return gone;
            };
            match socket::receive(socket.as_fd()) {
                Ok(socket::Received::Message(message)) => match ToExecutor::decode(&message.bytes) {
                    Ok(request) => return Some(Received::Request(request)),
                    Err(error) => tracing::warn!(%error, "a request is not understood, ignoring"),
                },
                Ok(socket::Received::Empty) => return None,
                Ok(socket::Received::Closed) | Err(_) => self.0 = State::Lost,
            }
        }
    }

    /// Tells. Nothing is waited for: who does not listen is told nothing, and a task is never held up by it.
    pub(super) fn send(&mut self, message: &FromExecutor) {
        if let State::Open(socket) = &self.0
            && let Err(error) = socket::send(socket.as_fd(), &message.encode(), &[])
        {
            tracing::warn!(%error, "a message could not be delivered, ignoring");
        }
    }
}
