//! What the programs and user space share: classes, map values, counters, events.
//!
//! All types are `repr(C)` with explicit padding, so that no byte is left uninitialised for the verifier to refuse, and all ids are
//! cgroup v2 ids (the kernfs inode number, `u64`). Times are `CLOCK_BOOTTIME` in nanoseconds. A process is named by `(tgid, start)`,
//! `start` being `group_leader->start_boottime`: equal in fork, attach and exit whatever thread is current.
//!
//! Change anything here and raise [`ABI_VERSION`]: pinned maps of another version are never adopted.

/// Version of this layout.
pub const ABI_VERSION: u32 = 2;

/// Class of a cgroup (map `CLASSES`) or of a process (map `PROCESSES`).
pub mod class {
    /// Not ours.
    pub const NONE: u32 = 0;
    /// Cgroup: the `executors/` directory. Process: born there, and an executor until it exits whatever happens to it.
    pub const EXECUTOR: u32 = 1;
    /// Cgroup: the `tasks/` directory itself. No process is of this class.
    pub const TASKS: u32 = 2;
    /// Cgroup: a task's directory, a run's leaf or anything below. Process: it is inside its run now.
    pub const TASK: u32 = 3;
    /// Process: it was born in a run, or of one that was, and is outside its run now.
    pub const ESCAPED: u32 = 4;
}

/// Value of `CLASSES`, keyed by cgroup id. Entries for `executors/` and `tasks/` are written by user space, all others by
/// `cgroup_mkdir`; an entry goes at `cgroup_rmdir`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupClass {
    /// One of [`class`].
    pub class: u32,
    /// Zero.
    pub pad: u32,
    /// Id of `tasks/<task>`; 0 outside `tasks/`.
    pub task: u64,
    /// Id of the run's leaf `tasks/<task>/run-<n>`; of the task's directory for that directory itself; 0 outside `tasks/`.
    pub run: u64,
}

/// Value of `PROCESSES`, keyed by tgid (`u32`): every living executor, every living process of a run, and every living escaped one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Start time of the group leader, boot time in ns.
    pub start: u64,
    /// Cgroup id it was last seen in (birth or move).
    pub cgroup: u64,
    /// The run it was born in; for an escaped child the run of its parent; 0 for an executor.
    pub run: u64,
    /// One of [`class`].
    pub class: u32,
    /// 1 when it was born outside its run (such a process counts in `outside`, not in `births`), else 0.
    pub born_outside: u32,
    /// The last signal that was delivered to it and that can end a process (not SIGCHLD, SIGCONT, SIGURG, SIGWINCH), 0 for none. The first
    /// SIGKILL stays. Whether it ended the process says the wait status: compare.
    pub signal: u32,
    /// Who generated that signal: tgid of the current process then.
    pub sender: u32,
    /// Its uid in the initial user namespace.
    pub sender_uid: u32,
    /// 1 when the kernel itself generated it (no siginfo of a process: a fault, a timer, the OOM killer, `cgroup.kill`). The sender is then
    /// who was current: for `cgroup.kill` the writer, for the OOM killer who allocated, else the process itself or one by chance.
    pub sender_kernel: u32,
    /// Its comm, NUL padded.
    pub sender_comm: [u8; 16],
}

/// Key of `EXECUTORS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProcessKey {
    /// Start time of the group leader, boot time in ns.
    pub start: u64,
    /// Process id in the initial pid namespace.
    pub tgid: u32,
    /// Zero.
    pub pad: u32,
}

/// Value of `EXECUTORS`, keyed by [`ProcessKey`]: made at the birth in `executors/`, kept after the exit until user space removes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executor {
    /// How often it entered a cgroup of class TASK or TASKS. Claim C1 is that this is 0.
    pub entered: u64,
    /// The last such cgroup.
    pub entered_cgroup: u64,
    /// Exit time, 0 while it lives.
    pub exited: u64,
    /// Wait status (as `waitpid(2)` gives it), valid when `exited` is not 0.
    pub status: u64,
}

/// Value of `RUNS`, keyed by the run's cgroup id (and by the task's directory's own id, for what happens to that directory itself).
/// Made at mkdir, so that no counter is ever missing at a birth; kept after rmdir until user space removes it, which loses the later exits
/// of processes that are outside.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Processes of this run that were born inside: of its executor, of a member, or of a foreigner that is of no run. A child that a process
    /// of another run puts here is that run's: it counts in its `outside`, and here in `foreign` only.
    pub births: u64,
    /// Exits of processes that were born inside, wherever they were when they exited.
    pub exits: u64,
    /// Moves of members out of the run. Breaks C2.
    pub left: u64,
    /// Moves of processes of this run back into it, and into it of those that were born outside.
    pub returned: u64,
    /// Moves between cgroups inside the run: harmless.
    pub moved_inside: u64,
    /// Moves of processes into the run that are not of this run. Breaks C3.
    pub strangers: u64,
    /// Births inside the run from a parent that is neither the run's executor nor of this run. Breaks C3.
    pub foreign: u64,
    /// Births outside the run from a parent of this run. Breaks C2.
    pub outside: u64,
    /// Exits of processes counted in `outside`.
    pub outside_exits: u64,
    /// Entries of executors into this run. Breaks C1 of that executor.
    pub executor_entered: u64,
    /// Processes of the run that the OOM killer chose.
    pub oom_victims: u64,
    /// 1 once the run's own directory was removed: it was empty then.
    pub removed: u64,
    /// Start time of the main process: the first one born here from an executor; 0 before.
    pub main_start: u64,
    /// When the main process exited (boot time ns), 0 before.
    pub main_exited: u64,
    /// tgid of the main process, 0 before it is born.
    pub main_tgid: u32,
    /// Wait status of the main process, valid when `main_exited` is not 0.
    pub main_status: u32,
    /// The fields of [`Process`] of the same names, copied when the main process exited.
    pub signal: u32,
    /// See `signal`.
    pub sender: u32,
    /// See `signal`.
    pub sender_uid: u32,
    /// See `signal`.
    pub sender_kernel: u32,
    /// See `signal`.
    pub sender_comm: [u8; 16],
    /// tgid of the main process's parent, the run's executor; 0 before the birth. What another executor puts here is foreign.
    pub main_parent: u32,
    /// Zero.
    pub pad: u32,
}

/// Indexes of the global counters (map `GLOBALS`, one `u64` each, atomically added).
pub mod global {
    /// A map update, or a look-up of an entry that must be there, failed. Breaks every claim's proof.
    pub const FAILED: u32 = 0;
    /// A child was moved before its `sched_process_fork` ran, and something may have been missed: a birth in a run, when its parent is an
    /// executor; a birth outside, when a member's child was moved into its own run.
    pub const YOUNG_MOVES: u32 = 1;
    /// Attach events that moved nothing (pid of a dying process was written).
    pub const DEAD_ATTACHES: u32 = 2;
    /// Births of executors.
    pub const EXECUTOR_BIRTHS: u32 = 3;
    /// Exits of executors.
    pub const EXECUTOR_EXITS: u32 = 4;
    /// Exec events of tracked processes.
    pub const EXECS: u32 = 5;
    /// Signals delivered to tracked processes.
    pub const SIGNALS: u32 = 6;
    /// Events submitted to the ring buffer.
    pub const PRODUCED: u32 = 7;
    /// Events that found the ring buffer full. Costs detail, never a verdict.
    pub const DROPPED: u32 = 8;
    /// A start time in exit or exec differed from the one at birth (a fault of ours or the kernel's). Breaks the proof.
    pub const IDENTITY_MISMATCH: u32 = 9;
    /// Cgroups made below the roots.
    pub const MKDIRS: u32 = 10;
    /// Cgroups removed below the roots, and the roots.
    pub const RMDIRS: u32 = 11;
    /// How many there are.
    pub const COUNT: u32 = 16;
}

/// Kinds of [`Event`].
pub mod kind {
    /// An executor entered a task cgroup. `tgid` it, `cgroup` destination, `run` the run entered.
    pub const EXECUTOR_ENTERED: u32 = 1;
    /// A member left its run. `cgroup` destination.
    pub const LEFT: u32 = 2;
    /// A process of the run came back.
    pub const RETURNED: u32 = 3;
    /// A member moved inside its run.
    pub const MOVED_INSIDE: u32 = 4;
    /// A stranger was moved into the run.
    pub const STRANGER: u32 = 5;
    /// A birth in the run from a foreign parent. `other` is the parent's tgid. Of a child of another run's process, `run` is where it came to.
    pub const FOREIGN: u32 = 6;
    /// A birth outside the run from a member. `other` is the parent's tgid.
    pub const OUTSIDE: u32 = 7;
    /// A birth that counts in `births`. `other` is the parent's tgid. Only at level BIRTHS.
    pub const BIRTH: u32 = 8;
    /// An exit of a process of the run, inside or not. `value` is the wait status. Only at level BIRTHS.
    pub const EXIT: u32 = 9;
    /// The OOM killer chose a process of the run.
    pub const OOM_VICTIM: u32 = 10;
}

/// Values of the global `EVENT_LEVEL`: what goes to the ring buffer. Counters do not depend on it.
pub mod level {
    /// What breaks a claim, and OOM victims.
    pub const ANOMALIES: u64 = 0;
    /// And every move.
    pub const MOVEMENTS: u64 = 1;
    /// And births and exits.
    pub const BIRTHS: u64 = 2;
}

/// One record of the ring buffer `EVENTS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Boot time in ns.
    pub time: u64,
    /// Start of the subject's group leader.
    pub start: u64,
    /// Cgroup id the subject is in after the event.
    pub cgroup: u64,
    /// The run concerned.
    pub run: u64,
    /// Wait status for EXIT, uid for OOM_VICTIM, else 0.
    pub value: u64,
    /// One of [`kind`].
    pub kind: u32,
    /// The subject.
    pub tgid: u32,
    /// Parent's tgid for births, else 0.
    pub other: u32,
    /// The process that was current: for a move the one that wrote `cgroup.procs`.
    pub by: u32,
    /// uid of that process in the initial user namespace.
    pub by_uid: u32,
    /// Zero.
    pub pad: u32,
    /// comm of that process, NUL padded.
    pub by_comm: [u8; 16],
    /// comm of the subject, NUL padded.
    pub comm: [u8; 16],
}

const _: () = assert!(size_of::<CgroupClass>() == 24);
const _: () = assert!(size_of::<Process>() == 64);
const _: () = assert!(size_of::<ProcessKey>() == 16);
const _: () = assert!(size_of::<Executor>() == 32);
const _: () = assert!(size_of::<Run>() == 160);
const _: () = assert!(size_of::<Event>() == 96);
