//! A checked description of a task.

use std::ffi::CString;
use std::time::Duration;

use super::restart::RestartPolicy;
use super::{Signal, TaskId};

/// Everything that a task is started with. Whoever builds one has looked up names and checked texts: nothing here needs a look-up.
#[derive(Clone, PartialEq, Eq)]
pub struct TaskSpec {
    /// What it is called.
    pub id: TaskId,
    /// The program and its arguments; never empty. A name without a slash is searched in the task's own `PATH`.
    pub arguments: Vec<CString>,
    /// `NAME=value` each; all that the task gets.
    pub environment: Vec<CString>,
    /// Absolute path of the directory to start in.
    pub directory: CString,
    /// File mode creation mask.
    pub umask: u32,
    /// Limits to set; the kinds that are not named stay as they are in the executor.
    pub limits: Vec<ResourceLimit>,
    /// From -1000 to 1000. None: 0, where that is allowed.
    pub oom_score_adj: Option<i32>,
    /// Who it runs as.
    pub identity: Identity,
    /// How it is stopped.
    pub stop: StopPolicy,
    /// When a run is over.
    pub until: Until,
    /// How long a run may last, from the exec on.
    pub timeout: Option<Duration>,
    /// Whether it is started again.
    pub restart: RestartPolicy,
}

/// Names the id and the program only: arguments and environment may hold secrets.
impl std::fmt::Debug for TaskSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskSpec")
            .field("id", &self.id)
            .field("program", &self.arguments.first())
            .finish_non_exhaustive()
    }
}

/// A resource limit (`setrlimit(2)`); `u64::MAX` is "unlimited".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// The kernel's number, `RLIMIT_*`.
    pub resource: u32,
    /// What is enforced.
    pub soft: u64,
    /// Up to where the task may raise it.
    pub hard: u64,
}

/// Who a task runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// As we do.
    Inherit,
    /// These ids, exactly. Any uid but 0 also loses every capability and the chance to gain one.
    As {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
        /// Supplementary groups.
        groups: Vec<u32>,
    },
}

/// How a task is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopPolicy {
    /// The first, friendly signal.
    pub signal: Signal,
    /// How long it has to obey before it is killed.
    pub grace: Duration,
}

/// When a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// When the main process ends; what lives on is stopped.
    Main,
    /// When nothing is left in its cgroup.
    All,
}
