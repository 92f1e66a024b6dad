//! `clone3(2)` used as a fork that is born inside a cgroup.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{Result, SysError};

/// Proof that this process has one thread only, so that a fork of it may go on running Rust code: no other thread can hold the
/// allocator's lock, or any other, in the child for ever.
#[derive(Clone, Copy, Debug)]
pub struct SingleThreaded(());

impl SingleThreaded {
    /// Looks at `/proc/self/task`. None when there is more than one thread or /proc cannot be read.
    pub fn check() -> Option<Self> {
        (std::fs::read_dir("/proc/self/task").ok()?.count() == 1).then_some(Self(()))
    }
}

/// A process that we started and have not reaped: its pid cannot belong to another one yet.
#[derive(Debug)]
pub struct Child {
    /// Its process id in our pid namespace, for messages and for matching what the kernel reports; never to send signals to.
    pub pid: i32,
    /// The race-free handle.
    pub pidfd: OwnedFd,
}

/// Where [`into_cgroup`] returned.
#[derive(Debug)]
pub enum Fork {
    /// In the new process.
    Child,
    /// In the caller.
    Parent(Child),
}

/// Forks this process; the child's first instruction runs inside `cgroup` (`CLONE_INTO_CGROUP | CLONE_PIDFD`, Linux 5.7).
///
/// # Errors
/// `EBUSY`: the cgroup has controllers enabled for its children; `ENOENT`: it was removed; `EOPNOTSUPP`: it is of an invalid domain
/// type; `EAGAIN`: a process limit is reached.
pub fn into_cgroup(_proof: SingleThreaded, cgroup: BorrowedFd<'_>) -> Result<Fork> {
    // SAFETY: the proof says that we are single-threaded, so the child may run any code, like after fork(2).
    match unsafe { clone_into(Some(cgroup)) }? {
        None => Ok(Fork::Child),
        Some(child) => Ok(Fork::Parent(child)),
    }
}

/// `clone3(CLONE_PIDFD)` without shared memory, into this cgroup if one is given (`CLONE_INTO_CGROUP`). None in the child.
///
/// # Safety
/// In a process with several threads the child must do nothing that is not async-signal-safe before it execs or exits.
pub(super) unsafe fn clone_into(cgroup: Option<BorrowedFd<'_>>) -> Result<Option<Child>> {
    let mut pidfd: libc::c_int = -1;
    // SAFETY: clone_args is plain data for which zero means "not used".
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = libc::CLONE_PIDFD as u64;
    args.pidfd = &raw mut pidfd as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: `args` has the size that we say; without CLONE_VM the child gets its own copy of the stack and returns here like fork.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) };
    match pid {
        0 => Ok(None),
        pid if pid > 0 => {
            // SAFETY: with CLONE_PIDFD the kernel stored a new descriptor there, which nobody else owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Some(Child { pid: pid as i32, pidfd }))
        }
        _ => Err(SysError::last("clone3")),
    }
}

/// Not in libc for all targets: include/uapi/linux/sched.h.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
