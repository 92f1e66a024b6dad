//! A cgroup by its directory's descriptor.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{CgroupId, Events, walk};
use crate::sys::{self, Errno, SysError, dir};

/// The most bytes of one `cgroup.procs` that we read: some 500,000 processes.
const PROCS_MAX: usize = 4 << 20;

/// A cgroup directory that we hold open. Its id is fixed; after somebody removed the directory every operation says `ENOENT` or `ENODEV`.
#[derive(Debug)]
pub struct Cgroup {
    dir: OwnedFd,
    id: CgroupId,
    path: String,
}

/// Lists the processes of one group, anew each time.
pub type Lister<'l> = &'l dyn Fn() -> Vec<i32>;

/// An operation on a cgroup that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {action} cgroup `{path}`{}", advice(.source))]
pub struct CgroupError {
    /// What we were about to do.
    pub action: &'static str,
    /// The cgroup, relative to the mount where that is known.
    pub path: String,
    /// The kernel's answer.
    #[source]
    pub source: SysError,
}

fn advice(error: &SysError) -> &'static str {
    match error.errno {
        Errno::EACCES | Errno::EPERM => ": run as root, or in a cgroup that is delegated to you",
        Errno::EROFS => ": cgroup2 is mounted read-only here; remount it or run outside this container",
        Errno::EAGAIN => ": cgroup.max.descendants or cgroup.max.depth of an ancestor is reached",
        Errno::ENOSPC => {
            ": the kernel has no room for another cgroup; look at nr_dying_descendants in cgroup.stat"
        }
        Errno::ENOENT | Errno::ENODEV => ": it was removed by somebody else",
        Errno::EBUSY => ": it still has processes or child groups",
        _ => "",
    }
}

impl Cgroup {
    /// Takes an open cgroup directory; `path` is for messages.
    pub fn from_dir(dir: OwnedFd, path: impl Into<String>) -> Result<Self, CgroupError> {
        let path = path.into();
        let fail = |source| CgroupError { action: "identify", path: path.clone(), source };
        let inode = sys::fd::identify(dir.as_fd()).map_err(fail)?.inode;
        let id = CgroupId::new(inode).ok_or_else(|| fail(SysError::new("fstat", Errno::EIO)))?;
        Ok(Self { dir, id, path })
    }

    /// Makes the child group `name` and opens it.
    ///
    /// # Errors
    /// `EEXIST` when it is there already: nothing is shared by accident.
    pub fn create(&self, name: &CStr) -> Result<Self, CgroupError> {
        let path = self.child_path(name);
        dir::make_at(self.dir.as_fd(), name).map_err(|source| CgroupError {
            action: "make",
            path,
            source,
        })?;
        let opened = self.open_child(name);
        if opened.is_err() {
            // Ours, new and empty: nobody would remove it. The first error is the one to tell.
            let _ = dir::remove_at(self.dir.as_fd(), name);
        }
        opened
    }

    /// Opens the child group `name`.
    pub fn open_child(&self, name: &CStr) -> Result<Self, CgroupError> {
        let path = self.child_path(name);
        match dir::open_at(self.dir.as_fd(), name) {
            Ok(dir) => Self::from_dir(dir, path),
            Err(source) => Err(CgroupError { action: "open", path, source }),
        }
    }

    /// The kernel's name for it.
    pub fn id(&self) -> CgroupId {
        self.id
    }

    /// For messages.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Kills every process in it and below it, and whatever they fork meanwhile (`cgroup.kill`, Linux 5.14). It is retired by that: on
    /// some kernels everything that is cloned into it afterwards dies at birth (INV-11). Returns before the processes are gone.
    pub fn kill(&self) -> Result<(), CgroupError> {
        self.write(c"cgroup.kill", "kill", b"1")
    }

    /// Moves this process into it. For the keeper alone, and never into a task's group (INV-12).
    pub fn enter(&self) -> Result<(), CgroupError> {
        self.write(c"cgroup.procs", "enter", b"0")
    }

    /// Thaws it and everything below it that is frozen, so that signals can be handled.
    pub fn thaw(&self) -> Result<(), CgroupError> {
        let thawed = walk::each(self.dir.as_fd(), &mut |group| dir::write_at(group, c"cgroup.freeze", b"0"));
        thawed.map_err(|source| self.error("thaw", source))
    }

    /// Freezes it with everything below (`cgroup.freeze`, Linux 5.2). Returns before every process stands still.
    pub fn freeze(&self) -> Result<(), CgroupError> {
        self.write(c"cgroup.freeze", "freeze", b"1")
    }

    /// Opens `cgroup.events`.
    pub fn events(&self) -> Result<Events, CgroupError> {
        let file = dir::open_file_at(self.dir.as_fd(), c"cgroup.events");
        file.map(Events::new).map_err(|source| self.error("watch", source))
    }

    /// The processes in it and below it, each once, as numbers: check each through a pidfd before anything is done to it. A group that
    /// goes away meanwhile has none.
    pub fn processes(&self) -> Result<Vec<i32>, CgroupError> {
        let mut pids = Vec::new();
        self.each_list(&mut |list| pids.extend(list()))?;
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    /// For this group and each below: shows `visit` what lists the processes of that one group, as often as it is asked.
    pub fn each_list(&self, visit: &mut dyn FnMut(Lister<'_>)) -> Result<(), CgroupError> {
        let walked = walk::each(self.dir.as_fd(), &mut |group| {
            visit(&|| {
                // A threaded group lists its processes at its domain only, and one that is gone has none.
                let text = dir::read_at(group, c"cgroup.procs", PROCS_MAX).unwrap_or_default();
                let pids = String::from_utf8_lossy(&text);
                pids.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect()
            });
            Ok(())
        });
        walked.map_err(|source| self.error("list", source))
    }

    /// Removes the child group `name` with every group below it, deepest first. What is gone already is fine.
    ///
    /// # Errors
    /// `EBUSY`: a process is in one of them: wait for `populated 0` first.
    pub fn remove_child(&self, name: &CStr) -> Result<(), CgroupError> {
        match dir::remove_at(self.dir.as_fd(), name) {
            Ok(()) | Err(SysError { errno: Errno::ENOENT, .. }) => return Ok(()),
            Err(SysError { errno: Errno::EBUSY, .. }) => {}
            Err(source) => return Err(CgroupError { action: "remove", path: self.child_path(name), source }),
        }
        match self.open_child(name) {
            Ok(child) => walk::remove_below(child.as_fd()).map_err(|source| child.error("remove", source))?,
            Err(error) if error.source.errno == Errno::ENOENT => return Ok(()),
            Err(error) => return Err(error),
        }
        match dir::remove_at(self.dir.as_fd(), name) {
            Ok(()) | Err(SysError { errno: Errno::ENOENT, .. }) => Ok(()),
            Err(source) => Err(CgroupError { action: "remove", path: self.child_path(name), source }),
        }
    }

    /// Names of the groups directly below.
    pub fn children(&self) -> Result<Vec<CString>, CgroupError> {
        match dir::directories(self.dir.as_fd()) {
            Ok(names) => Ok(names),
            Err(SysError { errno: Errno::ENOENT | Errno::ENODEV, .. }) => Ok(Vec::new()),
            Err(source) => Err(self.error("list", source)),
        }
    }

    /// Writes one of its interface files.
    fn write(&self, file: &CStr, action: &'static str, text: &[u8]) -> Result<(), CgroupError> {
        dir::write_at(self.dir.as_fd(), file, text).map_err(|source| self.error(action, source))
    }

    fn child_path(&self, name: &CStr) -> String {
        format!("{}/{}", self.path.trim_end_matches('/'), name.to_string_lossy())
    }

    fn error(&self, action: &'static str, source: SysError) -> CgroupError {
        CgroupError { action, path: self.path.clone(), source }
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}
