//! Processes are born, execute and exit.

use aya_ebpf::helpers::bpf_ktime_get_boot_ns;

use crate::abi::{Executor, Process, ProcessKey, Run, class, global, kind};
use crate::cgroups;
use crate::classify::{Birth, Parentage, Standing, birth};
use crate::events::{Subject, emit};
use crate::fields::Task;
use crate::maps::{
    BPF_NOEXIST, EXECUTORS, PROCESSES, RUNS, copy, copy_comm, count, increment, place, standing, standing_of,
    tally, tally_late,
};

/// A process or a thread was born. The child is in its cgroup already, by whatever way, and has not run yet; the parent is current.
#[inline(always)]
pub fn born(parent: Task, child: Task) {
    let tgid = child.tgid();
    if tgid != child.pid() {
        cgroups::thread_born(parent, child);
        return;
    }
    let parent_tgid = parent.tgid();
    // Both here, and not where they are needed: see `cgroups::attached`.
    let (cgroup, start) = (child.cgroup(), child.start());
    // The parent must be asked as well as the child's cgroup: a member can clone a child to anywhere with CLONE_INTO_CGROUP, and a stranger
    // can clone one into a run, both without an attach event.
    let verdict = birth(standing_of(parent_tgid), place(cgroup));
    let runs = verdict.runs();
    let (class, born_outside) = match verdict {
        Birth::Untracked => return,
        Birth::Misplaced => {
            count(global::YOUNG_MOVES);
            return;
        }
        Birth::Executor => (class::EXECUTOR, 0),
        Birth::Inside { .. } => (class::TASK, 0),
        Birth::Outside { .. } => (class::ESCAPED, 1),
    };
    let record = Process { start, cgroup, run: runs.run, class, born_outside, ..Process::default() };
    // There must be none: an older one would mean that the exit of a process with this id was missed.
    if PROCESSES.insert(tgid, record, BPF_NOEXIST).is_err() {
        count(global::FAILED);
    }
    let subject = Subject { tgid, start, cgroup, comm: child.comm() };
    match verdict {
        Birth::Untracked | Birth::Misplaced => {}
        Birth::Executor => {
            count(global::EXECUTOR_BIRTHS);
            if EXECUTORS.insert(ProcessKey { start, tgid, pad: 0 }, Executor::default(), BPF_NOEXIST).is_err()
            {
                count(global::FAILED);
            }
        }
        Birth::Inside { run: _, parentage } => {
            let mut is_foreign = false;
            match RUNS.get_ptr_mut(runs.run) {
                // SAFETY: the map gave the pointer.
                Some(run) => unsafe {
                    increment(&raw mut (*run).births);
                    match parentage {
                        Parentage::Executor => {
                            if (*run).main_tgid == 0 {
                                (*run).main_start = start;
                                (*run).main_tgid = tgid;
                                (*run).main_parent = parent_tgid;
                            } else {
                                is_foreign = (*run).main_parent != parent_tgid;
                            }
                        }
                        Parentage::Member => {}
                        Parentage::Foreign => is_foreign = true,
                    }
                    if is_foreign {
                        increment(&raw mut (*run).foreign);
                    }
                },
                None => count(global::FAILED),
            }
            if is_foreign {
                emit(kind::FOREIGN, &subject, runs.run, parent_tgid, 0);
            }
            emit(kind::BIRTH, &subject, runs.run, parent_tgid, 0);
        }
        Birth::Outside { .. } => {
            tally_late!(runs.run, outside);
            emit(kind::OUTSIDE, &subject, runs.run, parent_tgid, 0);
            if runs.intrudes != 0 {
                tally!(runs.intrudes, foreign);
                emit(kind::FOREIGN, &subject, runs.intrudes, parent_tgid, 0);
            }
        }
    }
}

/// A process executes another program. It keeps its identity, also when another thread than the leader called.
#[inline(always)]
pub fn executed(task: Task) {
    let Some(record) = PROCESSES.get_ptr(task.tgid()) else {
        return;
    };
    count(global::EXECS);
    // SAFETY: the map gave the pointer.
    if task.start() != unsafe { (*record).start } {
        count(global::IDENTITY_MISMATCH);
    }
}

/// A thread exits; with the last one the process has ended.
#[inline(always)]
pub fn exited(task: Task) {
    let tgid = task.tgid();
    let Some(record) = PROCESSES.get_ptr(tgid) else {
        return;
    };
    // All here, and not where they are needed: see `cgroups::attached`.
    let (live, status, start) = task.end();
    if live != 0 {
        return;
    }
    // SAFETY: the map gave the pointer.
    let record = unsafe { copy(record) };
    // Two exiting threads may both find none alive: exactly one of them removes the record, and counts.
    if PROCESSES.remove(tgid).is_err() {
        return;
    }
    if start != record.start {
        count(global::IDENTITY_MISMATCH);
    }
    match standing(record.class, record.run) {
        Standing::Executor => {
            count(global::EXECUTOR_EXITS);
            match EXECUTORS.get_ptr_mut(ProcessKey { start: record.start, tgid, pad: 0 }) {
                // SAFETY: the map gave the pointer.
                Some(executor) => unsafe {
                    (&raw mut (*executor).status).write_volatile(u64::from(status));
                    (&raw mut (*executor).exited).write_volatile(bpf_ktime_get_boot_ns());
                },
                None => count(global::FAILED),
            }
        }
        Standing::Inside(_) | Standing::Escaped(_) => {
            match RUNS.get_ptr_mut(record.run) {
                // SAFETY: the map gave the pointer.
                Some(run) => unsafe { member_exited(run, tgid, &record, status) },
                // It may outlive its run only when it is outside, see `tally_late`.
                None if record.class == class::ESCAPED => {}
                None => count(global::FAILED),
            }
            let subject = Subject { tgid, start: record.start, cgroup: record.cgroup, comm: task.comm() };
            emit(kind::EXIT, &subject, record.run, 0, u64::from(status));
        }
        Standing::Stranger => count(global::FAILED),
    }
}

/// Counts the exit of a process of the run, and keeps what is asked about its main process.
///
/// # Safety
/// `run` points into a value of `RUNS`.
#[inline(always)]
unsafe fn member_exited(run: *mut Run, tgid: u32, record: &Process, status: u32) {
    // SAFETY: an entry that was looked up stays readable and writable until the program returns; the verifier knows its size.
    unsafe {
        if (*run).main_tgid == tgid && (*run).main_start == record.start {
            (*run).main_status = status;
            (*run).signal = record.signal;
            (*run).sender = record.sender;
            (*run).sender_uid = record.sender_uid;
            (*run).sender_kernel = record.sender_kernel;
            copy_comm(&raw mut (*run).sender_comm, &raw const record.sender_comm);
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
