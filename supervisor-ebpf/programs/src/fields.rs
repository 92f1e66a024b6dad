//! Where the kernel keeps what we read: offsets as frozen globals, and the readers that use them.
//!
//! There is no CO-RE for Rust, so user space looks every offset up in the running kernel's BTF and writes it into a global of the same
//! name before the object is loaded (all are `u64`). The globals lie in a read-only map that is frozen before the verifier runs, so the
//! verifier sees constants and checks each read as an access to the named field of a trusted pointer; a wrong offset is refused at load
//! in all but unlucky cases. A read through a stale pointer gives 0 and cannot fault.
//!
//! | global                 | what user space writes                                                                       |
//! |------------------------|----------------------------------------------------------------------------------------------|
//! | `OFF_TASK_PID`         | byte offset of `task_struct.pid`                                                             |
//! | `OFF_TASK_TGID`        | `task_struct.tgid`                                                                           |
//! | `OFF_TASK_LEADER`      | `task_struct.group_leader`                                                                   |
//! | `OFF_TASK_PARENT`      | `task_struct.real_parent`                                                                    |
//! | `OFF_TASK_START`       | `task_struct.start_boottime`                                                                 |
//! | `OFF_TASK_CGROUPS`     | `task_struct.cgroups`                                                                        |
//! | `OFF_TASK_SIGNAL`      | `task_struct.signal`                                                                         |
//! | `OFF_TASK_STATE`       | `task_struct.__state`, and where that is missing (before Linux 5.14) `task_struct.state`     |
//! | `OFF_TASK_EXIT_CODE`   | `task_struct.exit_code`                                                                      |
//! | `OFF_TASK_COMM`        | `task_struct.comm`                                                                           |
//! | `OFF_SIGNAL_LIVE`      | `signal_struct.live`                                                                         |
//! | `OFF_SIGNAL_THREADS`   | `signal_struct.nr_threads`                                                                   |
//! | `OFF_SIGNAL_FLAGS`     | `signal_struct.flags`                                                                        |
//! | `OFF_SIGNAL_CODE`      | `signal_struct.group_exit_code`                                                              |
//! | `OFF_CSET_CGRP`        | `css_set.dfl_cgrp`                                                                           |
//! | `OFF_CGRP_KN`          | `cgroup.kn`                                                                                  |
//! | `OFF_CGRP_ROOT`        | `cgroup.root`                                                                                |
//! | `OFF_CGRP_PARENT_CSS`  | `cgroup.self.parent` (`self` is a nested struct: the sum of both offsets)                    |
//! | `OFF_CSS_CGROUP`       | `cgroup_subsys_state.cgroup`                                                                 |
//! | `OFF_KN_ID`            | `kernfs_node.id`                                                                             |
//! | `OFF_ROOT_HID`         | `cgroup_root.hierarchy_id`                                                                   |
//! | `OFF_INFO_CODE`        | `kernel_siginfo.si_code` (a member of an anonymous struct)                                   |
//! | `VICTIM_IS_TASK`       | 1 when the first parameter of `btf_trace_mark_victim`, the `void *` not counted, points to a `task_struct`; 0 when it is an `int` |
//! | `EVENT_LEVEL`          | no offset: one of `abi::level`                                                               |

use aya_ebpf::{Global, helpers::bpf_probe_read_kernel};

macro_rules! globals {
    ($($name:ident),* $(,)?) => { $(
        #[unsafe(no_mangle)]
        static $name: Global<u64> = Global::new(0);
    )* };
}

globals! {
    OFF_TASK_PID, OFF_TASK_TGID, OFF_TASK_LEADER, OFF_TASK_PARENT, OFF_TASK_START, OFF_TASK_CGROUPS, OFF_TASK_SIGNAL,
    OFF_TASK_STATE, OFF_TASK_EXIT_CODE, OFF_TASK_COMM,
    OFF_SIGNAL_LIVE, OFF_SIGNAL_THREADS, OFF_SIGNAL_FLAGS, OFF_SIGNAL_CODE,
    OFF_CSET_CGRP, OFF_CGRP_KN, OFF_CGRP_ROOT, OFF_CGRP_PARENT_CSS, OFF_CSS_CGROUP, OFF_KN_ID, OFF_ROOT_HID,
    OFF_INFO_CODE,
    VICTIM_IS_TASK, EVENT_LEVEL,
}

/// `TASK_NEW` of the kernel: set from the making of the task to its first wake-up, which comes after the fork's tracepoint.
const TASK_NEW: u32 = 0x800;
/// `SIGNAL_GROUP_EXIT` of the kernel: `group_exit_code` is valid.
const SIGNAL_GROUP_EXIT: u32 = 4;

/// Reads the field at `offset` of the kernel object at `object`.
///
/// # Safety
/// `object` comes from the arguments of a tracepoint or from this function, and has a field of type `T` at `offset`. The verifier checks
/// both; it cannot check that `offset` belongs to the field that we mean, which is what user space takes from BTF.
#[inline(always)]
unsafe fn field<T: Copy>(object: *const u8, offset: &Global<u64>) -> T {
    // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
    unsafe { core::ptr::read_volatile(object.add(offset.load() as usize).cast::<T>()) }
}

/// What goes to the ring buffer: one of `abi::level`.
#[inline(always)]
pub fn event_level() -> u64 {
    EVENT_LEVEL.load()
}

/// Whether the first argument of `mark_victim` is the victim's task and not its pid. The branch not taken is dead code to the verifier.
#[inline(always)]
pub fn victim_is_task() -> bool {
    VICTIM_IS_TASK.load() != 0
}

/// A `struct task_struct`: one thread.
#[derive(Clone, Copy)]
pub struct Task(*const u8);

impl Task {
    /// # Safety
    /// `task` is an argument of the tracepoint whose type is `struct task_struct *`.
    #[inline(always)]
    pub unsafe fn new(task: *const u8) -> Self {
        Self(task)
    }

    #[inline(always)]
    pub fn pid(self) -> u32 {
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        unsafe { field(self.0, &OFF_TASK_PID) }
    }

    #[inline(always)]
    pub fn tgid(self) -> u32 {
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        unsafe { field(self.0, &OFF_TASK_TGID) }
    }

    #[inline(always)]
    fn leader(self) -> Self {
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        Self(unsafe { field(self.0, &OFF_TASK_LEADER) })
    }

    /// The process that forked this one, or with `CLONE_PARENT` that one's parent; after the parent's death who adopted it.
    #[inline(always)]
    pub fn real_parent(self) -> Self {
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        Self(unsafe { field(self.0, &OFF_TASK_PARENT) })
    }

    /// The start of the process: of its leader, as a thread has a start of its own. It survives an exec by another thread.
    #[inline(always)]
    pub fn start(self) -> u64 {
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        unsafe { field(self.leader().0, &OFF_TASK_START) }
    }

    /// The id of the cgroup of the v2 hierarchy that this thread is in.
    #[inline(always)]
    pub fn cgroup(self) -> u64 {
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        unsafe {
            let set: *const u8 = field(self.0, &OFF_TASK_CGROUPS);
            Cgroup(field(set, &OFF_CSET_CGRP)).id()
        }
    }

    /// Whether it was never woken: `sched_process_fork` has not run for it yet.
    #[inline(always)]
    pub fn is_new(self) -> bool {
        // Before 5.14 the field is a long; its low half has the bit on the little-endian machines that we build for.
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        unsafe { field::<u32>(self.0, &OFF_TASK_STATE) & TASK_NEW != 0 }
    }

    #[inline(always)]
    fn signal(self) -> *const u8 {
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        unsafe { field(self.0, &OFF_TASK_SIGNAL) }
    }

    /// How many threads of the process have not begun to exit, which is counted down before the thread's `sched_process_exit`, and how many
    /// are not reaped.
    #[inline(always)]
    pub fn threads(self) -> (i32, i32) {
        let signal = self.signal();
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        unsafe { (field(signal, &OFF_SIGNAL_LIVE), field(signal, &OFF_SIGNAL_THREADS)) }
    }

    /// Of a thread that exits: how many of the process have not begun to, the wait status of the process when there are none, and its start.
    #[inline(always)]
    pub fn end(self) -> (i32, u32, u64) {
        let (signal, leader) = (self.signal(), self.leader());
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        let (live, flags, group_code, own_code, start): (_, u32, _, _, _) = unsafe {
            (
                field(signal, &OFF_SIGNAL_LIVE),
                field(signal, &OFF_SIGNAL_FLAGS),
                field(signal, &OFF_SIGNAL_CODE),
                field(leader.0, &OFF_TASK_EXIT_CODE),
                field(leader.0, &OFF_TASK_START),
            )
        };
        // As wait(2) takes it. Where all threads left by exit(2) and not by exit_group(2), kernels before 5.19 do not set the group's code.
        (live, if flags & SIGNAL_GROUP_EXIT != 0 { group_code } else { own_code }, start)
    }

    /// Where its comm is: 16 bytes for `bpf_probe_read_kernel`. A checked load of eight bytes from an array of char is refused.
    #[inline(always)]
    pub fn comm(self) -> *const u8 {
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        unsafe { self.0.add(OFF_TASK_COMM.load() as usize) }
    }
}

/// A `struct cgroup` of any hierarchy.
#[derive(Clone, Copy)]
pub struct Cgroup(*const u8);

impl Cgroup {
    /// # Safety
    /// `cgroup` is an argument of the tracepoint whose type is `struct cgroup *`.
    #[inline(always)]
    pub unsafe fn new(cgroup: *const u8) -> Self {
        Self(cgroup)
    }

    /// The inode number of its directory.
    #[inline(always)]
    pub fn id(self) -> u64 {
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        unsafe {
            let node: *const u8 = field(self.0, &OFF_CGRP_KN);
            field(node, &OFF_KN_ID)
        }
    }

    /// The parent's id. By way of the css, since these names are the same in all kernels; those of `kernfs_node` and of the list of
    /// ancestors are not.
    #[inline(always)]
    pub fn parent_id(self) -> u64 {
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        unsafe {
            let css: *const u8 = field(self.0, &OFF_CGRP_PARENT_CSS);
            Self(field(css, &OFF_CSS_CGROUP)).id()
        }
    }

    /// Whether it is of the v2 hierarchy, whose number is 0. The tracepoints fire for v1 too, where ids mean other directories.
    #[inline(always)]
    pub fn is_v2(self) -> bool {
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        unsafe {
            let root: *const u8 = field(self.0, &OFF_CGRP_ROOT);
            field::<i32>(root, &OFF_ROOT_HID) == 0
        }
    }
}

/// The `siginfo` argument of `signal_generate`: a pointer, or one of the small numbers that stand for "none".
#[derive(Clone, Copy)]
pub struct SignalInfo(*const u8);

impl SignalInfo {
    /// # Safety
    /// `info` is the argument of the tracepoint whose type is `struct kernel_siginfo *`.
    #[inline(always)]
    pub unsafe fn new(info: *const u8) -> Self {
        Self(info)
    }

    /// Its `si_code`, when there is one.
    #[inline(always)]
    pub fn code(self) -> Option<i32> {
        // 0 and 1 (SEND_SIG_NOINFO, SEND_SIG_PRIV) are no addresses: only the helper may be asked, and says so with an error. Kernels that
        // know the argument as possibly null want the test before the addition.
        if self.0.is_null() {
            return None;
        }
        // SAFETY: the offset is a frozen constant from the kernel's BTF; the verifier refuses a load that is not of such a field.
        unsafe { bpf_probe_read_kernel(self.0.add(OFF_INFO_CODE.load() as usize).cast::<i32>()).ok() }
    }
}
