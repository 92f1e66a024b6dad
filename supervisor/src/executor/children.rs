//! The executor's children: the main process, and as a subreaper every orphan of the task, wherever it moved itself.

use std::os::fd::{AsFd, OwnedFd};

use crate::cgroup::parse::{self, ProcessState};
use crate::sys::fork::Child;
use crate::sys::wait::{self, Children, Ended};
use crate::sys::{Result, process};
use crate::task::{Signal, WaitStatus};
use crate::wire::StuckProcess;

/// The main process of a run, until it is reaped.
#[derive(Debug)]
pub(super) struct MainProcess {
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
}

impl From<Child> for MainProcess {
    fn from(Child { pid, pidfd }: Child) -> Self {
        Self { pid, pidfd }
    }
}

/// What reaping found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reaped {
    /// The main process, if it ended.
    pub(super) main: Option<WaitStatus>,
    /// Whether any child is left.
    pub(super) left: Left,
}

/// Children that have not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Some,
    None,
}

/// Reaps every child that has ended. INV-3: each by exactly this one place, the main process through its pidfd.
pub(super) fn reap(main: Option<&MainProcess>) -> Result<Reaped> {
    let mut status = None;
    loop {
        match wait::peek()? {
            Children::Ended(pid) => match main {
                Some(main) if main.pid == pid => status = wait::reap(main.pidfd.as_fd())?.map(from_ended),
                Some(_) | None => drop(wait::reap_ended(pid)?),
            },
            Children::Running => return Ok(Reaped { main: status, left: Left::Some }),
            Children::None => return Ok(Reaped { main: status, left: Left::None }),
        }
    }
}

fn from_ended(ended: Ended) -> WaitStatus {
    match ended {
        Ended::Exited(code) => WaitStatus::Exited(code),
        Ended::Signaled(signal) => {
            Signal::from_number(signal).map_or(WaitStatus::Unknown, WaitStatus::Signaled)
        }
    }
}

/// Our children that have not ended, from `/proc`: the kernel lists them directly only when built to (`CONFIG_PROC_CHILDREN`).
pub(crate) fn living() -> Vec<i32> {
    let own = process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        stat(*pid).is_some_and(|stat| {
            stat.ppid == own && !matches!(stat.state, ProcessState::Zombie | ProcessState::Dead)
        })
    })
    .collect()
}

/// Whether the process stands still because of a signal, as `/proc` says.
pub(super) fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| stat.state == ProcessState::Stopped)
}

fn stat(pid: i32) -> Option<parse::Stat> {
    parse::stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?).ok()
}

/// What people need to know of a process that does not end.
pub(super) fn describe(pid: i32) -> StuckProcess {
    let text = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let comm = parse::stat(&text)
        .map_or_else(|_| String::from("?"), |stat| String::from_utf8_lossy(&stat.comm).into_owned());
    // proc(5): the letter follows the name's closing parenthesis and a space.
    let after_name = text.iter().rposition(|byte| *byte == b')').and_then(|at| text.get(at + 2));
    let wchan = std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    StuckProcess { pid, state: after_name.map_or('?', |letter| char::from(*letter)), comm, wchan }
}
