//! What a foreground run tells at its end: the exit code, one or two lines for people, JSON for programs.

use std::time::Duration;

use serde::Serialize;

use super::{Holder, RunError, describe};
use crate::audit::{AuditReport, EscapedProcess, KilledBy, Verdict};
use crate::sys::Errno;
use crate::task::{Outcome, RunNumber, StartFailure, StopCause, TaskSpec};
use crate::wire::{RunReport, StreamReport, Timings};

/// Exit code for faults of proctor itself, as other tools have it.
pub const OWN_FAILURE: u8 = 125;
/// The program was found and cannot be run.
pub const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
pub const NOT_FOUND: u8 = 127;

/// All that is known of a run at its end.
#[derive(Debug)]
pub struct Report {
    pub(super) spec: TaskSpec,
    pub(super) ending: Ending,
    pub(super) executor: i32,
    pub(super) main: Option<i32>,
    pub(super) verdict: Verdict,
    pub(super) held_open_by: Vec<Holder>,
    pub(super) started_wall: Duration,
    pub(super) left: Option<String>,
}

/// From whom we know how it ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// From the executor.
    Reported(Box<RunReport>),
    /// The executor died; what the keeper reaped is all there is.
    ExecutorDied { status: Option<u32>, outcome: Outcome },
}

/// The report as JSON has it.
#[derive(Clone, Debug, Serialize)]
pub struct Figures<'r> {
    task: &'r str,
    run: u32,
    outcome: OutcomeFigures,
    /// Why proctor ended it: `requested`, `killed`, `timeout`, `main_ended`, `abandoned`; null when it did not.
    ended_by: Option<&'static str>,
    leftovers_killed: u32,
    /// How many processes were found outside of the run and ended.
    escaped: u64,
    escaped_processes: &'r [EscapedProcess],
    output: OutputFigures<'r>,
    killed_by: Option<&'r KilledBy>,
    timings: TimingFigures,
    cpu_us: u64,
    executor: Pid,
    main: Option<Pid>,
    audit: &'r AuditReport,
    /// What could not be removed and why; null when nothing is left.
    left_behind: Option<&'r str>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Pid {
    pid: i32,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum OutcomeFigures {
    Exited { code: u8 },
    Signaled { signal: u8, name: String },
    Unknown { reason: String },
    NotStarted { step: String, object: String, errno: i32, message: String },
}

#[derive(Clone, Debug, Serialize)]
struct OutputFigures<'r> {
    /// As the other figures null when the executor died: nobody knows then.
    stdout_bytes: Option<u64>,
    stderr_bytes: Option<u64>,
    /// Everything that the task wrote was handed over.
    complete: bool,
    /// Read from the task and not taken by the reader.
    lost_bytes: Option<u64>,
    /// The reader closed its end before the task had ended.
    closed_by_reader: bool,
    /// Both streams went one way and are counted as stdout.
    merged: bool,
    held_open_by: &'r [Holder],
}

/// Microseconds from the beginning of the start; null for what never happened.
#[derive(Clone, Debug, Serialize)]
struct TimingFigures {
    /// Wall clock, seconds since the epoch.
    started_at: f64,
    born_us: Option<u64>,
    running_us: Option<u64>,
    stopping_us: Option<u64>,
    main_ended_us: Option<u64>,
    empty_us: Option<u64>,
    drained_us: Option<u64>,
    duration_us: Option<u64>,
}

impl Report {
    /// The exit code of `proctor run`: the task's, 128 and the signal, or one of ours.
    pub fn exit_code(&self) -> u8 {
        match self.outcome() {
            Outcome::Exited(code) if !self.executor_died() => *code,
            Outcome::Signaled(signal) if !self.executor_died() => 128 + signal.number(),
            Outcome::NotStarted(failure) => start_failure_code(failure),
            Outcome::Exited(_) | Outcome::Signaled(_) | Outcome::Unknown => OWN_FAILURE,
        }
    }

    /// The task's id.
    pub fn task(&self) -> &str {
        self.spec.id.as_str()
    }

    /// Why the program never ran, if it did not.
    pub fn start_failure(&self) -> Option<String> {
        match self.outcome() {
            Outcome::NotStarted(failure) => Some(describe(failure)),
            Outcome::Exited(_) | Outcome::Signaled(_) | Outcome::Unknown => None,
        }
    }

    /// For people: what became of it, and what is proven.
    pub fn lines(&self) -> Vec<String> {
        let id = &self.spec.id;
        let figures = self.figures();
        let mut parts = vec![format!("{}{}", self.ended(), self.after())];
        if figures.leftovers_killed > 0 {
            parts.push(format!("{} killed", count(u64::from(figures.leftovers_killed), "leftover")));
        }
        if figures.escaped > 0 {
            parts.push(format!("{} ended outside its cgroup", count(figures.escaped, "escaped process")));
        }
        parts.push(output_in_words(&figures.output));
        parts.extend(self.verdict.killed_by.as_ref().map(|killer| self.killer_in_words(killer)));
        let mut lines = vec![format!("{id}: {}", parts.join("; "))];
        lines.push(format!("{id}: audit: {}", self.verdict.audit.headline()));
        if let Some(left) = &self.left {
            lines.push(format!("{id}: left behind: {left}"));
        }
        lines
    }

    /// For programs.
    pub fn figures(&self) -> Figures<'_> {
        let report = match &self.ending {
            Ending::Reported(report) => Some(report.as_ref()),
            Ending::ExecutorDied { .. } => None,
        };
        let timings = report.map(|report| report.timings).unwrap_or_default();
        let known = self.verdict.escaped.len() as u64;
        Figures {
            task: self.spec.id.as_str(),
            run: report.map_or(RunNumber::FIRST, |report| report.run).0,
            outcome: self.outcome_figures(),
            ended_by: report.and_then(|report| report.cause).map(cause),
            leftovers_killed: report.map_or(0, |report| report.leftovers),
            escaped: report.map_or(0, |report| u64::from(report.escaped)).max(known),
            escaped_processes: &self.verdict.escaped,
            output: self.output(report),
            killed_by: self.verdict.killed_by.as_ref(),
            timings: self.timings(timings),
            cpu_us: report.map_or(0, |report| report.cpu_usec),
            executor: Pid { pid: self.executor },
            main: self.main.map(|pid| Pid { pid }),
            audit: &self.verdict.audit,
            left_behind: self.left.as_deref(),
        }
    }

    fn outcome(&self) -> &Outcome {
        match &self.ending {
            Ending::Reported(report) => &report.outcome,
            Ending::ExecutorDied { outcome, .. } => outcome,
        }
    }

    fn executor_died(&self) -> bool {
        matches!(self.ending, Ending::ExecutorDied { .. })
    }

    fn outcome_figures(&self) -> OutcomeFigures {
        match self.outcome() {
            Outcome::Exited(code) => OutcomeFigures::Exited { code: *code },
            Outcome::Signaled(signal) => {
                OutcomeFigures::Signaled { signal: signal.number(), name: signal.to_string() }
            }
            Outcome::Unknown => OutcomeFigures::Unknown { reason: self.ended() },
            Outcome::NotStarted(failure) => OutcomeFigures::NotStarted {
                step: failure.step.clone(),
                object: failure.object.clone(),
                errno: failure.errno,
                message: describe(failure),
            },
        }
    }

    fn output(&self, report: Option<&RunReport>) -> OutputFigures<'_> {
        let [stdout, stderr] = report.map(|report| report.streams).unwrap_or_default();
        let lost = |stream: StreamReport| stream.read - stream.handed_over.min(stream.read);
        let closed = [stdout, stderr].iter().any(|stream| stream.closed == 1);
        let lost_bytes = lost(stdout) + lost(stderr);
        OutputFigures {
            stdout_bytes: report.map(|_| stdout.read),
            stderr_bytes: report.map(|_| stderr.read),
            complete: report.is_some() && lost_bytes == 0 && !closed,
            lost_bytes: report.map(|_| lost_bytes),
            closed_by_reader: closed,
            merged: stdout.inode != 0 && stderr.inode == 0,
            held_open_by: &self.held_open_by,
        }
    }

    fn timings(&self, timings: Timings) -> TimingFigures {
        let since = |at: Option<Duration>| {
            at.map(|at| u64::try_from(at.saturating_sub(timings.asked).as_micros()).unwrap_or(u64::MAX))
        };
        let last = timings.drained.or(timings.empty).or(timings.main_ended);
        TimingFigures {
            started_at: self.started_wall.as_secs_f64(),
            born_us: since(timings.born),
            running_us: since(timings.running),
            stopping_us: since(timings.stopping),
            main_ended_us: since(timings.main_ended),
            empty_us: since(timings.empty),
            drained_us: since(timings.drained),
            duration_us: if self.executor_died() { None } else { Some(since(last).unwrap_or(0)) },
        }
    }

    fn ended(&self) -> String {
        let how = match self.outcome() {
            Outcome::Exited(code) => format!("exited with code {code}"),
            Outcome::Signaled(signal) => format!("ended by {signal}"),
            Outcome::Unknown => String::from("how it ended is unknown"),
            Outcome::NotStarted(failure) => describe(failure),
        };
        match &self.ending {
            Ending::Reported(report) => {
                let cause = match report.cause {
                    Some(StopCause::Timeout) => " when its time was over",
                    Some(StopCause::Requested) => " as asked for",
                    Some(StopCause::Killed) => " (killed as asked for)",
                    Some(StopCause::MainEnded | StopCause::Abandoned) | None => "",
                };
                format!("{how}{cause}")
            }
            Ending::ExecutorDied { status: Some(status @ 256..), .. } => {
                format!(
                    "the executor was killed by signal {}, and all of the task with it: {how}",
                    status - 256
                )
            }
            Ending::ExecutorDied { .. } => format!("the executor died, and all of the task with it: {how}"),
        }
    }

    /// How long it took, where that is known: the executor has the times.
    fn after(&self) -> String {
        let duration = self.figures().timings.duration_us;
        duration.map_or_else(String::new, |duration| format!(" after {:.3} s", duration as f64 / 1e6))
    }

    fn killer_in_words(&self, killer: &KilledBy) -> String {
        let KilledBy { pid, comm, uid, kernel } = killer;
        if i64::from(*pid) == i64::from(self.executor) {
            return format!("signal from its executor (pid {pid})");
        }
        let kernel = if *kernel { "the kernel for " } else { "" };
        format!("signal from {kernel}{comm} (pid {pid}, uid {uid})")
    }
}

/// The exit code for a program that could not be started.
fn start_failure_code(failure: &StartFailure) -> u8 {
    match (failure.step.as_str(), Errno::from_raw(failure.errno)) {
        ("exec", Errno::ENOENT | Errno::ENOTDIR) => NOT_FOUND,
        ("exec", _) => NOT_EXECUTABLE,
        (_, _) => OWN_FAILURE,
    }
}

impl RunError {
    /// The exit code of `proctor run` for this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotStarted(failure) => start_failure_code(failure),
            Self::Sys { .. }
            | Self::Io { .. }
            | Self::Hierarchy(_)
            | Self::Proc
            | Self::AuditRequired { .. }
            | Self::KeeperDied
            | Self::Wire(_) => OWN_FAILURE,
        }
    }
}

fn cause(cause: StopCause) -> &'static str {
    match cause {
        StopCause::Requested => "requested",
        StopCause::Killed => "killed",
        StopCause::Timeout => "timeout",
        StopCause::MainEnded => "main_ended",
        StopCause::Abandoned => "abandoned",
    }
}

fn count(n: u64, noun: &str) -> String {
    match (n, noun.strip_suffix('s')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(_)) => format!("{n} {noun}es"),
        (_, None) => format!("{n} {noun}s"),
    }
}

fn output_in_words(output: &OutputFigures<'_>) -> String {
    let (Some(stdout), Some(stderr), Some(lost)) =
        (output.stdout_bytes, output.stderr_bytes, output.lost_bytes)
    else {
        return String::from("output INCOMPLETE (nobody knows how much is missing)");
    };
    let bytes = format!("{stdout} + {stderr} bytes");
    let mut text = match (output.complete, output.closed_by_reader) {
        (true, _) => format!("output complete ({bytes})"),
        (false, true) => format!("output closed by its reader ({bytes})"),
        (false, false) => {
            format!("output INCOMPLETE ({bytes}, {lost} not taken by its reader)")
        }
    };
    if !output.held_open_by.is_empty() {
        let holders: Vec<String> =
            output.held_open_by.iter().map(|h| format!("{} (pid {})", h.comm, h.pid)).collect();
        text.push_str(&format!(", still held open by {}", holders.join(", ")));
    }
    text
}
