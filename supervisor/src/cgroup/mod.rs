//! The cgroup v2 tree. Everything goes through directory file descriptors, never through paths that somebody else could swap.

mod dir;
mod events;
mod hierarchy;
mod id;
pub mod parse;
mod path;
mod walk;

pub use dir::{Cgroup, CgroupError, Lister};
pub use events::{Events, Population};
pub use hierarchy::{Hierarchy, HierarchyError, Layout};
pub use id::CgroupId;
pub use path::CgroupPath;
