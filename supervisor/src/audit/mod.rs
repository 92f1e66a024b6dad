//! To be filled.

pub mod breach;
pub mod btf;
pub mod decode;
pub mod doubt;
pub mod fields;
pub mod judge;
pub mod program;
