//! What was seen, before anybody judges it.

use crate::cgroup::parse::Controller;
use crate::cgroup::{CgroupPath, Layout};
use crate::sys::SysError;

/// An attempt to use a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried<T> {
    /// It works, and gave this.
    Worked(T),
    /// The kernel refused a call.
    Refused(SysError),
    /// No call failed, yet it did not do what it should.
    Wrong(String),
    /// It could not be tried, because of this.
    NotTried(&'static str),
}

impl<T> Tried<T> {
    /// The value, if it works.
    pub fn worked(&self) -> Option<&T> {
        match self {
            Self::Worked(value) => Some(value),
            Self::Refused(_) | Self::Wrong(_) | Self::NotTried(_) => None,
        }
    }
}

impl<T> From<Result<T, SysError>> for Tried<T> {
    fn from(result: Result<T, SysError>) -> Self {
        match result {
            Ok(value) => Self::Worked(value),
            Err(error) => Self::Refused(error),
        }
    }
}

/// All that was seen.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The kernel's release.
    pub release: Tried<String>,
    /// Who we are.
    pub user: User,
    /// /proc.
    pub proc: Tried<Proc>,
    /// We are in the host's first pid namespace.
    pub first_pid_namespace: Tried<bool>,
    /// The cgroup v2 hierarchy.
    pub hierarchy: Result<HierarchySeen, HierarchyMissing>,
    /// What happened in a private cgroup.
    pub cgroup: CgroupTrial,
    /// What happened with a process of ours.
    pub pidfd: PidfdTrial,
    /// close_range(2).
    pub close_range: Tried<()>,
    /// openat2(2).
    pub openat2: Tried<()>,
    /// The kernel's BTF: its size in bytes.
    pub btf: Tried<u64>,
    /// A ring buffer and a small program.
    pub bpf: Tried<()>,
    /// The audit's own programs.
    pub audit: AuditTried,
    /// Where a BPF file system is mounted, if one is.
    pub bpffs: Tried<Option<String>>,
    /// Pressure stall information can be read.
    pub pressure: Tried<()>,
}

/// Who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Effective user id.
    pub id: u32,
    /// Capabilities that proctor uses and that we lack, by name.
    pub lacks: Vec<&'static str>,
    /// We are in the host's first user namespace; outside of it capabilities count for less.
    pub first_namespace: bool,
}

/// /proc as we see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proc {
    /// All processes of our pid namespace.
    Whole,
    /// Only some: `hidepid` with this value, or a security module.
    Hidden(Option<String>),
    /// It belongs to another pid namespace, so numbers mean other processes.
    Foreign,
}

/// The hierarchy that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HierarchySeen {
    /// Where it is mounted.
    pub mount_point: String,
    /// Read-only.
    pub read_only: bool,
    /// Mounted with `nsdelegate`.
    pub nsdelegate: bool,
    /// Our own cgroup.
    pub own: CgroupPath,
    /// v1 beside it or not.
    pub layout: Layout,
    /// `cgroup.controllers` of our own cgroup: what could be given to tasks.
    pub own_controllers: Tried<Vec<Controller>>,
    /// `cgroup.controllers` at the mount point: what v2 has at all, as far as this mount shows.
    pub top_controllers: Tried<Vec<Controller>>,
    /// `/proc/cgroups`.
    pub compiled: Vec<Compiled>,
}

/// A line of `/proc/cgroups`: a controller that the kernel was built with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Its name in v1.
    pub name: Controller,
    /// Not switched off at boot.
    pub enabled: bool,
}

/// Why there is no hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HierarchyMissing {
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub advice: &'static str,
}

/// What happened in a private cgroup below our own.
#[derive(Clone, Debug)]
pub struct CgroupTrial {
    /// It was made.
    pub made: Tried<()>,
    /// A child was born in it.
    pub birth: Tried<()>,
    /// `cgroup.kill` of a cgroup with a child in it.
    pub kill: Tried<()>,
    /// Whether a child that was born afterwards in the killed cgroup lived.
    pub birth_after_kill: Tried<Birth>,
    /// `cgroup.freeze` there and back.
    pub freeze: Tried<()>,
    /// What could not be removed again, and why.
    pub left_behind: Option<String>,
}

impl CgroupTrial {
    /// Nothing could be tried.
    pub fn not_tried(why: &'static str) -> Self {
        Self {
            made: Tried::NotTried(why),
            birth: Tried::NotTried(why),
            kill: Tried::NotTried(why),
            birth_after_kill: Tried::NotTried(why),
            freeze: Tried::NotTried(why),
            left_behind: None,
        }
    }
}

/// How a birth in a cgroup that was killed before went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// As any other.
    Healthy,
    /// The kernel killed the child at birth.
    KilledAtBirth,
}

/// What happened with a child of ours and its pidfd.
#[derive(Clone, Debug)]
pub struct PidfdTrial {
    /// It was cloned with a pidfd.
    pub clone: Tried<()>,
    /// It was killed through it.
    pub signal: Tried<()>,
    /// It was reaped through it.
    pub wait: Tried<()>,
    /// `PIDFD_GET_INFO`: whether the exit status was there after the reaping.
    pub info: Tried<ExitKept>,
}

/// Whether the kernel keeps the exit status for whoever holds a pidfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKept {
    /// Linux 6.15 and later.
    Kept,
    /// Before.
    Lost,
}

/// The last word on the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTried {
    /// The programs loaded.
    Loaded,
    /// They did not, for this reason.
    Failed(String),
    /// Nobody tried.
    NotTried,
}
