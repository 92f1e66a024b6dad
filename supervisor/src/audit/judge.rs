//! Pure: what the kernel side counted, to a verdict on the four claims.
//!
//! A claim is *violated* when there is evidence against it, whatever else is wrong: a counted move happened. It is *proven* only when
//! nothing speaks against it and the observation itself is sound. All else is *unproven*, and says why. Absence of evidence counts only
//! where the observer is known to have watched without a break.

use supervisor_ebpf::abi::{Executor, Run};

use super::breach::{Breach, Fact};
use super::decode::{AuditEvent, Movement};
use super::doubt::Doubt;
use super::program::Program;

/// Whether all programs were attached all the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// They were, and are.
    Unbroken,
    /// At least this one is not attached any more.
    Broken(Program),
}

/// The audit as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watch {
    /// There is none.
    Off {
        /// Why.
        why: String,
    },
    /// There is one.
    On(Attachment),
}

/// Whether the executor was born where and when the programs could see it: `executors/` was classified and all were attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth<T> {
    /// The kernel side made this record at the birth, so the programs were attached before it.
    Seen(T),
    /// There is no record: the programs were attached after the birth, or it was born elsewhere.
    Unseen,
}

/// What the supervisor knows of the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutorLife {
    /// Nobody has reaped it.
    Alive,
    /// It was reaped.
    Exited,
}

/// How often the observation itself failed since the programs were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Map updates or look-ups that had to succeed and did not.
    pub failed: u64,
    /// Moves of processes that were too young to be attributed.
    pub young_moves: u64,
    /// Processes whose start time changed.
    pub identity_mismatches: u64,
    /// Runs of programs that the kernel skipped because the program was running on that CPU.
    pub skipped_runs: u64,
}

/// All that a verdict rests on, read at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    /// Whether anything was watched.
    pub watch: Watch,
    /// The record of this executor.
    pub executor: Birth<Executor>,
    /// What the supervisor knows of it.
    pub executor_life: ExecutorLife,
    /// The record of this run, made at the mkdir of its leaf.
    pub run: Birth<Run>,
    /// Failures of the observation.
    pub faults: Faults,
    /// Process id of the main process as the executor reported it; none when it reported none.
    pub main: Option<u32>,
    /// Processes of the run that were found alive, inside and outside.
    pub alive: u64,
    /// The events that are kept of this run: detail for the reasons, never their ground.
    pub events: &'a [AuditEvent],
    /// The events that are kept of this executor's entries into task cgroups, of whatever run.
    pub entries: &'a [AuditEvent],
}

/// The judgement on one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It holds, and nothing that could break it went unseen.
    Proven,
    /// It does not hold.
    Violated {
        /// The evidence.
        by: Vec<Breach>,
    },
    /// Nobody knows.
    Unproven {
        /// What stands in the way of a proof.
        why: Vec<Doubt>,
    },
}

/// The four claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// C1: the executor was in no task's cgroup from its birth until now or its exit.
    pub stayed_out: Claim,
    /// C2: every process born in the run left it only by exiting, and gave birth to none outside.
    pub contained: Claim,
    /// C3: no process that does not descend from the run's own births was moved or born into it.
    pub undisturbed: Claim,
    /// C4: all that was born has exited, and the cgroup was empty when it was removed.
    pub ended: Claim,
}

/// How many events a reason carries as examples.
const EXAMPLES: usize = 3;

/// Judges.
pub fn judge(snapshot: &Snapshot<'_>) -> Claims {
    let sound = doubts(snapshot);
    let claim = |breaches: Vec<Breach>, doubts: Vec<Doubt>| {
        if !breaches.is_empty() {
            Claim::Violated { by: breaches }
        } else if doubts.is_empty() {
            Claim::Proven
        } else {
            Claim::Unproven { why: doubts }
        }
    };
    Claims {
        stayed_out: claim(stayed_out(snapshot), sound.clone()),
        contained: claim(contained(snapshot), sound.clone()),
        undisturbed: claim(undisturbed(snapshot), sound.clone()),
        ended: claim(still_alive(snapshot), sound.iter().cloned().chain(not_ended(snapshot)).collect()),
    }
}

impl Snapshot<'_> {
    /// What is wrong with the audit itself, whatever the run. The same for all claims: an event that one program missed could have
    /// mattered to any of them (an executor that enters a run whose mkdir went unseen is not noticed either).
    pub fn watch_doubts(&self) -> Vec<Doubt> {
        let Faults { failed, young_moves, identity_mismatches, skipped_runs } = self.faults;
        let mut doubts = Vec::new();
        match &self.watch {
            // Without an audit nothing else has a meaning.
            Watch::Off { why } => return vec![Doubt::Off { why: why.clone() }],
            Watch::On(Attachment::Unbroken) => {}
            Watch::On(Attachment::Broken(program)) => doubts.push(Doubt::Detached { program: *program }),
        }
        if failed > 0 {
            doubts.push(Doubt::FailedUpdates { times: failed });
        }
        if skipped_runs > 0 {
            doubts.push(Doubt::SkippedRuns { times: skipped_runs });
        }
        if young_moves > 0 {
            doubts.push(Doubt::YoungMoves { times: young_moves });
        }
        if identity_mismatches > 0 {
            doubts.push(Doubt::IdentityMismatches { times: identity_mismatches });
        }
        doubts
    }

    /// What should have been seen of this run and its executor and was not: proof that something else may have been missed as well.
    fn birth_doubts(&self) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        match self.executor {
            Birth::Unseen => doubts.push(Doubt::ExecutorUnseen),
            Birth::Seen(record) => match self.executor_life {
                // It is reaped only after its last thread passed the tracepoint.
                ExecutorLife::Exited if record.exited == 0 => doubts.push(Doubt::ExecutorExitUnseen),
                ExecutorLife::Exited | ExecutorLife::Alive => {}
            },
        }
        match self.run {
            Birth::Unseen => doubts.push(Doubt::RunUnseen),
            Birth::Seen(record) => match (self.main, record.main_tgid) {
                (Some(reported), 0) => doubts.push(Doubt::MainUnseen { reported }),
                (Some(reported), seen) if reported != seen => {
                    doubts.push(Doubt::MainDiffers { reported, seen });
                }
                // No main process was reported when it could not be started; whatever was born then is in the counters.
                (Some(_) | None, _) => {}
            },
        }
        doubts
    }
}

/// Whatever makes the observation unsound.
fn doubts(snapshot: &Snapshot<'_>) -> Vec<Doubt> {
    let mut doubts = snapshot.watch_doubts();
    match snapshot.watch {
        Watch::Off { .. } => {}
        Watch::On(_) => doubts.extend(snapshot.birth_doubts()),
    }
    doubts
}

fn stayed_out(snapshot: &Snapshot<'_>) -> Vec<Breach> {
    let Birth::Seen(executor) = snapshot.executor else { return Vec::new() };
    breach(snapshot.entries, executor.entered, |times| Fact::ExecutorEntered {
        times,
        cgroup: executor.entered_cgroup,
    })
}

fn contained(snapshot: &Snapshot<'_>) -> Vec<Breach> {
    let Birth::Seen(run) = snapshot.run else { return Vec::new() };
    let mut breaches = breach(snapshot.events, run.left, |times| Fact::Left { times });
    breaches.extend(breach(snapshot.events, run.outside, |times| Fact::BornOutside { times }));
    breaches
}

fn undisturbed(snapshot: &Snapshot<'_>) -> Vec<Breach> {
    let Birth::Seen(run) = snapshot.run else { return Vec::new() };
    let mut breaches = breach(snapshot.events, run.strangers, |times| Fact::Strangers { times });
    breaches.extend(breach(snapshot.events, run.foreign, |times| Fact::ForeignBirths { times }));
    // An executor, this or another one, descends from no birth of the run.
    breaches.extend(breach(snapshot.events, run.executor_entered, |times| Fact::ExecutorInside { times }));
    breaches
}

/// Evidence against C4: the cgroup is gone and its processes are not.
fn still_alive(snapshot: &Snapshot<'_>) -> Vec<Breach> {
    let Birth::Seen(run) = snapshot.run else { return Vec::new() };
    if run.removed == 0 || unaccounted(&run) == 0 {
        return Vec::new();
    }
    breach(snapshot.events, snapshot.alive, |processes| Fact::AliveAfterRemoval { processes })
}

/// What C4 needs beyond a sound observation. Births without an exit are no evidence of life: with nobody found alive, it is the count
/// that is wrong.
fn not_ended(snapshot: &Snapshot<'_>) -> Vec<Doubt> {
    let (Watch::On(_), Birth::Seen(run)) = (&snapshot.watch, snapshot.run) else { return Vec::new() };
    let mut doubts = Vec::new();
    if run.removed == 0 {
        doubts.push(Doubt::NotRemoved);
    }
    if unaccounted(&run) != 0 {
        let Run { births, exits, outside, outside_exits, .. } = run;
        doubts.push(Doubt::Unbalanced { births, exits, outside, outside_exits, alive: snapshot.alive });
    }
    doubts
}

/// Births without an exit and exits without a birth. Each pair is compared by itself, so that two faults cannot cancel out.
fn unaccounted(run: &Run) -> u64 {
    run.births.abs_diff(run.exits).saturating_add(run.outside.abs_diff(run.outside_exits))
}

fn breach(events: &[AuditEvent], times: u64, fact: impl FnOnce(u64) -> Fact) -> Vec<Breach> {
    if times == 0 {
        return Vec::new();
    }
    let fact = fact(times);
    let examples = events.iter().filter(|event| fact.is_shown_by(&event.movement));
    vec![Breach { examples: examples.take(EXAMPLES).copied().collect(), fact }]
}

impl Fact {
    /// Whether an event of this kind is an example of the fact.
    fn is_shown_by(&self, movement: &Movement) -> bool {
        match self {
            Self::ExecutorEntered { .. } | Self::ExecutorInside { .. } => {
                matches!(movement, Movement::ExecutorEntered)
            }
            Self::Left { .. } => matches!(movement, Movement::Left),
            Self::BornOutside { .. } => matches!(movement, Movement::Outside { .. }),
            Self::Strangers { .. } => matches!(movement, Movement::Stranger),
            Self::ForeignBirths { .. } => matches!(movement, Movement::Foreign { .. }),
            Self::AliveAfterRemoval { .. } => matches!(movement, Movement::Left | Movement::Outside { .. }),
        }
    }
}

#[cfg(test)]
mod tests;
