//! What the machine owes, in plain figures: kept from the events alone and held against the effects, the deadline and the end.
//!
//! Promises and where they come from: INV-4 (`Finish` only after the main process was reaped or never born, and the last sight was empty),
//! INV-11 (each run number is spawned once, upwards, never while the old leaf is in use), and these cases of the field: 23 (exactly one
//! stop signal), 25 (the grace is kept; a second stop only shortens), 31 (never success unless the main process had it), 48 (attempts are
//! restarts), 49 (nothing is started after somebody asked for the end). That each child has one reaper is not this machine's to keep: no
//! effect reaps, and the end of the main process comes in as an event, once.

use std::time::Duration;

use supervisor::task::life::{Born, Effect, Event, Life, Policy, Presence, RunEnd, STUCK_AFTER, Sight};
use supervisor::task::restart::{Delays, RestartPolicy};
use supervisor::task::{Outcome, Signal, StartFailure, StopCause, Until, WaitStatus};

/// A promise that was broken, in words.
pub type Broken = String;

/// How long output may take once somebody asked for the end, and how often a kill is repeated.
const SECOND: Duration = Duration::from_secs(1);

pub struct Ledger {
    policy: Policy,
    started: u32,
    finished: u32,
    /// Somebody asked for the end at some time.
    asked: bool,
    /// When the next run is due.
    restart_at: Option<Duration>,
    over: bool,
    run: Option<RunLedger>,
}

#[derive(Default)]
struct RunLedger {
    spawned: Option<Duration>,
    failure: Option<StartFailure>,
    main: Option<WaitStatus>,
    unborn: bool,
    /// The last thing seen was nothing.
    empty: bool,
    cause: Option<StopCause>,
    signal: Option<Signal>,
    /// When the kill is due. It never moves back.
    kill_by: Option<Duration>,
    killed: Option<Duration>,
    main_signals: u32,
    rest_signals: u32,
    counts: u32,
    /// Kills that a look at an empty leaf calls for: of the main process, of escaped ones.
    owed: [bool; 2],
    stuck_reports: u32,
    drains: u32,
    drained: bool,
    /// When output is given up.
    hurry_by: Option<Duration>,
    given_up: u32,
}

macro_rules! owes {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err(format!($($words)+));
        }
    };
}

impl Ledger {
    pub fn new(policy: Policy) -> Self {
        Self { policy, started: 0, finished: 0, asked: false, restart_at: None, over: false, run: None }
    }

    /// Notes what an event means, before the machine hears of it.
    pub fn before(&mut self, now: Duration, event: &Event) {
        let policy = self.policy;
        if matches!(event, Event::Stop(_) | Event::Kill | Event::Abandon) {
            self.asked = true;
            // Between two runs, and before the first, there is nothing to end.
            self.over |= self.run.is_none();
        }
        let Some(run) = &mut self.run else { return };
        if run.drains > 0 {
            match event {
                Event::Stop(_) | Event::Abandon => drop(run.hurry_by.get_or_insert(now + SECOND)),
                // The second one that asks means now.
                Event::Kill => run.hurry_by = Some(run.hurry_by.map_or(now + SECOND, |by| by.min(now))),
                Event::Drained => run.drained = true,
                _ => {}
            }
            return;
        }
        match event {
            Event::Spawned if run.killed.is_none() && run.failure.is_none() => run.spawned = Some(now),
            Event::SpawnFailed(failure, born) => {
                run.failure = Some(failure.clone());
                run.unborn = *born == Born::No;
                run.kill_by(now);
            }
            Event::MainEnded(status) => run.main = Some(*status),
            Event::Looked(sight) => {
                if run.killed.is_some() && sight.leaf == Presence::None {
                    run.owed = [run.main.is_none() && !run.unborn, sight.escaped == Presence::Some];
                }
                run.empty = *sight == Sight { leaf: Presence::None, escaped: Presence::None };
                let rest_is_to_end = policy.until == Until::Main || sight.leaf == Presence::None;
                if run.runs_freely() && run.main.is_some() && !run.empty && rest_is_to_end {
                    run.blame(StopCause::MainEnded, policy.stop.signal);
                    run.kill_by(now.saturating_add(policy.stop.grace));
                }
            }
            Event::Stop(how) => {
                // What does not run yet cannot obey.
                let grace = if run.spawned.is_some() { how.grace } else { Duration::ZERO };
                run.blame(StopCause::Requested, how.signal);
                run.kill_by(now.saturating_add(grace));
            }
            Event::Kill => {
                run.blame(StopCause::Killed, Signal::KILL);
                run.kill_by(now);
            }
            Event::Abandon => {
                run.blame(StopCause::Abandoned, Signal::KILL);
                run.kill_by(now);
            }
            Event::Tick => {
                let due = run
                    .spawned
                    .zip(policy.timeout)
                    .is_some_and(|(spawned, timeout)| now >= spawned + timeout);
                if run.runs_freely() && due {
                    run.blame(StopCause::Timeout, policy.stop.signal);
                    run.kill_by(now.saturating_add(policy.stop.grace));
                }
            }
            Event::Start | Event::Spawned | Event::Drained => {}
        }
    }

    /// Checks one effect and notes it.
    pub fn effect(&mut self, now: Duration, event: &Event, effect: &Effect) -> Result<(), Broken> {
        owes!(!self.over, "{effect:?} after the end");
        if let Effect::Spawn(number) = effect {
            // INV-11.
            owes!(
                self.run.is_none() && number.0 == self.started + 1,
                "{effect:?} after {} runs",
                self.started
            );
            // Case 49.
            owes!(!self.asked, "{effect:?} after somebody asked for the end");
            let due = self.started == 0 || self.restart_at.is_some_and(|at| now >= at);
            owes!(due, "{effect:?} at {now:?}, due at {:?}", self.restart_at);
            self.started += 1;
            self.restart_at = None;
            self.run = Some(RunLedger::default());
            return Ok(());
        }
        let Some(run) = &mut self.run else { return Err(format!("{effect:?} without a run")) };
        owes!(
            run.drains == 0 || matches!(effect, Effect::GiveUpOutput | Effect::Finish(_)),
            "{effect:?} after Drain"
        );
        match effect {
            Effect::Spawn(_) => {}
            Effect::CountLeftovers => {
                run.counts += 1;
                owes!(
                    run.counts == 1 && run.main.is_some() && run.killed.is_none(),
                    "leftovers are counted out of turn"
                );
            }
            Effect::Thaw => owes!(run.killed.is_none(), "a thaw after the kill"),
            Effect::SignalMain(signal) => {
                run.main_signals += 1;
                // Case 23.
                owes!(run.main_signals == 1 && run.rest_signals == 0, "a second stop signal");
                owes!(
                    run.killed.is_none() && run.main.is_none(),
                    "a signal to a main process that has ended"
                );
                owes!(Some(*signal) == run.signal, "{signal} is not the first stop's signal");
            }
            Effect::SignalRest(signal) => {
                run.rest_signals += 1;
                owes!(run.rest_signals == 1 && run.counts == 1, "the rest is signalled twice or uncounted");
                owes!(run.killed.is_none() && run.main.is_some(), "the rest is signalled out of turn");
                owes!(Some(*signal) == run.signal, "{signal} is not the first stop's signal");
            }
            Effect::KillLeaf => {
                // Case 25.
                owes!(run.kill_by.is_some_and(|by| now >= by), "a kill at {now:?}, due at {:?}", run.kill_by);
                let first = run.killed.is_none();
                owes!(!first || run.main.is_none() || run.counts == 1, "leftovers are killed uncounted");
                run.killed.get_or_insert(now);
            }
            Effect::KillMain | Effect::KillEscaped => {
                owes!(run.killed.is_some(), "{effect:?} before the kill");
                run.owed[usize::from(*effect == Effect::KillEscaped)] = false;
            }
            Effect::ReportStuck => {
                run.stuck_reports += 1;
                let late = run.killed.is_some_and(|at| now >= at + STUCK_AFTER);
                owes!(run.stuck_reports == 1 && late, "stuck is reported out of turn");
            }
            Effect::Drain => {
                run.drains += 1;
                let seen = matches!(event, Event::Looked(_)) && run.empty;
                // INV-4.
                owes!(seen && (run.main.is_some() || run.unborn), "INV-4: drained before all had ended");
                run.hurry_by = self.asked.then_some(now + SECOND);
            }
            Effect::GiveUpOutput => {
                run.given_up += 1;
                let due = run.hurry_by.is_some_and(|by| now >= by);
                owes!(run.given_up == 1 && due && self.asked, "output is given up out of turn");
            }
            Effect::Finish(end) => {
                // INV-4: drained comes after the proof that nothing lives.
                owes!(run.drained, "a run is finished before its output");
                let expected = RunEnd {
                    run: supervisor::task::RunNumber(self.started),
                    outcome: outcome(run),
                    cause: run.cause,
                };
                owes!(*end == expected, "finished as {end:?}, expected {expected:?}");
                self.finished += 1;
                owes!(self.finished == self.started, "{} finished of {}", self.finished, self.started);
                let delay =
                    if self.asked { None } else { restart(self.policy.restart, &end.outcome, self.finished) };
                self.restart_at = delay.map(|delay| now + delay);
                self.over = delay.is_none();
                self.run = None;
            }
        }
        Ok(())
    }

    /// Checks the state after an event.
    pub fn after(&self, now: Duration, life: &Life) -> Result<(), Broken> {
        owes!(life.is_over() == self.over, "over: {}, expected {}", life.is_over(), self.over);
        let deadline = life.deadline();
        let expected = match &self.run {
            None => self.restart_at,
            Some(run) if run.drains > 0 => run.hurry_by.filter(|_| run.given_up == 0),
            // While the kill is under way only how soon it is tried again is of interest.
            Some(run) if run.killed.is_some() => {
                owes!(
                    deadline.is_some_and(|at| at <= now + SECOND),
                    "the kill is not repeated: {deadline:?}"
                );
                deadline
            }
            Some(run) if run.kill_by.is_some() => run.kill_by,
            Some(run) => run.spawned.zip(self.policy.timeout).map(|(spawned, timeout)| spawned + timeout),
        };
        owes!(self.over || deadline == expected, "the deadline is {deadline:?}, expected {expected:?}");
        owes!(!self.over || deadline.is_none(), "a deadline after the end");
        if let Some(run) = &self.run {
            owes!(run.owed == [false; 2], "who is outside of the leaf is not killed at once");
            let must_look =
                run.drains == 0 && (run.kill_by.is_some() || run.spawned.is_some() && run.main.is_some());
            owes!(life.is_waiting_for_the_end() == must_look, "is_waiting_for_the_end: {}", !must_look);
        }
        self.progress(now, life)
    }

    /// A tick at the deadline leads on, one before it does nothing.
    fn progress(&self, now: Duration, life: &Life) -> Result<(), Broken> {
        let Some(at) = life.deadline() else { return Ok(()) };
        let (next, _) = life.clone().step(at.max(now), Event::Tick);
        let again = next.deadline();
        owes!(
            next != *life && again.is_none_or(|again| again > at.max(now) || again == Duration::MAX),
            "no progress: {life:?}"
        );
        if at > now {
            let (early, effects) = life.clone().step(now, Event::Tick);
            owes!(early == *life && effects.is_empty(), "an early tick did {effects:?}");
        }
        Ok(())
    }

    /// At the end of the story every run that was begun is finished.
    pub fn close(&self, life: &Life) -> Result<(), Broken> {
        owes!(self.run.is_none(), "run {} does not end: {life:?}", self.started);
        owes!(self.started == self.finished, "{} runs, {} results", self.started, self.finished);
        Ok(())
    }
}

impl RunLedger {
    /// Nothing has begun to end it.
    fn runs_freely(&self) -> bool {
        self.spawned.is_some() && self.kill_by.is_none()
    }

    /// The first to want the end is the cause; only a kill goes before the friendlier request that it cuts short. What comes once the
    /// kill is under way changes nothing.
    fn blame(&mut self, cause: StopCause, signal: Signal) {
        self.signal.get_or_insert(signal);
        if self.killed.is_some() {
            return;
        }
        match (self.cause, cause) {
            (Some(StopCause::Requested), StopCause::Killed) | (None, _) => self.cause = Some(cause),
            (Some(_), _) => {}
        }
    }

    fn kill_by(&mut self, at: Duration) {
        self.kill_by = Some(self.kill_by.map_or(at, |by| by.min(at)));
    }
}

/// Case 31: an exit code only from a main process that was reaped with it.
fn outcome(run: &RunLedger) -> Outcome {
    match (&run.failure, run.main) {
        (Some(failure), _) => Outcome::NotStarted(failure.clone()),
        (None, Some(WaitStatus::Exited(code))) => Outcome::Exited(code),
        (None, Some(WaitStatus::Signaled(signal))) => Outcome::Signaled(signal),
        (None, Some(WaitStatus::Unknown) | None) => Outcome::Unknown,
    }
}

/// Case 48, in other words than the product's: `runs` have been finished, so one less restart was made.
fn restart(policy: RestartPolicy, outcome: &Outcome, runs: u32) -> Option<Duration> {
    let Delays { attempts, delay } = match policy {
        RestartPolicy::Never => return None,
        RestartPolicy::OnFailure(_) if *outcome == Outcome::Exited(0) => return None,
        RestartPolicy::OnFailure(delays) | RestartPolicy::Always(delays) => delays,
    };
    let started = !matches!(outcome, Outcome::NotStarted(_));
    let allowed = attempts.is_none_or(|attempts| runs <= attempts);
    (started && allowed).then_some(delay)
}
