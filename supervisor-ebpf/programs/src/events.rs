//! The ring buffer: detail for people. No verdict hangs on it.

use aya_ebpf::helpers::{
    bpf_get_current_pid_tgid, bpf_get_current_uid_gid, bpf_ktime_get_boot_ns,
    generated::{bpf_get_current_comm, bpf_probe_read_kernel},
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
    /// The address of its comm in the kernel, or null: 16 bytes that only the helper may read.
    pub comm: *const u8,
}

/// Whether events of this kind are wanted. The level is a frozen constant: what is not wanted costs nothing.
#[inline(always)]
fn wanted(kind: u32) -> bool {
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
    let event = entry.as_mut_ptr();
    // SAFETY: the reserved memory is an event's size, and all of it is written: both helpers fill their 16 bytes, with zeros when they fail.
    unsafe {
        (*event).time = bpf_ktime_get_boot_ns();
        (*event).start = subject.start;
        (*event).cgroup = subject.cgroup;
        (*event).run = run;
        (*event).value = value;
        (*event).kind = kind;
        (*event).tgid = subject.tgid;
        (*event).other = other;
        (*event).by = (bpf_get_current_pid_tgid() >> 32) as u32;
        (*event).by_uid = bpf_get_current_uid_gid() as u32;
        (*event).pad = 0;
        bpf_get_current_comm((&raw mut (*event).by_comm).cast(), 16);
        bpf_probe_read_kernel((&raw mut (*event).comm).cast(), 16, subject.comm.cast());
    }
    entry.submit(if EVENTS.query(AVAILABLE) >= WAKE_BYTES { FORCE_WAKEUP } else { NO_WAKEUP });
    count(global::PRODUCED);
}
