//! The audit of one foreground run: there or not, and why not.

use crate::audit::{Audit, ExecutorLife, Level, ProcessKey, Subject, Verdict};
use crate::cgroup::CgroupId;
use crate::sys::process;

use super::error::RunError;

/// Whether the user wants the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditWish {
    /// If it can be had.
    Wanted,
    /// Or nothing is started.
    Required,
    /// No.
    Unwanted,
}

/// The audit, or why there is none.
pub(super) enum Proof {
    On { audit: Box<Audit>, executor: Option<ProcessKey> },
    Off { why: String },
}

/// How many files must be allowed open for a run with the audit: what it takes would be missing later, where no run can go on without.
const OPEN_FILES: u64 = 64;

impl Proof {
    /// Attaches the programs, as wished.
    pub(super) fn begin(wish: AuditWish) -> Result<Self, RunError> {
        if wish == AuditWish::Unwanted {
            return Ok(Self::Off { why: String::from("switched off with --no-audit") });
        }
        if let Ok(limit) = process::open_files()
            && limit < OPEN_FILES
        {
            let why = format!(
                "only {limit} files may be open, the audit needs {OPEN_FILES}: raise the hard limit (ulimit -Hn)"
            );
            return Self::off(wish, why);
        }
        match Audit::load(Level::Movements) {
            Ok(audit) => Ok(Self::On { audit: Box::new(audit), executor: None }),
            Err(error) => Self::off(wish, error.why()),
        }
    }

    /// Names the two directories to watch, before anything is born there.
    pub(super) fn watch(&mut self, wish: AuditWish, executors: u64, tasks: u64) -> Result<(), RunError> {
        let Self::On { audit, .. } = self else { return Ok(()) };
        let (Some(executors), Some(tasks)) = (CgroupId::new(executors), CgroupId::new(tasks)) else {
            return Ok(());
        };
        if let Err(error) = audit.watch(executors, tasks) {
            *self = Self::off(wish, error.why())?;
        }
        Ok(())
    }

    fn off(wish: AuditWish, why: String) -> Result<Self, RunError> {
        match wish {
            AuditWish::Required => Err(RunError::AuditRequired { why }),
            AuditWish::Wanted | AuditWish::Unwanted => Ok(Self::Off { why }),
        }
    }

    /// Notes who the executor is, while it lives.
    pub(super) fn note_executor(&mut self, pid: i32) {
        if let Self::On { audit, executor } = self {
            *executor = u32::try_from(pid).ok().and_then(|pid| audit.executor(pid));
        }
    }

    /// Takes what waits in the ring buffer.
    pub(super) fn drain(&mut self) {
        if let Self::On { audit, .. } = self {
            let _ = audit.drain();
        }
    }

    /// The judgement on the run in this leaf.
    pub(super) fn verdict(
        &mut self,
        leaf: Option<u64>,
        main: Option<i32>,
        executor_life: ExecutorLife,
    ) -> Verdict {
        let (audit, executor) = match self {
            Self::On { audit, executor } => (audit, *executor),
            Self::Off { why } => return Verdict::off(why),
        };
        let Some(run) = leaf.and_then(CgroupId::new) else { return Verdict::off("the run was never born") };
        let main = main.and_then(|pid| u32::try_from(pid).ok());
        let verdict = audit.verdict(&Subject { executor, executor_life, run, main });
        verdict.unwrap_or_else(|error| Verdict::off(&error.why()))
    }

    /// For the tests: breaks the audit in the way that `PROCTOR_FAULT` names, before the task is born.
    #[cfg(feature = "faults")]
    pub(super) fn break_on_fault(&mut self) {
        use crate::audit::Program;
        if let Self::On { audit, .. } = self
            && std::env::var_os("PROCTOR_FAULT").is_some_and(|fault| fault == "birth-unseen")
        {
            audit.fault_detach(Program::SchedProcessFork);
        }
    }

    #[cfg(not(feature = "faults"))]
    pub(super) fn break_on_fault(&mut self) {}
}
