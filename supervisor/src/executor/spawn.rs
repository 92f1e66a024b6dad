//! From a spec to a program on its way.

use std::ffi::CString;
use std::os::fd::BorrowedFd;

use super::leaf::Leaf;
use crate::sys::exec::{self, Credentials, Failure, Image, OomScore, Program, Spawned, Step, Terminal};
use crate::sys::process::{self, Limit};
use crate::sys::{SysError, fork::Child};
use crate::task::{Identity, ResourceLimit, StartFailure, TaskSpec};

/// `PATH` when the task has none: as systemd and the login programs set it.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Starts the program of the spec in the leaf.
pub(super) fn spawn(
    spec: &TaskSpec,
    leaf: &Leaf,
    stdio: [BorrowedFd<'_>; 3],
    terminal: Terminal,
) -> Result<Spawned, StartFailure> {
    let image = Image::new(program(spec, terminal));
    let spawned = exec::spawn(&image, std::os::fd::AsFd::as_fd(leaf.cgroup()), stdio);
    spawned.map_err(|error| failed_call(error, leaf.cgroup().path()))
}

fn program(spec: &TaskSpec, terminal: Terminal) -> Program {
    let limits = spec.limits.iter().map(|limit| Limit {
        resource: limit.resource,
        soft: limit.soft,
        hard: limit.hard,
    });
    Program {
        candidates: candidates(spec),
        arguments: spec.arguments.clone(),
        environment: spec.environment.clone(),
        directory: spec.directory.clone(),
        umask: spec.umask,
        // Setting what is so already would only be refused where the hard limit may not be named again.
        limits: limits.filter(|limit| process::limit(limit.resource).ok() != Some(*limit)).collect(),
        oom_score_adj: match (spec.oom_score_adj, process::oom_score_adj()) {
            (Some(asked), now) if now != Some(asked) => OomScore::Exactly(asked),
            (None, now) if now != Some(0) => OomScore::IfAllowed(0),
            (Some(_) | None, _) => OomScore::Keep,
        },
        credentials: match &spec.identity {
            Identity::Inherit => None,
            Identity::As { uid, gid, groups } => {
                Some(Credentials { uid: *uid, gid: *gid, groups: groups.clone() })
            }
        },
        terminal,
    }
}

/// The paths that `execvp(3)` would try.
fn candidates(spec: &TaskSpec) -> Vec<CString> {
    let Some(name) = spec.arguments.first() else { return Vec::new() };
    if name.as_bytes().contains(&b'/') || name.is_empty() {
        return vec![name.clone()];
    }
    let path = spec.environment.iter().find_map(|entry| entry.as_bytes().strip_prefix(b"PATH="));
    path.unwrap_or(DEFAULT_PATH.as_bytes())
        .split(|byte| *byte == b':')
        .filter_map(|directory| {
            let directory = if directory.is_empty() { b"." } else { directory };
            CString::new([directory, b"/", name.as_bytes()].concat()).ok()
        })
        .collect()
}

/// The failure of a step in the child, as people may know it.
pub(super) fn failed_step(spec: &TaskSpec, Failure { step, errno }: Failure) -> StartFailure {
    let text = |text: &CString| text.to_string_lossy().into_owned();
    let (step, object) = match step {
        Step::Session => ("setsid", String::new()),
        Step::Stdio => ("dup2", String::from("standard input and output")),
        Step::Terminal => ("take the terminal", String::from("standard input")),
        Step::OomScore => ("set oom_score_adj", spec.oom_score_adj.unwrap_or(0).to_string()),
        Step::Limits => ("setrlimit", limits(spec)),
        Step::Groups => ("setgroups", identity(spec)),
        Step::User => ("setuid", identity(spec)),
        Step::Directory => ("chdir", text(&spec.directory)),
        Step::NoNewPrivileges => ("set no_new_privs", String::new()),
        Step::Exec => ("exec", spec.arguments.first().map(text).unwrap_or_default()),
    };
    StartFailure { step: step.to_owned(), object, errno: errno as i32 }
}

/// The limits that had to be set: one of them it was.
fn limits(spec: &TaskSpec) -> String {
    let differs = |limit: &&ResourceLimit| {
        process::limit(limit.resource).is_ok_and(|now| (now.soft, now.hard) != (limit.soft, limit.hard))
    };
    let name = |limit: &ResourceLimit| process::LIMIT_NAMES.get(limit.resource as usize).copied();
    spec.limits.iter().filter(differs).filter_map(name).collect::<Vec<_>>().join(", ")
}

fn identity(spec: &TaskSpec) -> String {
    match &spec.identity {
        Identity::Inherit => String::new(),
        Identity::As { uid, gid, .. } => format!("uid {uid}, gid {gid}"),
    }
}

/// The failure of a call of ours.
pub(super) fn failed_call(error: SysError, object: &str) -> StartFailure {
    StartFailure { step: error.call.to_owned(), object: object.to_owned(), errno: error.errno as i32 }
}

/// Only for the tests: the executor enters the task's cgroup, which it must never do.
#[cfg(feature = "faults")]
pub(super) fn join_leaf_on_fault(leaf: &Leaf, _main: &Child) {
    if std::env::var_os("PROCTOR_FAULT").is_some_and(|fault| fault == "executor-joins") {
        let dir = std::os::fd::AsFd::as_fd(leaf.cgroup());
        if let Err(error) = crate::sys::dir::write_at(dir, c"cgroup.procs", b"0") {
            tracing::error!(%error, "the fault could not be made");
        }
    }
}

/// Nothing, in what users run.
#[cfg(not(feature = "faults"))]
pub(super) fn join_leaf_on_fault(_leaf: &Leaf, _main: &Child) {}
