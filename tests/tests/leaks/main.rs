//! Nothing is left behind: not by many short tasks, and not by proctor or its keeper when they are killed at any moment.
//!
//! Each test has a place of its own, and counts only what is in it, or has proctor's name. A place that is not empty at its end fails
//! the test.

mod chance;
mod kills;
mod short;
mod traces;
