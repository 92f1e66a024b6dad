//! The command line: what people type. Parsing here, the work elsewhere.

mod environment;
mod identity;
mod quantity;
mod run;
mod say;

pub mod doctor;

use std::process::ExitCode;

use clap::error::ErrorKind;
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
        // Nothing was asked for: the whole help is the best answer.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(embedded::OWN_FAILURE)
        }
        Err(error) if error.use_stderr() => {
            say::say(&in_one_line(&error));
            ExitCode::from(embedded::OWN_FAILURE)
        }
        // Help and version. To a closed stdout there is nothing to say.
        Err(asked) => asked.print().map_or(ExitCode::from(embedded::OWN_FAILURE), |()| ExitCode::SUCCESS),
    }
}

/// What is wrong with the arguments, as one line like all our errors: the first paragraph of what clap has to say.
fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = paragraph.trim_start_matches("error: ").split_whitespace().collect();
    let command = std::env::args().nth(1).filter(|word| matches!(word.as_str(), "run" | "doctor"));
    let help = command.map_or(String::from("proctor --help"), |command| format!("proctor {command} --help"));
    format!("{}; see `{help}`", words.join(" ").trim_end_matches('.'))
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
