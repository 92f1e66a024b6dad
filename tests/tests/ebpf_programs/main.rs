//! The eBPF programs alone: what they count for every way a process can be born, move and exit. Each test has a tree and an audit of its
//! own, states every counter, and what it does not name must not have moved.
//!
//! With `PROCTOR_BPF_OBJECT` the tests load that object in place of the committed one.

mod births;
mod ground;
mod limits;
mod moves;
mod signals;
mod storms;
mod strangers;
