//! The maps, and counting in them.
//!
//! User space may set other sizes when it loads the object. All counters are added to atomically: the programs run on all CPUs at once.

use core::intrinsics::{AtomicOrdering, atomic_xadd};
use core::mem::MaybeUninit;

use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap, RingBuf},
};

use crate::abi::{CgroupClass, Executor, Process, ProcessKey, Run, class, global};
use crate::classify::{Place, RunId, Standing};

#[map]
pub static CLASSES: HashMap<u64, CgroupClass> = HashMap::with_max_entries(8192, 0);
#[map]
pub static PROCESSES: HashMap<u32, Process> = HashMap::with_max_entries(32768, 0);
#[map]
pub static EXECUTORS: HashMap<ProcessKey, Executor> = HashMap::with_max_entries(4096, 0);
#[map]
pub static RUNS: HashMap<u64, Run> = HashMap::with_max_entries(8192, 0);
#[map]
pub static GLOBALS: Array<u64> = Array::with_max_entries(global::COUNT, 0);
#[map]
pub static EVENTS: RingBuf = RingBuf::with_byte_size(256 * 1024, 0);

/// Flag of an update that must make a new entry.
pub const BPF_NOEXIST: u64 = 1;
/// Flag of an update that must find an entry.
pub const BPF_EXIST: u64 = 2;

/// Adds 1, atomically.
///
/// # Safety
/// `counter` points into a map's value.
#[inline(always)]
pub unsafe fn increment(counter: *mut u64) {
    // AtomicU64 has no fetch_add here: the target has no compare-and-swap. With its result unused this is one instruction that all
    // kernels know.
    // SAFETY: an entry that was looked up stays readable and writable until the program returns; the verifier knows its size.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(counter, 1) };
}

/// Counts in `GLOBALS`, by an index of `abi::global`.
#[inline(always)]
pub fn count(index: u32) {
    if let Some(counter) = GLOBALS.get_ptr_mut(index) {
        // SAFETY: an entry that was looked up stays readable and writable until the program returns; the verifier knows its size.
        unsafe { increment(counter) }
    }
}

/// Counts one in a field of a run that must have an entry.
macro_rules! tally {
    ($run:expr, $field:ident) => {
        match $crate::maps::RUNS.get_ptr_mut($run) {
            // SAFETY: the map gave the pointer.
            Some(run) => unsafe { $crate::maps::increment(&raw mut (*run).$field) },
            None => $crate::maps::count($crate::abi::global::FAILED),
        }
    };
}

/// Counts one in a field of a run, for a process that may outlive it: a process that is outside does not keep the directory, and user space
/// may have removed the entry since.
macro_rules! tally_late {
    ($run:expr, $field:ident) => {
        if let Some(run) = $crate::maps::RUNS.get_ptr_mut($run) {
            // SAFETY: the map gave the pointer.
            unsafe { $crate::maps::increment(&raw mut (*run).$field) }
        }
    };
}

pub(crate) use {tally, tally_late};

/// Copies a record, in words: field by field it would be taken apart into single bytes, for which there is no room on the stack.
///
/// # Safety
/// `record` points into a value of `PROCESSES`.
#[inline(always)]
pub unsafe fn copy(record: *const Process) -> Process {
    const WORDS: usize = size_of::<Process>() / 8;
    let mut copy = MaybeUninit::<Process>::uninit();
    // SAFETY: an entry that was looked up stays readable and writable until the program returns; the verifier knows its size.
    unsafe {
        let (from, to) = (record.cast::<u64>(), copy.as_mut_ptr().cast::<u64>());
        for word in 0..WORDS {
            to.add(word).write(from.add(word).read());
        }
        copy.assume_init()
    }
}

/// Copies a comm from one of our values to another, in words.
///
/// # Safety
/// Both point to a comm in a value of a map, or in a copy of one.
#[inline(always)]
pub unsafe fn copy_comm(to: *mut [u8; 16], from: *const [u8; 16]) {
    // SAFETY: an entry that was looked up stays readable and writable until the program returns; the verifier knows its size.
    unsafe {
        let (to, from) = (to.cast::<u64>(), from.cast::<u64>());
        to.write(from.read());
        to.add(1).write(from.add(1).read());
    }
}

/// What the cgroup is to us.
#[inline(always)]
pub fn place(cgroup: u64) -> Place {
    // Plain values are taken out of the entry first: tests on two optional pointers at once become arithmetic on pointers, which the
    // verifier refuses.
    let (class, run) = match CLASSES.get_ptr(cgroup) {
        // SAFETY: an entry that was looked up stays readable and writable until the program returns; the verifier knows its size.
        Some(entry) => unsafe { ((*entry).class, (*entry).run) },
        None => (class::NONE, 0),
    };
    match class {
        class::EXECUTOR => Place::Executors,
        class::TASKS => Place::Tasks,
        class::TASK => Place::Run(RunId(run)),
        _ => Place::Elsewhere,
    }
}

/// How the process of this record stands.
#[inline(always)]
pub fn standing(class: u32, run: u64) -> Standing {
    match class {
        class::EXECUTOR => Standing::Executor,
        class::TASK => Standing::Inside(RunId(run)),
        class::ESCAPED => Standing::Escaped(RunId(run)),
        _ => Standing::Stranger,
    }
}

/// How the process of this id stands.
#[inline(always)]
pub fn standing_of(tgid: u32) -> Standing {
    let (class, run) = match PROCESSES.get_ptr(tgid) {
        // SAFETY: an entry that was looked up stays readable and writable until the program returns; the verifier knows its size.
        Some(record) => unsafe { ((*record).class, (*record).run) },
        None => (class::NONE, 0),
    };
    standing(class, run)
}
