//! Memory that is given back for certain.

use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::{Result, SysError};

/// A buffer of its own pages (`mmap(2)`): dropping it returns them to the kernel at once, which an allocator promises of nothing.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<std::ffi::c_void>,
    length: NonZeroUsize,
}

impl Pages {
    /// So many bytes, zeroed. They cost nothing until they are touched.
    pub fn new(length: NonZeroUsize) -> Result<Self> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe { mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE) };
        Ok(Self { start: SysError::from_nix("mmap", start)?, length })
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is ours, readable, initialised to zero and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.length.get()) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.length.get()) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length and nobody can hold a reference any more. It cannot fail for it.
        let _ = unsafe { munmap(self.start, self.length.get()) };
    }
}
