//! The features that we look for, and what each is for.

/// What proctor needs from the kernel and the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// /proc, of our own pid namespace.
    Proc,
    /// A cgroup2 mount that shows our own cgroup.
    Cgroup2Mount,
    /// We can make a cgroup below our own.
    CgroupWrite,
    /// `cgroup.kill`.
    CgroupKill,
    /// `clone3(CLONE_INTO_CGROUP)`.
    CloneIntoCgroup,
    /// `clone3(CLONE_PIDFD)`.
    ClonePidfd,
    /// `pidfd_send_signal(2)`.
    PidfdSignal,
    /// `waitid(P_PIDFD)`.
    PidfdWait,
    /// `close_range(2)` with `CLOSE_RANGE_CLOEXEC`.
    CloseRange,
    /// `openat2(2)`.
    Openat2,
    /// The kernel's own types, `/sys/kernel/btf/vmlinux`.
    KernelBtf,
    /// We may load tracing programs.
    BpfRights,
    /// The audit's own programs load.
    AuditPrograms,
    /// The kernel's release.
    KernelRelease,
    /// Who we are and what we may.
    User,
    /// Unified or hybrid hierarchies.
    Hierarchies,
    /// Controllers for limits.
    Controllers,
    /// `cgroup.freeze`.
    CgroupFreeze,
    /// A cgroup that was killed takes new processes.
    BirthAfterKill,
    /// `PIDFD_GET_INFO` with exit status.
    PidfdInfo,
    /// The host's first pid namespace.
    PidNamespace,
    /// A BPF file system.
    Bpffs,
    /// Pressure stall information.
    Pressure,
}

/// Who needs a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NeededFor {
    /// No task can run without it.
    Tasks,
    /// Nothing can be proven without it.
    Audit,
    /// Something smaller is lost without it.
    Comfort,
}

impl NeededFor {
    /// All of them, the most important first.
    pub const ALL: [Self; 3] = [Self::Tasks, Self::Audit, Self::Comfort];
}

impl Feature {
    /// All of them in the order of the report.
    pub const ALL: [Self; 23] = [
        Self::Proc,
        Self::Cgroup2Mount,
        Self::CgroupWrite,
        Self::CgroupKill,
        Self::CloneIntoCgroup,
        Self::ClonePidfd,
        Self::PidfdSignal,
        Self::PidfdWait,
        Self::CloseRange,
        Self::Openat2,
        Self::KernelBtf,
        Self::BpfRights,
        Self::AuditPrograms,
        Self::KernelRelease,
        Self::User,
        Self::Hierarchies,
        Self::Controllers,
        Self::CgroupFreeze,
        Self::BirthAfterKill,
        Self::PidfdInfo,
        Self::PidNamespace,
        Self::Bpffs,
        Self::Pressure,
    ];

    /// Its name in tables and in JSON. Never changes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proc => "proc",
            Self::Cgroup2Mount => "cgroup2-mount",
            Self::CgroupWrite => "cgroup-write",
            Self::CgroupKill => "cgroup.kill",
            Self::CloneIntoCgroup => "clone3-into-cgroup",
            Self::ClonePidfd => "clone3-pidfd",
            Self::PidfdSignal => "pidfd-signal",
            Self::PidfdWait => "pidfd-wait",
            Self::CloseRange => "close_range",
            Self::Openat2 => "openat2",
            Self::KernelBtf => "kernel-btf",
            Self::BpfRights => "bpf-rights",
            Self::AuditPrograms => "audit-programs",
            Self::KernelRelease => "kernel-release",
            Self::User => "user",
            Self::Hierarchies => "hierarchies",
            Self::Controllers => "controllers",
            Self::CgroupFreeze => "cgroup.freeze",
            Self::BirthAfterKill => "birth-after-kill",
            Self::PidfdInfo => "pidfd-info",
            Self::PidNamespace => "pid-namespace",
            Self::Bpffs => "bpffs",
            Self::Pressure => "pressure",
        }
    }

    /// Who needs it.
    pub const fn needed_for(self) -> NeededFor {
        match self {
            Self::Proc
            | Self::Cgroup2Mount
            | Self::CgroupWrite
            | Self::CgroupKill
            | Self::CloneIntoCgroup
            | Self::ClonePidfd
            | Self::PidfdSignal
            | Self::PidfdWait
            | Self::CloseRange
            | Self::Openat2 => NeededFor::Tasks,
            Self::KernelBtf | Self::BpfRights | Self::AuditPrograms => NeededFor::Audit,
            Self::KernelRelease
            | Self::User
            | Self::Hierarchies
            | Self::Controllers
            | Self::CgroupFreeze
            | Self::BirthAfterKill
            | Self::PidfdInfo
            | Self::PidNamespace
            | Self::Bpffs
            | Self::Pressure => NeededFor::Comfort,
        }
    }

    /// What it costs to be without.
    pub const fn cost(self) -> &'static str {
        match self {
            Self::Proc => "processes cannot be told apart or found; no task can run",
            Self::Cgroup2Mount => {
                "a task has no cgroup, so its processes cannot be held together; no task can run"
            }
            Self::CgroupWrite => "no cgroup can be made for a task; no task can run",
            Self::CgroupKill => "a task's processes cannot be ended without a race; no task can run",
            Self::CloneIntoCgroup => "a task cannot be born in its cgroup; no task can run",
            Self::ClonePidfd => "a task has no safe handle; no task can run",
            Self::PidfdSignal => "signals could reach the wrong process; no task can run",
            Self::PidfdWait => "a task's end cannot be told for certain; no task can run",
            Self::CloseRange => "tasks could inherit open files; no task can run",
            Self::Openat2 => "files cannot be opened safely below a directory; no task can run",
            Self::KernelBtf => {
                "the audit's programs cannot read the kernel's structures: claims stay unproven"
            }
            Self::BpfRights => "the audit's programs cannot be loaded: claims stay unproven",
            Self::AuditPrograms => "claims stay unproven, and --require-audit refuses to start",
            Self::KernelRelease => "what this kernel lacks is in the lines of this report",
            Self::User => {
                "some tasks cannot get what they ask for (another user, higher limits), or no proof"
            }
            Self::Hierarchies => "controllers that cgroup v1 holds cannot limit tasks",
            Self::Controllers => "a task that asks for one of these limits is refused",
            Self::CgroupFreeze => "tasks cannot be paused",
            Self::BirthAfterKill => "nothing, as each run of a task gets a cgroup of its own",
            Self::PidfdInfo => {
                "the exit status of a task that somebody else reaped comes from the audit, else is unknown"
            }
            Self::PidNamespace => "the audit names processes by numbers of the host, not by those seen here",
            Self::Bpffs => {
                "the audit of the service has a gap when the daemon restarts (`proctor run` needs none)"
            }
            Self::Pressure => "stats lack how long tasks waited for cpu, memory and io",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_fit_the_table() {
        let names: BTreeSet<_> = Feature::ALL.iter().map(|feature| feature.name()).collect();
        assert_eq!(names.len(), Feature::ALL.len());
        assert!(names.iter().all(|name| name.len() <= 18 && name.is_ascii()), "{names:?}");
    }

    #[test]
    fn the_cost_says_it_when_no_task_can_run() {
        for feature in Feature::ALL {
            let says = feature.cost().contains("no task can run");
            assert_eq!(says, feature.needed_for() == NeededFor::Tasks, "{}", feature.name());
        }
    }
}
