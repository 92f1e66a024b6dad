//! The eBPF programs that watch proctor's cgroups: the entry points.
//!
//! Each reads what the kernel gives it (`fields`), asks what it means (`classify`) and counts it (`maps`); `events` tells the detail. What
//! the maps hold is described in `abi`, which user space compiles too. Other processes of the host cost one or two look-ups for each fork,
//! move, exec, exit and signal, and nothing else.
#![no_std]
#![no_main]
// For the atomic addition, see `maps::increment`.
#![feature(core_intrinsics)]
#![allow(internal_features)]

use aya_ebpf::{
    helpers::{
        bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_get_current_uid_gid, bpf_ktime_get_boot_ns,
    },
    macros::btf_tracepoint,
    programs::BtfTracePointContext,
};

#[path = "../../src/abi.rs"]
#[allow(dead_code)]
mod abi;
mod classify;
mod events;
mod fields;
mod maps;

use abi::{CgroupClass, Executor, Process, ProcessKey, Run, class, global, kind};
use classify::{Birth, Move, Parentage, Place, RunId, Standing, YoungMove, birth, movement, young};
use events::{Subject, emit};
use fields::{Cgroup, SignalInfo, Task, victim_is_task};
use maps::{
    BPF_EXIST, BPF_NOEXIST, CLASSES, EXECUTORS, PROCESSES, RUNS, count, increment, place, standing,
    standing_of, tally, tally_late,
};

/// The error of an update or a removal that found no entry.
const ENOENT: i32 = 2;
/// `TRACE_SIGNAL_DELIVERED` of the kernel: the result of a signal that was neither ignored nor merged with a pending one.
const SIGNAL_DELIVERED: i32 = 0;
const SIGKILL: u32 = 9;
const SIGCHLD: u32 = 17;
const SIGCONT: u32 = 18;
const SIGURG: u32 = 23;
const SIGWINCH: u32 = 28;
const SI_TIMER: i32 = -2;
const SI_ASYNCIO: i32 = -4;
const SI_SIGIO: i32 = -5;
const SI_ASYNCNL: i32 = -60;

/// A cgroup was made: it takes its class from its parent. The directory cannot be seen yet, so no process can be in it.
#[btf_tracepoint(function = "cgroup_mkdir")]
pub fn cgroup_mkdir(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the tracepoint's first argument is the cgroup.
    let cgroup = unsafe { Cgroup::new(ctx.arg(0)) };
    if !cgroup.is_v2() {
        return 0;
    }
    let Some(parent) = CLASSES.get_ptr(cgroup.parent_id()) else {
        return 0;
    };
    let parent = unsafe { *parent };
    let id = cgroup.id();
    let entry = match parent.class {
        class::TASKS => CgroupClass { class: class::TASK, pad: 0, task: id, run: id },
        // Directly below a task's directory is a run; what is made below a run belongs to the run.
        class::TASK if parent.run == parent.task => CgroupClass { run: id, ..parent },
        _ => parent,
    };
    // The counters first: no process can be classified into a run that has none.
    if entry.class == class::TASK && entry.run == id && RUNS.insert(id, Run::default(), 0).is_err() {
        count(global::FAILED);
    }
    if CLASSES.insert(id, entry, 0).is_err() {
        count(global::FAILED);
    }
    count(global::MKDIRS);
    0
}

/// A cgroup was removed: it had no live member. Not at its release, which comes much later, and with the memory controller perhaps never.
#[btf_tracepoint(function = "cgroup_rmdir")]
pub fn cgroup_rmdir(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the tracepoint's first argument is the cgroup.
    let cgroup = unsafe { Cgroup::new(ctx.arg(0)) };
    if !cgroup.is_v2() {
        return 0;
    }
    let id = cgroup.id();
    let Some(entry) = CLASSES.get_ptr(id) else {
        return 0;
    };
    let entry = unsafe { *entry };
    if entry.class == class::TASK && entry.run == id {
        match RUNS.get_ptr_mut(id) {
            Some(run) => unsafe { (*run).removed = 1 },
            None => count(global::FAILED),
        }
    }
    if CLASSES.remove(id).is_err() {
        count(global::FAILED);
    }
    count(global::RMDIRS);
    0
}

/// A process or a thread was born. The child is in its cgroup already, by whatever way, and has not run yet.
#[btf_tracepoint(function = "sched_process_fork")]
pub fn sched_process_fork(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the tracepoint's arguments are the parent's task, which is current, and the child's.
    let (parent, child) = unsafe { (Task::new(ctx.arg(0)), Task::new(ctx.arg(1))) };
    let tgid = child.tgid();
    if tgid != child.pid() {
        return 0; // A thread.
    }
    let parent_tgid = parent.tgid();
    let cgroup = child.cgroup();
    // The parent must be asked as well as the child's cgroup: a member can clone a child to anywhere with CLONE_INTO_CGROUP, and a stranger
    // can clone one into a run, both without an attach event.
    let verdict = birth(standing_of(parent_tgid), place(cgroup));
    let (class, run, born_outside) = match verdict {
        Birth::Untracked => return 0,
        Birth::Executor => (class::EXECUTOR, 0, 0),
        Birth::Inside { run, parentage: _ } => (class::TASK, run.0, 0),
        Birth::Outside { run, intrudes: _ } => (class::ESCAPED, run.0, 1),
    };
    let start = child.start();
    let record = Process { start, cgroup, run, class, born_outside, ..Process::default() };
    if PROCESSES.insert(tgid, record, BPF_NOEXIST).is_err() {
        count(global::FAILED);
    }
    let subject = Subject { tgid, start, cgroup, comm: child.comm() };
    match verdict {
        Birth::Untracked => {}
        Birth::Executor => {
            count(global::EXECUTOR_BIRTHS);
            if EXECUTORS.insert(ProcessKey { start, tgid, pad: 0 }, Executor::default(), BPF_NOEXIST).is_err()
            {
                count(global::FAILED);
            }
        }
        Birth::Inside { run, parentage } => {
            match RUNS.get_ptr_mut(run.0) {
                Some(entry) => unsafe {
                    increment(&raw mut (*entry).births);
                    match parentage {
                        Parentage::Executor => {
                            if (*entry).main_tgid == 0 {
                                (*entry).main_start = start;
                                (*entry).main_tgid = tgid;
                            }
                        }
                        Parentage::Member => {}
                        Parentage::Foreign => increment(&raw mut (*entry).foreign),
                    }
                },
                None => count(global::FAILED),
            }
            if let Parentage::Foreign = parentage {
                emit(kind::FOREIGN, &subject, run.0, parent_tgid, 0);
            }
            emit(kind::BIRTH, &subject, run.0, parent_tgid, 0);
        }
        Birth::Outside { run, intrudes } => {
            tally_late!(run, outside);
            emit(kind::OUTSIDE, &subject, run.0, parent_tgid, 0);
            if let Some(other) = intrudes {
                tally!(other, foreign);
                emit(kind::FOREIGN, &subject, other.0, parent_tgid, 0);
            }
        }
    }
    0
}

/// A process executes another program. It keeps its identity, also when another thread than the leader called.
#[btf_tracepoint(function = "sched_process_exec")]
pub fn sched_process_exec(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the tracepoint's first argument is the task.
    let task = unsafe { Task::new(ctx.arg(0)) };
    let Some(record) = PROCESSES.get_ptr(task.tgid()) else {
        return 0;
    };
    count(global::EXECS);
    if task.start() != unsafe { (*record).start } {
        count(global::IDENTITY_MISMATCH);
    }
    0
}

/// A thread exits; with the last one the process has ended.
#[btf_tracepoint(function = "sched_process_exit")]
pub fn sched_process_exit(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the tracepoint's first argument is the task. The second one is not in all kernels, and is not needed.
    let task = unsafe { Task::new(ctx.arg(0)) };
    let tgid = task.tgid();
    let Some(record) = PROCESSES.get_ptr(tgid) else {
        return 0;
    };
    if task.live_threads() != 0 {
        return 0;
    }
    let record = unsafe { *record };
    // Two exiting threads may both find none alive: exactly one of them removes the record, and counts.
    if PROCESSES.remove(tgid).is_err() {
        return 0;
    }
    if task.start() != record.start {
        count(global::IDENTITY_MISMATCH);
    }
    let status = task.wait_status();
    match standing(record.class, record.run) {
        Standing::Executor => {
            count(global::EXECUTOR_EXITS);
            match EXECUTORS.get_ptr_mut(ProcessKey { start: record.start, tgid, pad: 0 }) {
                Some(executor) => unsafe {
                    (&raw mut (*executor).status).write_volatile(u64::from(status));
                    (&raw mut (*executor).exited).write_volatile(bpf_ktime_get_boot_ns());
                },
                None => count(global::FAILED),
            }
        }
        Standing::Inside(run) | Standing::Escaped(run) => {
            match RUNS.get_ptr_mut(run.0) {
                Some(entry) => unsafe { exit_of_member(entry, tgid, &record, status) },
                // It may outlive its run only when it is outside, see `tally_late`.
                None if record.class == class::ESCAPED => {}
                None => count(global::FAILED),
            }
            let subject = Subject { tgid, start: record.start, cgroup: record.cgroup, comm: task.comm() };
            emit(kind::EXIT, &subject, run.0, 0, u64::from(status));
        }
        Standing::Stranger => count(global::FAILED),
    }
    0
}

/// Counts the exit of a process of the run, and keeps what is asked about its main process.
///
/// # Safety
/// `run` points into a value of `RUNS`.
#[inline(always)]
unsafe fn exit_of_member(run: *mut Run, tgid: u32, record: &Process, status: u32) {
    unsafe {
        if (*run).main_tgid == tgid && (*run).main_start == record.start {
            (*run).main_status = status;
            (*run).signal = record.signal;
            (*run).sender = record.sender;
            (*run).sender_uid = record.sender_uid;
            (*run).sender_kernel = record.sender_kernel;
            (*run).sender_comm = record.sender_comm;
            // Last, and volatile, so that who sees it sees the rest.
            (&raw mut (*run).main_exited).write_volatile(bpf_ktime_get_boot_ns());
        }
        if record.born_outside == 0 {
            increment(&raw mut (*run).exits);
        } else {
            increment(&raw mut (*run).outside_exits);
        }
    }
}

/// A process or a thread was moved, after the fact; or its pid was written and nothing moved.
#[btf_tracepoint(function = "cgroup_attach_task")]
pub fn cgroup_attach_task(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the tracepoint's arguments are the destination, its path, the task (the leader, when the whole process is moved) and whether
    // the whole process is.
    let (cgroup, task) = unsafe { (Cgroup::new(ctx.arg(0)), Task::new(ctx.arg(2))) };
    let whole = ctx.arg::<u64>(3) & 1 != 0;
    if !cgroup.is_v2() {
        return 0;
    }
    let destination = cgroup.id();
    let to = place(destination);
    let tgid = task.tgid();
    let (record, tracked) = match PROCESSES.get_ptr(tgid) {
        Some(record) => (unsafe { *record }, true),
        None => (Process::default(), false),
    };
    if !tracked {
        if task.is_new() {
            match young(standing_of(task.real_parent().tgid()), to) {
                YoungMove::Unknown => {
                    count(global::YOUNG_MOVES);
                    return 0;
                }
                YoungMove::Later => return 0,
                YoungMove::Stranger => {}
            }
        }
        if let Place::Elsewhere | Place::Executors | Place::Tasks = to {
            return 0;
        }
    }
    // The pid of a zombie or of an exiting thread can be written: the event comes, but the exiting are not moved. The exception is a leader
    // that is gone while other threads live: they were moved, though its own cgroup is still the old one.
    let threads_moved = whole && task.live_threads() != 0 && task.threads() != 1;
    if task.cgroup() != destination && !threads_moved {
        count(global::DEAD_ATTACHES);
        return 0;
    }
    if tracked && whole && record.cgroup == destination {
        return 0; // It was there already.
    }
    let verdict = movement(standing(record.class, record.run), to);
    if tracked {
        let class = match verdict {
            Move::Left { .. } => class::ESCAPED,
            Move::Returned { .. } => class::TASK,
            Move::Nothing | Move::ExecutorEntered { .. } | Move::Inside { .. } | Move::Stranger { .. } => {
                record.class
            }
        };
        // Of a process whose threads are apart, the record has the cgroup of its leader, and the class that the last move gave it.
        let cgroup = if whole || task.pid() == tgid { destination } else { record.cgroup };
        // By an update with its key, not in place: the process may exit meanwhile, and its entry be another process's then. A signal that
        // comes between the look-up and here loses its sender, which costs a name and no verdict.
        match PROCESSES.insert(tgid, Process { class, cgroup, ..record }, BPF_EXIST) {
            Ok(()) => {}
            Err(error) if error == -ENOENT => {}
            Err(_) => count(global::FAILED),
        }
    }
    let start = if tracked { record.start } else { task.start() };
    let subject = Subject { tgid, start, cgroup: destination, comm: task.comm() };
    match verdict {
        Move::Nothing => {}
        Move::ExecutorEntered { run } => {
            match EXECUTORS.get_ptr_mut(ProcessKey { start, tgid, pad: 0 }) {
                Some(executor) => unsafe {
                    (*executor).entered_cgroup = destination;
                    increment(&raw mut (*executor).entered);
                },
                None => count(global::FAILED),
            }
            if let Some(run) = run {
                tally!(run, executor_entered);
            }
            emit(kind::EXECUTOR_ENTERED, &subject, run.unwrap_or(RunId(0)).0, 0, 0);
        }
        Move::Left { run, intrudes } => {
            tally!(run, left);
            emit(kind::LEFT, &subject, run.0, 0, 0);
            if let Some(other) = intrudes {
                stranger(&subject, other);
            }
        }
        Move::Returned { run } => {
            tally!(run, returned);
            emit(kind::RETURNED, &subject, run.0, 0, 0);
        }
        Move::Inside { run } => {
            tally!(run, moved_inside);
            emit(kind::MOVED_INSIDE, &subject, run.0, 0, 0);
        }
        Move::Stranger { intrudes } => stranger(&subject, intrudes),
    }
    0
}

/// Counts a process that is not of this run and was moved into it.
#[inline(always)]
fn stranger(subject: &Subject, run: RunId) {
    tally!(run, strangers);
    emit(kind::STRANGER, subject, run.0, 0, 0);
}

/// A signal was generated: who sent it is remembered, should it end the process. This may run in an interrupt, so it looks up, writes in
/// place and adds, and never updates or removes an entry.
#[btf_tracepoint(function = "signal_generate")]
pub fn signal_generate(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the tracepoint's arguments are the signal, its siginfo, the receiver's task, whether it is for the group, and the result.
    let (info, task) = unsafe { (SignalInfo::new(ctx.arg(1)), Task::new(ctx.arg(2))) };
    let signal = ctx.arg::<i32>(0) as u32;
    let result = ctx.arg::<i32>(4);
    let Some(record) = PROCESSES.get_ptr_mut(task.tgid()) else {
        return 0;
    };
    if result != SIGNAL_DELIVERED {
        return 0;
    }
    count(global::SIGNALS);
    // What never ends a process would only hide what did: SIGCHLD comes at any time.
    if let SIGCHLD | SIGCONT | SIGURG | SIGWINCH = signal {
        return 0;
    }
    // SAFETY: the map gave the pointer. Signals to one process are generated under its lock, so no two write at once. Should the process
    // exit just now and its entry become another's, that one gets a false sender, of a signal that did not end it.
    unsafe {
        if (*record).signal == SIGKILL {
            return 0;
        }
        (*record).signal = signal;
        (*record).sender = (bpf_get_current_pid_tgid() >> 32) as u32;
        (*record).sender_uid = bpf_get_current_uid_gid() as u32;
        (*record).sender_kernel = u32::from(made_by_kernel(info.code()));
        (*record).sender_comm = bpf_get_current_comm().unwrap_or([0; 16]);
    }
    0
}

/// Whether no process asked for a signal with this `si_code`; what is current then is by chance or the receiver itself.
#[inline(always)]
fn made_by_kernel(code: Option<i32>) -> bool {
    match code {
        None => true,
        // The codes of kill, sigqueue and tgkill are 0, -1 and -6, and sigqueue may give any other below 0; these are the kernel's own below.
        Some(SI_TIMER | SI_ASYNCIO | SI_SIGIO | SI_ASYNCNL) => true,
        Some(code) => code > 0,
    }
}

/// The OOM killer chose a process.
#[btf_tracepoint(function = "mark_victim")]
pub fn mark_victim(ctx: BtfTracePointContext) -> i32 {
    let (tgid, uid, comm) = if victim_is_task() {
        // SAFETY: user space found in BTF that the first argument is a task; there is a second one then.
        let task = unsafe { Task::new(ctx.arg(0)) };
        (task.tgid(), ctx.arg::<u32>(1), task.comm())
    } else {
        (ctx.arg::<i32>(0) as u32, 0, [0; 16])
    };
    let Some(record) = PROCESSES.get_ptr(tgid) else {
        return 0;
    };
    let (class, run, start, cgroup) =
        unsafe { ((*record).class, (*record).run, (*record).start, (*record).cgroup) };
    match standing(class, run) {
        Standing::Inside(run) | Standing::Escaped(run) => {
            tally_late!(run, oom_victims);
            emit(kind::OOM_VICTIM, &Subject { tgid, start, cgroup, comm }, run.0, 0, u64::from(uid));
        }
        Standing::Executor | Standing::Stranger => {}
    }
    0
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // Never reached: the verifier refuses a program that could loop here.
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
