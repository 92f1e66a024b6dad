//! The programs of the audit.

use std::fmt;

/// A program of the audit, named as the tracepoint that it is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// Classifies new cgroups.
    CgroupMkdir,
    /// Forgets removed ones.
    CgroupRmdir,
    /// Sees every move.
    CgroupAttachTask,
    /// Sees every birth.
    SchedProcessFork,
    /// Checks identities.
    SchedProcessExec,
    /// Sees every exit.
    SchedProcessExit,
    /// Remembers who sent a signal.
    SignalGenerate,
    /// Sees whom the OOM killer chooses.
    MarkVictim,
}

impl Program {
    /// All of them, in the order in which they are attached: the classes of cgroups exist before the first birth that needs them.
    pub const ALL: [Self; 8] = [
        Self::CgroupMkdir,
        Self::CgroupRmdir,
        Self::CgroupAttachTask,
        Self::SchedProcessExit,
        Self::SchedProcessExec,
        Self::SignalGenerate,
        Self::MarkVictim,
        Self::SchedProcessFork,
    ];

    /// The tracepoint, and the function in the object.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CgroupMkdir => "cgroup_mkdir",
            Self::CgroupRmdir => "cgroup_rmdir",
            Self::CgroupAttachTask => "cgroup_attach_task",
            Self::SchedProcessFork => "sched_process_fork",
            Self::SchedProcessExec => "sched_process_exec",
            Self::SchedProcessExit => "sched_process_exit",
            Self::SignalGenerate => "signal_generate",
            Self::MarkVictim => "mark_victim",
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
