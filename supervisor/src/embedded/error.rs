//! Why `proctor run` could not do its work.

use crate::cgroup::HierarchyError;
use crate::sys::SysError;
use crate::task::StartFailure;
use crate::wire::WireError;

/// A fault of proctor or its surroundings: exit code 125, but for programs that cannot be started (126, 127).
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A call failed.
    #[error("cannot {action}")]
    Sys {
        /// What it was for.
        action: &'static str,
        /// What failed.
        #[source]
        source: SysError,
    },
    /// An operation of the standard library failed.
    #[error("cannot {action}")]
    Io {
        /// What it was for.
        action: &'static str,
        /// What failed.
        #[source]
        source: std::io::Error,
    },
    /// There is no cgroup v2 to work in.
    #[error("no cgroup to run the task in: {0}; see `proctor doctor`")]
    Hierarchy(HierarchyError),
    /// `/proc` is not that of our pid namespace.
    #[error(
        "/proc is not there or shows another pid namespace, so the task's processes could not be found: mount it \
         (mount -t proc proc /proc; unshare does it with --mount-proc)"
    )]
    Proc,
    /// The audit was required and cannot be had.
    #[error(
        "the audit is required and not active: {why}; see `proctor doctor`, or run without --require-audit"
    )]
    AuditRequired {
        /// Why not.
        why: String,
    },
    /// The tree, the executor or the task could not be started.
    #[error("{}", describe(.0))]
    NotStarted(StartFailure),
    /// The keeper ended before it should.
    #[error("the keeper died; everything it held was ended")]
    KeeperDied,
    /// Bytes that are no message.
    #[error("a message of our own processes is not understood: {0}")]
    Wire(WireError),
}

impl RunError {
    pub(super) fn sys(action: &'static str) -> impl Fn(SysError) -> Self {
        move |source| Self::Sys { action, source }
    }

    pub(super) fn io(action: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}

/// A failed start in words: what, on what, why, what to do.
pub fn describe(failure: &StartFailure) -> String {
    use crate::sys::Errno::{self, *};
    let StartFailure { step, object, errno } = failure;
    let errno = Errno::from_raw(*errno);
    let advice = match (step.as_str(), errno) {
        ("exec", ENOENT) if object.contains('/') => {
            ": there is no such file (or the interpreter that its first line names is missing)"
        }
        ("exec", ENOENT) => {
            ": there is no such program in the task's PATH; give the full path or --env PATH=…"
        }
        ("exec", ENOTDIR) => ": a part of its path is no directory",
        ("exec", EACCES) => {
            ": not an executable file for this user; check its mode (chmod +x) and that it is no directory"
        }
        ("exec", ENOEXEC) => ": not a program of this machine; a script needs a first line such as #!/bin/sh",
        ("exec", E2BIG) => {
            ": arguments and environment are too long; the kernel allows a quarter of the stack limit (ulimit -s)"
        }
        ("exec", EAGAIN) | ("clone3", EAGAIN) => {
            ": a limit on processes is reached; look at ulimit -u and at pids.max of the cgroup"
        }
        ("exec", ETXTBSY) => ": the file is open for writing; wait until it is written",
        ("chdir", ENOENT | ENOTDIR) => ": give --cwd an existing directory",
        ("chdir", EACCES) => ": the task's user may not enter it; give another --cwd",
        ("setgroups" | "setuid", EPERM) => ": run as root to run tasks as another user",
        ("setrlimit", EPERM) => {
            ": a hard limit cannot be raised without CAP_SYS_RESOURCE; ask for no more than `ulimit -H` shows"
        }
        ("set oom_score_adj", EACCES) => ": it cannot be lowered without CAP_SYS_RESOURCE",
        ("clone3", EOPNOTSUPP) => {
            ": the cgroup that proctor was started in is threaded, and tasks cannot live below it; start it in another"
        }
        ("clone3", EBUSY) => ": controllers are enabled below that cgroup",
        ("clone3", ENOSYS | EPERM) => {
            ": clone3 is not allowed here (a seccomp filter?); see `proctor doctor`"
        }
        (_, EACCES | EPERM) => ": run as root, or in a cgroup that is delegated to you",
        (_, EAGAIN) => ": cgroup.max.descendants or cgroup.max.depth of an ancestor is reached",
        (_, EROFS) => ": cgroup2 is mounted read-only here",
        _ => "",
    };
    let space = if object.is_empty() { "" } else { " " };
    let object = if object.is_empty() { String::new() } else { format!("`{object}`") };
    format!("cannot {step}{space}{object}: {}{advice}", errno.desc())
}
