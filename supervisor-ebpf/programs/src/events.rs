//! The ring buffer: detail for people. No verdict hangs on it.

use aya_ebpf::helpers::{
    bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_get_current_uid_gid, bpf_ktime_get_boot_ns,
};

use crate::abi::{Event, global, kind, level};
use crate::fields::event_level;
use crate::maps::{EVENTS, count};

/// How many bytes wait before the reader is woken. Waking it is dearer than all that the programs do; it also looks by a timer.
const WAKE_BYTES: u64 = 64 * 1024;
/// `BPF_RB_AVAIL_DATA`: ask for the bytes that wait.
const AVAILABLE: u64 = 0;
const NO_WAKEUP: u64 = 1;
const FORCE_WAKEUP: u64 = 2;

/// Who an event is about, and where.
#[derive(Clone, Copy)]
pub struct Subject {
    pub tgid: u32,
    pub start: u64,
    pub cgroup: u64,
    pub comm: [u8; 16],
}

/// Whether events of this kind are wanted. The level is a frozen constant: what is not wanted costs nothing.
#[inline(always)]
pub fn wanted(kind: u32) -> bool {
    let least = match kind {
        kind::BIRTH | kind::EXIT => level::BIRTHS,
        kind::RETURNED | kind::MOVED_INSIDE => level::MOVEMENTS,
        _ => level::ANOMALIES,
    };
    event_level() >= least
}

/// Writes one event, unless its kind is not wanted.
#[inline(always)]
pub fn emit(kind: u32, subject: &Subject, run: u64, other: u32, value: u64) {
    if !wanted(kind) {
        return;
    }
    let Some(mut entry) = EVENTS.reserve::<Event>(0) else {
        count(global::DROPPED);
        return;
    };
    entry.write(Event {
        time: unsafe { bpf_ktime_get_boot_ns() },
        start: subject.start,
        cgroup: subject.cgroup,
        run,
        value,
        kind,
        tgid: subject.tgid,
        other,
        by: (bpf_get_current_pid_tgid() >> 32) as u32,
        by_uid: bpf_get_current_uid_gid() as u32,
        pad: 0,
        by_comm: bpf_get_current_comm().unwrap_or([0; 16]),
        comm: subject.comm,
    });
    entry.submit(if EVENTS.query(AVAILABLE) >= WAKE_BYTES { FORCE_WAKEUP } else { NO_WAKEUP });
    count(global::PRODUCED);
}
