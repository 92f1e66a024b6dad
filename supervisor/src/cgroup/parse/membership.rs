//! `/proc/PID/cgroup`: the cgroups of a process, one line per hierarchy.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{Controller, ParseError, lines, number};
use crate::cgroup::CgroupPath;

/// The cgroups of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memberships {
    /// In the v2 hierarchy. None while nobody has mounted cgroup2 since boot: the kernel hides the line until then.
    pub v2: Option<V2Membership>,
    /// The v1 hierarchies that exist.
    pub v1: Vec<V1Hierarchy>,
}

/// The cgroup v2 of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum V2Membership {
    /// It exists.
    Live(CgroupPath),
    /// It was removed: the process is a zombie, or soon will be. (A live cgroup whose name ends in ` (deleted)` looks the same.)
    Removed(CgroupPath),
}

/// A cgroup v1 hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct V1Hierarchy {
    /// The controllers bound to it, which v2 therefore cannot have.
    pub controllers: Vec<Controller>,
    /// Its name, for those that were mounted with one (`systemd`).
    pub name: Option<String>,
}

/// What the kernel adds to the path of a removed v2 cgroup.
const DELETED: &[u8] = b" (deleted)";

/// Parses `/proc/PID/cgroup`. Paths are not escaped there; the kernel refuses a line end in a cgroup's name for the sake of this file.
///
/// # Errors
/// A line is not `hierarchy:controllers:path`.
pub fn memberships(text: &[u8]) -> Result<Memberships, ParseError> {
    let mut found = Memberships::default();
    for line in lines(text) {
        let error = |expected| ParseError::new("/proc/PID/cgroup", expected, line);
        let mut parts = line.splitn(3, |&byte| byte == b':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(error("hierarchy:controllers:path"));
        };
        let id = number(id).ok_or_else(|| error("the number of a hierarchy"))?;
        match (id, controllers) {
            (0, b"") => found.v2 = Some(v2(path).ok_or_else(|| error("an absolute path"))?),
            (0, _) => return Err(error("no controllers in the line of hierarchy 0")),
            _ => found.v1.push(v1(controllers).ok_or_else(|| error("names of controllers"))?),
        }
    }
    Ok(found)
}

fn v2(path: &[u8]) -> Option<V2Membership> {
    let cgroup = |path: &[u8]| CgroupPath::new(OsStr::from_bytes(path));
    match path.strip_suffix(DELETED) {
        Some(path) => cgroup(path).map(V2Membership::Removed),
        None => cgroup(path).map(V2Membership::Live),
    }
}

fn v1(list: &[u8]) -> Option<V1Hierarchy> {
    let mut hierarchy = V1Hierarchy { controllers: Vec::new(), name: None };
    for word in list.split(|&byte| byte == b',') {
        match word.strip_prefix(b"name=") {
            Some(name) => hierarchy.name = Some(String::from_utf8_lossy(name).into_owned()),
            None => hierarchy.controllers.push(Controller::new(word)?),
        }
    }
    Some(hierarchy)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn live(path: &str) -> Option<V2Membership> {
        Some(V2Membership::Live(CgroupPath::new(path).unwrap()))
    }

    #[test]
    fn a_unified_host() {
        let found = memberships(b"0::/system.slice/cron.service\n").unwrap();
        assert_eq!(found.v2, live("/system.slice/cron.service"));
        assert_eq!(found.v1, vec![]);
    }

    #[test]
    fn a_hybrid_host() {
        let found =
            memberships(b"9:name=systemd:/\n4:memory:/a\n3:cpu,cpuacct:/\n2:net_cls,name=both:/\n0::/\n")
                .unwrap();
        assert_eq!(found.v2, live("/"));
        let names: Vec<_> = found.v1.iter().flat_map(|v1| &v1.controllers).map(Controller::as_str).collect();
        assert_eq!(names, ["memory", "cpu", "cpuacct", "net_cls"]);
        assert_eq!(found.v1[0].name.as_deref(), Some("systemd"));
        assert_eq!(found.v1[3].name.as_deref(), Some("both"));
    }

    #[test]
    fn before_cgroup2_is_first_mounted_there_is_no_v2_line() {
        assert_eq!(memberships(b"4:memory:/a\n").unwrap().v2, None);
        assert_eq!(memberships(b""), Ok(Memberships::default()));
    }

    #[test]
    fn a_removed_cgroup_is_told_apart() {
        let found = memberships(b"0::/run/leaf (deleted)\n").unwrap();
        assert_eq!(found.v2, Some(V2Membership::Removed(CgroupPath::new("/run/leaf").unwrap())));
    }

    #[test]
    fn colons_and_odd_bytes_in_paths_stay() {
        assert_eq!(memberships(b"0::/a:b c\n").unwrap().v2, live("/a:b c"));
        assert_eq!(memberships(b"0::/../x\n").unwrap().v2, live("/../x"));
        assert!(memberships(b"0::/\xff\xfe\n").unwrap().v2.is_some());
    }

    #[test]
    fn lines_of_another_form_are_refused() {
        for wrong in [&b"0:/\n"[..], b"x::/\n", b"0::relative\n", b"0:cpu:/\n", b"3:CPU:/\n", b"3::/\n"] {
            assert!(memberships(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = memberships(&text);
        }

        #[test]
        fn any_path_comes_back(path in "/[^\n\0]{0,40}", removed: bool) {
            prop_assume!(!path.ends_with(" (deleted)"));
            let suffix = if removed { " (deleted)" } else { "" };
            let found = memberships(format!("0::{path}{suffix}\n").as_bytes()).unwrap().v2;
            let path = CgroupPath::new(path).unwrap();
            prop_assert_eq!(found, Some(if removed { V2Membership::Removed(path) } else { V2Membership::Live(path) }));
        }
    }
}
