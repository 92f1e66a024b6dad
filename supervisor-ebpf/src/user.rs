//! What user space needs beside the layout.

use crate::abi::{CgroupClass, Event, Executor, Process, ProcessKey, Run};

/// The built programs, an ELF file for any kernel: `prebuilt/proctor.bpf.o`. Aligned as the loader's ELF parser needs it.
pub static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/prebuilt/proctor.bpf.o"));

// SAFETY: repr(C), integers and arrays of them only, padding spelled out as fields: every byte is initialised and every value valid.
unsafe impl aya::Pod for CgroupClass {}
// SAFETY: as for `CgroupClass`.
unsafe impl aya::Pod for Process {}
// SAFETY: as for `CgroupClass`.
unsafe impl aya::Pod for ProcessKey {}
// SAFETY: as for `CgroupClass`.
unsafe impl aya::Pod for Executor {}
// SAFETY: as for `CgroupClass`.
unsafe impl aya::Pod for Run {}
// SAFETY: as for `CgroupClass`.
unsafe impl aya::Pod for Event {}
