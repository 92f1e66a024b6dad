//! The kernel's own name for a cgroup.

use std::num::NonZeroU64;

/// Cgroup id: the kernfs node id, equal to the inode number of the directory on 64-bit systems. Never used again while the system runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CgroupId(NonZeroU64);

impl CgroupId {
    /// The id with this number; none for 0, which the kernel never gives.
    pub fn new(id: u64) -> Option<Self> {
        NonZeroU64::new(id).map(Self)
    }

    /// The number, as the eBPF maps and `name_to_handle_at(2)` have it.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl std::fmt::Display for CgroupId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
