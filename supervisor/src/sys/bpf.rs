//! The commands of `bpf(2)` that load and attach a tracing program by the number of its BTF type.
//!
//! aya offers them only together with a parsed copy of the kernel's whole BTF, which costs more than the rest of a load. The structs are
//! those of include/uapi/linux/bpf.h, as far as they are used; the kernel takes what is missing at their end for zero.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

use super::{Result, SysError};

const BPF_MAP_UPDATE_ELEM: i64 = 2;
const BPF_PROG_LOAD: i64 = 5;
const BPF_OBJ_GET_INFO_BY_FD: i64 = 15;
const BPF_RAW_TRACEPOINT_OPEN: i64 = 17;
const BPF_MAP_FREEZE: i64 = 22;

const BPF_PROG_TYPE_TRACING: u32 = 26;
const BPF_TRACE_RAW_TP: u32 = 23;

/// One instruction of eBPF (`struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u8,
    /// Destination register in the low four bits, source register in the high ones.
    pub registers: u8,
    /// Offset of a jump or an access.
    pub offset: i16,
    /// Constant.
    pub immediate: i32,
}

/// A program that is to be attached to a tracepoint with typed arguments (`tp_btf`).
#[derive(Clone, Copy, Debug)]
pub struct TracingProgram<'a> {
    /// Name shown by `bpftool`; the first 15 bytes count.
    pub name: &'a str,
    /// The code, with the fds of maps in place.
    pub instructions: &'a [Instruction],
    /// Its licence, which decides about the helpers it may call.
    pub license: &'a CStr,
    /// Number of the type `btf_trace_<tracepoint>` in the kernel's BTF.
    pub attach_to: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
    attach_prog_fd: u32,
    pad: u32,
}

#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: i32,
    pad: u32,
}

#[repr(C)]
struct ElementUpdate {
    map_fd: i32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct InfoByFd {
    bpf_fd: i32,
    info_len: u32,
    info: u64,
}

/// The beginning of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    kind: u32,
    id: u32,
    /// Among them pointers and lengths of buffers for more, which stay null.
    not_asked: [u64; 25],
    recursion_misses: u64,
}

/// The beginning of `struct bpf_map_info`.
#[repr(C)]
#[derive(Default)]
struct MapInfo {
    kind: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// The beginning of `struct bpf_link_info`.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    kind: u32,
    id: u32,
    prog_id: u32,
}

const _: () = assert!(size_of::<Instruction>() == 8);
const _: () = assert!(size_of::<ProgramLoad>() == 120);
const _: () = assert!(std::mem::offset_of!(ProgramInfo, recursion_misses) == 208);

/// Calls `bpf(2)`.
///
/// # Safety
/// `A` is the struct that `command` reads. All pointers in `attr` that the command uses point to memory of the sizes that `attr` says,
/// valid for what the command does with them.
unsafe fn bpf<A>(name: &'static str, command: i64, attr: &mut A) -> Result<i32> {
    // SAFETY: attr is live and has the size passed; the caller vouches for what it points to.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<A>()) };
    i32::try_from(result).ok().filter(|result| *result >= 0).ok_or_else(|| SysError::last(name))
}

/// Calls `bpf(2)` with a command that answers with a new fd. The kernel makes it close-on-exec.
///
/// # Safety
/// As for [`bpf`], and `command` returns a fd.
unsafe fn bpf_fd<A>(name: &'static str, command: i64, attr: &mut A) -> Result<OwnedFd> {
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
    let mut load = ProgramLoad {
        prog_type: BPF_PROG_TYPE_TRACING,
        expected_attach_type: BPF_TRACE_RAW_TP,
        insns: instructions.as_ptr() as u64,
        insn_cnt: instructions.len() as u32,
        license: license.as_ptr() as u64,
        attach_btf_id: attach_to,
        ..ProgramLoad::default()
    };
    for (to, from) in load.prog_name.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    if let Some(log) = log {
        load.log_level = 1;
        load.log_size = log.len() as u32;
        load.log_buf = log.as_mut_ptr() as u64;
    }
    let mut attempts = LOAD_ATTEMPTS;
    loop {
        attempts -= 1;
        // SAFETY: the struct of this command; instructions, license and log outlive the call, with the sizes given; a C string ends with
        // NUL.
        match unsafe { bpf_fd("bpf(BPF_PROG_LOAD)", BPF_PROG_LOAD, &mut load) } {
            // The verifier gives up when a signal is pending. It is handled on the way out of the call, so the next one goes through.
            Err(SysError { errno: Errno::EAGAIN, .. }) if attempts > 0 => {}
            result => return result,
        }
    }
}

/// How often a load is tried that signals interrupt: one signal costs one attempt.
const LOAD_ATTEMPTS: u32 = 32;

/// Attaches a program made by [`load_tracing_program`]. It runs until the returned link and all its copies are closed.
///
/// # Errors
/// Whatever the kernel says.
pub fn attach_tracing_program(program: BorrowedFd<'_>) -> Result<OwnedFd> {
    // No name: the tracepoint is the one that the program was loaded for.
    let mut open = RawTracepointOpen { name: 0, prog_fd: program.as_raw_fd(), pad: 0 };
    // SAFETY: the struct of this command, which uses no pointer when the name is null.
    unsafe { bpf_fd("bpf(BPF_RAW_TRACEPOINT_OPEN)", BPF_RAW_TRACEPOINT_OPEN, &mut open) }
}

/// What the kernel knows of a bpf object. Kernels that know fewer fields leave the rest as in the default.
///
/// # Safety
/// Every bit pattern is a value of `T`, and the pointers in its default are null, as are the lengths that go with them.
unsafe fn info<T: Default>(fd: BorrowedFd<'_>) -> Result<T> {
    let mut info = T::default();
    let mut ask = InfoByFd {
        bpf_fd: fd.as_raw_fd(),
        info_len: size_of::<T>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    // SAFETY: the struct of this command; info is live and has the size given.
    unsafe { bpf("bpf(BPF_OBJ_GET_INFO_BY_FD)", BPF_OBJ_GET_INFO_BY_FD, &mut ask) }?;
    Ok(info)
}

/// Sets the only value of an array map and makes it read-only for ever, for programs and user space.
///
/// # Errors
/// `EINVAL` when the map is no array of one value of this size.
pub fn freeze_array(map: BorrowedFd<'_>, value: &[u8]) -> Result<()> {
    const UPDATE: &str = "bpf(BPF_MAP_UPDATE_ELEM)";
    // SAFETY: numbers only.
    let MapInfo { key_size, value_size, max_entries, .. } = unsafe { info(map) }?;
    if key_size != 4 || max_entries != 1 || value_size as usize != value.len() {
        return Err(SysError::new(UPDATE, Errno::EINVAL));
    }
    let key = 0u32;
    let mut update = ElementUpdate {
        map_fd: map.as_raw_fd(),
        pad: 0,
        key: std::ptr::from_ref(&key) as u64,
        value: value.as_ptr() as u64,
        flags: 0,
    };
    // SAFETY: the struct of this command; key and value are live and have the sizes that the map has, as checked above.
    unsafe { bpf(UPDATE, BPF_MAP_UPDATE_ELEM, &mut update) }?;
    let mut map_fd = map.as_raw_fd();
    // SAFETY: the command reads the fd and nothing else.
    unsafe { bpf("bpf(BPF_MAP_FREEZE)", BPF_MAP_FREEZE, &mut map_fd) }?;
    Ok(())
}

/// How often the kernel did not run a program because that program was already running on the CPU. Always 0 before Linux 5.12.
///
/// # Errors
/// Whatever the kernel says.
pub fn recursion_misses(program: BorrowedFd<'_>) -> Result<u64> {
    // SAFETY: numbers only, and null pointers in between.
    let ProgramInfo { recursion_misses, .. } = unsafe { info(program) }?;
    Ok(recursion_misses)
}

/// The id of a program.
///
/// # Errors
/// Whatever the kernel says.
pub fn program_id(program: BorrowedFd<'_>) -> Result<u32> {
    // SAFETY: numbers only, and null pointers in between.
    let ProgramInfo { id, .. } = unsafe { info(program) }?;
    Ok(id)
}

/// The id of the program that a link runs.
///
/// # Errors
/// Whatever the kernel says.
pub fn linked_program(link: BorrowedFd<'_>) -> Result<u32> {
    // SAFETY: numbers only.
    let LinkInfo { prog_id, .. } = unsafe { info(link) }?;
    Ok(prog_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_is_no_bpf_object() {
        let file = File::open("/proc/self/stat").unwrap();
        for errno in [
            recursion_misses(file.as_fd()).unwrap_err().errno,
            linked_program(file.as_fd()).unwrap_err().errno,
            freeze_array(file.as_fd(), &[0; 4]).unwrap_err().errno,
        ] {
            // Without rights it may be EPERM, in a sandbox without bpf(2) ENOSYS.
            assert!(matches!(errno, Errno::EINVAL | Errno::EPERM | Errno::ENOSYS), "{errno}");
        }
    }
}
