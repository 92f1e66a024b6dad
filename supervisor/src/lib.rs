//! Proctor: a process supervisor for Linux that can prove what it did.
//!
//! Where to look:
//!
//! | module | what it is |
//! | --- | --- |
//! | [`cli`] | the commands that people type: parsing, and what each does |
//! | [`embedded`] | `proctor run`: daemon and client in one foreground process, with a keeper of its own |
//! | [`keeper`] | the fork server: makes the tree, forks executors, reaps orphans, cleans up |
//! | [`executor`] | the guardian of one task: spawn, signals, output, the end |
//! | [`task`] | pure: what a task is, its life cycle and its result; no I/O, no clock |
//! | [`audit`] | loads the eBPF programs, reads their counters, judges the claims |
//! | [`cgroup`] | the cgroup v2 tree: find it, make, watch, kill, remove |
//! | [`features`] | what this kernel can do, probed once |
//! | [`wire`] | the messages between daemon, keeper and executor |
//! | [`sys`] | every call into the kernel that needs `unsafe` |
//!
//! Arrows (`a → b`: a may use b) are in `docs/architecture.md` and are checked by `cargo xtask tidy`.
#![deny(unsafe_code, missing_docs)]

pub mod audit;
pub mod cgroup;
pub mod cli;
pub mod embedded;
pub mod executor;
pub mod features;
pub mod keeper;
#[allow(unsafe_code, reason = "the one place that calls the kernel")]
pub mod sys;
pub mod task;
pub mod wire;

/// Runs what the arguments of this process ask for: the whole of `main`.
pub fn main() -> std::process::ExitCode {
    cli::log_to_stderr();
    // It fails for no signal that exists.
    let _ = sys::signal::hear_of_children();
    // Before the command line is parsed, which would cost the keeper and its executors memory that they never use.
    if std::env::args_os().nth(1).is_some_and(|first| first == keeper::SUBCOMMAND) {
        return keeper::main();
    }
    cli::main()
}
