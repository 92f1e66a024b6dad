//! Between an executor and who it works for.

use std::time::Duration;

use super::WireError;
use super::codec::{NAME_MAX, PATH_MAX, Reader, TEXT_MAX, Writer};
use crate::task::{Outcome, RunNumber, Signal, StartFailure, StopCause, StopPolicy};

/// To an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToExecutor {
    /// Stop gracefully.
    Stop(StopPolicy),
    /// End it now.
    Kill,
    /// Freeze the run; `Stop` and `Kill` work all the same.
    Pause,
    /// Thaw it.
    Resume,
    /// As `Stop`, but the task's terminal sends the main process SIGINT in place of our signal.
    Interrupted(StopPolicy),
}

/// One of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Descriptor 1, and 2 where both go one way.
    Stdout,
    /// Descriptor 2.
    Stderr,
}

/// The most [`StuckProcess`]es in a message, and as many as a person reads.
pub const STUCK_MAX: usize = 16;

/// A process that does not go away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckProcess {
    /// Its process id.
    pub pid: i32,
    /// Its state letter, `D` mostly; `?` when it could not be read.
    pub state: char,
    /// Its name.
    pub comm: String,
    /// The kernel function it waits in; empty when unknown.
    pub wchan: String,
}

/// From an executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromExecutor {
    /// The main process was born in this leaf.
    Born {
        /// Which run.
        run: RunNumber,
        /// Cgroup id of its leaf.
        leaf: u64,
        /// The main process.
        pid: i32,
    },
    /// The exec succeeded.
    Running,
    /// Its target takes no more of this stream.
    Closed(Stream),
    /// The kill does not work for now; it goes on being tried.
    Stuck(Vec<StuckProcess>),
    /// The run is over.
    Ended(Box<RunReport>),
    /// The task will not run again; the executor ends.
    Over,
}

/// What became of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamReport {
    /// Bytes read from the task.
    pub read: u64,
    /// Bytes handed over. Less than `read` when the target was closed or did not take them in time.
    pub handed_over: u64,
    /// 1 when a process outside of the run still held it open at the end.
    pub held_open: u8,
    /// 1 when its target was closed by the reader.
    pub closed: u8,
    /// Inode of the pipe, or of the terminal's slave side.
    pub inode: u64,
}

/// When things happened, on `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// The executor began with the run.
    pub asked: Duration,
    /// The main process was cloned.
    pub born: Option<Duration>,
    /// The exec succeeded.
    pub running: Option<Duration>,
    /// The first stop, of whatever cause.
    pub stopping: Option<Duration>,
    /// The main process was reaped.
    pub main_ended: Option<Duration>,
    /// Nothing lived any more.
    pub empty: Option<Duration>,
    /// Output was handed over.
    pub drained: Option<Duration>,
}

/// All that the executor knows of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// Which run.
    pub run: RunNumber,
    /// How it ended.
    pub outcome: Outcome,
    /// Why we ended it, if we did.
    pub cause: Option<StopCause>,
    /// Processes that lived beside the main process when it ended, and were ended then.
    pub leftovers: u32,
    /// Processes that were found outside of the leaf and ended there.
    pub escaped: u32,
    /// Stdout, stderr.
    pub streams: [StreamReport; 2],
    /// When.
    pub timings: Timings,
    /// cpu time of the run in microseconds (`cpu.stat`).
    pub cpu_usec: u64,
    /// Why the leaf could not be removed; empty when it was.
    pub leaf_left: String,
}

impl ToExecutor {
    /// As one message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Stop(policy) => encode_policy(Writer::new(1), policy),
            Self::Kill => Writer::new(2),
            Self::Pause => Writer::new(3),
            Self::Resume => Writer::new(4),
            Self::Interrupted(policy) => encode_policy(Writer::new(5), policy),
        }
        .finish()
    }

    /// From one message.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (kind, mut r) = Reader::new(bytes)?;
        match kind {
            1 => Ok(Self::Stop(decode_policy(&mut r)?)),
            2 => Ok(Self::Kill),
            3 => Ok(Self::Pause),
            4 => Ok(Self::Resume),
            5 => Ok(Self::Interrupted(decode_policy(&mut r)?)),
            kind => Err(WireError::Kind(kind)),
        }
    }
}

impl FromExecutor {
    /// As one message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Born { run, leaf, pid } => Writer::new(1).u32(run.0).u64(*leaf).i32(*pid),
            Self::Running => Writer::new(2),
            Self::Closed(stream) => Writer::new(3).u8(match stream {
                Stream::Stdout => 1,
                Stream::Stderr => 2,
            }),
            Self::Stuck(processes) => Writer::new(4).list(processes, |w, p| {
                w.i32(p.pid).u32(u32::from(p.state)).text(&p.comm, NAME_MAX).text(&p.wchan, NAME_MAX)
            }),
            Self::Ended(report) => encode_report(Writer::new(5), report),
            Self::Over => Writer::new(6),
        }
        .finish()
    }

    /// From one message.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (kind, mut r) = Reader::new(bytes)?;
        Ok(match kind {
            1 => Self::Born { run: RunNumber(r.u32()?), leaf: r.u64()?, pid: r.i32()? },
            2 => Self::Running,
            3 => match r.u8()? {
                1 => Self::Closed(Stream::Stdout),
                2 => Self::Closed(Stream::Stderr),
                _ => return Err(WireError::Field("stream")),
            },
            4 => Self::Stuck(r.list(|r| {
                let (pid, state) = (r.i32()?, r.u32()?);
                let state = char::from_u32(state).ok_or(WireError::Field("state"))?;
                Ok(StuckProcess { pid, state, comm: r.text("comm")?, wchan: r.text("wchan")? })
            })?),
            5 => Self::Ended(Box::new(decode_report(&mut r)?)),
            6 => Self::Over,
            kind => return Err(WireError::Kind(kind)),
        })
    }
}

fn encode_policy(writer: Writer, policy: &StopPolicy) -> Writer {
    let StopPolicy { signal, grace } = policy;
    writer.u8(signal.number()).duration(*grace)
}

fn decode_policy(r: &mut Reader<'_>) -> Result<StopPolicy, WireError> {
    let signal = Signal::from_number(r.u8()?).ok_or(WireError::Field("signal"))?;
    Ok(StopPolicy { signal, grace: r.duration()? })
}

fn encode_report(writer: Writer, report: &RunReport) -> Writer {
    let RunReport { run, outcome, cause, leftovers, escaped, streams, timings, cpu_usec, leaf_left } = report;
    let writer = writer.u32(run.0);
    let writer = match outcome {
        Outcome::Exited(code) => writer.u8(0).u8(*code),
        Outcome::Signaled(signal) => writer.u8(1).u8(signal.number()),
        Outcome::Unknown => writer.u8(2),
        Outcome::NotStarted(StartFailure { step, object, errno }) => {
            writer.u8(3).text(step, NAME_MAX).text(object, PATH_MAX).i32(*errno)
        }
    };
    let mut writer = writer
        .u8(match cause {
            None => 0,
            Some(StopCause::Requested) => 1,
            Some(StopCause::Killed) => 2,
            Some(StopCause::Timeout) => 3,
            Some(StopCause::MainEnded) => 4,
            Some(StopCause::Abandoned) => 5,
        })
        .u32(*leftovers)
        .u32(*escaped);
    for StreamReport { read, handed_over, held_open, closed, inode } in streams {
        writer = writer.u64(*read).u64(*handed_over).u8(*held_open).u8(*closed).u64(*inode);
    }
    let Timings { asked, born, running, stopping, main_ended, empty, drained } = timings;
    writer = writer.duration(*asked);
    for time in [born, running, stopping, main_ended, empty, drained] {
        writer = writer.maybe_duration(*time);
    }
    writer.u64(*cpu_usec).text(leaf_left, TEXT_MAX)
}

fn decode_report(r: &mut Reader<'_>) -> Result<RunReport, WireError> {
    let run = RunNumber(r.u32()?);
    let outcome = match r.u8()? {
        0 => Outcome::Exited(r.u8()?),
        1 => Outcome::Signaled(Signal::from_number(r.u8()?).ok_or(WireError::Field("outcome"))?),
        2 => Outcome::Unknown,
        3 => Outcome::NotStarted(StartFailure {
            step: r.text("step")?,
            object: r.text("object")?,
            errno: r.i32()?,
        }),
        _ => return Err(WireError::Field("outcome")),
    };
    let cause = match r.u8()? {
        0 => None,
        1 => Some(StopCause::Requested),
        2 => Some(StopCause::Killed),
        3 => Some(StopCause::Timeout),
        4 => Some(StopCause::MainEnded),
        5 => Some(StopCause::Abandoned),
        _ => return Err(WireError::Field("cause")),
    };
    let (leftovers, escaped) = (r.u32()?, r.u32()?);
    let mut stream = || -> Result<StreamReport, WireError> {
        Ok(StreamReport {
            read: r.u64()?,
            handed_over: r.u64()?,
            held_open: r.u8()?,
            closed: r.u8()?,
            inode: r.u64()?,
        })
    };
    let streams = [stream()?, stream()?];
    let timings = Timings {
        asked: r.duration()?,
        born: r.maybe_duration()?,
        running: r.maybe_duration()?,
        stopping: r.maybe_duration()?,
        main_ended: r.maybe_duration()?,
        empty: r.maybe_duration()?,
        drained: r.maybe_duration()?,
    };
    let (cpu_usec, leaf_left) = (r.u64()?, r.text("leaf_left")?);
    Ok(RunReport { run, outcome, cause, leftovers, escaped, streams, timings, cpu_usec, leaf_left })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sys::socket::MESSAGE_MAX;

    fn report(outcome: Outcome, cause: Option<StopCause>) -> RunReport {
        let stream = StreamReport { read: 60_003, handed_over: 60_000, held_open: 1, closed: 0, inode: 42 };
        let timings =
            Timings { asked: Duration::from_nanos(5), running: Some(Duration::ZERO), ..Timings::default() };
        RunReport {
            run: RunNumber(3),
            outcome,
            cause,
            leftovers: 2,
            escaped: 1,
            streams: [stream, StreamReport::default()],
            timings,
            cpu_usec: 77,
            leaf_left: "busy".into(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for message in [
            ToExecutor::Stop(StopPolicy { signal: Signal::QUIT, grace: Duration::from_millis(1500) }),
            ToExecutor::Kill,
            ToExecutor::Pause,
            ToExecutor::Resume,
            ToExecutor::Interrupted(StopPolicy { signal: Signal::TERM, grace: Duration::ZERO }),
        ] {
            assert_eq!(ToExecutor::decode(&message.encode()), Ok(message));
        }
        let failure = StartFailure { step: "exec".into(), object: "/x".into(), errno: 2 };
        let stuck = StuckProcess { pid: 9, state: 'D', comm: "dd".into(), wchan: "io_schedule".into() };
        for message in [
            FromExecutor::Born { run: RunNumber(1), leaf: 1 << 40, pid: 77 },
            FromExecutor::Running,
            FromExecutor::Closed(Stream::Stderr),
            FromExecutor::Stuck(vec![stuck.clone(), stuck]),
            FromExecutor::Ended(Box::new(report(Outcome::Exited(7), None))),
            FromExecutor::Ended(Box::new(report(Outcome::Signaled(Signal::KILL), Some(StopCause::Killed)))),
            FromExecutor::Ended(Box::new(report(Outcome::Unknown, Some(StopCause::Abandoned)))),
            FromExecutor::Ended(Box::new(report(Outcome::NotStarted(failure), Some(StopCause::Timeout)))),
            FromExecutor::Over,
        ] {
            assert_eq!(FromExecutor::decode(&message.encode()), Ok(message));
        }
    }

    /// What people called their program or what the kernel calls a function has any length; the message fits all the same.
    #[test]
    fn every_message_fits() {
        let long = "ü".repeat(100_000);
        let failure = StartFailure { step: long.clone(), object: long.clone(), errno: 2 };
        let mut ended = report(Outcome::NotStarted(failure), None);
        ended.leaf_left.clone_from(&long);
        let stuck = StuckProcess { pid: i32::MAX, state: 'D', comm: long.clone(), wchan: long };
        for message in [FromExecutor::Ended(Box::new(ended)), FromExecutor::Stuck(vec![stuck; STUCK_MAX])] {
            let bytes = message.encode();
            assert!(bytes.len() <= MESSAGE_MAX, "{} bytes", bytes.len());
            assert!(FromExecutor::decode(&bytes).is_ok());
        }
    }

    #[test]
    fn a_message_that_ends_early_is_an_error() {
        let failure = StartFailure { step: "exec".into(), object: "/x".into(), errno: 2 };
        let stuck = StuckProcess { pid: 9, state: 'D', comm: "dd".into(), wchan: "io_schedule".into() };
        for message in [
            FromExecutor::Born { run: RunNumber(1), leaf: 1 << 40, pid: 77 },
            FromExecutor::Closed(Stream::Stderr),
            FromExecutor::Stuck(vec![stuck]),
            FromExecutor::Ended(Box::new(report(Outcome::NotStarted(failure), None))),
        ] {
            let bytes = message.encode();
            for length in 0..bytes.len() {
                assert_eq!(FromExecutor::decode(&bytes[..length]), Err(WireError::Short), "{length}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u8..8) {
            let framed: Vec<u8> = [1, kind].into_iter().chain(bytes).collect();
            let _ = ToExecutor::decode(&framed);
            let _ = FromExecutor::decode(&framed);
        }
    }
}
