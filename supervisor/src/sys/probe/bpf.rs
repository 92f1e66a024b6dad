//! The smallest BPF objects, made and dropped: are we allowed to?

use std::os::fd::{FromRawFd, OwnedFd};

use super::super::{Result, SysError};

// include/uapi/linux/bpf.h
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_MAP_TYPE_RINGBUF: u32 = 27;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;

/// Makes a ring buffer of one page (Linux 5.8), the map that the audit cannot do without.
///
/// # Errors
/// `EPERM`: BPF is not allowed for us; `EINVAL`: the kernel has no ring buffers; `ENOSYS`: no BPF.
pub fn create_ring_buffer() -> Result<OwnedFd> {
    #[repr(C)]
    struct MapCreate {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
    }
    // The size must be a multiple of a page; 64 KiB is one on every architecture.
    let attributes = MapCreate {
        map_type: BPF_MAP_TYPE_RINGBUF,
        key_size: 0,
        value_size: 0,
        max_entries: 64 << 10,
        map_flags: 0,
    };
    // SAFETY: these are the first members of union bpf_attr for this command, and they hold no pointers.
    unsafe { bpf("bpf(BPF_MAP_CREATE)", BPF_MAP_CREATE, &attributes) }
}

/// Loads a program that returns 0, of a tracing kind that needs the same capabilities as the audit's. It is attached to nothing.
///
/// # Errors
/// `EPERM`: tracing programs are not allowed for us; `ENOSYS`: no BPF.
pub fn load_program() -> Result<OwnedFd> {
    #[repr(C)]
    struct ProgLoad {
        prog_type: u32,
        insn_cnt: u32,
        insns: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log_buf: u64,
        kern_version: u32,
        prog_flags: u32,
    }
    // `r0 = 0; exit`: code, registers, 16-bit offset, 32-bit immediate, all of them zero but the code.
    static RETURN_ZERO: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
    let attributes = ProgLoad {
        prog_type: BPF_PROG_TYPE_RAW_TRACEPOINT,
        insn_cnt: RETURN_ZERO.len() as u32,
        insns: RETURN_ZERO.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
    };
    // SAFETY: these are the first members of union bpf_attr for this command; the program and the licence live for ever.
    unsafe { bpf("bpf(BPF_PROG_LOAD)", BPF_PROG_LOAD, &attributes) }
}

/// # Safety
/// `A` must be laid out as the beginning of `union bpf_attr` for this command, its pointers valid, and the command one that gives a
/// descriptor. The kernel takes what is behind the given size as zero.
unsafe fn bpf<A>(call: &'static str, command: libc::c_int, attributes: &A) -> Result<OwnedFd> {
    // SAFETY: by the contract of this function.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<A>()) };
    if fd < 0 {
        return Err(SysError::last(call));
    }
    // SAFETY: the kernel has just made it for us (close-on-exec, as all BPF descriptors are).
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
