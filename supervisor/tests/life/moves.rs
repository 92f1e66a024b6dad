//! What can happen next in the world, and how a test case is made of it.

use std::time::Duration;

use proptest::prelude::*;
use supervisor::task::life::Policy;
use supervisor::task::restart::{Delays, RestartPolicy};
use supervisor::task::{Signal, StopPolicy, Until};

/// One thing that happens. Those that are impossible at their moment (a fork of nobody) are passed over.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    /// The executor looks.
    Look,
    /// It hears one of the news that wait, this one of them: in any order.
    Hear(u8),
    /// Time goes by, and no tick comes.
    Pass(Duration),
    /// Time goes by until the deadline, if there is one, and the tick comes.
    Due,
    /// A tick, asked for or not.
    Tick,
    MainExits(u8),
    MainDies(Signal),
    MainEscapes,
    MemberForks,
    MemberEnds,
    MemberEscapes,
    EscapedEnds,
    StrangerEnters,
    /// Whoever had a stop signal and is not deaf obeys.
    Obey(u8),
    /// Who could not die can.
    LetGo,
    ReaderTakes,
    Start,
    Stop(StopPolicy),
    Kill,
    Abandon,
    /// The executor says so whenever its pipes are done with, also before a run and after it.
    DrainedOutOfTurn,
}

/// What becomes of a run.
#[derive(Clone, Copy, Debug)]
pub struct Fate {
    pub birth: Birth,
    pub ears: Ears,
    pub grip: Grip,
    pub reader: Reader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    Runs,
    ExecFails,
    CloneFails,
}

/// Whether a stop signal is obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ears {
    Obedient,
    Deaf,
}

/// Whether SIGKILL works at once (state D).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grip {
    Free,
    Stuck,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Reads,
    Stalls,
}

/// How much a look shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eyes {
    /// All there is.
    Sharp,
    /// As the real executor: escaped ones only when the leaf is empty and the main process is reaped.
    Executor,
}

/// What is done when the moves are over, before the world lets go of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Kill,
    Stop(StopPolicy),
    Abandon,
    /// Nobody asks for anything; all processes end by themselves.
    Alone,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub policy: Policy,
    pub fates: [Fate; 4],
    pub eyes: Eyes,
    pub moves: Vec<Move>,
    pub ending: Ending,
}

/// Cases from plain bytes: cheap to make and to shrink, and still printed as what they mean.
pub fn cases(longest: usize) -> impl Strategy<Value = Case> {
    (any::<[u8; 16]>(), proptest::collection::vec(any::<u16>(), 0..longest)).prop_map(|(head, moves)| Case {
        policy: policy(&head),
        fates: [head[6], head[7], head[8], head[9]].map(fate),
        eyes: if head[10] & 1 == 0 { Eyes::Executor } else { Eyes::Sharp },
        // Most stories begin with a start.
        moves: (head[11] % 8 != 0)
            .then_some(Move::Start)
            .into_iter()
            .chain(moves.into_iter().map(one))
            .collect(),
        ending: match head[12] % 4 {
            0 => Ending::Kill,
            1 => Ending::Stop(stop(head[13])),
            2 => Ending::Abandon,
            _ => Ending::Alone,
        },
    })
}

fn one(bits: u16) -> Move {
    let [kind, detail] = bits.to_be_bytes();
    match kind % 64 {
        0..=11 => Move::Look,
        12..=23 => Move::Hear(detail),
        24..=28 => Move::Pass(time(detail)),
        29..=34 => Move::Due,
        35 => Move::Tick,
        36..=39 => Move::MainExits(if detail & 1 == 0 { 0 } else { detail }),
        40 => Move::MainDies(Signal::INT),
        41 => Move::MainEscapes,
        42..=44 => Move::MemberForks,
        45 => Move::MemberEnds,
        46 => Move::MemberEscapes,
        47 => Move::EscapedEnds,
        48 => Move::StrangerEnters,
        49..=51 => Move::Obey(detail),
        52 => Move::LetGo,
        53..=56 => Move::ReaderTakes,
        57 => Move::Start,
        58..=60 => Move::Stop(stop(detail)),
        61 => Move::Kill,
        62 => Move::Abandon,
        _ => Move::DrainedOutOfTurn,
    }
}

fn time(detail: u8) -> Duration {
    let odd = u64::from(detail / 8);
    Duration::from_millis([0, 1, 50, 300, 999, 1000, 1500, 6000][usize::from(detail % 8)] + odd)
}

fn stop(detail: u8) -> StopPolicy {
    let grace = [0, 1, 200, 1000, 3000, 10_000, 600_000, u64::MAX][usize::from(detail % 8)];
    let signal = if detail < 128 { Signal::TERM } else { Signal::QUIT };
    StopPolicy { signal, grace: Duration::from_millis(grace) }
}

fn policy(head: &[u8; 16]) -> Policy {
    let delays = Delays {
        attempts: [Some(0), Some(1), Some(2), None][usize::from(head[3] % 4)],
        delay: time(head[4]),
    };
    Policy {
        stop: stop(head[0]),
        until: if head[1] & 1 == 0 { Until::Main } else { Until::All },
        timeout: [None, None, Some(Duration::ZERO), Some(Duration::from_millis(700))]
            [usize::from(head[2] % 4)],
        restart: match head[5] % 4 {
            0 => RestartPolicy::Never,
            1 => RestartPolicy::OnFailure(delays),
            _ => RestartPolicy::Always(delays),
        },
    }
}

fn fate(bits: u8) -> Fate {
    Fate {
        birth: match bits % 8 {
            0 => Birth::ExecFails,
            1 => Birth::CloneFails,
            _ => Birth::Runs,
        },
        ears: if bits & 8 == 0 { Ears::Obedient } else { Ears::Deaf },
        grip: if bits & 48 == 0 { Grip::Stuck } else { Grip::Free },
        reader: if bits & 64 == 0 { Reader::Reads } else { Reader::Stalls },
    }
}
