//! Who sent the signal that ended a process, and whom the OOM killer chose.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_get_current_uid_gid, generated::bpf_get_current_comm};

use crate::abi::{global, kind};
use crate::classify::Standing;
use crate::events::{Subject, emit};
use crate::fields::{SignalInfo, Task};
use crate::maps::{PROCESSES, count, standing, tally_late};

/// `TRACE_SIGNAL_DELIVERED` of the kernel: neither ignored nor merged with a pending one. Signals to a process that dies already are ignored,
/// so what killed it is not overwritten.
const DELIVERED: i32 = 0;
const SIGKILL: u32 = 9;
const SIGCHLD: u32 = 17;
const SIGCONT: u32 = 18;
const SIGURG: u32 = 23;
const SIGWINCH: u32 = 28;
const SI_TIMER: i32 = -2;
const SI_ASYNCIO: i32 = -4;
const SI_SIGIO: i32 = -5;
const SI_ASYNCNL: i32 = -60;

/// A signal was generated: who sent it is remembered, should it end the process. This may run in an interrupt, so it looks up, writes in
/// place and adds, and never updates or removes an entry.
#[inline(always)]
pub fn generated(signal: u32, info: SignalInfo, receiver: Task, result: i32) {
    let Some(record) = PROCESSES.get_ptr_mut(receiver.tgid()) else {
        return;
    };
    if result != DELIVERED {
        return;
    }
    count(global::SIGNALS);
    // What never ends a process would only hide what did: SIGCHLD comes at any time.
    if let SIGCHLD | SIGCONT | SIGURG | SIGWINCH = signal {
        return;
    }
    // SAFETY: the map gave the pointer. Signals to one process are generated under its lock, so no two write at once. Should the process
    // exit just now and its entry become another's, that one gets a false sender, of a signal that did not end it.
    unsafe {
        if (*record).signal == SIGKILL {
            return;
        }
        (*record).signal = signal;
        (*record).sender = (bpf_get_current_pid_tgid() >> 32) as u32;
        (*record).sender_uid = bpf_get_current_uid_gid() as u32;
        (*record).sender_kernel = u32::from(made_by_kernel(info.code()));
        bpf_get_current_comm((&raw mut (*record).sender_comm).cast(), 16);
    }
}

/// Whether no process asked for a signal with this `si_code`; what is current then is by chance or the receiver itself.
#[inline(always)]
fn made_by_kernel(code: Option<i32>) -> bool {
    match code {
        None => true,
        // kill, sigqueue and tgkill have 0, -1 and -6, and a process may give sigqueue any other below 0; of those the kernel makes these.
        Some(SI_TIMER | SI_ASYNCIO | SI_SIGIO | SI_ASYNCNL) => true,
        Some(code) => code > 0,
    }
}

/// The OOM killer chose a process. `comm` is as in [`Subject`].
#[inline(always)]
pub fn oom_victim(tgid: u32, uid: u32, comm: *const u8) {
    let Some(record) = PROCESSES.get_ptr(tgid) else {
        return;
    };
    // SAFETY: the map gave the pointer.
    let (class, run, start, cgroup) =
        unsafe { ((*record).class, (*record).run, (*record).start, (*record).cgroup) };
    match standing(class, run) {
        Standing::Inside(_) | Standing::Escaped(_) => {
            tally_late!(run, oom_victims);
            emit(kind::OOM_VICTIM, &Subject { tgid, start, cgroup, comm }, run, 0, u64::from(uid));
        }
        Standing::Executor | Standing::Stranger => {}
    }
}
