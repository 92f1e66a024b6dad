//! Trials with children of ours and a private cgroup.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::observed::{Birth, CgroupTrial, ExitKept, PidfdTrial, Tried};
use super::scratch::Scratch;
use crate::cgroup::parse::{self, V2Membership};
use crate::cgroup::{CgroupPath, Hierarchy};
use crate::sys::probe::{Ended, ProbeChild, SignalsHeld, Task, open_to_write, write_word};
use crate::sys::{Result, SysError};

/// How long a child may take to end on a busy machine.
const LIMIT: Duration = Duration::from_secs(5);

/// Tries cgroups, below our own.
pub(super) fn cgroup(hierarchy: &Hierarchy) -> CgroupTrial {
    let own = match hierarchy.open_own() {
        Ok(own) => own,
        Err(_) => return CgroupTrial::not_tried("our own cgroup cannot be opened"),
    };
    // Should it fail, Ctrl-C could leave a directory behind; the trial is still worth more.
    let _held = SignalsHeld::new();
    let scratch = match Scratch::make(own.as_fd(), &format!("proctor-doctor.{}", std::process::id())) {
        Ok(scratch) => scratch,
        Err(error) => {
            let rest = CgroupTrial::not_tried("needs a cgroup of our own");
            return CgroupTrial { made: Tried::Refused(error), ..rest };
        }
    };
    let path = hierarchy.own_cgroup().child(scratch.name());
    let (birth, freeze) = in_fresh(own.as_fd(), &scratch, &path);
    let (kill, birth_after_kill) = in_killed(&scratch);
    let left_behind = scratch.remove().err().map(|error| format!("{path}: {error}"));
    CgroupTrial { made: Tried::Worked(()), birth, kill, birth_after_kill, freeze, left_behind }
}

fn in_fresh(own: BorrowedFd<'_>, parent: &Scratch, parent_path: &CgroupPath) -> (Tried<()>, Tried<()>) {
    let fresh = match Scratch::make(parent.dir(), "fresh") {
        Ok(fresh) => fresh,
        Err(error) => return (Tried::Refused(error), Tried::Refused(error)),
    };
    let path = parent_path.child(fresh.name());
    let birth = match birth(&fresh, &path) {
        // Where our own cgroup was killed once, some kernels kill what is cloned from there. The keeper goes the same way round.
        Ok(Tried::Wrong(why)) => {
            from_elsewhere(own, parent, || birth(&fresh, &path)).unwrap_or(Tried::Wrong(why))
        }
        other => other.unwrap_or_else(Tried::Refused),
    };
    (birth, freeze(&fresh).into())
}

/// Does it while we are in a cgroup that was never killed, and moves back.
fn from_elsewhere<T>(own: BorrowedFd<'_>, parent: &Scratch, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let elsewhere = Scratch::make(parent.dir(), "elsewhere")?;
    let back = open_to_write(own, c"cgroup.procs")?;
    write_word(open_to_write(elsewhere.dir(), c"cgroup.procs")?.as_fd(), b"0")?;
    let done = work();
    write_word(back.as_fd(), b"0")?;
    done
}

fn in_killed(parent: &Scratch) -> (Tried<()>, Tried<Birth>) {
    let killed = match Scratch::make(parent.dir(), "killed") {
        Ok(killed) => killed,
        Err(error) => return (Tried::Refused(error), Tried::Refused(error)),
    };
    let kill = kill(&killed).unwrap_or_else(Tried::Refused);
    let birth = match kill {
        Tried::Worked(()) => birth_after_kill(&killed).into(),
        Tried::Refused(_) | Tried::Wrong(_) | Tried::NotTried(_) => Tried::NotTried("needs cgroup.kill"),
    };
    (kill, birth)
}

/// A child that exits at once; where it was is read while it is a zombie, which the kernel shows in its last cgroup.
fn birth(cgroup: &Scratch, path: &CgroupPath) -> Result<Tried<()>> {
    let mut child = ProbeChild::spawn(Some(cgroup.dir()), Task::Exit)?;
    child.wait_ended(LIMIT)?;
    let text = SysError::from_io("read", std::fs::read(format!("/proc/{}/cgroup", child.pid())));
    let ended = child.reap(LIMIT)?;
    let membership = parse::memberships(&text?).ok().and_then(|found| found.v2);
    Ok(match (ended, membership) {
        (Ended::Exited, Some(V2Membership::Live(found))) if found == *path => Tried::Worked(()),
        (Ended::Exited, Some(V2Membership::Live(found) | V2Membership::Removed(found))) => {
            Tried::Wrong(format!("the child was born in {found} and not in {path}"))
        }
        (Ended::Exited, None) => Tried::Wrong("/proc does not say where the child was born".to_owned()),
        (Ended::Signaled(signal), _) => Tried::Wrong(format!("the child died of signal {signal} at birth")),
    })
}

/// Freezes the empty cgroup and thaws it.
fn freeze(cgroup: &Scratch) -> Result<()> {
    let file = open_to_write(cgroup.dir(), c"cgroup.freeze")?;
    write_word(file.as_fd(), b"1")?;
    let frozen = cgroup.wait_until(|events| events.frozen, LIMIT);
    write_word(file.as_fd(), b"0")?;
    frozen?;
    cgroup.wait_until(|events| !events.frozen, LIMIT)
}

/// Kills a child through its cgroup. Without `CLONE_INTO_CGROUP` there is no child, and only the write is tried.
fn kill(cgroup: &Scratch) -> Result<Tried<()>> {
    let file = open_to_write(cgroup.dir(), c"cgroup.kill")?;
    let child = ProbeChild::spawn(Some(cgroup.dir()), Task::Wait).ok();
    write_word(file.as_fd(), b"1")?;
    let Some(mut child) = child else { return Ok(Tried::Worked(())) };
    Ok(match child.reap(LIMIT)? {
        Ended::Signaled(libc::SIGKILL) => Tried::Worked(()),
        Ended::Exited | Ended::Signaled(_) => {
            Tried::Wrong("a child in the cgroup was not killed by it".to_owned())
        }
    })
}

fn birth_after_kill(killed: &Scratch) -> Result<Birth> {
    let mut child = ProbeChild::spawn(Some(killed.dir()), Task::Exit)?;
    match child.reap(LIMIT)? {
        Ended::Exited => Ok(Birth::Healthy),
        Ended::Signaled(_) => Ok(Birth::KilledAtBirth),
    }
}

/// Tries pidfds, with a child in our own cgroup.
pub(super) fn pidfd() -> PidfdTrial {
    let mut child = match ProbeChild::spawn(None, Task::Wait) {
        Ok(child) => child,
        Err(error) => {
            let why = "needs a child with a pidfd";
            let (signal, wait, info) = (Tried::NotTried(why), Tried::NotTried(why), Tried::NotTried(why));
            return PidfdTrial { clone: Tried::Refused(error), signal, wait, info };
        }
    };
    let alive = child.info();
    let signal = child.signal(libc::SIGKILL);
    // Without the signal the child waits until it is dropped.
    let wait = match signal {
        Ok(()) => match child.reap(LIMIT) {
            Ok(Ended::Signaled(libc::SIGKILL)) => Tried::Worked(()),
            Ok(Ended::Exited | Ended::Signaled(_)) => {
                Tried::Wrong("it does not tell how the child ended".to_owned())
            }
            Err(error) => Tried::Refused(error),
        },
        Err(_) => Tried::NotTried("needs pidfd_send_signal"),
    };
    let info = match (alive, &wait) {
        (Err(error), _) => Tried::Refused(error),
        // Before 6.15 the kernel answers ESRCH for a process that was reaped.
        (Ok(_), Tried::Worked(())) => Tried::Worked(match child.info() {
            Ok(info) if info.has_exit() => ExitKept::Kept,
            Ok(_) | Err(_) => ExitKept::Lost,
        }),
        (Ok(_), _) => Tried::NotTried("needs waitid on a pidfd"),
    };
    PidfdTrial { clone: Tried::Worked(()), signal: signal.into(), wait, info }
}
