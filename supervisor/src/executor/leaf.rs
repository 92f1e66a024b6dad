//! The leaf of one run: its cgroup, and who is in it.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::iter::Peekable;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::children;
use crate::cgroup::{Cgroup, CgroupError, Events, Population, parse};
use crate::sys::{Errno, SysError, dir, pidfd};
use crate::task::{RunNumber, Signal};

/// How many processes are held by pidfd at a time, at the most, while a signal goes to all of them.
const BATCH: usize = 512;

/// A leaf that was made for one run and is never used for another.
#[derive(Debug)]
pub(super) struct Leaf {
    cgroup: Cgroup,
    name: CString,
    events: Events,
    watched: Watched,
}

/// Whether the kernel has anything more to announce of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Yes,
    /// Somebody removed it. Its files are ready for ever then, with nothing new in them: waiting on one would be a busy loop.
    Removed,
}

impl Leaf {
    /// Makes it. A directory of that name that somebody else made is an error: nothing runs in a group that we do not know.
    pub(super) fn create(task: &Cgroup, run: RunNumber) -> Result<Self, CgroupError> {
        let name = CString::new(format!("run-{run}")).expect("a number holds no NUL");
        let cgroup = task.create(&name)?;
        match cgroup.events() {
            Ok(events) => Ok(Self { cgroup, name, events, watched: Watched::Yes }),
            Err(error) => {
                // Nothing lives in it yet; what matters to the caller is the first error.
                let _ = task.remove_child(&name);
                Err(error)
            }
        }
    }

    pub(super) fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    /// To be polled for priority data; none once it was removed.
    pub(super) fn events(&self) -> Option<BorrowedFd<'_>> {
        match self.watched {
            Watched::Yes => Some(self.events.as_fd()),
            Watched::Removed => None,
        }
    }

    /// The kernel has announced a change: reads it, so that the next one is announced too.
    pub(super) fn note_change(&mut self) {
        if matches!(self.events.population(), Ok(Population::Removed)) {
            self.watched = Watched::Removed;
        }
    }

    /// Whether somebody lives in it. When that cannot be read, somebody may.
    pub(super) fn population(&self) -> Population {
        self.events.population().unwrap_or(Population::Populated)
    }

    /// Removes it, with the groups that the task made below.
    pub(super) fn remove(&self, task: &Cgroup) -> Result<(), CgroupError> {
        task.remove_child(&self.name)
    }

    /// cpu time that was used in it, in microseconds; 0 when the kernel does not tell.
    pub(super) fn cpu_usec(&self) -> u64 {
        let Ok(text) = dir::read_at(self.cgroup.as_fd(), c"cpu.stat", 4096) else { return 0 };
        let usage = parse::flat_keyed("cpu.stat", &text).flatten().find(|(key, _)| *key == b"usage_usec");
        usage.map_or(0, |(_, value)| value)
    }

    /// The processes in it now.
    pub(super) fn processes(&self) -> Vec<i32> {
        self.cgroup.processes().unwrap_or_default()
    }

    /// Sends a signal to each process in it and to each of our children outside of it, beside `main`. Each is held by a pidfd first, and
    /// then has to be in its group's list once more: so the handle is of a member and not of a stranger that got its number. INV-2.
    pub(super) fn signal_rest(&self, signal: Signal, main: Option<i32>) {
        // Group by group: what has to be listed again is one group, and not all that the task made.
        let signalled = self.cgroup.each_list(&mut |list| {
            let mut pids = list().into_iter().peekable();
            while pids.peek().is_some() {
                let held = hold(&mut pids);
                let members: BTreeSet<i32> = list().into_iter().collect();
                for (pid, process) in held {
                    if members.contains(&pid) {
                        ask(process.as_fd(), pid, signal);
                    }
                }
            }
        });
        if let Err(error) = signalled {
            tracing::warn!(%error, source = %error.source, "not every process was sent its signal, going on");
        }
        self.signal_escaped(signal, main);
    }

    /// Sends a signal to each of our children that is in no group of this leaf, beside `main`; gives their ids. They are unreaped
    /// children of ours, so their numbers are theirs.
    pub(super) fn signal_escaped(&self, signal: Signal, main: Option<i32>) -> Vec<i32> {
        let escaped = self.escaped(main);
        for pid in &escaped {
            if let Ok(process) = pidfd::open(*pid) {
                ask(process.as_fd(), *pid, signal);
            }
        }
        escaped
    }

    /// Our living children outside of the leaf, beside `main`.
    pub(super) fn escaped(&self, main: Option<i32>) -> Vec<i32> {
        let members: BTreeSet<i32> = self.processes().into_iter().collect();
        children::living().into_iter().filter(|pid| Some(*pid) != main && !members.contains(pid)).collect()
    }
}

/// Takes the next processes by pidfd, as many as there are descriptors for. Those that have ended are left out.
fn hold(pids: &mut Peekable<impl Iterator<Item = i32>>) -> Vec<(i32, OwnedFd)> {
    let mut held = Vec::new();
    while held.len() < BATCH
        && let Some(pid) = pids.peek().copied()
    {
        match pidfd::open(pid) {
            Err(SysError { errno: Errno::EMFILE | Errno::ENFILE, .. }) if !held.is_empty() => break,
            opened => held.extend(opened.map(|process| (pid, process))),
        }
        pids.next();
    }
    held
}

/// Sends a signal that the process may handle, and lets it do so: one that was stopped (SIGSTOP, SIGTSTP) is continued.
pub(super) fn ask(process: BorrowedFd<'_>, pid: i32, signal: Signal) {
    send(process, signal);
    // Only the question is put by number: what is continued is the process of the pidfd.
    if children::is_stopped(pid) {
        send(process, Signal::CONT);
    }
}

/// A process that has just ended needs no signal any more; whether one was ended is seen by looking, not by this result.
pub(super) fn send(process: BorrowedFd<'_>, signal: Signal) {
    match pidfd::send_signal(process, i32::from(signal.number())) {
        Ok(()) | Err(SysError { errno: Errno::ESRCH, .. }) => {}
        Err(error) => tracing::warn!(%error, %signal, "a process could not be signalled, going on"),
    }
}
