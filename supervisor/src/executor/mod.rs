//! The executor: the guardian of one task. It is the parent of the task's processes and never in their cgroup (INV-12).
//!
//! It is a fork of the keeper, single-threaded, and small enough to read in one sitting: a `ppoll` loop that turns what happens into
//! events of the pure machine in [`crate::task::life`] and carries out the effects that come back. Nothing in the loop waits but the
//! `ppoll` itself, so a slow reader, a stuck process or a client that went away delays neither a kill nor the output of the task.

pub(crate) mod children;
mod leaf;
mod link;
mod output;
mod setup;
mod sink;
mod spawn;
mod streams;

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use children::{Left, MainProcess};
use leaf::Leaf;
use link::Link;
use output::{Moved, Output, Wants};
pub use setup::{ExecutorError, OutputSetup, Setup};
use streams::{Input, Outputs};

use crate::cgroup::{Cgroup, Population};
use crate::sys::exec::{self, Terminal};
use crate::sys::fork::SingleThreaded;
use crate::sys::poll::{Interest, Poll};
use crate::sys::signal::ChildSignals;
use crate::sys::{self, clock, fd};
use crate::task::life::{Born, Effect, Event, Life, Policy, Presence, RunEnd, Sight};
use crate::task::{RunNumber, Signal, StartFailure, TaskSpec, WaitStatus};
use crate::wire::{FromExecutor, RunReport, SPEC_MAX, STUCK_MAX, Stream, Timings, ToExecutor, decode_spec};

/// The first wait before an end is looked for again; doubled each time. The kernel announces a change of `cgroup.events` up to 10 ms
/// late, so a kill would seem that slow.
const LOOK_AGAIN_MIN: Duration = Duration::from_micros(100);
/// From here on the kernel's own announcement is soon enough.
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(10);

/// Guards the task until it is over. To be called in a process of its own, with all signals blocked.
///
/// # Errors
/// Only what prevents the beginning; later faults are part of the task's result.
pub fn run(setup: Setup, _proof: SingleThreaded) -> Result<(), ExecutorError> {
    sys::process::become_subreaper()?;
    let mut executor = Executor::new(setup)?;
    executor.apply(Event::Start);
    while !executor.life.is_over() {
        executor.turn()?;
    }
    executor.link.send(&FromExecutor::Over);
    Ok(())
}

struct Executor {
    spec: OwnedFd,
    /// The spec as it was read at the beginning, for the first run; not kept, since it may be large.
    read: Option<TaskSpec>,
    input: Input,
    outputs: Outputs,
    task: Cgroup,
    link: Link,
    signals: ChildSignals,
    life: Life,
    run: Option<Run>,
    look_again: Option<Duration>,
}

/// The run that is on.
struct Run {
    leaf: Option<Leaf>,
    main: Option<MainProcess>,
    report: Option<OwnedFd>,
    timings: Timings,
    leftovers: u32,
    escaped: Vec<i32>,
}

impl Executor {
    fn new(setup: Setup) -> Result<Self, ExecutorError> {
        let Setup { spec, link, stdin, output, task } = setup;
        let decoded = read_spec(&spec)?;
        let policy = Policy {
            stop: decoded.stop,
            until: decoded.until,
            timeout: decoded.timeout,
            restart: decoded.restart,
        };
        let (input, outputs) = streams::make(stdin, output, &decoded.identity)?;
        Ok(Self {
            spec,
            read: Some(decoded),
            input,
            outputs,
            task,
            link: Link::new(link),
            signals: ChildSignals::new()?,
            life: Life::new(policy),
            run: None,
            look_again: None,
        })
    }

    /// Waits for something to happen and deals with it.
    fn turn(&mut self) -> Result<(), ExecutorError> {
        let now = clock::monotonic();
        let timeout =
            self.life.deadline().map(|at| at.saturating_sub(now)).into_iter().chain(self.look_again).min();
        let mut poll = Poll::<8>::new();
        let signals = poll.add(self.signals.as_fd(), Interest::Read);
        let link = self.link.socket().map(|socket| poll.add(socket, Interest::Read));
        let report = self.run.as_ref().and_then(|run| run.report.as_ref());
        let report = report.map(|report| poll.add(report.as_fd(), Interest::Read));
        let leaf = self.run.as_ref().and_then(|run| run.leaf.as_ref());
        let leaf = leaf.and_then(Leaf::events).map(|events| poll.add(events, Interest::Priority));
        let mut streams = [None, None];
        for (slot, output) in streams.iter_mut().zip(self.outputs.each()) {
            *slot = match output.wants() {
                Wants::Input(reader) => Some((poll.add(reader, Interest::Read), Interest::Read)),
                Wants::Room(target) => Some((poll.add(target, Interest::Write), Interest::Write)),
                Wants::Nothing => None,
            };
        }
        poll.wait(timeout)?;

        let is_ready = |slot| poll.ready(slot);
        let (signals, link) = (poll.ready(signals), link.is_some_and(is_ready));
        let (report, leaf) = (report.is_some_and(is_ready), leaf.is_some_and(is_ready));
        let streams =
            streams.map(|slot| slot.and_then(|(slot, interest)| poll.ready(slot).then_some(interest)));
        if report {
            self.exec_outcome()?;
        }
        if signals || report {
            self.reap()?;
        }
        if link {
            self.receive();
        }
        self.move_output(streams);
        if leaf && let Some(leaf) = self.run.as_mut().and_then(|run| run.leaf.as_mut()) {
            leaf.note_change();
        }
        if self.life.deadline().is_some_and(|at| clock::monotonic() >= at) {
            self.apply(Event::Tick);
        }
        self.look(signals || report || leaf);
        Ok(())
    }

    /// Looks whether the run is at its end. `news`: something happened that may have ended it.
    fn look(&mut self, news: bool) {
        if !self.life.is_waiting_for_the_end() {
            self.look_again = None;
            return;
        }
        if let Some(sight) = self.sight() {
            self.apply(Event::Looked(sight));
        }
        self.look_again = if news || !self.life.is_waiting_for_the_end() {
            self.life.is_waiting_for_the_end().then_some(LOOK_AGAIN_MIN)
        } else {
            self.look_again.map(|wait| wait * 2).filter(|wait| *wait <= LOOK_AGAIN_MAX)
        };
    }

    fn sight(&mut self) -> Option<Sight> {
        let run = self.run.as_mut()?;
        let leaf = match run.leaf.as_ref().map(Leaf::population) {
            Some(Population::Populated) => Presence::Some,
            Some(Population::Empty | Population::Removed) | None => Presence::None,
        };
        // Members whose parent died are our children too, so only an empty leaf tells whose children are left.
        let escaped = match (leaf, &run.main) {
            (Presence::None, None) => match children::reap(None).map(|reaped| reaped.left) {
                Ok(Left::None) => Presence::None,
                Ok(Left::Some) | Err(_) => Presence::Some,
            },
            (Presence::Some, _) | (Presence::None, Some(_)) => Presence::None,
        };
        if leaf == Presence::None && escaped == Presence::None && run.main.is_none() {
            run.timings.empty.get_or_insert_with(clock::monotonic);
        }
        Some(Sight { leaf, escaped })
    }

    fn exec_outcome(&mut self) -> Result<(), ExecutorError> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let Some(report) = &run.report else { return Ok(()) };
        let Some(outcome) = exec::outcome(report.as_fd())? else { return Ok(()) };
        run.report = None;
        match outcome {
            Ok(()) => {
                // The end of the pipe is the exec, or the death before it: after a kill nobody can tell.
                if run.timings.stopping.is_none() {
                    run.timings.running = Some(clock::monotonic());
                    self.link.send(&FromExecutor::Running);
                }
                self.apply(Event::Spawned);
            }
            Err(failure) => {
                let spec = read_spec(&self.spec)?;
                self.apply(Event::SpawnFailed(spawn::failed_step(&spec, failure), Born::Yes));
            }
        }
        Ok(())
    }

    fn reap(&mut self) -> Result<(), ExecutorError> {
        self.signals.clear()?;
        let reaped = children::reap(self.run.as_ref().and_then(|run| run.main.as_ref()))?;
        // What a main process has to say of its exec was written before its end, but perhaps after the last `ppoll`.
        if reaped.main.is_some() {
            self.exec_outcome()?;
        }
        if let (Some(status), Some(run)) = (reaped.main, &mut self.run) {
            run.main = None;
            run.timings.main_ended = Some(clock::monotonic());
            self.apply(Event::MainEnded(status));
        } else if reaped.left == Left::None && self.run.as_ref().is_some_and(|run| run.main.is_some()) {
            // Not our child any more and never reaped by us: nobody can tell how it ended.
            if let Some(run) = &mut self.run {
                run.main = None;
            }
            self.apply(Event::MainEnded(WaitStatus::Unknown));
        }
        Ok(())
    }

    fn receive(&mut self) {
        while let Some(message) = self.link.receive() {
            match message {
                link::Received::Request(ToExecutor::Stop(how)) => self.apply(Event::Stop(how)),
                link::Received::Request(ToExecutor::Interrupted(how)) => {
                    // Its terminal tells the main process: it is not told twice.
                    self.apply_but(Event::Stop(how), |effect| matches!(effect, Effect::SignalMain(_)));
                }
                link::Received::Request(ToExecutor::Kill) => self.apply(Event::Kill),
                link::Received::Request(ToExecutor::Pause) => self.freeze(Freeze::On),
                link::Received::Request(ToExecutor::Resume) => self.freeze(Freeze::Off),
                link::Received::Gone => self.apply(Event::Abandon),
            }
        }
    }

    fn freeze(&mut self, freeze: Freeze) {
        let Some(leaf) = self.run.as_ref().and_then(|run| run.leaf.as_ref()) else { return };
        let result = match freeze {
            Freeze::On => leaf.cgroup().freeze(),
            Freeze::Off => leaf.cgroup().thaw(),
        };
        if let Err(error) = result {
            tracing::warn!(%error, source = %error.source, "going on");
        }
    }

    fn move_output(&mut self, ready: [Option<Interest>; 2]) {
        for ((stream, output), ready) in self.outputs.each_mut().zip(ready) {
            match ready {
                Some(Interest::Write) => output.has_room(),
                Some(Interest::Read | Interest::Priority) => {}
                None => continue,
            }
            move_one(stream, output, &mut self.link);
        }
        self.drained();
    }

    fn drained(&mut self) {
        if self.outputs.each().all(Output::is_done) {
            if let Some(run) = &mut self.run {
                run.timings.drained.get_or_insert_with(clock::monotonic);
            }
            self.apply(Event::Drained);
        }
    }

    fn apply(&mut self, event: Event) {
        self.apply_but(event, |_| false);
    }

    /// Carries out what the event leads to, but for what is done already.
    fn apply_but(&mut self, event: Event, is_done: impl Fn(&Effect) -> bool) {
        let now = clock::monotonic();
        let is_failure = matches!(event, Event::SpawnFailed(..));
        let (life, effects) = self.life.clone().step(now, event);
        self.life = life;
        let ends = |effect: &Effect| {
            matches!(effect, Effect::SignalMain(_) | Effect::SignalRest(_) | Effect::KillLeaf)
        };
        if let Some(run) = &mut self.run
            && !is_failure
            && effects.iter().any(ends)
        {
            run.timings.stopping.get_or_insert(now);
        }
        for effect in effects.into_iter().filter(|effect| !is_done(effect)) {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        let leaf = self.run.as_ref().and_then(|run| run.leaf.as_ref());
        let main = self.run.as_ref().and_then(|run| run.main.as_ref());
        match effect {
            Effect::Spawn(number) => self.spawn(number),
            Effect::CountLeftovers => {
                let count = leaf.map_or(0, |leaf| leaf.processes().len() + self.escaped().len());
                if let Some(run) = &mut self.run {
                    run.leftovers = u32::try_from(count).unwrap_or(u32::MAX);
                }
            }
            Effect::Thaw => self.freeze(Freeze::Off),
            Effect::SignalMain(signal) => {
                if let Some(main) = main {
                    leaf::ask(main.pidfd.as_fd(), main.pid, signal);
                }
            }
            Effect::SignalRest(signal) => {
                if let Some(leaf) = leaf {
                    leaf.signal_rest(signal, main.map(|main| main.pid));
                }
            }
            Effect::KillLeaf => {
                self.look_again = Some(LOOK_AGAIN_MIN);
                if let Some(leaf) = leaf
                    && let Err(error) = leaf.cgroup().kill()
                {
                    tracing::warn!(%error, source = %error.source, "the processes are killed one by one");
                    leaf.signal_rest(Signal::KILL, main.map(|main| main.pid));
                }
            }
            Effect::KillMain => {
                if let Some(main) = main {
                    leaf::send(main.pidfd.as_fd(), Signal::KILL);
                }
            }
            Effect::KillEscaped => self.kill_escaped(),
            Effect::ReportStuck => self.report_stuck(),
            Effect::Drain => {
                for (stream, output) in self.outputs.each_mut() {
                    output.drain();
                    move_one(stream, output, &mut self.link);
                }
                self.drained();
            }
            Effect::GiveUpOutput => {
                self.outputs.each_mut().for_each(|(_, output)| output.give_up());
                self.drained();
            }
            Effect::Finish(end) => self.finish(end),
        }
    }

    fn escaped(&self) -> Vec<i32> {
        let Some(run) = &self.run else { return Vec::new() };
        run.leaf.as_ref().map_or_else(Vec::new, |leaf| leaf.escaped(run.main.as_ref().map(|main| main.pid)))
    }

    fn kill_escaped(&mut self) {
        let Some(run) = &mut self.run else { return };
        let main = run.main.as_ref().map(|main| main.pid);
        let Some(leaf) = &run.leaf else { return };
        for pid in leaf.signal_escaped(Signal::KILL, main) {
            if !run.escaped.contains(&pid) {
                run.escaped.push(pid);
            }
        }
    }

    fn report_stuck(&mut self) {
        let Some(run) = &self.run else { return };
        let mut pids = run.leaf.as_ref().map_or_else(Vec::new, Leaf::processes);
        pids.extend(run.main.as_ref().map(|main| main.pid));
        pids.extend(self.escaped());
        pids.sort_unstable();
        pids.dedup();
        let stuck = pids.into_iter().take(STUCK_MAX).map(children::describe).collect();
        self.link.send(&FromExecutor::Stuck(stuck));
    }

    fn spawn(&mut self, number: RunNumber) {
        let mut run = Run {
            leaf: None,
            main: None,
            report: None,
            timings: Timings { asked: clock::monotonic(), ..Timings::default() },
            leftovers: 0,
            escaped: Vec::new(),
        };
        let started = self.start(number, &mut run);
        self.run = Some(run);
        if let Err(failure) = started {
            self.apply(Event::SpawnFailed(failure, Born::No));
        }
    }

    fn start(&mut self, number: RunNumber, run: &mut Run) -> Result<(), StartFailure> {
        let unreadable = |_| StartFailure {
            step: String::from("read the spec"),
            object: String::new(),
            errno: impossible(),
        };
        let spec = self.read.take().map_or_else(|| read_spec(&self.spec), Ok).map_err(unreadable)?;
        let leaf = Leaf::create(&self.task, number).map_err(|error| StartFailure {
            step: format!("{} cgroup", error.action),
            object: error.path.clone(),
            errno: error.source.errno as i32,
        })?;
        let leaf = run.leaf.insert(leaf);
        let out = self.outputs.stdout.writer();
        let err = self.outputs.stderr.as_ref().map_or(out, Output::writer);
        let (Some(out), Some(err)) = (out, err) else {
            return Err(StartFailure {
                step: String::from("open"),
                object: String::from("output"),
                errno: impossible(),
            });
        };
        let (stdin, terminal) = match &self.input {
            Input::Given(stdin) => (stdin.as_fd(), Terminal::None),
            Input::Terminal => (out, Terminal::Controlling),
        };
        let spawned = spawn::spawn(&spec, leaf, [stdin, out, err], terminal)?;
        run.timings.born = Some(clock::monotonic());
        spawn::join_leaf_on_fault(leaf, &spawned.child);
        let (main, leaf) = (MainProcess::from(spawned.child), leaf.cgroup().id().get());
        self.link.send(&FromExecutor::Born { run: number, leaf, pid: main.pid });
        (run.main, run.report) = (Some(main), Some(spawned.report));
        Ok(())
    }

    fn finish(&mut self, end: RunEnd) {
        let Some(run) = self.run.take() else { return };
        let cpu_usec = run.leaf.as_ref().map_or(0, Leaf::cpu_usec);
        let removed = run.leaf.as_ref().map_or(Ok(()), |leaf| leaf.remove(&self.task));
        let leaf_left = removed.err().map_or_else(String::new, |error| format!("{error}: {}", error.source));
        let [stdout, stderr] = [Some(&self.outputs.stdout), self.outputs.stderr.as_ref()];
        let streams = [stdout, stderr].map(|output| output.map(Output::report).unwrap_or_default());
        self.link.send(&FromExecutor::Ended(Box::new(RunReport {
            run: end.run,
            outcome: end.outcome,
            cause: end.cause,
            leftovers: run.leftovers,
            escaped: u32::try_from(run.escaped.len()).unwrap_or(u32::MAX),
            streams,
            timings: run.timings,
            cpu_usec,
            leaf_left,
        })));
    }
}

#[derive(Clone, Copy, Debug)]
enum Freeze {
    On,
    Off,
}

/// Moves what can be moved now; [`Moved::More`] is seen by the next `ppoll`, which finds the descriptor still ready.
fn move_one(stream: Stream, output: &mut Output, link: &mut Link) {
    match output.turn() {
        Moved::Waits | Moved::More => {}
        Moved::Closed => link.send(&FromExecutor::Closed(stream)),
    }
}

fn read_spec(spec: &OwnedFd) -> Result<TaskSpec, ExecutorError> {
    Ok(decode_spec(&fd::read_sealed(spec.as_fd(), SPEC_MAX)?)?)
}

/// What stands for "should never happen" where an errno is wanted.
fn impossible() -> i32 {
    sys::Errno::EIO as i32
}
