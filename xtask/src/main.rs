//! `cargo xtask`: everything that is not the product. `cargo xtask help` lists the commands.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for the shell: what it prints is its result"
)]
#![forbid(unsafe_code)]

mod bench;
mod bounded;
mod ebpf;
mod machine;
mod scope;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks, tests and builds of proctor")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run all checks and tests, and install what they need
    Test(test::TestArgs),
    /// Check the rules of the repository: arrows, unsafe, licences, invariants, words
    Tidy(tidy::TidyArgs),
    /// Build the eBPF object, or check that the committed one is what its sources give
    Ebpf(ebpf::EbpfArgs),
    /// Run a benchmark in release mode
    Bench(bench::BenchArgs),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Test(arguments) => test::run(arguments),
        Command::Tidy(arguments) => tidy::run(arguments).map(|()| ExitCode::SUCCESS),
        Command::Ebpf(arguments) => ebpf::run(arguments).map(|()| ExitCode::SUCCESS),
        Command::Bench(arguments) => bench::run(arguments).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}
