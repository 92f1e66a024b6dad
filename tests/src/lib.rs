//! What the tests share: a private place in the cgroup tree, proctor in it, waiting for events, and skips that are counted.
//!
//! Every test makes a [`Place`] of its own, so all run in parallel. When the place is dropped it must be empty: what is left there was
//! left by proctor and fails the test. Test programs are ended by the place's `cgroup.kill` and never by name.

mod place;
mod proctor;
mod screen;
mod shell;
mod skip;
mod stage;
mod wait;

pub use place::{Place, binary, faulty_binary};
pub use proctor::{Finished, Running};
pub use screen::Screen;
pub use skip::skip;
pub use stage::Stage;
pub use wait::{PATIENCE, wait_until};
