//! Tasks that are shell scripts, and what their reports say.

use std::ffi::OsString;
use std::fs;

use serde_json::Value;

use crate::{Finished, Place, Running, binary, wait_until};

impl Place {
    /// Starts `proctor run --report FILE OPTIONS -- sh -c SCRIPT`. The script is in the place's directory for files, and `$CG` is the place's
    /// cgroup.
    pub fn shell(&self, options: &[&str], script: &str) -> Running {
        self.program(options, &["sh", "-c", script])
    }

    /// The same with another command than `sh -c`.
    pub fn program(&self, options: &[&str], command: &[&str]) -> Running {
        let cgroup = self.cgroup().display();
        let mut args: Vec<OsString> = vec!["--env".into(), format!("CG={cgroup}").into()];
        args.extend(["--cwd".into(), self.files().into()]);
        args.extend(options.iter().map(OsString::from));
        args.push("--".into());
        args.extend(command.iter().map(OsString::from));
        self.start_reported(&binary(), None, &args)
    }

    /// Waits until the task has written a whole line to this file; gives all that is in it.
    pub fn wait_line(&self, file: &str) -> String {
        wait_until(file, || fs::read_to_string(self.file(file)).ok().filter(|text| text.ends_with('\n')))
    }
}

impl Finished {
    /// A figure of the report, as in `number("/timings/empty_us")`.
    #[track_caller]
    pub fn number(&self, pointer: &str) -> u64 {
        let number = self.report.pointer(pointer).and_then(Value::as_u64);
        number.unwrap_or_else(|| panic!("no number {pointer} in {:#}\n{}", self.report, self.stderr))
    }

    /// How long the end took: from the beginning of the stop until nothing lived, in microseconds.
    #[track_caller]
    pub fn stop_us(&self) -> u64 {
        self.number("/timings/empty_us") - self.number("/timings/stopping_us")
    }

    /// The task ended by itself or by a trap, with this code.
    #[track_caller]
    pub fn assert_exited(&self, code: u8) {
        let outcome = serde_json::json!({"kind": "exited", "code": code});
        assert_eq!(self.report["outcome"], outcome, "{:#}\n{}", self.report, self.stderr);
        assert_eq!(self.code(), i32::from(code), "{}", self.stderr);
    }

    /// The main process was ended by this signal.
    #[track_caller]
    pub fn assert_signaled(&self, signal: u8) {
        assert_eq!(self.report["outcome"]["kind"], "signaled", "{:#}\n{}", self.report, self.stderr);
        assert_eq!(self.report["outcome"]["signal"], signal, "{:#}\n{}", self.report, self.stderr);
        assert_eq!(self.code(), 128 + i32::from(signal), "{}", self.stderr);
    }

    /// All output was handed over.
    #[track_caller]
    pub fn assert_complete(&self) {
        assert_eq!(self.report["output"]["complete"], true, "{:#}\n{}", self.report, self.stderr);
    }
}
