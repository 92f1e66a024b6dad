//! Message sockets between our own processes: `SOCK_SEQPACKET` over `AF_UNIX`, with descriptors.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, recvmsg,
    sendmsg, socketpair,
};

use super::{Result, SysError};

/// The longest message, in bytes. Whatever may be longer travels in a sealed memory file beside it.
pub const MESSAGE_MAX: usize = 8192;

/// The most descriptors with one message.
pub const DESCRIPTORS_MAX: usize = 8;

/// One received message.
#[derive(Debug)]
pub struct Message {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The descriptors that came with it, close-on-exec.
    pub fds: Vec<OwnedFd>,
}

/// What a receive gave.
#[derive(Debug)]
pub enum Received {
    /// A message.
    Message(Message),
    /// Nothing now.
    Empty,
    /// The other side is gone.
    Closed,
}

/// Two connected ends.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    SysError::from_nix("socketpair", socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags))
}

/// Sends one message without waiting.
///
/// # Errors
/// `EAGAIN`: the other side does not read. `EPIPE`: it is gone. `EMSGSIZE`: more than [`MESSAGE_MAX`].
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
    if bytes.len() > MESSAGE_MAX || fds.len() > DESCRIPTORS_MAX {
        return Err(SysError::new("sendmsg", Errno::EMSGSIZE));
    }
    let raw: Vec<RawFd> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control = if raw.is_empty() { &rights[..0] } else { &rights[..] };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    loop {
        match sendmsg::<UnixAddr>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, flags, None) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(SysError::new("sendmsg", errno)),
        }
    }
}

/// Receives one message without waiting.
///
/// # Errors
/// `EMSGSIZE`: it was longer than allowed; it is dropped and its descriptors are closed.
pub fn receive(socket: BorrowedFd<'_>) -> Result<Received> {
    let mut buffer = [0; MESSAGE_MAX];
    let mut control = cmsg_space!([RawFd; DESCRIPTORS_MAX]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let (length, fds, truncated) = {
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let message = loop {
            match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags) {
                Ok(message) => break message,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(Received::Empty),
                Err(Errno::ECONNRESET) => return Ok(Received::Closed),
                Err(errno) => return Err(SysError::new("recvmsg", errno)),
            }
        };
        let mut fds = Vec::new();
        for part in SysError::from_nix("recvmsg", message.cmsgs())? {
            if let ControlMessageOwned::ScmRights(raw) = part {
                // SAFETY: the kernel has just put these descriptors into our table for this message; nobody else knows them.
                fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        (message.bytes, fds, message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC))
    };
    if truncated {
        return Err(SysError::new("recvmsg", Errno::EMSGSIZE));
    }
    // Our messages are never empty, so nothing means that the peer has closed.
    if length == 0 {
        return Ok(Received::Closed);
    }
    Ok(Received::Message(Message { bytes: buffer[..length].to_vec(), fds }))
}
