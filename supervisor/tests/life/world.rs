//! A tiny kernel with one task in it. It knows the truth; the machine knows only what it is told.

use std::time::Duration;

use supervisor::task::life::{Born, Effect, Event, Life, Presence, Sight};
use supervisor::task::{RunNumber, StartFailure, WaitStatus};

use super::ledger::{Broken, Ledger};
use super::moves::{Birth, Case, Ears, Ending, Eyes, Fate, Grip, Move, Reader};

pub struct World {
    fates: [Fate; 4],
    eyes: Eyes,
    life: Life,
    now: Duration,
    run: Option<Run>,
    /// What the executor will hear, in whatever order.
    news: Vec<Event>,
    ledger: Ledger,
    pub tally: Tally,
}

/// What was seen on the way, to show that a test reaches what it is about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub events: u64,
    pub runs: u64,
    pub restarts: u64,
    pub stuck: u64,
    pub given_up: u64,
    pub leftovers: u64,
    pub killed_outside: u64,
}

impl Tally {
    pub fn plus(self, other: Self) -> Self {
        Self {
            events: self.events + other.events,
            runs: self.runs + other.runs,
            restarts: self.restarts + other.restarts,
            stuck: self.stuck + other.stuck,
            given_up: self.given_up + other.given_up,
            leftovers: self.leftovers + other.leftovers,
            killed_outside: self.killed_outside + other.killed_outside,
        }
    }
}

struct Run {
    number: RunNumber,
    fate: Fate,
    main: Main,
    members: Crowd,
    escaped: Crowd,
    leaf: LeafState,
    main_signalled: bool,
    rest_signalled: bool,
    drain: Drain,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Main {
    Alive {
        place: Place,
        doomed: bool,
    },
    /// Ended; whether it was reaped is between the news and the machine.
    Dead,
    Unborn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Leaf,
    Outside,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LeafState {
    Fresh,
    /// INV-11: whatever is cloned into it from now on dies at birth.
    Killed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Drain {
    No,
    Waits,
    Done,
}

/// Processes beside the main one: those that live, and how many of these will die once the kernel lets go.
#[derive(Clone, Copy, Default)]
struct Crowd {
    alive: u8,
    doomed: u8,
}

impl Crowd {
    fn enter(&mut self) {
        self.alive = self.alive.saturating_add(1);
    }

    fn leave(&mut self) -> bool {
        let left = self.alive > self.doomed;
        self.alive -= u8::from(left);
        left
    }

    fn kill(&mut self, grip: Grip) {
        match grip {
            Grip::Free => *self = Self::default(),
            Grip::Stuck => self.doomed = self.alive,
        }
    }

    fn let_go(&mut self) {
        *self = Self { alive: self.alive - self.doomed, doomed: 0 };
    }

    fn presence(self) -> Presence {
        if self.alive > 0 { Presence::Some } else { Presence::None }
    }
}

impl World {
    pub fn new(case: &Case) -> Self {
        Self {
            fates: case.fates,
            eyes: case.eyes,
            life: Life::new(case.policy),
            now: Duration::from_secs(1000),
            run: None,
            news: Vec::new(),
            ledger: Ledger::new(case.policy),
            tally: Tally::default(),
        }
    }

    /// Makes one move.
    pub fn make(&mut self, step: Move) -> Result<(), Broken> {
        match step {
            Move::Look => self.look(),
            Move::Hear(which) => match self.news.len() {
                0 => Ok(()),
                waiting => {
                    let event = self.news.remove(usize::from(which) % waiting);
                    self.event(event)
                }
            },
            Move::Pass(time) => {
                self.now += time;
                Ok(())
            }
            Move::Due => self.due(),
            Move::Tick => self.event(Event::Tick),
            Move::Start => self.event(Event::Start),
            Move::Stop(how) => self.event(Event::Stop(how)),
            Move::Kill => self.event(Event::Kill),
            Move::Abandon => self.event(Event::Abandon),
            Move::DrainedOutOfTurn if self.run.as_ref().is_none_or(|run| run.drain == Drain::No) => {
                self.event(Event::Drained)
            }
            Move::DrainedOutOfTurn => Ok(()),
            Move::MainExits(_)
            | Move::MainDies(_)
            | Move::MainEscapes
            | Move::MemberForks
            | Move::MemberEnds
            | Move::MemberEscapes
            | Move::EscapedEnds
            | Move::StrangerEnters
            | Move::Obey(_)
            | Move::LetGo
            | Move::ReaderTakes => {
                self.happen(step);
                Ok(())
            }
        }
    }

    /// What happens to processes without the executor.
    fn happen(&mut self, step: Move) {
        let Some(run) = &mut self.run else { return };
        // After the kill only strangers can still come in, and in the end nobody.
        let settled = run.drain != Drain::No;
        match step {
            Move::MainExits(code) => run.main_ends(WaitStatus::Exited(code), &mut self.news),
            Move::MainDies(signal) => run.main_ends(WaitStatus::Signaled(signal), &mut self.news),
            Move::MainEscapes => {
                if let Main::Alive { place, doomed: false } = &mut run.main {
                    *place = Place::Outside;
                }
            }
            Move::MemberForks if run.in_leaf() == Presence::Some => run.members.enter(),
            Move::MemberEnds => drop(run.members.leave()),
            Move::MemberEscapes if run.members.leave() => run.escaped.enter(),
            Move::EscapedEnds => drop(run.escaped.leave()),
            Move::StrangerEnters if !settled => run.members.enter(),
            Move::Obey(how) if run.fate.ears == Ears::Obedient => {
                if run.main_signalled {
                    let status = if how & 1 == 0 { WaitStatus::Exited(how) } else { WaitStatus::Unknown };
                    run.main_ends(status, &mut self.news);
                }
                if run.rest_signalled {
                    while run.members.leave() {}
                    while run.escaped.leave() {}
                }
            }
            Move::LetGo => {
                run.fate.grip = Grip::Free;
                run.members.let_go();
                run.escaped.let_go();
                if let Main::Alive { doomed: true, .. } = run.main {
                    run.main_dies_of_kill(&mut self.news);
                }
            }
            Move::ReaderTakes if run.drain == Drain::Waits => {
                run.drain = Drain::Done;
                self.news.push(Event::Drained);
            }
            _ => {}
        }
    }

    fn look(&mut self) -> Result<(), Broken> {
        let sight =
            self.run.as_ref().map_or(Sight { leaf: Presence::None, escaped: Presence::None }, |run| {
                let reaped = !matches!(run.main, Main::Alive { .. })
                    && !self.news.iter().any(|event| matches!(event, Event::MainEnded(_)));
                let leaf = run.in_leaf();
                let escaped = match self.eyes {
                    Eyes::Executor if leaf == Presence::Some || !reaped => Presence::None,
                    Eyes::Executor | Eyes::Sharp => run.escaped.presence(),
                };
                Sight { leaf, escaped }
            });
        self.event(Event::Looked(sight))
    }

    fn due(&mut self) -> Result<(), Broken> {
        let Some(at) = self.life.deadline() else { return Ok(()) };
        // A deadline in some hundred million years does not come.
        if at.saturating_sub(self.now) < Duration::from_secs(1 << 40) {
            self.now = self.now.max(at);
            self.event(Event::Tick)?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<(), Broken> {
        self.tally.events += 1;
        self.ledger.before(self.now, &event);
        let (life, effects) = self.life.clone().step(self.now, event.clone());
        self.life = life;
        for effect in effects {
            self.ledger.effect(self.now, &event, &effect)?;
            self.perform(&effect)?;
        }
        self.ledger.after(self.now, &self.life)
    }

    fn perform(&mut self, effect: &Effect) -> Result<(), Broken> {
        if let Effect::Spawn(number) = effect {
            return self.spawn(*number);
        }
        let Some(run) = &mut self.run else { return Err(format!("{effect:?} without a run")) };
        match effect {
            Effect::Spawn(_) | Effect::Thaw => {}
            Effect::CountLeftovers => {
                self.tally.leftovers += u64::from(run.members.alive + run.escaped.alive > 0)
            }
            Effect::SignalMain(_) => run.main_signalled = true,
            Effect::SignalRest(_) => run.rest_signalled = true,
            Effect::KillLeaf => {
                run.leaf = LeafState::Killed;
                run.members.kill(run.fate.grip);
                if let Main::Alive { place: Place::Leaf, .. } = run.main {
                    run.main_killed(&mut self.news);
                }
            }
            Effect::KillMain => {
                self.tally.killed_outside +=
                    u64::from(matches!(run.main, Main::Alive { place: Place::Outside, .. }));
                run.main_killed(&mut self.news);
            }
            Effect::KillEscaped => {
                self.tally.killed_outside += u64::from(run.escaped.alive > 0);
                run.escaped.kill(run.fate.grip);
            }
            Effect::ReportStuck => self.tally.stuck += 1,
            Effect::Drain => {
                // INV-4: nothing lives, whatever was seen.
                if run.in_leaf() == Presence::Some
                    || run.escaped.presence() == Presence::Some
                    || matches!(run.main, Main::Alive { .. })
                {
                    return Err(String::from("INV-4: output is drained while somebody lives"));
                }
                run.drain = Drain::Waits;
                if run.fate.reader == Reader::Reads {
                    run.drain = Drain::Done;
                    self.news.push(Event::Drained);
                }
            }
            Effect::GiveUpOutput => {
                self.tally.given_up += 1;
                if run.drain == Drain::Waits {
                    run.drain = Drain::Done;
                    self.news.push(Event::Drained);
                }
            }
            Effect::Finish(_) => {
                self.run = None;
                self.news.clear();
            }
        }
        Ok(())
    }

    fn spawn(&mut self, number: RunNumber) -> Result<(), Broken> {
        // INV-11: a leaf is made fresh for each number, so one that was killed must never be asked for again.
        if let Some(run) = &self.run {
            return Err(format!(
                "run {number} is spawned while run {} is on, leaf killed: {}",
                run.number,
                run.leaf == LeafState::Killed
            ));
        }
        self.tally.runs += 1;
        self.tally.restarts += u64::from(number != RunNumber::FIRST);
        let fate = self.fates[(number.0 as usize - 1) % self.fates.len()];
        let mut run = Run {
            number,
            fate,
            main: Main::Alive { place: Place::Leaf, doomed: false },
            members: Crowd::default(),
            escaped: Crowd::default(),
            leaf: LeafState::Fresh,
            main_signalled: false,
            rest_signalled: false,
            drain: Drain::No,
        };
        let failure = StartFailure { step: String::from("exec"), object: String::new(), errno: 2 };
        match fate.birth {
            Birth::Runs => self.news.push(Event::Spawned),
            Birth::ExecFails => {
                self.news.push(Event::SpawnFailed(failure, Born::Yes));
                run.main_ends(WaitStatus::Exited(125), &mut self.news);
            }
            Birth::CloneFails => {
                run.main = Main::Unborn;
                self.news.push(Event::SpawnFailed(failure, Born::No));
            }
        }
        self.run = Some(run);
        Ok(())
    }

    /// The world lets go of everything: whatever was wished for before has to come to its end now, soon.
    pub fn end(&mut self, ending: Ending) -> Result<(), Broken> {
        let asked = self.now;
        let patience = match ending {
            Ending::Kill => self.event(Event::Kill).map(|()| Some(Duration::ZERO))?,
            Ending::Stop(how) => self.event(Event::Stop(how)).map(|()| Some(how.grace))?,
            Ending::Abandon => self.event(Event::Abandon).map(|()| Some(Duration::ZERO))?,
            Ending::Alone => self.event(Event::Start).map(|()| None)?,
        };
        // Forty rounds are plenty: a run takes three at the most, and after a few runs it is clear that each is finished.
        for _ in 0..40 {
            self.settle(ending)?;
            if self.life.is_over() {
                break;
            }
            self.due()?;
        }
        self.settle(ending)?;
        match patience {
            // Who is deaf and was given some hundred million years has them.
            Some(grace) if grace > Duration::from_secs(1 << 40) && !self.life.is_over() => return Ok(()),
            // A kill is repeated after a second for those that came in after it, and the reader has a second.
            Some(grace) => {
                let soon = asked.saturating_add(grace).saturating_add(Duration::from_secs(2));
                if !self.life.is_over() || self.now > soon {
                    return Err(format!("{ending:?} of {asked:?}: at {:?} still {:?}", self.now, self.life));
                }
            }
            None => {}
        }
        self.ledger.close(&self.life)
    }

    /// Everything that can happen now happens, until nothing changes any more.
    fn settle(&mut self, ending: Ending) -> Result<(), Broken> {
        for _ in 0..8 {
            self.happen(Move::LetGo);
            self.happen(Move::Obey(1));
            if ending == Ending::Alone {
                self.happen(Move::MainExits(0));
                while let Some(run) = &mut self.run
                    && (run.members.leave() || run.escaped.leave())
                {}
                self.happen(Move::ReaderTakes);
            }
            while !self.news.is_empty() {
                self.make(Move::Hear(0))?;
            }
            let before = self.life.clone();
            self.look()?;
            if self.life == before && self.news.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

impl Run {
    /// Unreaped dead ones are in no cgroup.
    fn in_leaf(&self) -> Presence {
        match self.main {
            Main::Alive { place: Place::Leaf, .. } => Presence::Some,
            Main::Alive { place: Place::Outside, .. } | Main::Dead | Main::Unborn => self.members.presence(),
        }
    }

    fn main_ends(&mut self, status: WaitStatus, news: &mut Vec<Event>) {
        // Who will die of the kill does not exit by itself any more.
        if let Main::Alive { doomed: false, .. } = self.main {
            self.main = Main::Dead;
            news.push(Event::MainEnded(status));
        }
    }

    fn main_killed(&mut self, news: &mut Vec<Event>) {
        match (&mut self.main, self.fate.grip) {
            (Main::Alive { doomed, .. }, Grip::Stuck) => *doomed = true,
            (Main::Alive { .. }, Grip::Free) => self.main_dies_of_kill(news),
            (Main::Dead | Main::Unborn, _) => {}
        }
    }

    fn main_dies_of_kill(&mut self, news: &mut Vec<Event>) {
        self.main = Main::Dead;
        news.push(Event::MainEnded(WaitStatus::Signaled(supervisor::task::Signal::KILL)));
    }
}
