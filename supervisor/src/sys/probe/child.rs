//! A child that does nothing: to see whether `clone3`, pidfds and cgroups work.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::super::fork::{Child, clone_into};
use super::super::{Result, SysError, pidfd};

/// What the child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Exits with code 0 at once.
    Exit,
    /// Waits until it is killed, or until we are gone.
    Wait,
}

/// How the child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited.
    Exited,
    /// By this signal.
    Signaled(i32),
}

/// A child of ours. When dropped it is ended and reaped.
#[derive(Debug)]
pub struct ProbeChild {
    pid: i32,
    pidfd: OwnedFd,
    /// While the other end is open the child waits. None once it was reaped.
    life: Option<OwnedFd>,
}

impl ProbeChild {
    /// `clone3(CLONE_PIDFD)`, and into this cgroup if one is given (`CLONE_INTO_CGROUP`).
    ///
    /// # Errors
    /// As clone3(2); `ENOSYS`: the kernel is older than 5.3, or a seccomp filter hides the call; `E2BIG`: older than 5.7.
    pub fn spawn(cgroup: Option<BorrowedFd<'_>>, task: Task) -> Result<Self> {
        let (waits, life) = SysError::from_nix("pipe2", nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC))?;
        // SAFETY: the child makes system calls only and ends in _exit, so that locks which other threads hold at this moment do not matter.
        match unsafe { clone_into(cgroup) }? {
            // SAFETY: we are the child.
            None => unsafe { be_child(task, waits.as_raw_fd(), life.as_raw_fd()) },
            Some(Child { pid, pidfd }) => Ok(Self { pid, pidfd, life: Some(life) }),
        }
    }

    /// Its number, for reading /proc while it is not reaped.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// `pidfd_send_signal(2)`; signal 0 only asks.
    ///
    /// # Errors
    /// As pidfd_send_signal(2).
    pub fn signal(&self, signal: i32) -> Result<()> {
        pidfd::send_signal(self.pidfd.as_fd(), signal)
    }

    /// Waits until it has ended, without reaping it.
    ///
    /// # Errors
    /// `ETIMEDOUT`: it lives on.
    pub fn wait_ended(&self, limit: Duration) -> Result<()> {
        wait_ready(self.pidfd.as_fd(), PollFlags::POLLIN, limit)
    }

    /// Waits for its end and reaps it with `waitid(P_PIDFD)` (Linux 5.4).
    ///
    /// # Errors
    /// As waitid(2); `ETIMEDOUT`: it lives on.
    pub fn reap(&mut self, limit: Duration) -> Result<Ended> {
        self.wait_ended(limit)?;
        let status = waitid(Id::PIDFd(self.pidfd.as_fd()), WaitPidFlag::WEXITED);
        let ended = ended(SysError::from_nix("waitid", status)?)?;
        self.life = None;
        Ok(ended)
    }

    /// `PIDFD_GET_INFO` (Linux 6.13): which of the wanted fields the kernel filled.
    ///
    /// # Errors
    /// `ENOTTY`: the kernel does not know it. `ESRCH`: the process is gone, and the kernel keeps nothing.
    pub fn info(&self) -> Result<Info> {
        // include/uapi/linux/pidfd.h: struct pidfd_info of 6.13, 64 bytes; the kernel takes every size from there on.
        #[repr(C)]
        struct PidfdInfo {
            mask: u64,
            rest: [u64; 7],
        }
        let mut info = PidfdInfo { mask: Info::WANTED, rest: [0; 7] };
        let request = nix::request_code_readwrite!(0xff, 11, size_of::<PidfdInfo>());
        // SAFETY: `info` is a valid place for the 64 bytes whose size is a part of the request's number.
        let result = unsafe { libc::ioctl(self.pidfd.as_raw_fd(), request as _, &raw mut info) };
        if result < 0 { Err(SysError::last("ioctl(PIDFD_GET_INFO)")) } else { Ok(Info { mask: info.mask }) }
    }
}

/// The answer to `PIDFD_GET_INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    mask: u64,
}

impl Info {
    const CGROUP_ID: u64 = 1 << 2;
    const EXIT: u64 = 1 << 3;
    const WANTED: u64 = 0b11 | Self::CGROUP_ID | Self::EXIT;

    /// It names the process's cgroup.
    pub fn has_cgroup(self) -> bool {
        self.mask & Self::CGROUP_ID != 0
    }

    /// It holds the exit status (Linux 6.15, after the reaping).
    pub fn has_exit(self) -> bool {
        self.mask & Self::EXIT != 0
    }
}

impl Drop for ProbeChild {
    fn drop(&mut self) {
        if self.life.take().is_none() {
            return;
        }
        // Where signals by pidfd do not work, the end of the pipe that has just been closed ends it. Where waitid does not know pidfds, the
        // number does: it cannot belong to another process before we have reaped this one.
        let _ = self.signal(libc::SIGKILL);
        while let Err(Errno::EINTR) = waitid(Id::Pid(Pid::from_raw(self.pid)), WaitPidFlag::WEXITED) {}
    }
}

/// The child's life: system calls only, never returns.
///
/// # Safety
/// Only in a new process that shares no memory with its parent.
unsafe fn be_child(task: Task, waits: libc::c_int, life: libc::c_int) -> ! {
    match task {
        Task::Exit => {}
        Task::Wait => {
            let mut byte = 0_u8;
            // SAFETY: our copy of the writing end must go, so that the read ends when the parent's goes. Nobody ever writes.
            unsafe {
                libc::close(life);
                libc::read(waits, (&raw mut byte).cast(), 1);
            }
        }
    }
    // SAFETY: ends this process without any exit handlers of the copied image.
    unsafe { libc::_exit(0) }
}

fn ended(status: WaitStatus) -> Result<Ended> {
    match status {
        WaitStatus::Exited(..) => Ok(Ended::Exited),
        WaitStatus::Signaled(_, signal, _) => Ok(Ended::Signaled(signal as i32)),
        _ => Err(SysError::new("waitid", Errno::EIO)),
    }
}

/// Waits until one of these events is there.
pub(super) fn wait_ready(fd: BorrowedFd<'_>, events: PollFlags, limit: Duration) -> Result<()> {
    let timeout = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
    // A signal starts the wait anew: it is only a bound on what should take a moment.
    loop {
        match poll(&mut [PollFd::new(fd, events)], timeout) {
            Ok(0) => return Err(SysError::new("poll", Errno::ETIMEDOUT)),
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(SysError::new("poll", errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn a_child_exits_and_is_reaped() {
        let mut child = ProbeChild::spawn(None, Task::Exit).unwrap();
        assert_eq!(child.reap(LIMIT), Ok(Ended::Exited));
        assert_eq!(child.signal(0).map_err(|error| error.errno), Err(Errno::ESRCH));
    }

    #[test]
    fn a_waiting_child_is_killed_through_its_pidfd() {
        let mut child = ProbeChild::spawn(None, Task::Wait).unwrap();
        let timed_out = child.wait_ended(Duration::from_millis(1)).map_err(|error| error.errno);
        assert_eq!(timed_out, Err(Errno::ETIMEDOUT));
        child.signal(libc::SIGKILL).unwrap();
        assert_eq!(child.reap(LIMIT), Ok(Ended::Signaled(libc::SIGKILL)));
    }

    #[test]
    fn a_dropped_child_is_gone() {
        let child = ProbeChild::spawn(None, Task::Wait).unwrap();
        let pidfd = child.pidfd.try_clone().unwrap();
        drop(child);
        let waited = waitid(Id::PIDFd(pidfd.as_fd()), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG);
        assert_eq!(waited, Err(Errno::ECHILD));
    }
}
