//! The commands of `bpf(2)` that load and attach a tracing program by the number of its BTF type.
//!
//! aya offers them only together with a parsed copy of the kernel's whole BTF, which costs more than all the rest of a start.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use aya_obj::generated::{
    bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_link_info, bpf_map_info, bpf_prog_info, bpf_prog_type,
};
use nix::errno::Errno;

use super::{Result, SysError};

/// A program that is to be attached to a tracepoint with typed arguments (`tp_btf`).
#[derive(Clone, Copy, Debug)]
pub struct TracingProgram<'a> {
    /// Name shown by `bpftool`; the first 15 bytes count.
    pub name: &'a str,
    /// The code, with the fds of maps in place.
    pub instructions: &'a [bpf_insn],
    /// Its licence, which decides about the helpers it may call.
    pub license: &'a CStr,
    /// Number of the type `btf_trace_<tracepoint>` in the kernel's BTF.
    pub attach_to: u32,
}

/// `attr` with all bytes zero, as the kernel wants what a command does not use.
fn zeroed_attr() -> bpf_attr {
    // SAFETY: a union of plain numbers, for which zero is a value.
    unsafe { MaybeUninit::<bpf_attr>::zeroed().assume_init() }
}

/// Calls `bpf(2)`.
///
/// # Safety
/// All pointers in `attr` that `command` uses point to memory of the sizes that `attr` says, valid for what the command does with them.
unsafe fn bpf(name: &'static str, command: bpf_cmd, attr: &mut bpf_attr) -> Result<i32> {
    // SAFETY: attr is live and has the size passed; the caller vouches for what it points to.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command as libc::c_long, std::ptr::from_mut(attr), size_of::<bpf_attr>())
    };
    i32::try_from(result).ok().filter(|result| *result >= 0).ok_or_else(|| SysError::last(name))
}

/// Calls `bpf(2)` with a command that answers with a new fd. The kernel makes it close-on-exec.
///
/// # Safety
/// As for [`bpf`], and `command` returns a fd.
unsafe fn bpf_fd(name: &'static str, command: bpf_cmd, attr: &mut bpf_attr) -> Result<OwnedFd> {
    // SAFETY: passed on to the caller.
    let fd = unsafe { bpf(name, command, attr) }?;
    // SAFETY: the kernel has just made this fd and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Loads a program. With `log` the verifier tells into it, NUL terminated, what it thinks.
///
/// # Errors
/// `EPERM` without `CAP_BPF` and `CAP_PERFMON` or under lockdown; `EACCES` and `EINVAL` when the verifier refuses the program.
pub fn load_tracing_program(program: &TracingProgram<'_>, log: Option<&mut [u8]>) -> Result<OwnedFd> {
    let TracingProgram { name, instructions, license, attach_to } = *program;
    let mut attr = zeroed_attr();
    // SAFETY: all fields of the union's members are plain numbers, of which every byte was initialised.
    let load = unsafe { &mut attr.__bindgen_anon_3 };
    load.prog_type = bpf_prog_type::BPF_PROG_TYPE_TRACING as u32;
    load.expected_attach_type = bpf_attach_type::BPF_TRACE_RAW_TP as u32;
    load.insns = instructions.as_ptr() as u64;
    load.insn_cnt = instructions.len() as u32;
    load.license = license.as_ptr() as u64;
    load.attach_btf_id = attach_to;
    let room = load.prog_name.len() - 1;
    for (to, from) in load.prog_name.iter_mut().zip(name.bytes().take(room)) {
        *to = from as libc::c_char;
    }
    if let Some(log) = log {
        load.log_level = 1;
        load.log_size = log.len() as u32;
        load.log_buf = log.as_mut_ptr() as u64;
    }
    // SAFETY: instructions, license and log outlive the call, with the sizes given; a C string ends with NUL.
    unsafe { bpf_fd("bpf(BPF_PROG_LOAD)", bpf_cmd::BPF_PROG_LOAD, &mut attr) }
}

/// Attaches a program made by [`load_tracing_program`]. It runs until the returned link and all its copies are closed.
///
/// # Errors
/// Whatever the kernel says.
pub fn attach_tracing_program(program: BorrowedFd<'_>) -> Result<OwnedFd> {
    let mut attr = zeroed_attr();
    // No name: the tracepoint is the one that the program was loaded for.
    attr.raw_tracepoint.prog_fd = program.as_raw_fd() as u32;
    // SAFETY: the command uses no pointer when the name is null.
    unsafe { bpf_fd("bpf(BPF_RAW_TRACEPOINT_OPEN)", bpf_cmd::BPF_RAW_TRACEPOINT_OPEN, &mut attr) }
}

/// What the kernel knows of a bpf object. Kernels that know fewer fields leave the rest zero.
///
/// # Safety
/// `T` is the plain `bpf_*_info` struct of the kind of object that `fd` is.
unsafe fn info<T>(fd: BorrowedFd<'_>) -> Result<T> {
    let mut info = MaybeUninit::<T>::zeroed();
    let mut attr = zeroed_attr();
    attr.info.bpf_fd = fd.as_raw_fd() as u32;
    attr.info.info_len = size_of::<T>() as u32;
    attr.info.info = info.as_mut_ptr() as u64;
    // SAFETY: info is live and has the size given.
    unsafe { bpf("bpf(BPF_OBJ_GET_INFO_BY_FD)", bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr) }?;
    // SAFETY: plain numbers, zeroed before the kernel filled them.
    Ok(unsafe { info.assume_init() })
}

/// Sets the only value of an array map and makes it read-only for ever, for programs and user space.
///
/// # Errors
/// `EINVAL` when the map is no array of one value of this size.
pub fn freeze_array(map: BorrowedFd<'_>, value: &[u8]) -> Result<()> {
    // SAFETY: the struct for maps; for another kind of object the kernel fills in other numbers, which the checks below refuse or which
    // the update refuses.
    let described: bpf_map_info = unsafe { info(map) }?;
    if described.key_size != 4 || described.max_entries != 1 || described.value_size as usize != value.len() {
        return Err(SysError::new("bpf(BPF_MAP_UPDATE_ELEM)", Errno::EINVAL));
    }
    let key = 0u32;
    let mut attr = zeroed_attr();
    // SAFETY: all fields of the union's members are plain numbers, of which every byte was initialised.
    let update = unsafe { &mut attr.__bindgen_anon_2 };
    update.map_fd = map.as_raw_fd() as u32;
    update.key = std::ptr::from_ref(&key) as u64;
    update.__bindgen_anon_1.value = value.as_ptr() as u64;
    // SAFETY: key and value are live and have the sizes that the map has, as checked above.
    unsafe { bpf("bpf(BPF_MAP_UPDATE_ELEM)", bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr) }?;
    let mut attr = zeroed_attr();
    attr.__bindgen_anon_2.map_fd = map.as_raw_fd() as u32;
    // SAFETY: the command uses no pointer.
    unsafe { bpf("bpf(BPF_MAP_FREEZE)", bpf_cmd::BPF_MAP_FREEZE, &mut attr) }?;
    Ok(())
}

/// How often the kernel did not run a program because that program was already running on the CPU. Always 0 before Linux 5.12.
///
/// # Errors
/// Whatever the kernel says.
pub fn recursion_misses(program: BorrowedFd<'_>) -> Result<u64> {
    // SAFETY: the struct for programs. For another kind of object the answer has no meaning, but is still made of plain numbers.
    let described: bpf_prog_info = unsafe { info(program) }?;
    Ok(described.recursion_misses)
}

/// The id of a program.
///
/// # Errors
/// Whatever the kernel says.
pub fn program_id(program: BorrowedFd<'_>) -> Result<u32> {
    // SAFETY: as for recursion_misses.
    let described: bpf_prog_info = unsafe { info(program) }?;
    Ok(described.id)
}

/// The id of the program that a link runs.
///
/// # Errors
/// Whatever the kernel says.
pub fn linked_program(link: BorrowedFd<'_>) -> Result<u32> {
    // SAFETY: the struct for links. For another kind of object the answer has no meaning, but is still made of plain numbers.
    let described: bpf_link_info = unsafe { info(link) }?;
    Ok(described.prog_id)
}
