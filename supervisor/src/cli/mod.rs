//! The command line: what people type. Parsing here, the work elsewhere.

mod environment;
mod identity;
mod quantity;
mod run;
mod say;

pub mod doctor;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::audit::{Audit, Level};
use crate::embedded;

/// A process supervisor that can prove what it did.
#[derive(Debug, Parser)]
#[command(name = "proctor", version, propagate_version = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program in a cgroup of its own, end all that it started, and print what is proven about it.
    Run(Box<run::RunArgs>),
    /// Tell what this kernel and this host can do, and what to do about what is missing.
    Doctor(doctor::DoctorArgs),
}

/// Parses the arguments and runs what they ask for.
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(Cli { command: Command::Run(args) }) => run::run(*args),
        Ok(Cli { command: Command::Doctor(args) }) => doctor::run(&args, Some(load_audit)),
        Err(error) => {
            let code = if error.use_stderr() { embedded::OWN_FAILURE } else { 0 };
            // To a closed stdout there is nothing to say.
            let _ = error.print();
            ExitCode::from(code)
        }
    }
}

/// Whether the audit's programs load and attach here: tried, not guessed.
fn load_audit() -> Result<(), String> {
    Audit::load(Level::Movements).map(drop).map_err(|error| error.why())
}

/// Warnings and errors of the library go to stderr; more with PROCTOR_LOG, as `tracing`'s filters are written.
pub(crate) fn log_to_stderr() {
    let Some(filter) = std::env::var_os("PROCTOR_LOG").and_then(|filter| filter.into_string().ok()) else {
        return;
    };
    let filter = tracing_subscriber::EnvFilter::builder().parse_lossy(filter);
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
}
