//! One test for each arrow of the diagram in docs/lifecycle.md, then one for each answer that may surprise.

use std::time::Duration;

use supervisor::task::life::{Born, Effect, Event, Life, Policy, Presence, RunEnd, STUCK_AFTER, Sight};
use supervisor::task::restart::{Delays, RestartPolicy};
use supervisor::task::{Outcome, RunNumber, Signal, StartFailure, StopCause, StopPolicy, Until, WaitStatus};

const NOTHING: Sight = Sight { leaf: Presence::None, escaped: Presence::None };
const MEMBERS: Sight = Sight { leaf: Presence::Some, escaped: Presence::None };
const ESCAPED: Sight = Sight { leaf: Presence::None, escaped: Presence::Some };

const EXITED: Event = Event::MainEnded(WaitStatus::Exited(0));

fn plain() -> Policy {
    let stop = StopPolicy { signal: Signal::TERM, grace: ms(10_000) };
    Policy { stop, until: Until::Main, timeout: None, restart: RestartPolicy::Never }
}

fn restarting() -> Policy {
    let delays = Delays { attempts: Some(2), delay: ms(500) };
    Policy { restart: RestartPolicy::Always(delays), ..plain() }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn stop(grace: u64) -> Event {
    Event::Stop(StopPolicy { signal: Signal::INT, grace: ms(grace) })
}

fn failure() -> StartFailure {
    StartFailure { step: String::from("exec"), object: String::from("/nothing"), errno: 2 }
}

fn finish(run: u32, outcome: Outcome, cause: Option<StopCause>) -> Vec<Effect> {
    vec![Effect::Finish(RunEnd { run: RunNumber(run), outcome, cause })]
}

/// A life and the time, from which each line of a test goes on.
struct Story {
    life: Life,
    now: Duration,
}

impl Story {
    fn created(policy: Policy) -> Self {
        Self { life: Life::new(policy), now: ms(1000) }
    }

    fn running(policy: Policy) -> Self {
        let mut story = Self::created(policy);
        assert_eq!(story.on(Event::Start), [Effect::Spawn(RunNumber::FIRST)]);
        assert_eq!(story.on(Event::Spawned), []);
        story
    }

    /// Dead, with output that its reader has not taken.
    fn draining(policy: Policy) -> Self {
        let mut story = Self::running(policy);
        story.on(EXITED);
        assert_eq!(story.on(Event::Looked(NOTHING)), [Effect::Drain]);
        story
    }

    fn on(&mut self, event: Event) -> Vec<Effect> {
        let (life, effects) = self.life.clone().step(self.now, event);
        self.life = life;
        effects
    }

    /// Waits for the deadline, which must be so far away.
    fn tick_after(&mut self, wait: u64) -> Vec<Effect> {
        assert_eq!(self.life.deadline(), Some(self.now + ms(wait)), "{:?}", self.life);
        self.now += ms(wait);
        self.on(Event::Tick)
    }
}

// The arrows.

#[test]
fn a_run_that_ends_by_itself() {
    let mut story = Story::running(plain());
    assert_eq!(story.life.deadline(), None);
    assert_eq!(story.on(Event::MainEnded(WaitStatus::Exited(7))), []);
    assert!(story.life.is_waiting_for_the_end());
    assert_eq!(story.on(Event::Looked(NOTHING)), [Effect::Drain]);
    assert_eq!(story.on(Event::Drained), finish(1, Outcome::Exited(7), None));
    assert!(story.life.is_over());
}

#[test]
fn a_program_that_cannot_be_started() {
    for born in [Born::Yes, Born::No] {
        let mut story = Story::created(restarting());
        story.on(Event::Start);
        assert_eq!(story.on(Event::SpawnFailed(failure(), born)), [Effect::KillLeaf]);
        if born == Born::Yes {
            assert_eq!(story.on(Event::Looked(NOTHING)), [Effect::KillMain]);
            story.on(Event::MainEnded(WaitStatus::Exited(125)));
        }
        assert_eq!(story.on(Event::Looked(NOTHING)), [Effect::Drain]);
        assert_eq!(story.on(Event::Drained), finish(1, Outcome::NotStarted(failure()), None));
        // It would not start the next time either.
        assert!(story.life.is_over());
    }
}

#[test]
fn a_stop_that_is_obeyed() {
    let mut story = Story::running(plain());
    assert_eq!(story.on(stop(3000)), [Effect::Thaw, Effect::SignalMain(Signal::INT)]);
    story.on(Event::MainEnded(WaitStatus::Signaled(Signal::INT)));
    assert_eq!(story.on(Event::Looked(NOTHING)), [Effect::Drain]);
    let end = finish(1, Outcome::Signaled(Signal::INT), Some(StopCause::Requested));
    assert_eq!(story.on(Event::Drained), end);
}

#[test]
fn a_stop_whose_grace_is_over() {
    let mut story = Story::running(plain());
    story.on(stop(3000));
    assert_eq!(story.tick_after(3000), [Effect::KillLeaf]);
    story.on(Event::MainEnded(WaitStatus::Signaled(Signal::KILL)));
    assert_eq!(story.on(Event::Looked(NOTHING)), [Effect::Drain]);
}

#[test]
fn the_rest_has_its_signal_when_the_main_process_has_ended() {
    let mut story = Story::running(plain());
    story.on(stop(3000));
    assert_eq!(story.on(Event::Looked(MEMBERS)), []);
    story.on(EXITED);
    let rest = [Effect::CountLeftovers, Effect::Thaw, Effect::SignalRest(Signal::INT)];
    assert_eq!(story.on(Event::Looked(MEMBERS)), rest);
    assert_eq!(story.on(Event::Looked(MEMBERS)), []);
    // One grace for all.
    assert_eq!(story.tick_after(3000), [Effect::KillLeaf]);
}

#[test]
fn leftovers_are_stopped_as_the_policy_says() {
    for left in [MEMBERS, ESCAPED] {
        let mut story = Story::running(plain());
        story.on(EXITED);
        let rest = [Effect::CountLeftovers, Effect::Thaw, Effect::SignalRest(Signal::TERM)];
        assert_eq!(story.on(Event::Looked(left)), rest);
        assert_eq!(story.tick_after(10_000), [Effect::KillLeaf]);
        story.on(Event::Looked(NOTHING));
        assert_eq!(story.on(Event::Drained), finish(1, Outcome::Exited(0), Some(StopCause::MainEnded)));
    }
}

#[test]
fn a_timeout_counts_from_the_exec() {
    let mut story = Story::created(Policy { timeout: Some(ms(700)), ..plain() });
    story.on(Event::Start);
    assert_eq!(story.life.deadline(), None);
    story.now += ms(5000);
    story.on(Event::Spawned);
    assert_eq!(story.tick_after(700), [Effect::Thaw, Effect::SignalMain(Signal::TERM)]);
    assert_eq!(story.tick_after(10_000), [Effect::KillLeaf]);
}

#[test]
fn a_kill_reaches_whoever_is_outside_of_the_leaf() {
    let mut story = Story::running(plain());
    assert_eq!(story.on(Event::Kill), [Effect::KillLeaf]);
    assert_eq!(story.on(Event::Looked(MEMBERS)), []);
    assert_eq!(story.on(Event::Looked(NOTHING)), [Effect::KillMain]);
    story.on(Event::MainEnded(WaitStatus::Signaled(Signal::KILL)));
    assert_eq!(story.on(Event::Looked(ESCAPED)), [Effect::KillEscaped]);
    assert_eq!(story.on(Event::Looked(NOTHING)), [Effect::Drain]);
}

#[test]
fn a_kill_that_does_not_work_is_repeated_and_reported_once() {
    let mut story = Story::running(plain());
    let all = [Effect::KillLeaf, Effect::KillMain, Effect::KillEscaped];
    story.on(Event::Kill);
    for _ in 1..STUCK_AFTER.as_secs() {
        assert_eq!(story.tick_after(1000), all);
    }
    assert_eq!(story.tick_after(1000), [&all[..], &[Effect::ReportStuck]].concat());
    assert_eq!(story.tick_after(1000), all);
}

#[test]
fn restarts_are_counted_without_the_first_start() {
    let mut story = Story::draining(restarting());
    for number in [2, 3] {
        story.on(Event::Drained);
        assert_eq!(story.tick_after(500), [Effect::Spawn(RunNumber(number))]);
        story.on(Event::Spawned);
        story.on(EXITED);
        story.on(Event::Looked(NOTHING));
    }
    assert_eq!(story.on(Event::Drained), finish(3, Outcome::Exited(0), None));
    assert!(story.life.is_over());
}

#[test]
fn an_end_that_is_asked_for_before_the_start_or_between_two_is_at_once() {
    for ask in [stop(3000), Event::Kill, Event::Abandon] {
        let mut story = Story::created(plain());
        assert_eq!(story.on(ask.clone()), []);
        assert!(story.life.is_over());

        let mut story = Story::draining(restarting());
        story.on(Event::Drained);
        assert_eq!(story.on(ask), []);
        assert!(story.life.is_over());
    }
}

// What may surprise.

/// What does not run yet cannot obey a signal.
#[test]
fn a_stop_before_the_exec_kills() {
    let mut story = Story::created(plain());
    story.on(Event::Start);
    assert_eq!(story.on(stop(3000)), [Effect::KillLeaf]);
    // That the exec did work in the end changes nothing.
    assert_eq!(story.on(Event::Spawned), []);
    story.on(Event::MainEnded(WaitStatus::Signaled(Signal::KILL)));
    story.on(Event::Looked(NOTHING));
    let end = finish(1, Outcome::Signaled(Signal::KILL), Some(StopCause::Requested));
    assert_eq!(story.on(Event::Drained), end);
}

/// Case 25: a second stop shortens the first, never lengthens it, and sends no second signal.
#[test]
fn a_second_stop_only_shortens() {
    let mut story = Story::running(plain());
    story.on(stop(3000));
    assert_eq!(story.on(stop(600_000)), []);
    assert_eq!(story.life.deadline(), Some(story.now + ms(3000)));
    assert_eq!(story.on(stop(1000)), []);
    assert_eq!(story.life.deadline(), Some(story.now + ms(1000)));
    assert_eq!(story.on(stop(0)), [Effect::KillLeaf]);
}

/// Case 49: a task that somebody wants ended is not started again, whatever ended its run, and however late that was said.
#[test]
fn nothing_follows_once_an_end_was_asked_for() {
    let timed = Policy { timeout: Some(ms(700)), ..restarting() };
    for ask in [stop(3000), Event::Kill, Event::Abandon] {
        // While leftovers are stopped.
        let mut leftovers = Story::running(restarting());
        leftovers.on(EXITED);
        leftovers.on(Event::Looked(MEMBERS));
        leftovers.on(ask.clone());
        leftovers.on(Event::Looked(NOTHING));
        // While a timeout's kill is under way.
        let mut killing = Story::running(timed);
        killing.tick_after(700);
        killing.tick_after(10_000);
        killing.on(ask.clone());
        killing.on(EXITED);
        killing.on(Event::Looked(NOTHING));
        // While output is handed over.
        let mut draining = Story::draining(restarting());
        draining.on(ask.clone());

        for mut story in [leftovers, killing, draining] {
            // And the reader has a second, not for ever.
            assert_eq!(story.tick_after(1000), [Effect::GiveUpOutput], "{ask:?}");
            assert_eq!(story.on(Event::Drained).len(), 1);
            assert!(story.life.is_over(), "{ask:?}: {:?}", story.life);
        }
    }
}

/// What came first is told. A kill tells more than the stop that it cut short.
#[test]
fn the_first_cause_stays() {
    let timed = Policy { timeout: Some(ms(700)), ..plain() };
    let end = |mut story: Story| {
        story.on(EXITED);
        story.on(Event::Looked(NOTHING));
        match story.on(Event::Drained).pop() {
            Some(Effect::Finish(end)) => end.cause,
            other => panic!("no end but {other:?}"),
        }
    };
    for ask in [stop(3000), Event::Kill, Event::Abandon] {
        let mut story = Story::running(timed);
        story.tick_after(700);
        story.on(ask.clone());
        assert_eq!(end(story), Some(StopCause::Timeout), "{ask:?}");

        let mut story = Story::running(plain());
        story.on(EXITED);
        story.on(Event::Looked(MEMBERS));
        story.on(ask.clone());
        assert_eq!(end(story), Some(StopCause::MainEnded), "{ask:?}");

        // It had ended by itself.
        let mut story = Story::draining(plain());
        story.on(ask.clone());
        assert_eq!(story.on(Event::Drained), finish(1, Outcome::Exited(0), None), "{ask:?}");
    }
    let mut story = Story::running(plain());
    story.on(stop(3000));
    story.on(Event::Kill);
    assert_eq!(end(story), Some(StopCause::Killed));
}

/// Whoever is killed after the main process has ended was left over, in whatever way the kill came.
#[test]
fn leftovers_are_counted_before_any_kill() {
    let timed = Policy { timeout: Some(ms(700)), until: Until::All, ..plain() };
    let counted = [Effect::CountLeftovers, Effect::KillLeaf];
    for ask in [stop(0), Event::Kill, Event::Abandon] {
        let mut story = Story::running(timed);
        story.on(EXITED);
        assert_eq!(story.on(ask.clone()), counted, "{ask:?}");
    }
    // The grace ends in the same moment as the main process.
    let mut story = Story::running(timed);
    story.on(stop(3000));
    story.on(EXITED);
    assert_eq!(story.tick_after(3000), counted);
}

/// With `Until::All` the time of a run that has lost its main process goes on, and its rest is stopped.
#[test]
fn a_timeout_without_a_main_process_stops_the_rest() {
    let mut story = Story::running(Policy { timeout: Some(ms(700)), until: Until::All, ..plain() });
    story.on(EXITED);
    assert_eq!(story.on(Event::Looked(MEMBERS)), []);
    let rest = [Effect::CountLeftovers, Effect::Thaw, Effect::SignalRest(Signal::TERM)];
    assert_eq!(story.tick_after(700), rest);
    story.on(Event::Looked(NOTHING));
    assert_eq!(story.on(Event::Drained), finish(1, Outcome::Exited(0), Some(StopCause::Timeout)));
}

/// `Until::All` waits for the leaf; who has escaped from it is not waited for but ended.
#[test]
fn until_all_does_not_wait_for_escaped_processes() {
    let mut story = Story::running(Policy { until: Until::All, ..plain() });
    story.on(EXITED);
    let rest = [Effect::CountLeftovers, Effect::Thaw, Effect::SignalRest(Signal::TERM)];
    assert_eq!(story.on(Event::Looked(ESCAPED)), rest);
}

/// Nobody is in a hurry: a slow reader has all its time, as with a plain pipe.
#[test]
fn output_is_handed_over_without_haste_until_somebody_asks() {
    let mut story = Story::draining(plain());
    assert_eq!(story.life.deadline(), None);
    // However long the grace was: nobody is left to use it.
    assert_eq!(story.on(stop(600_000)), []);
    story.now += ms(300);
    assert_eq!(story.on(stop(600_000)), []);
    assert_eq!(story.tick_after(700), [Effect::GiveUpOutput]);
    assert_eq!(story.life.deadline(), None);
    assert_eq!(story.on(Event::Kill), []);
}

/// A kill that comes just after the death must not cost output that one just before it would not have cost. The second means at once.
#[test]
fn a_kill_while_output_is_handed_over_leaves_it_a_second_and_the_next_none() {
    let mut story = Story::draining(plain());
    assert_eq!(story.on(Event::Kill), []);
    assert_eq!(story.life.deadline(), Some(story.now + ms(1000)));
    assert_eq!(story.on(Event::Kill), [Effect::GiveUpOutput]);
    assert_eq!(story.on(Event::Kill), []);
}

/// A status that nobody could take is never success (case 31), so an `on-failure` policy starts it again.
#[test]
fn an_unknown_status_is_a_failure() {
    let delays = Delays { attempts: None, delay: ms(500) };
    let mut story = Story::running(Policy { restart: RestartPolicy::OnFailure(delays), ..plain() });
    story.on(Event::MainEnded(WaitStatus::Unknown));
    story.on(Event::Looked(NOTHING));
    assert_eq!(story.on(Event::Drained), finish(1, Outcome::Unknown, None));
    assert_eq!(story.tick_after(500), [Effect::Spawn(RunNumber(2))]);
}

/// The end of the main process may be heard of before the success of its exec.
#[test]
fn a_program_may_be_dead_before_it_is_known_to_run() {
    let mut story = Story::created(plain());
    story.on(Event::Start);
    assert_eq!(story.on(EXITED), []);
    assert_eq!(story.on(Event::Looked(NOTHING)), []);
    story.on(Event::Spawned);
    assert_eq!(story.on(Event::Looked(NOTHING)), [Effect::Drain]);
}
