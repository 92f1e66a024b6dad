//! The kernel boundary: the only module with `unsafe`. Everything outside it works with owned and borrowed file descriptors and
//! checked types.
//!
//! Each wrapper names the call it makes, returns [`SysError`], and never panics on what the kernel answers.

pub mod bpf;
pub mod clock;
pub mod dir;
mod error;
pub mod exec;
pub mod fd;
pub mod fork;
pub mod handle;
pub mod memory;
pub mod mount;
pub mod pidfd;
pub mod poll;
pub mod probe;
pub mod process;
pub mod reactor;
pub mod signal;
pub mod socket;
pub mod terminal;
pub mod wait;

pub use error::{Result, SysError};
pub use nix::errno::Errno;
