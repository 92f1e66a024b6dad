//! A private cgroup that is gone afterwards. Only SIGKILL in the few milliseconds of a trial can leave its empty directories; never a
//! process, as our children end with us.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::cgroup::parse;
use crate::sys::mount::open_place_below;
use crate::sys::probe::{make_directory, open_to_read, read_again, remove_directory, wait_for_change};
use crate::sys::{Result, SysError};

/// How long a cgroup may take to become empty after its last process was reaped.
const EMPTY_LIMIT: Duration = Duration::from_secs(5);
/// The kernel announces changes; this bounds the damage if it ever does not.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Names that are tried while others are taken.
const NAMES: u32 = 16;

/// A cgroup of ours. When dropped it is removed as soon as it is empty.
#[derive(Debug)]
pub(super) struct Scratch {
    parent: OwnedFd,
    name: CString,
    dir: OwnedFd,
    events: OwnedFd,
    stage: Stage,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    There,
    Removed,
}

impl Scratch {
    /// Makes a cgroup below `parent` whose name begins with `base`.
    pub(super) fn make(parent: BorrowedFd<'_>, base: &str) -> Result<Self> {
        let parent = SysError::from_io("dup", parent.try_clone_to_owned())?;
        for attempt in 0..NAMES {
            let text = if attempt == 0 { base.to_owned() } else { format!("{base}.{attempt}") };
            let name = CString::new(text).map_err(|_| SysError::new("mkdirat", Errno::EINVAL))?;
            match make_directory(parent.as_fd(), &name) {
                Ok(()) => return Self::open(parent, name),
                // Left by one that was killed while it was there, or made by one in another pid namespace.
                Err(SysError { errno: Errno::EEXIST, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(SysError::new("mkdirat", Errno::EEXIST))
    }

    fn open(parent: OwnedFd, name: CString) -> Result<Self> {
        let opened = open_place_below(parent.as_fd(), Path::new(&*name.to_string_lossy()))
            .and_then(|dir| open_to_read(dir.as_fd(), c"cgroup.events").map(|events| (dir, events)));
        match opened {
            Ok((dir, events)) => Ok(Self { parent, name, dir, events, stage: Stage::There }),
            Err(error) => {
                // Nothing was put into it yet.
                let _ = remove_directory(parent.as_fd(), &name);
                Err(error)
            }
        }
    }

    /// Its directory.
    pub(super) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Its name in its parent.
    pub(super) fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// `cgroup.events`, read anew.
    pub(super) fn events(&self) -> Result<parse::Events> {
        let text = read_again(self.events.as_fd())?;
        parse::events(&text).map_err(|_| SysError::new("read of cgroup.events", Errno::EIO))
    }

    /// Waits until `cgroup.events` is as wanted.
    pub(super) fn wait_until(&self, wanted: impl Fn(parse::Events) -> bool, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !wanted(self.events()?) {
            self.wait_change(deadline)?;
        }
        Ok(())
    }

    /// Removes it once it is empty.
    pub(super) fn remove(mut self) -> Result<()> {
        self.remove_once()
    }

    fn remove_once(&mut self) -> Result<()> {
        if self.stage == Stage::Removed {
            return Ok(());
        }
        self.stage = Stage::Removed;
        let deadline = Instant::now() + EMPTY_LIMIT;
        loop {
            match remove_directory(self.parent.as_fd(), &self.name) {
                Ok(()) | Err(SysError { errno: Errno::ENOENT, .. }) => return Ok(()),
                // A process that was reaped may still be on its way out of the cgroup.
                Err(SysError { errno: Errno::EBUSY, .. }) if Instant::now() < deadline => {
                    self.events()?;
                    self.wait_change(deadline)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn wait_change(&self, deadline: Instant) -> Result<()> {
        match wait_for_change(self.events.as_fd(), LOOK_AGAIN) {
            Err(error) if error.errno == Errno::ETIMEDOUT && Instant::now() < deadline => Ok(()),
            other => other,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Who wants to know calls `remove`.
        let _ = self.remove_once();
    }
}
