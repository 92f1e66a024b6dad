//! `ppoll(2)` with a deadline in nanoseconds.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;

use super::{Result, SysError};

/// What to wait for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Readable.
    Read,
    /// Writable.
    Write,
    /// An exceptional condition: for `cgroup.events` that the file changed since it was last read.
    Priority,
}

/// A fixed set of descriptors to wait for, built anew for each wait, so that nothing stale can be in it.
#[derive(Debug)]
pub struct Poll<'fd, const N: usize> {
    entries: [libc::pollfd; N],
    used: usize,
    fds: std::marker::PhantomData<BorrowedFd<'fd>>,
}

/// Names an entry of a [`Poll`].
#[derive(Clone, Copy, Debug)]
pub struct Slot(usize);

impl<'fd, const N: usize> Poll<'fd, N> {
    /// An empty set with room for `N`.
    pub fn new() -> Self {
        Self {
            entries: [libc::pollfd { fd: -1, events: 0, revents: 0 }; N],
            used: 0,
            fds: std::marker::PhantomData,
        }
    }

    /// Adds a descriptor. Errors and hang-ups of it end the wait too.
    ///
    /// # Panics
    /// When more than `N` are added: the caller's fault.
    pub fn add(&mut self, fd: BorrowedFd<'fd>, interest: Interest) -> Slot {
        let events = match interest {
            Interest::Read => libc::POLLIN,
            Interest::Write => libc::POLLOUT,
            Interest::Priority => libc::POLLPRI,
        };
        self.entries[self.used] = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
        self.used += 1;
        Slot(self.used - 1)
    }

    /// Waits until something is ready or the time is over; without a timeout for ever.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        let time = timeout.map(|t| libc::timespec {
            tv_sec: t.as_secs().min(i32::MAX as u64) as libc::time_t,
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        let time = time.as_ref().map_or(std::ptr::null(), |t| t as *const libc::timespec);
        // SAFETY: the first `used` entries are valid, their descriptors are borrowed for 'fd; a null mask changes no mask.
        let n = unsafe {
            libc::ppoll(self.entries.as_mut_ptr(), self.used as libc::nfds_t, time, std::ptr::null())
        };
        if n >= 0 {
            return Ok(());
        }
        match SysError::last("ppoll") {
            SysError { errno: Errno::EINTR, .. } => Ok(()),
            error => Err(error),
        }
    }

    /// Anything at all happened on this entry.
    pub fn ready(&self, slot: Slot) -> bool {
        self.entries[slot.0].revents != 0
    }

    /// The other side is gone: hang-up or error, whatever was asked for.
    pub fn gone(&self, slot: Slot) -> bool {
        self.entries[slot.0].revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0
    }
}

impl<const N: usize> Default for Poll<'_, N> {
    fn default() -> Self {
        Self::new()
    }
}
