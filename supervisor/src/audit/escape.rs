//! Processes of a run that are outside it.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use serde::Serialize;
use supervisor_ebpf::abi::{Process, ProcessKey};

use super::decode::Comm;
use crate::cgroup::CgroupId;
use crate::cgroup::parse::{ProcessState, Stat, stat as stat_of};
use crate::sys::pidfd;

/// Whether a process is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Life {
    /// It lives.
    Alive,
    /// It is gone.
    Gone,
}

/// A process that was moved out of its run, or born outside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EscapedProcess {
    /// Which process. Its number alone may be another process's by now: compare the start time before you act.
    #[serde(skip)]
    pub key: ProcessKey,
    /// Its process id.
    pub pid: u32,
    /// Its name when last seen.
    pub comm: String,
    /// Where it is: the path in the cgroup2 hierarchy, or the number of a cgroup whose path nobody knows.
    pub cgroup: String,
    /// Whether it lives.
    pub alive: Life,
}

/// `/proc` shows the start of a process in ticks of this length: `USER_HZ` is 100 on every architecture that eBPF is built for.
const NS_PER_TICK: u64 = 10_000_000;
/// Inode number of the initial time namespace (`PROC_TIME_INIT_INO`), the same on every kernel.
const INITIAL_TIME_NAMESPACE: u64 = 0xEFFF_FFFA;

/// Whether `/proc` shows us the start times that the kernel side sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// Yes.
    Host,
    /// No: we are in a time namespace. Only the process id can be compared then.
    Shifted,
}

impl Clock {
    /// The clock of this process. Kernels without time namespaces (before 5.6) have the host's.
    pub fn of_this_process() -> Self {
        match fs::metadata("/proc/self/ns/time") {
            Ok(meta) if meta.ino() != INITIAL_TIME_NAMESPACE => Self::Shifted,
            Ok(_) | Err(_) => Self::Host,
        }
    }
}

/// Whether the process with this key lives, as `/proc` says. A zombie does not.
pub(super) fn lives(key: ProcessKey, clock: Clock) -> Life {
    let Ok(stat) = fs::read(format!("/proc/{}/stat", key.tgid)) else { return Life::Gone };
    match stat_of(&stat) {
        Ok(stat) => life(&stat, key, clock),
        Err(_) => Life::Gone,
    }
}

fn life(stat: &Stat, key: ProcessKey, clock: Clock) -> Life {
    let same = match clock {
        Clock::Host => stat.start_ticks == key.start / NS_PER_TICK,
        Clock::Shifted => true,
    };
    match stat.state {
        ProcessState::Zombie | ProcessState::Dead => Life::Gone,
        _ if same => Life::Alive,
        _ => Life::Gone,
    }
}

impl EscapedProcess {
    /// A handle for exactly this process; none when it is gone, whoever has its number now.
    pub fn open(&self) -> Option<OwnedFd> {
        let pidfd = pidfd::open(i32::try_from(self.pid).ok()?).ok()?;
        // Looked at only after the handle was made: from then on the number cannot be another process's while this one lives.
        match lives(self.key, Clock::of_this_process()) {
            Life::Alive => Some(pidfd),
            Life::Gone => None,
        }
    }
}

/// The name of a living process, as it is now.
pub(super) fn comm_of(pid: u32) -> String {
    let mut bytes = [0; 16];
    let text = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    for (to, from) in bytes.iter_mut().take(15).zip(text.strip_suffix(b"\n").unwrap_or(&text)) {
        *to = *from;
    }
    Comm::new(bytes).to_string()
}

/// The key of a record of the map `PROCESSES`.
pub(super) fn key_of(tgid: u32, record: &Process) -> ProcessKey {
    ProcessKey { start: record.start, tgid, pad: 0 }
}

/// A cgroup for people: its path, else its number.
pub(super) fn place(cgroup: Option<CgroupId>, path: impl FnOnce(CgroupId) -> Option<String>) -> String {
    match cgroup {
        Some(id) => path(id).unwrap_or_else(|| format!("cgroup {id}")),
        None => "an unknown cgroup".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(state: ProcessState, start_ticks: u64) -> Stat {
        Stat { pid: 5, comm: Vec::new(), state, ppid: 1, start_ticks }
    }

    #[test]
    fn a_process_is_its_start_and_not_its_number() {
        let key = ProcessKey { start: 777 * NS_PER_TICK + 5, tgid: 5, pad: 0 };
        let rows = [
            (ProcessState::Sleeping, 777, Clock::Host, Life::Alive),
            (ProcessState::Uninterruptible, 777, Clock::Host, Life::Alive),
            (ProcessState::Zombie, 777, Clock::Host, Life::Gone),
            (ProcessState::Sleeping, 778, Clock::Host, Life::Gone),
            (ProcessState::Sleeping, 778, Clock::Shifted, Life::Alive),
            (ProcessState::Zombie, 778, Clock::Shifted, Life::Gone),
        ];
        for (state, ticks, clock, expected) in rows {
            assert_eq!(life(&stat(state, ticks), key, clock), expected, "{state:?} {ticks} {clock:?}");
        }
    }

    #[test]
    fn only_the_process_itself_can_be_opened() {
        let own = stat_of(&fs::read("/proc/self/stat").unwrap()).unwrap();
        let process = |start_ticks: u64| EscapedProcess {
            key: ProcessKey { start: start_ticks * NS_PER_TICK, tgid: std::process::id(), pad: 0 },
            pid: std::process::id(),
            comm: String::new(),
            cgroup: String::new(),
            alive: Life::Alive,
        };
        assert!(process(own.start_ticks).open().is_some());
        if Clock::of_this_process() == Clock::Host {
            assert!(process(own.start_ticks + 1).open().is_none());
        }
    }
}
