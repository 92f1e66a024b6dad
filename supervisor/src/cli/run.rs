//! `proctor run`.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::environment::{self, Minimum, Whose};
use super::identity;
use super::quantity::duration;
use super::say::{remark, say};
use crate::embedded::{self, AuditWish, Interrupt, OWN_FAILURE, Report, Request};
use crate::sys::{fd, process, signal};
use crate::task::restart::RestartPolicy;
use crate::task::{ResourceLimit, Signal, StopPolicy, TaskId, TaskSpec, Until};

/// Options of `proctor run`.
#[derive(Debug, Args)]
#[command(
    override_usage = "proctor run [OPTIONS] -- CMD [ARG]...",
    after_help = "At a terminal: Ctrl-C asks a plain program to end, twice kills it; shells and editors keep it for themselves. \
        Ctrl-Z stops it as a job. Ctrl-] three times within a second kills whatever it is."
)]
pub(super) struct RunArgs {
    /// The task's name [default: the program's].
    #[arg(long, value_name = "ID")]
    name: Option<String>,
    /// Run as this user (name or number), with all its groups and without capabilities.
    #[arg(long)]
    user: Option<String>,
    /// Run with this group (name or number).
    #[arg(long)]
    group: Option<String>,
    /// Start in this directory [default: the current one].
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Set a variable, or pass on the caller's. Without it the task has PATH, HOME, USER, LOGNAME, SHELL and TERM only.
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Not even those six.
    #[arg(long)]
    clear_env: bool,
    /// Set a resource limit, e.g. nofile=65536 or nproc=100:200.
    #[arg(long, value_name = "NAME=SOFT[:HARD]", value_parser = rlimit)]
    rlimit: Vec<ResourceLimit>,
    /// The signal that asks the task to end [default: TERM, and INT for Ctrl-C at a terminal].
    #[arg(long, value_name = "SIGNAL", value_parser = |text: &str| text.parse::<Signal>())]
    stop_signal: Option<Signal>,
    /// How long it has to obey before everything is killed.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    grace: Duration,
    /// Stop it after this time.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// When it is over: when the main process ends, or when nothing of it is left.
    #[arg(long, value_enum, default_value_t = UntilArg::Main)]
    until: UntilArg,
    /// Start nothing unless the audit is active.
    #[arg(long, conflicts_with = "no_audit")]
    require_audit: bool,
    /// Prove nothing, start faster.
    #[arg(long)]
    no_audit: bool,
    /// No lines at the end.
    #[arg(long)]
    quiet: bool,
    /// Write the report as JSON to this file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print the report as one line of JSON on stderr, in place of the lines for people.
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum UntilArg {
    /// The main process.
    Main,
    /// Everything in its cgroup.
    All,
}

/// Runs the task in the foreground.
pub(super) fn run(args: RunArgs) -> ExitCode {
    // It cannot fail; SIGTERM and the like are the way to end a run.
    let _ = signal::unblock_all();
    // Where it does not work, a write beyond the limit ends us, as it did before.
    let _ = signal::survive_large_files();
    let prepared = spec(&args).and_then(|spec| {
        // The spec holds the caller's limits by now, for the task.
        allow_open_files()?;
        // What cannot be lifted may be enough.
        let _ = process::allow_cpu_time();
        Ok((spec, ReportFile::open(args.report.as_deref())?))
    });
    let (spec, report_file) = match prepared {
        Ok(prepared) => prepared,
        Err(reason) => {
            say(&reason);
            return ExitCode::from(OWN_FAILURE);
        }
    };
    let id = spec.id.clone();
    let request =
        own_stdio().map(|stdio| Request { spec, audit: args.wish(), stdio, interrupt: args.interrupt() });
    let request = match request {
        Ok(request) => request,
        Err(error) => {
            say(&format!("cannot hand on standard input and output: {error}"));
            report_file.discard();
            return ExitCode::from(OWN_FAILURE);
        }
    };
    let quiet = args.quiet;
    let mut notice = |line: &str| {
        if !quiet {
            remark(line);
        }
    };
    let ended = embedded::run(request, &mut notice);
    // Nothing is left to guard. A signal ends us from now on, also while we wait for the reader of our last lines.
    signal::let_go();
    match ended {
        Ok(report) => finish(&args, &report, report_file),
        Err(error) => {
            let source =
                std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
            say(&format!("{id}: {error}{source}"));
            report_file.discard();
            ExitCode::from(error.exit_code())
        }
    }
}

fn finish(args: &RunArgs, report: &Report, file: ReportFile) -> ExitCode {
    let json = serde_json::to_string(&report.figures()).unwrap_or_default();
    if args.json {
        // A closed stderr is no reason to fail.
        let _ = writeln!(std::io::stderr().lock(), "{json}");
    } else if let Some(failure) = report.start_failure() {
        say(&format!("{}: {failure}", report.task()));
    } else if !args.quiet {
        report.lines().iter().for_each(|line| say(line));
    }
    match file.write(&json) {
        Ok(()) => ExitCode::from(report.exit_code()),
        Err(reason) => {
            say(&reason);
            ExitCode::from(OWN_FAILURE)
        }
    }
}

impl RunArgs {
    fn interrupt(&self) -> Interrupt {
        match self.stop_signal {
            Some(_) => Interrupt::StopSignal,
            None => Interrupt::AsTyped,
        }
    }

    fn wish(&self) -> AuditWish {
        match (self.require_audit, self.no_audit) {
            (true, _) => AuditWish::Required,
            (false, true) => AuditWish::Unwanted,
            (false, false) => AuditWish::Wanted,
        }
    }
}

/// Checks everything that can be checked before anything is done.
fn spec(args: &RunArgs) -> Result<TaskSpec, String> {
    let program = args.command.first().ok_or("no program is given")?;
    let name = args.name.clone().unwrap_or_else(|| default_name(program));
    let id = TaskId::new(name).map_err(|error| error.to_string())?;
    let (identity, account) = identity::look_up(args.user.as_deref(), args.group.as_deref())?;
    let minimum = if args.clear_env { Minimum::Cleared } else { Minimum::Kept };
    let whose = if args.user.is_some() { Whose::Anothers } else { Whose::Callers };
    let environment =
        environment::build(&args.env, minimum, whose, account.as_ref(), |name| std::env::var_os(name))?;
    let arguments = args.command.iter().map(|argument| {
        CString::new(argument.as_bytes()).map_err(|_| String::from("an argument holds a NUL byte"))
    });
    let spec = TaskSpec {
        id,
        arguments: arguments.collect::<Result<_, _>>()?,
        environment,
        directory: directory(args.cwd.as_deref())?,
        umask: process::umask().unwrap_or(0o022),
        limits: limits(&args.rlimit),
        oom_score_adj: None,
        identity,
        stop: StopPolicy { signal: args.stop_signal.unwrap_or(Signal::TERM), grace: args.grace },
        until: match args.until {
            UntilArg::Main => Until::Main,
            UntilArg::All => Until::All,
        },
        timeout: args.timeout,
        restart: RestartPolicy::Never,
    };
    Ok(spec)
}

/// The program's file name, or what of it can be an id.
fn default_name(program: &OsString) -> String {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(|c| !c.is_control()).take(TaskId::MAX / 4).collect();
    if name.is_empty() { String::from("task") } else { name }
}

/// Absolute, and a directory now. Whether the task's user may enter it, the start will tell.
fn directory(cwd: Option<&Path>) -> Result<CString, String> {
    let current = || {
        std::env::current_dir()
            .map_err(|error| format!("the current directory is gone ({error}): give --cwd"))
    };
    let path = match cwd {
        Some(path) if path.is_absolute() => path.to_owned(),
        Some(path) => current()?.join(path),
        None => current()?,
    };
    match std::fs::metadata(&path) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(format!("--cwd `{}` is no directory", path.display())),
        Err(error) => return Err(format!("--cwd `{}` cannot be used: {error}", path.display())),
    }
    CString::new(path.into_os_string().into_vec()).map_err(|_| String::from("--cwd holds a NUL byte"))
}

/// The caller's own limits, with those that were asked for in their place: a task never sees a limit that proctor set for itself.
fn limits(asked: &[ResourceLimit]) -> Vec<ResourceLimit> {
    (0..process::LIMITS)
        .filter_map(|resource| {
            let asked = asked.iter().rev().find(|limit| limit.resource == resource).copied();
            let own = || {
                let process::Limit { resource, soft, hard } = process::limit(resource).ok()?;
                Some(ResourceLimit { resource, soft, hard })
            };
            asked.or_else(own)
        })
        .collect()
}

fn rlimit(text: &str) -> Result<ResourceLimit, String> {
    let help = || {
        format!(
            "`{text}` is no limit: write NAME=SOFT[:HARD], NAME one of {}",
            process::LIMIT_NAMES.join(", ")
        )
    };
    let (name, values) = text.split_once('=').ok_or_else(help)?;
    let resource = process::LIMIT_NAMES.iter().position(|known| *known == name).ok_or_else(help)?;
    let value = |text: &str| match text {
        "unlimited" | "infinity" => Ok(u64::MAX),
        digits => digits.parse::<u64>().map_err(|_| help()),
    };
    let (soft, hard) = match values.split_once(':') {
        Some((soft, hard)) => (value(soft)?, value(hard)?),
        None => (value(values)?, value(values)?),
    };
    if soft > hard {
        return Err(format!("`{text}` is no limit: the soft value is above the hard one"));
    }
    Ok(ResourceLimit { resource: resource as u32, soft, hard })
}

/// How many open files `proctor run` needs, at the least, without the audit.
const OPEN_FILES: u64 = 32;

/// Raises the limit on open files for proctor's own processes.
fn allow_open_files() -> Result<(), String> {
    match process::allow_open_files() {
        Ok(limit) if limit < OPEN_FILES => Err(format!(
            "only {limit} files may be open, proctor needs {OPEN_FILES}: raise the hard limit (ulimit -Hn); the task can have a lower one \
             by --rlimit nofile=N"
        )),
        // What cannot be raised may be enough.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn own_stdio() -> crate::sys::Result<[OwnedFd; 3]> {
    Ok([
        fd::duplicate(std::io::stdin().as_fd())?,
        fd::duplicate(std::io::stdout().as_fd())?,
        fd::duplicate(std::io::stderr().as_fd())?,
    ])
}

/// The file of `--report`: opened before the task starts, so that a file that cannot be written stops nothing half-way; written at the end.
enum ReportFile {
    None,
    Open { path: PathBuf, file: File, made: Made },
}

/// Whether the file was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    ByUs,
    Before,
}

impl ReportFile {
    fn open(path: Option<&Path>) -> Result<Self, String> {
        let Some(path) = path else { return Ok(Self::None) };
        let mut options = File::options();
        options.write(true);
        let fail = |error| format!("--report `{}` cannot be written: {error}", path.display());
        let (file, made) = match options.clone().create_new(true).open(path) {
            Ok(file) => (file, Made::ByUs),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                (options.open(path).map_err(fail)?, Made::Before)
            }
            Err(error) => return Err(fail(error)),
        };
        Ok(Self::Open { path: path.to_owned(), file, made })
    }

    fn write(self, json: &str) -> Result<(), String> {
        let Self::Open { path, mut file, .. } = self else { return Ok(()) };
        // What is no regular file (/dev/stdout, a pipe) cannot be cut, and need not be.
        let is_file = file.metadata().is_ok_and(|found| found.is_file());
        let cut = if is_file { file.set_len(0) } else { Ok(()) };
        cut.and_then(|()| writeln!(file, "{json}"))
            .map_err(|error| format!("--report `{}` cannot be written: {error}", path.display()))
    }

    /// Nothing was run: leaves no empty file.
    fn discard(self) {
        if let Self::Open { path, made: Made::ByUs, .. } = self {
            // Best effort: the error that led here is the one to tell.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_people_write_them() {
        assert_eq!(rlimit("nofile=65536"), Ok(ResourceLimit { resource: 7, soft: 65_536, hard: 65_536 }));
        assert_eq!(rlimit("core=0:unlimited"), Ok(ResourceLimit { resource: 4, soft: 0, hard: u64::MAX }));
        for text in ["nofile", "nofile=", "files=1", "nofile=2:1", "nofile=-1", "nofile=1:2:3"] {
            assert!(rlimit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_task_has_a_name_whatever_its_program_is_called() {
        assert_eq!(default_name(&"/usr/bin/env".into()), "env");
        assert_eq!(default_name(&"".into()), "task");
        assert_eq!(default_name(&"..".into()), "task");
        assert!(TaskId::new(default_name(&"ä".repeat(200).into())).is_ok());
    }
}
