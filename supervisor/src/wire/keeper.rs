//! Between the keeper and who it works for.

use super::WireError;
use super::codec::{NAME_MAX, PATH_MAX, Reader, Writer};
use crate::task::{StartFailure, TaskId};

/// What the keeper is started for: its first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeeperSetup {
    /// Name of the tree's root, made below the directory that comes with the message.
    pub root: String,
    /// Path of that directory, for messages to people.
    pub parent: String,
}

/// How the task's output reaches whoever asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputPlan {
    /// A pipe each for stdout and stderr.
    /// Descriptors of Start: spec, link, stdin, stdout's target, stderr's target.
    Split,
    /// One pipe for both, because both go to the same place and their order counts.
    /// Descriptors: spec, link, stdin, the target.
    Merged,
    /// A terminal of the task's own. Descriptors: spec, link, its slave side, its master side, the target.
    Terminal,
    /// A terminal, and a pipe for stderr. Descriptors: as for `Terminal`, then stderr's target.
    TerminalAndStderr,
}

/// To the keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToKeeper {
    /// Make the tree. Descriptor: the directory to make it in.
    Setup(KeeperSetup),
    /// Start an executor for this task. Descriptors: see [`OutputPlan`].
    Start {
        /// The task, whose spec is in the sealed file.
        task: TaskId,
        /// How output goes.
        output: OutputPlan,
    },
    /// Everything is over: remove the tree and exit.
    Finish,
}

/// From the keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromKeeper {
    /// The tree is there.
    Ready {
        /// Cgroup id of `executors/`.
        executors: u64,
        /// Cgroup id of `tasks/`.
        tasks: u64,
        /// The tree's root, as people may know it.
        root: String,
    },
    /// The executor runs.
    Started {
        /// Its process id.
        pid: i32,
    },
    /// The tree or the executor could not be made.
    Failed(StartFailure),
    /// An executor was reaped.
    ExecutorEnded {
        /// Its process id.
        pid: i32,
        /// Its wait status: exit code, or 256 and the signal.
        status: u32,
    },
    /// A process whose executor had died was reaped.
    OrphanEnded {
        /// Its process id.
        pid: i32,
        /// As above.
        status: u32,
    },
    /// The tree is gone, the keeper ends.
    Finished,
    /// Part of the tree cannot be removed; the keeper ends.
    Left {
        /// What and why.
        why: String,
    },
}

impl ToKeeper {
    /// As one message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Setup(KeeperSetup { root, parent }) => {
                // Each byte of a cgroup's name that is no text is shown as three.
                Writer::new(1).bytes(root.as_bytes()).text(parent, PATH_MAX)
            }
            Self::Start { task, output } => {
                let output = match output {
                    OutputPlan::Split => 0,
                    OutputPlan::Merged => 1,
                    OutputPlan::Terminal => 2,
                    OutputPlan::TerminalAndStderr => 3,
                };
                Writer::new(2).bytes(task.as_str().as_bytes()).u8(output)
            }
            Self::Finish => Writer::new(3),
        }
        .finish()
    }

    /// From one message.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (kind, mut r) = Reader::new(bytes)?;
        match kind {
            1 => Ok(Self::Setup(KeeperSetup { root: r.text("root")?, parent: r.text("parent")? })),
            2 => {
                let task = TaskId::new(r.text("task")?).map_err(|_| WireError::Field("task"))?;
                let output = match r.u8()? {
                    0 => OutputPlan::Split,
                    1 => OutputPlan::Merged,
                    2 => OutputPlan::Terminal,
                    3 => OutputPlan::TerminalAndStderr,
                    _ => return Err(WireError::Field("output")),
                };
                Ok(Self::Start { task, output })
            }
            3 => Ok(Self::Finish),
            kind => Err(WireError::Kind(kind)),
        }
    }
}

impl FromKeeper {
    /// As one message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Ready { executors, tasks, root } => {
                Writer::new(1).u64(*executors).u64(*tasks).bytes(root.as_bytes())
            }
            Self::Started { pid } => Writer::new(2).i32(*pid),
            Self::Failed(StartFailure { step, object, errno }) => {
                Writer::new(3).text(step, NAME_MAX).text(object, PATH_MAX).i32(*errno)
            }
            Self::ExecutorEnded { pid, status } => Writer::new(4).i32(*pid).u32(*status),
            Self::OrphanEnded { pid, status } => Writer::new(5).i32(*pid).u32(*status),
            Self::Finished => Writer::new(6),
            Self::Left { why } => Writer::new(7).text(why, PATH_MAX),
        }
        .finish()
    }

    /// From one message.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (kind, mut r) = Reader::new(bytes)?;
        Ok(match kind {
            1 => Self::Ready { executors: r.u64()?, tasks: r.u64()?, root: r.text("root")? },
            2 => Self::Started { pid: r.i32()? },
            3 => Self::Failed(StartFailure {
                step: r.text("step")?,
                object: r.text("object")?,
                errno: r.i32()?,
            }),
            4 => Self::ExecutorEnded { pid: r.i32()?, status: r.u32()? },
            5 => Self::OrphanEnded { pid: r.i32()?, status: r.u32()? },
            6 => Self::Finished,
            7 => Self::Left { why: r.text("why")? },
            kind => return Err(WireError::Kind(kind)),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let task = TaskId::new("web").unwrap();
        for message in [
            ToKeeper::Setup(KeeperSetup { root: "r".into(), parent: "/p".into() }),
            ToKeeper::Start { task: task.clone(), output: OutputPlan::Split },
            ToKeeper::Start { task: task.clone(), output: OutputPlan::Merged },
            ToKeeper::Start { task: task.clone(), output: OutputPlan::Terminal },
            ToKeeper::Start { task, output: OutputPlan::TerminalAndStderr },
            ToKeeper::Finish,
        ] {
            assert_eq!(ToKeeper::decode(&message.encode()), Ok(message));
        }
        for message in [
            FromKeeper::Ready { executors: 1, tasks: u64::MAX, root: "/a".into() },
            FromKeeper::Started { pid: 7 },
            FromKeeper::Failed(StartFailure { step: "mkdir".into(), object: "/x".into(), errno: 13 }),
            FromKeeper::ExecutorEnded { pid: 7, status: 256 + 9 },
            FromKeeper::OrphanEnded { pid: 8, status: 1 },
            FromKeeper::Finished,
            FromKeeper::Left { why: "busy".into() },
        ] {
            assert_eq!(FromKeeper::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn another_version_is_named() {
        assert_eq!(ToKeeper::decode(&[9, 3]), Err(WireError::Version(9)));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..100), kind in 0u8..9) {
            let _ = ToKeeper::decode(&bytes);
            let _ = FromKeeper::decode(&bytes);
            let framed: Vec<u8> = [1, kind].into_iter().chain(bytes).collect();
            let _ = ToKeeper::decode(&framed);
            let _ = FromKeeper::decode(&framed);
        }
    }
}
