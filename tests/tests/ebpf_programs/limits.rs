//! What happens when the kernel side has no room: a full ring buffer costs detail, a full map costs the proof, and neither is silent.

use supervisor::audit::probe::{Run, Sizes, global};
use supervisor::audit::{Claim, ExecutorLife, Fact, Level, State};

use crate::ground::{Ground, Totals};

const PAGE: u32 = 4096;
/// Bytes of an event in the ring buffer: 96 and a header of 8.
const EVENT: u64 = 104;

/// Case 56.
#[test]
fn a_full_ring_loses_detail_exactly_and_no_verdict() {
    const CHILDREN: u64 = 100;
    let sizes = Sizes { ring: Some(PAGE), ..Sizes::default() };
    let mut ground = Ground::with("full-ring", Level::Births, sizes);
    let script =
        format!("in EX {{ say executor hear in RUN {{ say main repeat {CHILDREN} {{ call {{ }} }} }} }}");
    let mut actors = ground.start(&script);
    let executor = actors.hear("executor");
    let executor = ground.audit.executor(executor).expect("on record");
    actors.tell();
    let main = actors.hear("main");
    actors.end();
    ground.run.remove();

    // A birth and an exit of each.
    let events = 2 * (CHILDREN + 1);
    let produced = ground.audit.global_figures().expect("read")[global::PRODUCED as usize];
    assert!(produced >= u64::from(PAGE) / EVENT - 1, "the ring took only {produced} events");
    let dropped = events - produced;
    assert!(dropped > 100);
    let run = Run { births: CHILDREN + 1, exits: CHILDREN + 1, removed: 1, ..Run::default() };
    ground.expect(run, Totals { dropped, rmdirs: 1, ..Totals::one_executor(0) });

    let verdict = ground.verdict(Some(executor), ExecutorLife::Exited, Some(main));
    let claims = verdict.claims;
    for claim in [claims.stayed_out, claims.contained, claims.undisturbed, claims.ended] {
        assert_eq!(claim, Claim::Proven);
    }
    assert_eq!(verdict.audit.lost_events, Some(dropped));
    assert_eq!(verdict.audit.state, State::Active, "lost detail is no fault of the audit");
}

/// Case 56, the other way round: what breaks a claim after the ring is full breaks it all the same, only nobody can tell the story.
#[test]
fn a_breach_is_counted_though_its_event_is_lost() {
    let sizes = Sizes { ring: Some(PAGE), ..Sizes::default() };
    let mut ground = Ground::with("lost-breach", Level::Births, sizes);
    let mut actors =
        ground.start("in EX { say executor hear in RUN { say main repeat 50 { call { } } move OTHER } }");
    let executor = actors.hear("executor");
    let executor = ground.audit.executor(executor).expect("on record");
    actors.tell();
    let main = actors.hear("main");
    actors.end();
    let verdict = ground.verdict(Some(executor), ExecutorLife::Exited, Some(main));
    let Claim::Violated { by } = &verdict.claims.contained else { panic!("{:?}", verdict.claims) };
    assert_eq!((by[0].fact, by[0].examples.len()), (Fact::Left { times: 1 }, 0));
    assert_eq!(verdict.claims.stayed_out, Claim::Proven);
}

#[test]
fn a_full_map_of_processes_leaves_every_claim_unproven() {
    const ROOM: u32 = 8;
    let sizes = Sizes { processes: Some(ROOM), ..Sizes::default() };
    let mut ground = Ground::with("full-map", Level::Movements, sizes);
    let mut actors =
        ground.start("in EX { say executor hear in RUN { say main repeat 20 { fork { pause } } pause } }");
    let executor = actors.hear("executor");
    let executor = ground.audit.executor(executor).expect("on record");
    actors.tell();
    let main = actors.hear("main");
    tests::wait_until("births without room", || (ground.totals().failed >= 13).then_some(()));
    std::fs::write(ground.run.path.join("cgroup.kill"), "1").expect("kill the group");
    actors.end();
    ground.run.remove();

    assert!(ground.totals().failed >= 13, "{:?}", ground.totals());
    let run = ground.counted(&ground.run);
    assert_eq!(run.births, 21, "births are counted in the run's own record: {run:?}");
    let verdict = ground.verdict(Some(executor), ExecutorLife::Exited, Some(main));
    let claims = verdict.claims;
    for claim in [claims.stayed_out, claims.contained, claims.undisturbed, claims.ended] {
        let Claim::Unproven { why } = claim else { panic!("{claim:?}") };
        assert!(why.iter().any(|doubt| doubt.to_string().contains("could not record")), "{why:?}");
    }
    assert_eq!(verdict.audit.state, State::Degraded);
}

#[test]
fn an_executor_that_found_no_room_is_never_proven_to_have_stayed_out() {
    let sizes = Sizes { processes: Some(1), ..Sizes::default() };
    let mut ground = Ground::with("no-room", Level::Movements, sizes);
    // The first executor takes the only place; the second enters the run, unseen.
    let mut first = ground.start("in EX { say first hear }");
    assert!(ground.audit.executor(first.hear("first")).is_some());
    let mut second = ground.start("in EX { say second hear move RUN }");
    let key = ground.audit.executor(second.hear("second"));
    // It is known by name, and its entry is a stranger's to the kernel side, which has no record of the process.
    second.end();
    first.end();
    let verdict = ground.verdict(key, ExecutorLife::Exited, None);
    assert_eq!(ground.counted(&ground.run).strangers, 1);
    assert!(matches!(verdict.claims.stayed_out, Claim::Unproven { .. }), "{:?}", verdict.claims);
    assert!(matches!(verdict.claims.undisturbed, Claim::Violated { .. }), "{:?}", verdict.claims);
}
