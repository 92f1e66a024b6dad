//! Where cgroup v2 is mounted and where in it we are.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::CgroupPath;
use super::parse::{self, Controller, Memberships, Mount, MountId, ParseError, V2Membership};
use crate::sys::mount::{FileSystem, is_on, mount_id, open_place, open_place_below};
use crate::sys::{Result as SysResult, SysError};

/// The cgroup v2 hierarchy, through the mount that shows the caller's own cgroup.
#[derive(Debug)]
pub struct Hierarchy {
    mount: Mount,
    top: OwnedFd,
    own: CgroupPath,
    layout: Layout,
}

/// Which hierarchies the host has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// cgroup v2 alone.
    Unified,
    /// cgroup v1 beside it. A controller that is bound to v1 cannot limit anything in v2.
    Hybrid {
        /// Controllers bound to v1; none when v1 has only named hierarchies (as systemd's).
        v1_controllers: Vec<Controller>,
    },
}

impl Layout {
    fn of(memberships: &Memberships) -> Self {
        if memberships.v1.is_empty() {
            return Self::Unified;
        }
        let mut v1_controllers: Vec<_> =
            memberships.v1.iter().flat_map(|hierarchy| hierarchy.controllers.iter().cloned()).collect();
        v1_controllers.sort();
        Self::Hybrid { v1_controllers }
    }
}

/// Why there is no usable hierarchy. [`HierarchyError::reason`] says what is wrong, [`HierarchyError::advice`] what to do; Display says both.
#[derive(Debug)]
pub enum HierarchyError {
    /// A file of /proc cannot be read.
    Read {
        /// The file.
        file: &'static str,
        /// What the kernel said.
        source: SysError,
    },
    /// A file of /proc does not look as documented.
    Parse(ParseError),
    /// No cgroup2 file system in our mount namespace.
    NotMounted,
    /// The cgroup that we are in was removed.
    OwnRemoved(CgroupPath),
    /// cgroup2 is mounted, but only parts of it that do not hold our own cgroup.
    NotShown {
        /// Our cgroup.
        own: CgroupPath,
        /// The mount points.
        mounts: Vec<PathBuf>,
    },
    /// The directory of a cgroup cannot be opened.
    Open {
        /// The directory.
        directory: PathBuf,
        /// What the kernel said.
        source: SysError,
    },
    /// Something else lies over the mount.
    Covered {
        /// The mount point.
        point: PathBuf,
    },
}

const MEMBERSHIPS: &str = "/proc/self/cgroup";
const MOUNTS: &str = "/proc/self/mountinfo";

impl Hierarchy {
    /// Finds the hierarchy by file system type in our mount namespace, and our own cgroup in it. Of several mounts a writable one is
    /// preferred. Nothing is changed.
    ///
    /// # Errors
    /// Nothing usable is mounted, or our own cgroup is not visible through it.
    pub fn find() -> Result<Self, HierarchyError> {
        let memberships = parse::memberships(&read(MEMBERSHIPS)?).map_err(HierarchyError::Parse)?;
        let mounts = parse::mounts(&read(MOUNTS)?, "cgroup2").map_err(HierarchyError::Parse)?;
        let layout = Layout::of(&memberships);
        // Without a v2 line nobody has mounted cgroup2 since boot.
        let (Some(membership), false) = (memberships.v2, mounts.is_empty()) else {
            return Err(HierarchyError::NotMounted);
        };
        let own = match membership {
            V2Membership::Live(own) => own,
            V2Membership::Removed(own) => return Err(HierarchyError::OwnRemoved(own)),
        };
        let mut refusal = None;
        for (mount, rest) in showing(&mounts, &own) {
            match open_through(mount, &rest) {
                Ok(top) => return Ok(Self { mount: mount.clone(), top, own, layout }),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        let points = || mounts.into_iter().map(|mount| mount.point).collect();
        Err(refusal.unwrap_or_else(|| HierarchyError::NotShown { own, mounts: points() }))
    }

    /// Where it is mounted.
    pub fn mount_point(&self) -> &Path {
        &self.mount.point
    }

    /// Nothing can be written through the mount.
    pub fn is_read_only(&self) -> bool {
        self.mount.is_read_only()
    }

    /// The host protects delegated cgroups by `nsdelegate`: a process in a cgroup namespace cannot move others across its border.
    pub fn is_nsdelegate(&self) -> bool {
        self.mount.has_fs_option("nsdelegate")
    }

    /// Which hierarchies the host has.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The cgroup that we were in when the hierarchy was found.
    pub fn own_cgroup(&self) -> &CgroupPath {
        &self.own
    }

    /// The directory at the mount point (`O_PATH`).
    pub fn top(&self) -> BorrowedFd<'_> {
        self.top.as_fd()
    }

    /// Opens the directory of our own cgroup as a place (`O_PATH`), for `*at` calls and `CLONE_INTO_CGROUP`.
    ///
    /// # Errors
    /// See [`Self::open`].
    pub fn open_own(&self) -> Result<OwnedFd, HierarchyError> {
        self.open(&self.own)
    }

    /// Opens the directory of a cgroup as a place (`O_PATH`).
    ///
    /// # Errors
    /// It is not below the root of the mount, is gone, or may not be opened.
    pub fn open(&self, cgroup: &CgroupPath) -> Result<OwnedFd, HierarchyError> {
        let not_shown =
            || HierarchyError::NotShown { own: cgroup.clone(), mounts: vec![self.mount.point.clone()] };
        let rest = self.rest(cgroup).ok_or_else(not_shown)?;
        open_place_below(self.top(), &rest)
            .map_err(|source| HierarchyError::Open { directory: self.mount.point.join(rest), source })
    }

    /// The directory of a cgroup as a path, for messages. None when this mount does not show it.
    pub fn directory_of(&self, cgroup: &CgroupPath) -> Option<PathBuf> {
        self.rest(cgroup).map(|rest| joined(&self.mount.point, &rest))
    }

    fn rest(&self, cgroup: &CgroupPath) -> Option<PathBuf> {
        cgroup.below(&CgroupPath::new(&self.mount.root)?)
    }
}

/// Joins without the trailing slash that an empty rest would leave.
fn joined(point: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { point.to_owned() } else { point.join(rest) }
}

/// The mounts that show this cgroup, each with the way down from its mount point; writable ones first, else as mounted.
fn showing<'mounts>(mounts: &'mounts [Mount], own: &CgroupPath) -> Vec<(&'mounts Mount, PathBuf)> {
    let mut showing: Vec<_> =
        mounts.iter().filter_map(|mount| Some((mount, own.below(&CgroupPath::new(&mount.root)?)?))).collect();
    showing.sort_by_key(|(mount, _)| mount.is_read_only());
    showing
}

/// Opens the mount point, and makes sure that the path there and on to our own cgroup really goes through this mount: another one may
/// lie over it or over a directory in between, read-only perhaps. That other one is in the list itself.
fn open_through(mount: &Mount, rest: &Path) -> Result<OwnedFd, HierarchyError> {
    let directory = joined(&mount.point, rest);
    let refused = |source| HierarchyError::Open { directory: directory.clone(), source };
    let top = open_place(&mount.point).map_err(refused)?;
    let through = |fd: BorrowedFd<'_>| -> SysResult<bool> {
        Ok(MountId(mount_id(fd)?) == mount.id && is_on(fd, FileSystem::Cgroup2)?)
    };
    let covered = || HierarchyError::Covered { point: mount.point.clone() };
    if !through(top.as_fd()).map_err(refused)? {
        return Err(covered());
    }
    let own = open_place_below(top.as_fd(), rest).map_err(refused)?;
    if !through(own.as_fd()).map_err(refused)? {
        return Err(covered());
    }
    Ok(top)
}

fn read(file: &'static str) -> Result<Vec<u8>, HierarchyError> {
    SysError::from_io("read", std::fs::read(file)).map_err(|source| HierarchyError::Read { file, source })
}

impl HierarchyError {
    /// What is wrong, and on what.
    pub fn reason(&self) -> String {
        match self {
            Self::Read { file, .. } => format!("cannot read {file}"),
            Self::Parse(_) => "cannot understand what /proc says about cgroups".to_owned(),
            Self::NotMounted => "no cgroup2 file system is mounted".to_owned(),
            Self::OwnRemoved(own) => format!("the cgroup {own}, which this process is in, was removed"),
            Self::NotShown { own, mounts } => {
                let points: Vec<_> = mounts.iter().map(|point| point.display().to_string()).collect();
                format!("the cgroup {own} is outside of what cgroup2 at {} shows", points.join(", "))
            }
            Self::Open { directory, .. } => {
                format!("cannot open the cgroup directory {}", directory.display())
            }
            Self::Covered { point } => {
                format!("another mount lies over cgroup2 at {} or over our way in it", point.display())
            }
        }
    }

    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Read { .. } => "mount /proc (mount -t proc proc /proc) and run as root",
            Self::Parse(_) => "report it with the output of `uname -r` and this message",
            Self::NotMounted => {
                "mount it (mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified), or \
                 boot with systemd.unified_cgroup_hierarchy=1"
            }
            Self::OwnRemoved(_) => "start proctor from a cgroup that exists, e.g. from a new shell",
            Self::NotShown { .. } => {
                "mount cgroup2 anew in this cgroup namespace, or start proctor from a cgroup that the mount shows"
            }
            Self::Open { .. } => {
                "run as root, outside of seccomp filters and security modules that forbid it"
            }
            Self::Covered { .. } => "unmount what lies over it, or mount cgroup2 at another place",
        }
    }
}

impl std::fmt::Display for HierarchyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.reason(), self.advice())
    }
}

impl std::error::Error for HierarchyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } | Self::Open { source, .. } => Some(source),
            Self::Parse(error) => Some(error),
            Self::NotMounted | Self::OwnRemoved(_) | Self::NotShown { .. } | Self::Covered { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::sys::Errno;

    fn order(mountinfo: &str, own: &str) -> Vec<(u64, String)> {
        let mounts = parse::mounts(mountinfo.as_bytes(), "cgroup2").unwrap();
        showing(&mounts, &CgroupPath::new(own).unwrap())
            .into_iter()
            .map(|(mount, rest)| (mount.id.0, rest.display().to_string()))
            .collect()
    }

    #[test]
    fn only_mounts_that_show_the_own_cgroup_count() {
        let mounts = "1 0 0:1 / /one rw - cgroup2 c rw\n2 0 0:1 /a /two rw - cgroup2 c rw\n\
                      3 0 0:1 /b /three rw - cgroup2 c rw\n4 0 0:1 /.. /four rw - cgroup2 c rw\n";
        assert_eq!(order(mounts, "/a/x"), [(1, "a/x".to_owned()), (2, "x".to_owned())]);
        assert_eq!(order(mounts, "/"), [(1, String::new())]);
        assert_eq!(order(mounts, "/../x"), [(4, "x".to_owned())]);
    }

    #[test]
    fn a_writable_mount_is_preferred() {
        let mounts = "1 0 0:1 / /one ro - cgroup2 c rw\n2 0 0:1 / /two rw - cgroup2 c rw\n";
        assert_eq!(order(mounts, "/a"), [(2, "a".to_owned()), (1, "a".to_owned())]);
    }

    #[test]
    fn the_layout_names_what_v1_holds() {
        let layout = |text: &str| Layout::of(&parse::memberships(text.as_bytes()).unwrap());
        assert_eq!(layout("0::/\n"), Layout::Unified);
        assert_eq!(layout("1:name=systemd:/\n0::/\n"), Layout::Hybrid { v1_controllers: vec![] });
        let v1_controllers = ["cpu", "memory"].map(|name| Controller::new(name.as_bytes()).unwrap()).to_vec();
        assert_eq!(layout("2:memory:/\n1:cpu:/\n0::/\n"), Layout::Hybrid { v1_controllers });
    }

    #[test]
    fn an_error_says_what_to_do_and_leaves_the_source_to_the_chain() {
        let source = SysError::new("openat2", Errno::EACCES);
        let error = HierarchyError::Open { directory: "/c/x".into(), source };
        assert!(error.to_string().contains("/c/x"), "{error}");
        assert!(error.to_string().contains("run as root"), "{error}");
        assert!(!error.to_string().contains("EACCES"), "{error}");
        assert!(error.source().unwrap().to_string().contains("EACCES"));
    }
}
