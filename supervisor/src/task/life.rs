//! The life cycle of a task: `step(life, now, event)` gives the next state and what is to be done.
//!
//! ```text
//! Created ── Start ──▶ Starting ── Spawned ──▶ Running ──▶ Stopping ──▶ Draining ──▶ Over
//!                          └── SpawnFailed ────────────────▶ (killing)     │          ▲
//!                                              Starting ◀── Backoff ◀──────┴──────────┘
//! ```
//!
//! It is level-triggered: the executor reports what it [`Sight`]s after each wake-up, as often as it likes, and the machine acts on the
//! difference to what it wants. Time is a [`Duration`] on any clock that never goes back.

mod effect;
mod event;
mod state;

use std::time::Duration;

pub use effect::{Effect, RunEnd};
pub use event::{Born, Event, Presence, Sight};
use state::{Asked, HandOver, Main, Rest, Run, Stage, State, Stuck};

use super::restart::{Next, RestartPolicy};
use super::{Outcome, RunNumber, Signal, StopCause, StopPolicy, Until, WaitStatus};

/// How long an end may take after the kill before it is reported as stuck. Nothing stops being tried then.
pub const STUCK_AFTER: Duration = Duration::from_secs(5);

/// How often a kill is repeated while something is left: a process that was moved into the leaf later, say.
const KILL_AGAIN: Duration = Duration::from_secs(1);

/// How long the last output may still take to be handed over once a stop was asked for.
const HAND_OVER_AFTER_STOP: Duration = Duration::from_secs(1);

/// What decides how a task lives; parts of its spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How it is stopped when its time is over or its main process left others behind.
    pub stop: StopPolicy,
    /// When a run is over.
    pub until: Until,
    /// How long a run may last.
    pub timeout: Option<Duration>,
    /// Whether it is started again.
    pub restart: RestartPolicy,
}

/// A task's life so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    policy: Policy,
    state: State,
}

impl Life {
    /// A task that was not started yet.
    pub fn new(policy: Policy) -> Self {
        Self { policy, state: State::Created }
    }

    /// Nothing will happen any more.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Something has to be ended: look again soon, whatever the kernel announces.
    pub fn is_waiting_for_the_end(&self) -> bool {
        match &self.state {
            State::Stopping { .. } => true,
            State::Running { run, .. } => run.main != Main::Alive,
            State::Created
            | State::Starting(_)
            | State::Draining { .. }
            | State::Backoff { .. }
            | State::Over => false,
        }
    }

    /// When to send [`Event::Tick`], if nothing comes before.
    pub fn deadline(&self) -> Option<Duration> {
        match &self.state {
            State::Running { timeout_at, .. } => *timeout_at,
            State::Stopping { stage: Stage::Graceful { kill_at, .. }, .. } => Some(*kill_at),
            State::Stopping { stage: Stage::Killing { again_at, stuck }, .. } => Some(match stuck {
                Stuck::ReportAt(at) => *again_at.min(at),
                Stuck::Reported => *again_at,
            }),
            State::Draining { hand_over: HandOver::Until(at), .. } => Some(*at),
            State::Draining { hand_over: HandOver::Unhurried | HandOver::GivenUp, .. } => None,
            State::Backoff { at, .. } => Some(*at),
            State::Created | State::Starting(_) | State::Over => None,
        }
    }

    /// The next state, and what is to be done to get there.
    pub fn step(self, now: Duration, event: Event) -> (Self, Vec<Effect>) {
        let Self { policy, mut state } = self;
        if matches!(event, Event::Stop(_) | Event::Kill | Event::Abandon)
            && let Some(run) = state.run_mut()
        {
            run.asked = Asked::Yes;
        }
        let (state, effects) = match state {
            State::Created => created(event),
            State::Starting(run) => starting(policy, run, now, event),
            State::Running { run, timeout_at } => running(policy, run, timeout_at, now, event),
            State::Stopping { run, stage } => stopping(run, stage, now, event),
            State::Draining { run, hand_over } => draining(policy, run, hand_over, now, event),
            State::Backoff { next, at } => backoff(next, at, now, event),
            State::Over => (State::Over, Vec::new()),
        };
        (Self { policy, state }, effects)
    }
}

fn start(number: RunNumber) -> (State, Vec<Effect>) {
    (State::Starting(Run::new(number)), vec![Effect::Spawn(number)])
}

fn created(event: Event) -> (State, Vec<Effect>) {
    match event {
        Event::Start => start(RunNumber::FIRST),
        Event::Stop(_) | Event::Kill | Event::Abandon => (State::Over, Vec::new()),
        Event::Spawned
        | Event::SpawnFailed(..)
        | Event::MainEnded(_)
        | Event::Looked(_)
        | Event::Drained
        | Event::Tick => (State::Created, Vec::new()),
    }
}

fn starting(policy: Policy, mut run: Run, now: Duration, event: Event) -> (State, Vec<Effect>) {
    match event {
        Event::Spawned => {
            let timeout_at = policy.timeout.map(|timeout| now.saturating_add(timeout));
            (State::Running { run, timeout_at }, Vec::new())
        }
        Event::SpawnFailed(failure, born) => {
            run.failure = Some(failure);
            if born == Born::No {
                run.main = Main::Unborn;
            }
            kill(run, now)
        }
        Event::MainEnded(status) => {
            run.main = Main::Ended(status);
            (State::Starting(run), Vec::new())
        }
        // A program that was not exec'ed yet cannot obey a signal.
        Event::Stop(_) => kill_for(run, now, StopCause::Requested),
        Event::Kill => kill_for(run, now, StopCause::Killed),
        Event::Abandon => kill_for(run, now, StopCause::Abandoned),
        Event::Start | Event::Looked(_) | Event::Drained | Event::Tick => (State::Starting(run), Vec::new()),
    }
}

fn running(
    policy: Policy,
    mut run: Run,
    timeout_at: Option<Duration>,
    now: Duration,
    event: Event,
) -> (State, Vec<Effect>) {
    match event {
        Event::MainEnded(status) => {
            run.main = Main::Ended(status);
            (State::Running { run, timeout_at }, Vec::new())
        }
        Event::Looked(sight) => match (run.main, sight) {
            (Main::Alive, _) => (State::Running { run, timeout_at }, Vec::new()),
            (_, Sight { leaf: Presence::None, escaped: Presence::None }) => drain(run, now),
            (_, Sight { leaf: Presence::Some, .. }) if policy.until == Until::All => {
                (State::Running { run, timeout_at }, Vec::new())
            }
            (_, Sight { .. }) => stop(run, now, StopCause::MainEnded, policy.stop),
        },
        Event::Tick if timeout_at.is_some_and(|at| now >= at) => {
            stop(run, now, StopCause::Timeout, policy.stop)
        }
        Event::Stop(how) => stop(run, now, StopCause::Requested, how),
        Event::Kill => kill_for(run, now, StopCause::Killed),
        Event::Abandon => kill_for(run, now, StopCause::Abandoned),
        Event::Start | Event::Spawned | Event::SpawnFailed(..) | Event::Drained | Event::Tick => {
            (State::Running { run, timeout_at }, Vec::new())
        }
    }
}

fn stopping(mut run: Run, stage: Stage, now: Duration, event: Event) -> (State, Vec<Effect>) {
    match (event, stage) {
        (Event::MainEnded(status), stage) => {
            run.main = Main::Ended(status);
            (State::Stopping { run, stage }, Vec::new())
        }
        // The stop came between the clone and its failure.
        (Event::SpawnFailed(failure, born), stage) => {
            run.failure = Some(failure);
            if born == Born::No {
                run.main = Main::Unborn;
            }
            (State::Stopping { run, stage }, Vec::new())
        }
        (Event::Looked(Sight { leaf: Presence::None, escaped: Presence::None }), _)
            if run.main != Main::Alive =>
        {
            drain(run, now)
        }
        (Event::Looked(_), Stage::Graceful { signal, .. })
            if run.main != Main::Alive && run.rest == Rest::Uncounted =>
        {
            let effects = signal_rest(&mut run, signal);
            (State::Stopping { run, stage }, effects)
        }
        (Event::Looked(Sight { leaf: Presence::None, escaped }), Stage::Killing { .. }) => {
            // The leaf is empty, so who is left is outside of it.
            let mut effects = Vec::new();
            if run.main == Main::Alive {
                effects.push(Effect::KillMain);
            }
            if escaped == Presence::Some {
                effects.push(Effect::KillEscaped);
            }
            (State::Stopping { run, stage }, effects)
        }
        (Event::Tick, Stage::Graceful { kill_at, .. }) if now >= kill_at => kill(run, now),
        (Event::Tick, Stage::Killing { again_at, stuck }) => {
            let (again_at, mut effects) = if now >= again_at {
                let all = vec![Effect::KillLeaf, Effect::KillMain, Effect::KillEscaped];
                (now.saturating_add(KILL_AGAIN), all)
            } else {
                (again_at, Vec::new())
            };
            let stuck = match stuck {
                Stuck::ReportAt(at) if now >= at => {
                    effects.push(Effect::ReportStuck);
                    Stuck::Reported
                }
                other => other,
            };
            (State::Stopping { run, stage: Stage::Killing { again_at, stuck } }, effects)
        }
        (Event::Stop(how), Stage::Graceful { signal, kill_at }) => {
            run.blame(StopCause::Requested);
            // A second stop can only shorten the first; it sends no second signal.
            let kill_at = kill_at.min(now.saturating_add(how.grace));
            if now >= kill_at {
                kill(run, now)
            } else {
                (State::Stopping { run, stage: Stage::Graceful { signal, kill_at } }, Vec::new())
            }
        }
        (Event::Kill, Stage::Graceful { .. }) => kill_for(run, now, StopCause::Killed),
        (Event::Abandon, Stage::Graceful { .. }) => kill_for(run, now, StopCause::Abandoned),
        (
            Event::Start
            | Event::Spawned
            | Event::Looked(_)
            | Event::Stop(_)
            | Event::Kill
            | Event::Abandon
            | Event::Drained
            | Event::Tick,
            stage,
        ) => (State::Stopping { run, stage }, Vec::new()),
    }
}

/// Whoever asks for the end now has not made the run end, so `run.cause` stays what it is.
fn draining(
    policy: Policy,
    run: Run,
    hand_over: HandOver,
    now: Duration,
    event: Event,
) -> (State, Vec<Effect>) {
    match (event, hand_over) {
        (Event::Drained, _) => finish(policy, run, now),
        (Event::Stop(_) | Event::Kill | Event::Abandon, HandOver::Unhurried) => {
            let hand_over = HandOver::Until(now.saturating_add(HAND_OVER_AFTER_STOP));
            (State::Draining { run, hand_over }, Vec::new())
        }
        // An end was asked for before: now it is meant at once.
        (Event::Kill, HandOver::Until(_)) => give_up(run),
        (Event::Tick, HandOver::Until(at)) if now >= at => give_up(run),
        (
            Event::Start
            | Event::Spawned
            | Event::SpawnFailed(..)
            | Event::MainEnded(_)
            | Event::Looked(_)
            | Event::Stop(_)
            | Event::Kill
            | Event::Abandon
            | Event::Tick,
            hand_over,
        ) => (State::Draining { run, hand_over }, Vec::new()),
    }
}

fn give_up(run: Run) -> (State, Vec<Effect>) {
    (State::Draining { run, hand_over: HandOver::GivenUp }, vec![Effect::GiveUpOutput])
}

fn backoff(next: RunNumber, at: Duration, now: Duration, event: Event) -> (State, Vec<Effect>) {
    match event {
        Event::Tick if now >= at => start(next),
        Event::Stop(_) | Event::Kill | Event::Abandon => (State::Over, Vec::new()),
        Event::Start
        | Event::Spawned
        | Event::SpawnFailed(..)
        | Event::MainEnded(_)
        | Event::Looked(_)
        | Event::Drained
        | Event::Tick => (State::Backoff { next, at }, Vec::new()),
    }
}

/// Begins a graceful stop.
fn stop(mut run: Run, now: Duration, cause: StopCause, how: StopPolicy) -> (State, Vec<Effect>) {
    run.blame(cause);
    if how.grace.is_zero() {
        return kill(run, now);
    }
    let kill_at = now.saturating_add(how.grace);
    let effects = match run.main {
        Main::Alive => vec![Effect::Thaw, Effect::SignalMain(how.signal)],
        Main::Ended(_) | Main::Unborn => signal_rest(&mut run, how.signal),
    };
    (State::Stopping { run, stage: Stage::Graceful { signal: how.signal, kill_at } }, effects)
}

/// The main process has ended: asks those that it left behind to end, too.
fn signal_rest(run: &mut Run, signal: Signal) -> Vec<Effect> {
    run.rest = Rest::Counted;
    vec![Effect::CountLeftovers, Effect::Thaw, Effect::SignalRest(signal)]
}

/// Ends it without grace, for this cause.
fn kill_for(mut run: Run, now: Duration, cause: StopCause) -> (State, Vec<Effect>) {
    run.blame(cause);
    kill(run, now)
}

/// Ends it without grace. Whoever has outlived the main process by then is counted while it lives.
fn kill(mut run: Run, now: Duration) -> (State, Vec<Effect>) {
    let mut effects = Vec::new();
    if matches!(run.main, Main::Ended(_)) && run.rest == Rest::Uncounted {
        run.rest = Rest::Counted;
        effects.push(Effect::CountLeftovers);
    }
    effects.push(Effect::KillLeaf);
    let stage = Stage::Killing {
        again_at: now.saturating_add(KILL_AGAIN),
        stuck: Stuck::ReportAt(now.saturating_add(STUCK_AFTER)),
    };
    (State::Stopping { run, stage }, effects)
}

fn drain(run: Run, now: Duration) -> (State, Vec<Effect>) {
    let hand_over = match run.asked {
        Asked::Yes => HandOver::Until(now.saturating_add(HAND_OVER_AFTER_STOP)),
        Asked::No => HandOver::Unhurried,
    };
    (State::Draining { run, hand_over }, vec![Effect::Drain])
}

fn finish(policy: Policy, run: Run, now: Duration) -> (State, Vec<Effect>) {
    let outcome = match (run.failure, run.main) {
        (Some(failure), _) => Outcome::NotStarted(failure),
        (None, Main::Ended(WaitStatus::Exited(code))) => Outcome::Exited(code),
        (None, Main::Ended(WaitStatus::Signaled(signal))) => Outcome::Signaled(signal),
        (None, Main::Ended(WaitStatus::Unknown) | Main::Alive | Main::Unborn) => Outcome::Unknown,
    };
    let next = match run.asked {
        Asked::No => policy.restart.after(&outcome, run.number.0 - 1),
        Asked::Yes => Next::Nothing,
    };
    let effects = vec![Effect::Finish(RunEnd { run: run.number, outcome, cause: run.cause })];
    match next {
        Next::Again(delay) => {
            (State::Backoff { next: run.number.next(), at: now.saturating_add(delay) }, effects)
        }
        Next::Nothing => (State::Over, effects),
    }
}
