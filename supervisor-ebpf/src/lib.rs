//! The boundary between proctor and the eBPF programs that watch cgroups for it.
//!
//! [`abi`] is compiled into both sides. The programs themselves are the package under `programs/`; the object built from them is
//! committed under `prebuilt/`, so that building proctor needs no BPF toolchain (`cargo xtask ebpf` makes it).
//!
//! User space asks for the feature `user`: `OBJECT`, and the promise to aya that the structs of [`abi`] are plain data. That promise is
//! the only `unsafe` outside `supervisor/src/sys`; it is made here since it is about this layout and nothing else.
#![no_std]

pub mod abi;
#[cfg(feature = "user")]
mod user;

#[cfg(feature = "user")]
pub use user::OBJECT;
