//! The eBPF programs that watch proctor's cgroups: the entry points, which take the arguments that the kernel's tracepoints give.
//!
//! `cgroups`, `processes` and `signals` do the work: they read what the kernel has (`fields`), ask what it means (`classify`) and count it
//! (`maps`); `events` tells the detail. What the maps hold is described in `abi`, which user space compiles too. Other processes of the host
//! cost one or two look-ups for each fork, move, exec, exit and signal, and nothing else.
#![no_std]
#![no_main]
// For the atomic addition, see `maps::increment`.
#![feature(core_intrinsics)]
#![allow(internal_features)]

use aya_ebpf::{macros::btf_tracepoint, programs::BtfTracePointContext};

#[path = "../../src/abi.rs"]
#[allow(dead_code)]
mod abi;
mod cgroups;
mod classify;
mod events;
mod fields;
mod maps;
mod processes;
mod signals;

use fields::{Cgroup, SignalInfo, Task, victim_is_task};

/// `(struct cgroup *, const char *path)`
#[btf_tracepoint(function = "cgroup_mkdir")]
pub fn cgroup_mkdir(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is of this type.
    cgroups::made(unsafe { Cgroup::new(ctx.arg(0)) });
    0
}

/// `(struct cgroup *, const char *path)`
#[btf_tracepoint(function = "cgroup_rmdir")]
pub fn cgroup_rmdir(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is of this type.
    cgroups::removed(unsafe { Cgroup::new(ctx.arg(0)) });
    0
}

/// `(struct cgroup *destination, const char *path, struct task_struct *, bool threadgroup)`
#[btf_tracepoint(function = "cgroup_attach_task")]
pub fn cgroup_attach_task(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the arguments are of these types.
    let (destination, task) = unsafe { (Cgroup::new(ctx.arg(0)), Task::new(ctx.arg(2))) };
    // Of a bool only the lowest byte is given.
    let whole = ctx.arg::<u64>(3) & 1 != 0;
    cgroups::attached(destination, task, whole);
    0
}

/// `(struct task_struct *parent, struct task_struct *child)`
#[btf_tracepoint(function = "sched_process_fork")]
pub fn sched_process_fork(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the arguments are of this type.
    let (parent, child) = unsafe { (Task::new(ctx.arg(0)), Task::new(ctx.arg(1))) };
    processes::born(parent, child);
    0
}

/// `(struct task_struct *, pid_t old_pid, struct linux_binprm *)`
#[btf_tracepoint(function = "sched_process_exec")]
pub fn sched_process_exec(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is of this type.
    processes::executed(unsafe { Task::new(ctx.arg(0)) });
    0
}

/// `(struct task_struct *)`, and in newer kernels `bool group_dead`, which is not needed.
#[btf_tracepoint(function = "sched_process_exit")]
pub fn sched_process_exit(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is of this type.
    processes::exited(unsafe { Task::new(ctx.arg(0)) });
    0
}

/// `(int signal, struct kernel_siginfo *, struct task_struct *receiver, int group, int result)`
#[btf_tracepoint(function = "signal_generate")]
pub fn signal_generate(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the arguments are of these types.
    let (info, receiver) = unsafe { (SignalInfo::new(ctx.arg(1)), Task::new(ctx.arg(2))) };
    signals::generated(ctx.arg::<i32>(0) as u32, info, receiver, ctx.arg(4));
    0
}

/// `(struct task_struct *victim, uid_t)`, in older kernels `(int pid)`.
#[btf_tracepoint(function = "mark_victim")]
pub fn mark_victim(ctx: BtfTracePointContext) -> i32 {
    if victim_is_task() {
        // SAFETY: user space found in BTF that the argument is of this type.
        let victim = unsafe { Task::new(ctx.arg(0)) };
        signals::oom_victim(victim.tgid(), ctx.arg::<u32>(1), victim.comm());
    } else {
        signals::oom_victim(ctx.arg::<i32>(0) as u32, 0, core::ptr::null());
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
