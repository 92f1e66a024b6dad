//! To be filled.

pub mod btf;
pub mod decode;
