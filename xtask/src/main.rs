//! `cargo xtask`: everything that is not the product. `cargo xtask help` lists the commands.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for the shell: what it prints is its result"
)]
#![forbid(unsafe_code)]

mod ebpf;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the eBPF object, or check the committed one
    Ebpf(ebpf::EbpfArgs),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Ebpf(arguments) => ebpf::run(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
