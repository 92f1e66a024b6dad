//! What stands in the way of a proof.

use std::fmt;

use super::breach::count;
use super::program::Program;

/// One reason why a claim that nothing speaks against is not proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// There was no audit.
    Off {
        /// Why.
        why: String,
    },
    /// A program was not attached the whole time.
    Detached {
        /// Which.
        program: Program,
    },
    /// A map was full, or an entry was missing.
    FailedUpdates {
        /// How often.
        times: u64,
    },
    /// The kernel skipped runs of a program.
    SkippedRuns {
        /// How many.
        times: u64,
    },
    /// A process was moved before its birth could be recorded.
    YoungMoves {
        /// How often.
        times: u64,
    },
    /// A process changed its start time.
    IdentityMismatches {
        /// How often.
        times: u64,
    },
    /// The executor's birth is not on record.
    ExecutorUnseen,
    /// The executor's exit is not on record although it was reaped.
    ExecutorExitUnseen,
    /// The making of the run's cgroup is not on record.
    RunUnseen,
    /// The main process's birth is not on record.
    MainUnseen {
        /// Process id that the executor reported.
        reported: u32,
    },
    /// The first birth in the run is not the process that the executor reported.
    MainDiffers {
        /// Process id that the executor reported.
        reported: u32,
        /// Process id that the kernel side recorded.
        seen: u32,
    },
    /// The run's cgroup is still there.
    NotRemoved,
    /// Births and exits differ.
    Unbalanced {
        /// Births inside.
        births: u64,
        /// Exits of those.
        exits: u64,
        /// Births outside.
        outside: u64,
        /// Exits of those.
        outside_exits: u64,
        /// Processes found alive.
        alive: u64,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off { why } => f.write_str(why),
            Self::Detached { program } => write!(f, "the program {program} was detached while it was needed"),
            Self::FailedUpdates { times } => {
                write!(f, "the kernel side could not record something {}", count(*times, "time"))
            }
            Self::SkippedRuns { times } => {
                write!(f, "the kernel skipped {} of the audit's programs", count(*times, "run"))
            }
            Self::YoungMoves { times } => {
                write!(f, "{} hit a process whose birth was not recorded yet", count(*times, "move"))
            }
            Self::IdentityMismatches { times } => {
                write!(f, "a process was not the one that its id named {}", count(*times, "time"))
            }
            Self::ExecutorUnseen => f.write_str(
                "the executor's birth was not seen: it was born before the audit or outside executors/",
            ),
            Self::ExecutorExitUnseen => f.write_str("the executor's exit was not seen"),
            Self::RunUnseen => f.write_str("the making of the run's cgroup was not seen"),
            Self::MainUnseen { reported } => {
                write!(f, "the birth of the main process {reported} was not seen in the run")
            }
            Self::MainDiffers { reported, seen } => {
                write!(
                    f,
                    "the executor's first birth in the run was process {seen}, not its main process {reported}"
                )
            }
            Self::NotRemoved => f.write_str("the run's cgroup has not been removed yet"),
            Self::Unbalanced { births, exits, outside, outside_exits, alive } => write!(
                f,
                "births and exits differ: {births} and {exits} inside, {outside} and {outside_exits} outside, \
                 {alive} found alive"
            ),
        }
    }
}
