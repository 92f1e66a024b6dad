//! Paths of cgroups by their ids, for people who read a report. Nothing is decided by them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::cgroup::CgroupId;
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
        let mount = cgroup2_mount(&mountinfo).and_then(|path| Some((File::open(&path).ok()?, path)));
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

/// The first mount point of type cgroup2 in the text of `/proc/self/mountinfo`.
fn cgroup2_mount(mountinfo: &[u8]) -> Option<PathBuf> {
    mountinfo.split(|byte| *byte == b'\n').find_map(|line| {
        // The number of optional fields before the separator varies.
        let mut fields = line.split(|byte| *byte == b' ');
        let point = fields.nth(4)?;
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        (kind == b"cgroup2").then(|| unescape(point))
    })
}

/// Undoes the kernel's `\040` for characters that would end a field.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(code) => {
                out.push(code);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_mount_is_found_by_its_type() {
        let text = b"24 30 0:22 / /sys rw,nosuid shared:2 - sysfs sysfs rw\n\
            33 24 0:28 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw\n\
            34 33 0:29 / /sys/fs/cg\\040two rw,nosuid shared:10 master:1 - cgroup2 cgroup2 rw,nsdelegate\n\
            35 33 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
        assert_eq!(cgroup2_mount(text), Some(PathBuf::from("/sys/fs/cg two")));
        assert_eq!(cgroup2_mount(b"24 30 0:22 / /sys rw shared:2 - sysfs sysfs rw\n"), None);
        assert_eq!(cgroup2_mount(b""), None);
    }

    #[test]
    fn only_what_is_below_the_mount_has_a_path() {
        let mount = Path::new("/sys/fs/cgroup");
        assert_eq!(below(Path::new("/sys/fs/cgroup/a/b"), mount), Some("/a/b".to_owned()));
        assert_eq!(below(Path::new("/sys/fs/cgroup"), mount), Some("/".to_owned()));
        assert_eq!(below(Path::new("/sys/fs/cgroup/a (deleted)"), mount), None);
        assert_eq!(below(Path::new("/elsewhere"), mount), None);
    }

    proptest! {
        #[test]
        fn any_mountinfo_is_read(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = cgroup2_mount(&text);
        }

        #[test]
        fn any_field_is_unescaped(text in "[\\\\0-7a /]{0,20}") {
            prop_assert!(unescape(text.as_bytes()).as_os_str().len() <= text.len());
        }
    }
}
