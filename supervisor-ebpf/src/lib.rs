//! The boundary between proctor and the eBPF programs that watch cgroups for it.
//!
//! [`abi`] is compiled into both sides. The programs themselves are the package under `programs/`; the object built from them is
//! committed under `prebuilt/`, so that building proctor needs no BPF toolchain.
#![no_std]

pub mod abi;
