//! Processes of a run that are outside it.

use std::fs;

use serde::Serialize;
use supervisor_ebpf::abi::{Process, ProcessKey};

use super::decode::Comm;
use crate::cgroup::CgroupId;

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

/// How far `/proc` shows the start of a process: `USER_HZ` is 100 on every architecture that eBPF is built for.
const NS_PER_TICK: u64 = 10_000_000;

/// Whether the process with this key lives, as `/proc` says. A zombie does not.
pub(super) fn lives(key: ProcessKey) -> Life {
    match fs::read(format!("/proc/{}/stat", key.tgid)).ok().as_deref().and_then(state_and_start) {
        Some((state, ticks)) if ticks == key.start / NS_PER_TICK && !matches!(state, b'Z' | b'X') => {
            Life::Alive
        }
        Some(_) | None => Life::Gone,
    }
}

/// State and start time in ticks out of the text of `/proc/<pid>/stat`. The name in it may hold anything, also parentheses.
fn state_and_start(stat: &[u8]) -> Option<(u8, u64)> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    // Start time is field 22 of the file, the state is field 3.
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
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
    use proptest::prelude::*;

    #[test]
    fn the_name_may_hold_anything() {
        let stat = b"12 (a) R 1 (b\xff) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 1000 2 18446744073709551615";
        assert_eq!(state_and_start(stat), Some((b'S', 777)));
        assert_eq!(state_and_start(b"12 (sh) S 1"), None);
        assert_eq!(state_and_start(b""), None);
    }

    #[test]
    fn another_process_with_the_number_is_not_it() {
        let pid = std::process::id();
        let stat = fs::read("/proc/self/stat").unwrap();
        let (_, ticks) = state_and_start(&stat).unwrap();
        let key = ProcessKey { start: ticks * NS_PER_TICK + 5, tgid: pid, pad: 0 };
        assert_eq!(lives(key), Life::Alive);
        assert_eq!(lives(ProcessKey { start: key.start + NS_PER_TICK, ..key }), Life::Gone);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = state_and_start(&text);
        }
    }
}
