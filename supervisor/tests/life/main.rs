//! The life cycle of a task, driven from outside through its public API alone.

mod document;
mod table;
