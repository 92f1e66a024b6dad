//! Where a cgroup is in the hierarchy.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Absolute path of a cgroup in the cgroup v2 hierarchy, as `/proc/PID/cgroup` has it: `/` is the root of the reader's cgroup namespace,
/// whatever the place where the file system is mounted.
///
/// A cgroup outside that namespace is named from its root, upwards: `/../other` (cgroup_namespaces(7)).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CgroupPath(PathBuf);

impl CgroupPath {
    /// The root of the namespace.
    pub fn root() -> Self {
        Self(PathBuf::from("/"))
    }

    /// The cgroup of this path; none when it is not absolute.
    pub fn new(path: impl Into<PathBuf>) -> Option<Self> {
        let path = path.into();
        path.is_absolute().then_some(Self(path))
    }

    /// The path from the root of the hierarchy. It is no path in the file system: see [`super::Hierarchy::directory_of`].
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The path of the cgroup of this name directly below.
    pub fn child(&self, name: impl AsRef<OsStr>) -> Self {
        let mut bytes = self.0.as_os_str().as_bytes().to_vec();
        if bytes.last() != Some(&b'/') {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name.as_ref().as_bytes());
        Self(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    }

    /// The way down from `ancestor` to this cgroup, empty when they are the same. None when it is not below, or when the two paths do
    /// not tell: from `/..` nobody knows the name of the namespace's own root.
    pub fn below(&self, ancestor: &Self) -> Option<PathBuf> {
        let rest = self.0.strip_prefix(&ancestor.0).ok()?;
        let down = rest.components().all(|part| matches!(part, Component::Normal(_)));
        down.then(|| rest.to_path_buf())
    }
}

impl std::fmt::Display for CgroupPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> CgroupPath {
        CgroupPath::new(text).unwrap()
    }

    fn below(own: &str, ancestor: &str) -> Option<String> {
        path(own).below(&path(ancestor)).map(|rest| rest.display().to_string())
    }

    #[test]
    fn a_relative_path_is_refused() {
        assert_eq!(CgroupPath::new("a/b"), None);
        assert_eq!(CgroupPath::new(""), None);
    }

    #[test]
    fn the_way_down_is_by_whole_names() {
        assert_eq!(below("/a/b", "/").as_deref(), Some("a/b"));
        assert_eq!(below("/a/b", "/a").as_deref(), Some("b"));
        assert_eq!(below("/a/b", "/a/b").as_deref(), Some(""));
        assert_eq!(below("/ab", "/a"), None);
        assert_eq!(below("/a", "/a/b"), None);
    }

    #[test]
    fn outside_the_namespace_only_what_the_text_proves_is_below() {
        assert_eq!(below("/../c", "/.."), Some("c".to_owned()));
        assert_eq!(below("/../c", "/"), None, "a sibling is not below the root");
        assert_eq!(below("/", "/.."), None, "the name of our root is unknown");
        assert_eq!(below("/../../d", "/.."), None);
    }

    #[test]
    fn a_child_is_below() {
        assert_eq!(CgroupPath::root().child("x").to_string(), "/x");
        assert_eq!(path("/a").child("x").to_string(), "/a/x");
        assert_eq!(path("/a").child("x").below(&path("/a")), Some(PathBuf::from("x")));
    }
}
