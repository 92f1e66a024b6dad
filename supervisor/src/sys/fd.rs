//! Reading, writing and making descriptors. All are close-on-exec.

use std::ffi::CString;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};

use super::{Result, SysError};

/// What a read of a non-blocking descriptor gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// So many bytes, at least one.
    Bytes(usize),
    /// Nothing now.
    Empty,
    /// End of file, or for a terminal: the other side was closed (`EIO`).
    End,
}

/// What a write to a non-blocking descriptor did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// So many bytes were taken, at least one.
    Bytes(usize),
    /// No room now.
    Full,
    /// Nobody will ever read it (`EPIPE` or the like).
    Closed(Errno),
}

/// What kind of file a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A pipe or FIFO.
    Pipe,
    /// A character device: a terminal, /dev/null.
    Character,
    /// A socket.
    Socket,
    /// A directory.
    Directory,
    /// Anything else; a write to it is done when it returns.
    File,
}

/// Which file it is: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// From `st_mode`.
    pub kind: Kind,
}

/// `read(2)`.
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Read> {
    loop {
        return match nix::unistd::read(fd, buffer) {
            Ok(0) | Err(Errno::EIO) => Ok(Read::End),
            Ok(n) => Ok(Read::Bytes(n)),
            Err(Errno::EAGAIN) => Ok(Read::Empty),
            Err(Errno::EINTR) => continue,
            Err(errno) => Err(SysError::new("read", errno)),
        };
    }
}

/// `write(2)`. Errors that mean "this descriptor will take nothing any more" are [`Write::Closed`].
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> Write {
    written(|| nix::unistd::write(fd, bytes))
}

/// `send(2)` that neither waits nor raises SIGPIPE, for sockets whose file description is shared and must keep its own flags.
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> Write {
    use nix::sys::socket::{MsgFlags, sendmsg};
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    written(|| sendmsg::<()>(fd.as_raw_fd(), &[IoSlice::new(bytes)], &[], flags, None))
}

fn written(mut call: impl FnMut() -> nix::Result<usize>) -> Write {
    loop {
        return match call() {
            Ok(0) => Write::Full,
            Ok(n) => Write::Bytes(n),
            Err(Errno::EAGAIN) => Write::Full,
            Err(Errno::EINTR) => continue,
            Err(errno) => Write::Closed(errno),
        };
    }
}

/// `pipe2(2)`: read end, write end.
pub fn pipe(flags: PipeFlags) -> Result<(OwnedFd, OwnedFd)> {
    let flags = match flags {
        PipeFlags::Blocking => OFlag::O_CLOEXEC,
        PipeFlags::ReadNonBlocking => OFlag::O_CLOEXEC | OFlag::O_NONBLOCK,
    };
    let (read, write) = SysError::from_nix("pipe2", nix::unistd::pipe2(flags))?;
    // The write end goes to programs that do not expect EAGAIN: the two ends are two file descriptions with flags of their own.
    SysError::from_nix("fcntl", fcntl(&write, FcntlArg::F_SETFL(OFlag::empty())))?;
    Ok((read, write))
}

/// How the read end of a [`pipe`] behaves; its write end always blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeFlags {
    /// A read waits.
    Blocking,
    /// A read of an empty pipe gives [`Read::Empty`].
    ReadNonBlocking,
}

/// `FIONREAD`: how many bytes wait to be read; 0 where that cannot be told.
pub fn available(fd: BorrowedFd<'_>) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD stores one int there.
    if unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &mut bytes) } < 0 {
        0
    } else {
        bytes.max(0) as u64
    }
}

/// `F_SETPIPE_SZ`: asks for so many bytes of room. The kernel may refuse (limits of the user); the pipe keeps its size then.
pub fn set_pipe_size(fd: BorrowedFd<'_>, bytes: i32) -> Result<()> {
    SysError::from_nix("fcntl(F_SETPIPE_SZ)", fcntl(fd, FcntlArg::F_SETPIPE_SZ(bytes))).map(drop)
}

/// Makes reads and writes of this open file not wait. It changes the file description: never do it to one that others share.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<()> {
    let flags = SysError::from_nix("fcntl(F_GETFL)", fcntl(fd, FcntlArg::F_GETFL))?;
    let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
    SysError::from_nix("fcntl(F_SETFL)", fcntl(fd, FcntlArg::F_SETFL(flags))).map(drop)
}

/// Opens the file behind `fd` once more for writing without waiting: a file description of our own, whose flags nobody shares.
///
/// # Errors
/// `ENXIO` for a socket, a FIFO without a reader (a pipe without a name opens all the same) or the master side of a terminal, whose file
/// makes a new terminal each time it is opened; `EACCES`; `ENOENT` without /proc.
pub fn reopen_for_writing(fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    if is_master(fd) {
        return Err(SysError::new("open", Errno::ENXIO));
    }
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY | OFlag::O_APPEND;
    SysError::from_nix("open", nix::fcntl::open(path.as_str(), flags, Mode::empty()))
}

/// Whether it is the master side of a pseudo-terminal: `TIOCGPTN` names the slave.
fn is_master(fd: BorrowedFd<'_>) -> bool {
    let mut number: libc::c_uint = 0;
    // SAFETY: TIOCGPTN stores one unsigned int there.
    unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGPTN, &raw mut number) == 0 }
}

/// `/dev/null`, for reading and writing.
pub fn null() -> Result<OwnedFd> {
    SysError::from_nix("open", nix::fcntl::open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty()))
}

/// A second descriptor for the same file description, numbered 3 or higher so that it is never taken for stdio.
pub fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    let fd = SysError::from_nix("fcntl(F_DUPFD_CLOEXEC)", fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(3)))?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes over a descriptor that was handed to this process by number, once, before anything else opened one.
///
/// # Errors
/// `EBADF`: it is not open.
pub fn take_inherited(number: i32) -> Result<OwnedFd> {
    // SAFETY: the borrow is for this one call, which fails with EBADF when the number is not open.
    let flags =
        fcntl(unsafe { BorrowedFd::borrow_raw(number) }, FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC));
    SysError::from_nix("fcntl(F_SETFD)", flags)?;
    // SAFETY: it is open, and by the protocol between our processes it was passed to us to own; the caller calls this once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// `close_range(2)`: closes every descriptor from `first` on that we inherited by accident. Only at the start of a process, before it
/// owns any.
pub fn close_inherited(first: u32) -> Result<()> {
    // SAFETY: at the start of the process no Rust object owns a descriptor of this range.
    if unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) } < 0 {
        return Err(SysError::last("close_range"));
    }
    Ok(())
}

/// Which file is behind a descriptor.
pub fn identify(fd: BorrowedFd<'_>) -> Result<Identity> {
    let stat: FileStat = SysError::from_nix("fstat", fstat(fd))?;
    let kind = match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFIFO => Kind::Pipe,
        SFlag::S_IFCHR => Kind::Character,
        SFlag::S_IFSOCK => Kind::Socket,
        SFlag::S_IFDIR => Kind::Directory,
        _ => Kind::File,
    };
    Ok(Identity { device: stat.st_dev, inode: stat.st_ino, kind })
}

/// `fchown(2)`.
pub fn give_to(fd: BorrowedFd<'_>, uid: u32, gid: u32) -> Result<()> {
    let result = nix::unistd::fchown(fd, Some(uid.into()), Some(gid.into()));
    SysError::from_nix("fchown", result)
}

/// A sealed memory file with these bytes: who receives it can read it at leisure and be sure that it does not change.
pub fn sealed(name: &str, bytes: &[u8]) -> Result<OwnedFd> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    let name = CString::new(name).map_err(|_| SysError::new("memfd_create", Errno::EINVAL))?;
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let fd = SysError::from_nix("memfd_create", memfd_create(name.as_c_str(), flags))?;
    let mut rest = bytes;
    while !rest.is_empty() {
        match write(fd.as_fd(), rest) {
            Write::Bytes(n) => rest = &rest[n..],
            Write::Full => return Err(SysError::new("write", Errno::ENOSPC)),
            Write::Closed(errno) => return Err(SysError::new("write", errno)),
        }
    }
    let seals =
        SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    SysError::from_nix("fcntl(F_ADD_SEALS)", fcntl(&fd, FcntlArg::F_ADD_SEALS(seals)))?;
    Ok(fd)
}

/// Reads a whole [`sealed`] file from its beginning, wherever its offset is.
///
/// # Errors
/// `EFBIG`: it is larger than `limit`, which is checked before any memory is taken (INV-8). `EPERM`: it is not sealed.
pub fn read_sealed(fd: BorrowedFd<'_>, limit: usize) -> Result<Vec<u8>> {
    let seals = SysError::from_nix("fcntl(F_GET_SEALS)", fcntl(fd, FcntlArg::F_GET_SEALS))?;
    if !SealFlag::from_bits_truncate(seals).contains(SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SHRINK) {
        return Err(SysError::new("fcntl(F_GET_SEALS)", Errno::EPERM));
    }
    let size = usize::try_from(SysError::from_nix("fstat", fstat(fd))?.st_size).unwrap_or(usize::MAX);
    if size > limit {
        return Err(SysError::new("read", Errno::EFBIG));
    }
    let mut bytes = vec![0; size];
    let mut done = 0;
    while done < size {
        match nix::sys::uio::pread(fd, &mut bytes[done..], done as libc::off_t) {
            Ok(0) => return Err(SysError::new("pread", Errno::EIO)),
            Ok(n) => done += n,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(SysError::new("pread", errno)),
        }
    }
    Ok(bytes)
}

/// Whether two descriptors are one place where the order of what is written to them can be seen: the same file, pipe, socket or terminal.
pub fn same_place(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    match (identify(one), identify(other)) {
        (Ok(one), Ok(other)) => one == other && one.kind != Kind::Directory,
        (Err(_), _) | (_, Err(_)) => false,
    }
}
