//! The kernel boundary: the only module with `unsafe`. Everything outside it works with owned and borrowed file descriptors and
//! checked types.
//!
//! Each wrapper names the call it makes, returns [`SysError`], and never panics on what the kernel answers.

mod error;

pub use error::{Result, SysError};
