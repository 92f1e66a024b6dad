//! The cgroup v2 tree. Everything goes through directory file descriptors, never through paths that somebody else could swap.

mod id;

pub use id::CgroupId;
