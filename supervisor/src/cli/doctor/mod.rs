//! `proctor doctor`: can tasks run here, can the audit prove what they do, and if not, what is to be done.

mod json;
mod table;

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use table::{Style, Table};

use crate::features::{self, AuditProbe, Report};
use crate::sys;

/// Arguments of `proctor doctor`.
#[derive(Clone, Debug, clap::Args)]
pub struct DoctorArgs {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Exit code when tasks cannot run.
const TASKS_CANNOT_RUN: u8 = 1;
/// Exit code of a failure of proctor itself, as everywhere in proctor.
const OWN_FAILURE: u8 = 125;

/// Tries everything and prints the report. Exits with 0 when tasks can run, with 1 when they cannot, with 125 when the report could not be
/// written.
pub fn run(args: &DoctorArgs, audit: Option<AuditProbe>) -> ExitCode {
    let report = features::probe(audit);
    let stdout = std::io::stdout().lock();
    let text = if args.json {
        json::render(&report)
    } else {
        let terminal = stdout.is_terminal();
        let width = if terminal { sys::probe::terminal_width() } else { None };
        Table { style: style(terminal), width }.render(&report)
    };
    match write(stdout, &text) {
        Ok(()) => verdict(&report),
        // Whoever read has seen enough (`| head`); that is no failure of ours.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => verdict(&report),
        Err(error) => {
            // Nobody is left to tell when this fails as well.
            let _ = writeln!(
                std::io::stderr().lock(),
                "proctor doctor: cannot write the report to stdout: {error}"
            );
            ExitCode::from(OWN_FAILURE)
        }
    }
}

fn verdict(report: &Report) -> ExitCode {
    if report.tasks_can_run() { ExitCode::SUCCESS } else { ExitCode::from(TASKS_CANNOT_RUN) }
}

fn write(mut stdout: impl Write, text: &str) -> std::io::Result<()> {
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Colours only for a terminal that can show them, and not for people who set NO_COLOR (to anything but nothing).
fn style(terminal: bool) -> Style {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let plain = set("NO_COLOR").is_some() || set("TERM").is_none_or(|term| term == "dumb");
    if terminal && !plain { Style::Coloured } else { Style::Plain }
}
