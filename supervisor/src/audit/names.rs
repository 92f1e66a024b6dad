//! Paths of cgroups by their ids, for people who read a report. Nothing is decided by them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use crate::cgroup::CgroupId;
use crate::cgroup::parse::mounts;
use crate::sys::handle::open_kernfs_node;

/// Most paths that are remembered, as cgroups that were made only to hide in can be many.
const REMEMBERED: usize = 1024;

/// Finds the path of a cgroup, and remembers some, since a cgroup may be gone by the time of the report.
pub(super) struct Names {
    mount: Option<(File, PathBuf)>,
    remembered: HashMap<CgroupId, String>,
}

impl Names {
    /// Finds the cgroup2 mount. Without one there are no paths.
    pub fn new() -> Self {
        let mountinfo = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let mounts = mounts(&mountinfo, "cgroup2").unwrap_or_default();
        let mount = mounts.into_iter().find_map(|mount| Some((File::open(&mount.point).ok()?, mount.point)));
        Self { mount, remembered: HashMap::new() }
    }

    /// Remembers the path that a cgroup has now.
    pub fn remember(&mut self, id: CgroupId) {
        if self.remembered.len() < REMEMBERED
            && !self.remembered.contains_key(&id)
            && let Some(path) = self.look_up(id)
        {
            self.remembered.insert(id, path);
        }
    }

    /// The path from the root of the cgroup2 hierarchy (`/a/b`): the one it has now, else the one it had. None when nobody knows.
    pub fn path(&self, id: CgroupId) -> Option<String> {
        self.look_up(id).or_else(|| self.remembered.get(&id).cloned())
    }

    fn look_up(&self, id: CgroupId) -> Option<String> {
        let (mount, at) = self.mount.as_ref()?;
        let node = open_kernfs_node(mount.as_fd(), id.get()).ok()?;
        let path = fs::read_link(format!("/proc/self/fd/{}", node.as_raw_fd())).ok()?;
        below(&path, at)
    }
}

/// `path` as seen from `mount`. None for a removed directory and for one outside.
fn below(path: &Path, mount: &Path) -> Option<String> {
    let inside = path.strip_prefix(mount).ok()?.to_str()?;
    if inside.ends_with(" (deleted)") { None } else { Some(format!("/{inside}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_the_mount_has_a_path() {
        let mount = Path::new("/sys/fs/cgroup");
        assert_eq!(below(Path::new("/sys/fs/cgroup/a/b"), mount), Some("/a/b".to_owned()));
        assert_eq!(below(Path::new("/sys/fs/cgroup"), mount), Some("/".to_owned()));
        assert_eq!(below(Path::new("/sys/fs/cgroup/a (deleted)"), mount), None);
        assert_eq!(below(Path::new("/elsewhere"), mount), None);
    }
}
