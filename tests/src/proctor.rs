//! A proctor that was started by a test.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::wait_until;

/// One that runs. Its output is collected meanwhile.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    report: Option<PathBuf>,
}

/// One that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// What came on stdout.
    pub stdout: Vec<u8>,
    /// What came on stderr.
    pub stderr: String,
    /// The JSON of `--report`; null where there is none.
    pub report: Value,
}

impl Running {
    /// Starts the command. Where it names no stdin it has /dev/null; stdout and stderr are collected unless it names them.
    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::spawn_as_is(command)
    }

    /// Starts the command with its own ideas of stdio; collects what is piped.
    pub fn spawn_as_is(mut command: Command) -> Self {
        let mut child = command.spawn().expect("start proctor");
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        Self { child, stdout, stderr, report: None }
    }

    /// Names the file to read the report from at the end.
    pub fn with_report(mut self, report: PathBuf) -> Self {
        self.report = Some(report);
        self
    }

    /// Process id of `proctor run`.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends it a signal: our own unreaped child, so the number is its own.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).expect("signal proctor");
    }

    /// Writes to its stdin, which must be piped, and closes it.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut stdin = self.child.stdin.take().expect("stdin is piped");
        // A task that does not read all is no fault of the test.
        let _ = stdin.write_all(bytes);
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not come.
    pub fn finish(mut self) -> Finished {
        let status = wait_until("the end of proctor", || self.child.try_wait().expect("wait for proctor"));
        let text = |stream: Option<JoinHandle<Vec<u8>>>| {
            stream.map(|s| s.join().expect("collector")).unwrap_or_default()
        };
        let report = self.report.as_ref().and_then(|path| std::fs::read(path).ok());
        let report = report.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or(Value::Null);
        let stderr = String::from_utf8_lossy(&text(self.stderr.take())).into_owned();
        Finished { status, stdout: text(self.stdout.take()), stderr, report }
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("read the output");
        bytes
    })
}

impl Finished {
    /// The exit code; -1 when a signal ended it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// What came on stdout, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The status of a claim in the report, e.g. `stayed_out`.
    pub fn claim(&self, name: &str) -> &str {
        self.report["audit"]["claims"][name]["status"].as_str().unwrap_or("missing")
    }

    /// All four claims are proven.
    #[track_caller]
    pub fn assert_proven(&self) {
        for claim in ["stayed_out", "contained", "undisturbed", "ended"] {
            assert_eq!(self.claim(claim), "proven", "{claim}: {:#}\n{}", self.report["audit"], self.stderr);
        }
    }
}
