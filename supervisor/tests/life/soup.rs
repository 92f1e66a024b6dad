//! Events that no world would give, in any order: a dead main process that dies again, a failed start of a program that runs. The machine
//! is told by one executor alone, but a fault there must not become two runs at a time, a start after the end, or a panic.

use std::time::Duration;

use proptest::prelude::*;
use supervisor::task::life::{Born, Effect, Event, Life, Presence, Sight};
use supervisor::task::{Signal, StartFailure, StopPolicy, WaitStatus};

use super::moves::cases;

const CASES: u32 = 30_000;

fn event(bits: u8) -> Event {
    let presence = |bit: u8| if bits & bit == 0 { Presence::None } else { Presence::Some };
    let failure = || StartFailure { step: String::from("exec"), object: String::new(), errno: 2 };
    match bits % 16 {
        0 => Event::Start,
        1 | 2 => Event::Spawned,
        3 => Event::SpawnFailed(failure(), if bits & 16 == 0 { Born::Yes } else { Born::No }),
        4 | 5 => Event::MainEnded(WaitStatus::Exited(bits / 16)),
        6..=8 => Event::Looked(Sight { leaf: presence(16), escaped: presence(32) }),
        9 => Event::Stop(StopPolicy {
            signal: Signal::TERM,
            grace: Duration::from_millis(u64::from(bits / 16) * 100),
        }),
        10 => {
            if bits & 16 == 0 {
                Event::Kill
            } else {
                Event::Abandon
            }
        }
        11..=13 => Event::Drained,
        _ => Event::Tick,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    /// Cases 48 and 49.
    #[test]
    fn nonsense_starts_nothing_twice_and_nothing_after_the_end(
        case in cases(1), events in proptest::collection::vec((any::<u8>(), 0u64..2000), 0..60)
    ) {
        let mut life = Life::new(case.policy);
        let mut now = Duration::from_secs(1000);
        let (mut started, mut finished, mut asked) = (0, 0, false);
        for (bits, wait) in std::iter::once((0, 0)).chain(events) {
            now += Duration::from_millis(wait);
            let event = event(bits);
            let was_over = life.is_over();
            asked |= matches!(event, Event::Stop(_) | Event::Kill | Event::Abandon);
            let (next, effects) = life.step(now, event);
            life = next;
            prop_assert!(!was_over || effects.is_empty() && life.is_over(), "{:?} after the end", effects);
            for effect in effects {
                match effect {
                    Effect::Spawn(number) => {
                        started += 1;
                        prop_assert!(number.0 == started && finished == started - 1, "{number} is the start {started}");
                        prop_assert!(!asked, "a start after somebody asked for the end");
                    }
                    Effect::Finish(end) => {
                        finished += 1;
                        prop_assert!(end.run.0 == finished && finished == started, "{} ends, {started} began", end.run);
                    }
                    _ => prop_assert!(started == finished + 1, "{effect:?} between two runs"),
                }
            }
        }
        // And out of any state a kill leads to the end, when the world obeys it.
        for event in [
            Event::Kill,
            Event::SpawnFailed(StartFailure { step: String::new(), object: String::new(), errno: 1 }, Born::No),
            Event::Looked(Sight { leaf: Presence::None, escaped: Presence::None }),
            Event::Drained,
        ] {
            life = life.step(now, event).0;
        }
        prop_assert!(life.is_over(), "{life:?}");
    }
}
