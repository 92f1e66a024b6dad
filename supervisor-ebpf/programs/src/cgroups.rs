//! Cgroups are made and removed, and processes moved between them.

use crate::abi::{CgroupClass, Process, ProcessKey, Run, class, global, kind};
use crate::classify::{Move, Place, Standing, YoungMove, movement, young};
use crate::events::{Subject, emit};
use crate::fields::{Cgroup, Task};
use crate::maps::{
    BPF_EXIST, CLASSES, EXECUTORS, PROCESSES, RUNS, copy, count, increment, place, standing, standing_of,
    tally,
};

/// The error of an update that found no entry.
const ENOENT: i32 = 2;

/// A cgroup was made: it takes its class from its parent. The directory cannot be seen yet, so no process can be in it.
#[inline(always)]
pub fn made(cgroup: Cgroup) {
    if !cgroup.is_v2() {
        return;
    }
    let Some(parent) = CLASSES.get_ptr(cgroup.parent_id()) else {
        return;
    };
    // SAFETY: the map gave the pointer.
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
}

/// A cgroup was removed: it had no live member. Not at its release, which comes much later, and with the memory controller perhaps never.
#[inline(always)]
pub fn removed(cgroup: Cgroup) {
    if !cgroup.is_v2() {
        return;
    }
    let id = cgroup.id();
    let Some(entry) = CLASSES.get_ptr(id) else {
        return;
    };
    // SAFETY: the map gave the pointer.
    let entry = unsafe { *entry };
    if entry.class == class::TASK && entry.run == id {
        match RUNS.get_ptr_mut(id) {
            // SAFETY: the map gave the pointer.
            Some(run) => unsafe { (*run).removed = 1 },
            None => count(global::FAILED),
        }
    }
    if CLASSES.remove(id).is_err() {
        count(global::FAILED);
    }
    count(global::RMDIRS);
}

/// A process, or with `whole` false one thread, was moved, after the fact; or its pid was written and nothing moved. For a whole process the
/// task is its leader.
#[inline(always)]
pub fn attached(cgroup: Cgroup, task: Task, whole: bool) {
    if !cgroup.is_v2() {
        return;
    }
    // All that is read through pointers is read here, before the first branch: the verifier looks for names of types through the whole of the
    // kernel's BTF each time that it meets such a read, 0.7 ms each, and it meets what stands behind branches dozens of times.
    let destination = cgroup.id();
    let (leader_start, now) = (task.start(), task.cgroup());
    let (live, threads) = task.threads();
    let parent_tgid = task.real_parent().tgid();
    let to = place(destination);
    let tgid = task.tgid();
    let (record, tracked) = recorded(tgid);
    if !tracked {
        if task.is_new() {
            match young(standing_of(parent_tgid), to) {
                YoungMove::Unknown => {
                    count(global::YOUNG_MOVES);
                    return;
                }
                YoungMove::Later => return,
                YoungMove::Stranger => {}
            }
        }
        if let Place::Elsewhere | Place::Executors | Place::Tasks = to {
            return;
        }
    }
    // The pid of a zombie or of an exiting thread can be written: the event comes, but the exiting are not moved. The exception is a leader
    // that is gone while other threads live: they were moved, though its own cgroup is still the old one. Where it died a zombie seems to be
    // what was moved in. Whoever was alive at the move cannot end before this event is over: the lock against it is held.
    let others_moved = whole && live != 0 && threads != 1;
    if live == 0 || (now != destination && !others_moved) {
        count(global::DEAD_ATTACHES);
        return;
    }
    if tracked && whole && record.cgroup == destination {
        return; // It was there already.
    }
    // Of a process whose threads are apart, the record has the cgroup of its leader, and the class that the last move gave it.
    let moves_leader = whole || task.pid() == tgid;
    let start = if tracked { record.start } else { leader_start };
    let subject = Subject { tgid, start, cgroup: destination, comm: task.comm() };
    settle(to, tracked.then_some(&record), moves_leader, &subject);
}

/// A thread was born. It begins beside the one that made it, but for one that `clone3` puts into another cgroup of the same threaded tree:
/// a move for the process as any other of a single thread, and without an attach event.
#[inline(always)]
pub fn thread_born(parent: Task, child: Task) {
    let (destination, leader_start) = (child.cgroup(), child.start());
    if destination == parent.cgroup() {
        return;
    }
    let to = place(destination);
    let tgid = child.tgid();
    let (record, tracked) = recorded(tgid);
    let start = if tracked { record.start } else { leader_start };
    let subject = Subject { tgid, start, cgroup: destination, comm: child.comm() };
    settle(to, tracked.then_some(&record), false, &subject);
}

/// What is on record of this process, and whether anything is.
#[inline(always)]
fn recorded(tgid: u32) -> (Process, bool) {
    match PROCESSES.get_ptr(tgid) {
        // SAFETY: the map gave the pointer.
        Some(record) => (unsafe { copy(record) }, true),
        None => (Process::default(), false),
    }
}

/// Judges and counts that a process or one of its threads is in `to` now. `record` is what was on record of it, if it is tracked.
#[inline(always)]
fn settle(to: Place, record: Option<&Process>, moves_leader: bool, subject: &Subject) {
    let Subject { tgid, start, cgroup: destination, .. } = *subject;
    let verdict = match record {
        Some(record) => movement(standing(record.class, record.run), to),
        None => movement(Standing::Stranger, to),
    };
    let runs = verdict.runs();
    if let Some(record) = record {
        let mut after = *record;
        after.class = match verdict {
            Move::Left { .. } => class::ESCAPED,
            Move::Returned { .. } => class::TASK,
            Move::Nothing | Move::ExecutorEntered { .. } | Move::Inside { .. } | Move::Stranger { .. } => {
                record.class
            }
        };
        if moves_leader {
            after.cgroup = destination;
        }
        // By an update with its key, not in place: the process may exit meanwhile, and its entry be another process's then. A signal that
        // comes between the look-up and here loses its sender, which costs a name and no verdict.
        match PROCESSES.insert(tgid, after, BPF_EXIST) {
            Ok(()) => {}
            Err(error) if error == -ENOENT => {}
            Err(_) => count(global::FAILED),
        }
    }
    match verdict {
        Move::Nothing => {}
        Move::ExecutorEntered { .. } => {
            match EXECUTORS.get_ptr_mut(ProcessKey { start, tgid, pad: 0 }) {
                // SAFETY: the map gave the pointer.
                Some(executor) => unsafe {
                    (*executor).entered_cgroup = destination;
                    increment(&raw mut (*executor).entered);
                },
                None => count(global::FAILED),
            }
            if runs.run != 0 {
                tally!(runs.run, executor_entered);
            }
            emit(kind::EXECUTOR_ENTERED, subject, runs.run, 0, 0);
        }
        Move::Left { .. } => {
            tally!(runs.run, left);
            emit(kind::LEFT, subject, runs.run, 0, 0);
        }
        Move::Returned { .. } => {
            tally!(runs.run, returned);
            emit(kind::RETURNED, subject, runs.run, 0, 0);
        }
        Move::Inside { .. } => {
            tally!(runs.run, moved_inside);
            emit(kind::MOVED_INSIDE, subject, runs.run, 0, 0);
        }
        Move::Stranger { .. } => {}
    }
    if runs.intrudes != 0 {
        tally!(runs.intrudes, strangers);
        emit(kind::STRANGER, subject, runs.intrudes, 0, 0);
    }
}
