//! The cgroup v2 tree. Everything goes through directory file descriptors, never through paths that somebody else could swap.

mod dir;
mod events;
mod id;

pub use dir::{Cgroup, CgroupError};
pub use events::{Events, Population};
pub use id::CgroupId;
