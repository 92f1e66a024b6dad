//! Runs a command with a time limit, ends all it started, and tells what it left behind.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::scope::{Leftover, Scope};

/// How long output may stay open after the command and all it left behind have ended.
const DRAIN: Duration = Duration::from_secs(10);
/// How long a killed command may take to be reaped.
const REAP: Duration = Duration::from_secs(30);

/// What to run.
#[derive(Debug)]
pub struct Invocation {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: PathBuf,
    limit: Duration,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exited(ExitStatus),
    /// It was killed at its limit.
    TimedOut,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    pub ending: Ending,
    /// What was still there when the command itself had ended; it has been killed. Always empty after a timeout.
    pub leftovers: Vec<Leftover>,
}

impl Outcome {
    /// Whether it exited with 0.
    pub fn is_success(&self) -> bool {
        matches!(self.ending, Ending::Exited(status) if status.success())
    }
}

enum Event {
    Line(String),
    EndOfOutput,
    Exited(std::io::Result<ExitStatus>),
}

impl Invocation {
    pub fn new(program: impl AsRef<OsStr>, directory: impl Into<PathBuf>, limit: Duration) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: directory.into(),
            limit,
        }
    }

    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs it, its output going where ours goes.
    pub fn run(&self) -> Result<Outcome> {
        self.start(Stdio::inherit(), &mut |_| {})
    }

    /// Runs it and hands over each line of its standard output, without the line end.
    pub fn run_lines(&self, mut on_line: impl FnMut(&str)) -> Result<Outcome> {
        self.start(Stdio::piped(), &mut on_line)
    }

    fn start(&self, stdout: Stdio, on_line: &mut dyn FnMut(&str)) -> Result<Outcome> {
        let scope = Scope::new();
        let mut child = scope
            .command(&self.program)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(stdout)
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        let main = child.id();
        let (sender, events) = mpsc::channel();
        match child.stdout.take() {
            Some(output) => read_lines(output, sender.clone()),
            None => drop(sender.send(Event::EndOfOutput)),
        }
        std::thread::spawn(move || sender.send(Event::Exited(child.wait())));

        let mut deadline = Instant::now() + self.limit;
        let mut ending = None;
        let mut leftovers = Vec::new();
        let mut status = None;
        let mut is_open = true;
        while status.is_none() || is_open {
            match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Line(line)) => on_line(&line),
                Ok(Event::EndOfOutput) => is_open = false,
                Ok(Event::Exited(exit)) => {
                    let exit = exit.with_context(|| format!("wait for {}", self.program.display()))?;
                    status = Some(exit);
                    if ending.is_none() {
                        ending = Some(Ending::Exited(exit));
                        leftovers = scope.leftovers();
                        // What was left behind may hold the output open.
                        if !leftovers.is_empty() {
                            scope.kill(main);
                        }
                    }
                    deadline = Instant::now() + DRAIN;
                }
                Err(RecvTimeoutError::Timeout) if status.is_some() => {
                    eprintln!(
                        "xtask: somebody outside holds the output of {} open, going on",
                        self.program.display()
                    );
                    break;
                }
                Err(RecvTimeoutError::Timeout) if ending.is_none() => {
                    ending = Some(Ending::TimedOut);
                    if !scope.is_complete() {
                        eprintln!("xtask: no cgroup to run in: what the command started may outlive it");
                    }
                    scope.kill(main);
                    deadline = Instant::now() + REAP;
                }
                Err(RecvTimeoutError::Timeout) => {
                    bail!("{} (pid {main}) does not die: look at /proc/{main}/stack", self.program.display())
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let ending = ending.with_context(|| format!("the end of {} was not seen", self.program.display()))?;
        Ok(Outcome { ending, leftovers })
    }
}

fn read_lines(output: impl Read + Send + 'static, sender: Sender<Event>) {
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        // A read error ends the output as its end does; nobody listening any more does too.
        while output.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            if sender.send(Event::Line(text)).is_err() {
                return;
            }
            line.clear();
        }
        let _ = sender.send(Event::EndOfOutput);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> (Outcome, Vec<String>) {
        let mut lines = Vec::new();
        let outcome = Invocation::new("/bin/sh", "/", limit)
            .args(["-c", script])
            .env("WORD", "value")
            .run_lines(|line| lines.push(line.to_owned()))
            .unwrap();
        (outcome, lines)
    }

    #[test]
    fn lines_and_status_arrive() {
        let (outcome, lines) = shell("echo a $WORD; printf b; exit 3", Duration::from_secs(60));
        assert_eq!(lines, ["a value", "b"]);
        assert!(matches!(outcome.ending, Ending::Exited(status) if status.code() == Some(3)));
        assert_eq!(outcome.leftovers, []);
        assert!(!outcome.is_success());
    }

    #[test]
    fn the_limit_ends_the_whole_tree_and_keeps_the_output() {
        let started = Instant::now();
        let (outcome, lines) =
            shell("echo first; sleep 600 & sleep 600; echo never", Duration::from_millis(300));
        assert_eq!(outcome.ending, Ending::TimedOut);
        assert_eq!(lines, ["first"]);
        assert!(started.elapsed() < Duration::from_secs(60), "the sleeps were waited for");
    }

    #[test]
    fn leftovers_are_named_and_ended() {
        let started = Instant::now();
        let (outcome, lines) = shell("setsid sleep 601 & echo $!", Duration::from_secs(120));
        let pid: i32 = lines[0].parse().unwrap();
        if Scope::new().is_complete() {
            assert_eq!(outcome.leftovers, [Leftover::Process { pid, comm: "sleep".to_owned() }]);
            // Whoever is its parent now may not have reaped it yet.
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            assert!(status.is_empty() || status.contains("State:\tZ"), "still lives: {status}");
        } else {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
        assert!(started.elapsed() < Duration::from_secs(100));
    }
}
