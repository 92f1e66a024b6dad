//! Evidence against a claim.

use super::decode::AuditEvent;

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The executor entered task cgroups.
    ExecutorEntered {
        /// How often.
        times: u64,
        /// Id of the last such cgroup.
        cgroup: u64,
    },
    /// Processes of the run were moved out of it.
    Left {
        /// How many moves.
        times: u64,
    },
    /// Processes of the run gave birth outside it.
    BornOutside {
        /// How many births.
        times: u64,
    },
    /// Processes that are not of the run were moved into it.
    Strangers {
        /// How many moves.
        times: u64,
    },
    /// Processes that are not of the run gave birth inside it.
    ForeignBirths {
        /// How many births.
        times: u64,
    },
    /// Executors, which are not of the run, entered it.
    ExecutorInside {
        /// How often.
        times: u64,
    },
    /// The run's cgroup is gone, and processes of the run live.
    AliveAfterRemoval {
        /// How many.
        processes: u64,
    },
}

/// A fact with the events that tell its story, as far as they were kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// What was counted in the kernel: the ground of the judgement.
    pub fact: Fact,
    /// A few events that show it; empty when the ring buffer lost them.
    pub examples: Vec<AuditEvent>,
}

impl Fact {
    /// How often it was counted.
    pub fn times(&self) -> u64 {
        match *self {
            Self::ExecutorEntered { times, cgroup: _ }
            | Self::Left { times }
            | Self::BornOutside { times }
            | Self::Strangers { times }
            | Self::ForeignBirths { times }
            | Self::ExecutorInside { times }
            | Self::AliveAfterRemoval { processes: times } => times,
        }
    }

    /// One clause for people; `cgroup` names a cgroup by its id.
    pub fn describe(&self, cgroup: &dyn Fn(u64) -> String) -> String {
        match *self {
            Self::ExecutorEntered { times, cgroup: id } => {
                format!("the executor entered a task's cgroup {}, last {}", count(times, "time"), cgroup(id))
            }
            Self::Left { times } => {
                format!("processes of the run were moved out of it ({})", count(times, "move"))
            }
            Self::BornOutside { times } => {
                format!("processes of the run gave birth outside it ({})", count(times, "birth"))
            }
            Self::Strangers { times } => {
                format!("processes that are not of the run were moved into it ({})", count(times, "move"))
            }
            Self::ForeignBirths { times } => {
                format!("processes that are not of the run gave birth inside it ({})", count(times, "birth"))
            }
            Self::ExecutorInside { times } => {
                format!("an executor entered the run ({})", count(times, "move"))
            }
            Self::AliveAfterRemoval { processes } => {
                format!("the run's cgroup is gone, but processes of the run still live ({processes})")
            }
        }
    }
}

/// `1 move`, `2 moves`.
pub(super) fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}
