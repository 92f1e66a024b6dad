//! What people and programs are told: the `audit` part of a run's report.

use serde::Serialize;
use supervisor_ebpf::abi::Run;

use super::breach::Breach;
use super::decode::{AuditEvent, Comm, Movement, WaitStatus};
use super::doubt::Doubt;
use super::judge::{Birth, Claim, Claims};
use crate::cgroup::CgroupId;

/// Whether the audit worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It saw everything.
    Active,
    /// It was there, but something about it was broken.
    Degraded,
    /// There was none.
    Off,
}

/// The judgement on a claim, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It holds.
    Proven,
    /// It does not hold.
    Violated,
    /// Nobody knows.
    Unproven,
}

/// One claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimReport {
    /// The judgement.
    pub status: Status,
    /// One sentence each; none when it is proven.
    pub reasons: Vec<String>,
}

/// The four claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimsReport {
    /// C1: the executor was in no task's cgroup.
    pub stayed_out: ClaimReport,
    /// C2: what was born in the run left it only by exiting.
    pub contained: ClaimReport,
    /// C3: nothing else came into the run.
    pub undisturbed: ClaimReport,
    /// C4: all that was born has exited.
    pub ended: ClaimReport,
}

/// The `audit` object of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// Whether the audit worked.
    pub state: State,
    /// Why not, unless it is active.
    pub reason: Option<String>,
    /// The judgements.
    pub claims: ClaimsReport,
    /// Processes born in the run, of an executor or of a member; none when nobody counted.
    pub births: Option<u64>,
    /// Exits of those processes.
    pub exits: Option<u64>,
    /// Moves of processes of the run, and of others into it.
    pub migrations: Option<u64>,
    /// Events whose detail was lost. It costs examples in the reasons, never a verdict.
    pub lost_events: Option<u64>,
}

/// Who sent the signal that ended the main process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KilledBy {
    /// Process id of the sender; with `kernel` of the process that was current, such as the one that wrote `cgroup.kill`.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Its uid in the initial user namespace.
    pub uid: u32,
    /// Whether the kernel made the signal: a fault, the OOM killer, `cgroup.kill`.
    pub kernel: bool,
}

/// What the report is made of besides the claims.
pub(super) struct Figures {
    pub state: State,
    pub reason: Option<String>,
    pub run: Birth<Run>,
    pub lost_events: Option<u64>,
}

/// Names a cgroup for people.
pub(super) type Namer<'a> = &'a dyn Fn(CgroupId) -> String;

impl AuditReport {
    pub(super) fn new(claims: &Claims, figures: Figures, namer: Namer<'_>) -> Self {
        let Figures { state, reason, run, lost_events } = figures;
        let counted = match run {
            Birth::Seen(run) => Some(run),
            Birth::Unseen => None,
        };
        let Claims { stayed_out, contained, undisturbed, ended } = claims;
        let report = |claim| ClaimReport::new(claim, namer);
        Self {
            state,
            reason,
            claims: ClaimsReport {
                stayed_out: report(stayed_out),
                contained: report(contained),
                undisturbed: report(undisturbed),
                ended: report(ended),
            },
            births: counted.map(|run| run.births),
            exits: counted.map(|run| run.exits),
            migrations: counted
                .map(|run| run.left + run.returned + run.moved_inside + run.strangers + run.executor_entered),
            lost_events,
        }
    }

    /// One line for people: what was proven with its figures, and for all else the first reason.
    pub fn headline(&self) -> String {
        let ClaimsReport { stayed_out, contained, undisturbed, ended } = &self.claims;
        let claims = [
            ("stayed out", stayed_out),
            ("contained", contained),
            ("undisturbed", undisturbed),
            ("ended", ended),
        ];
        let mut parts = Vec::new();
        for status in [Status::Violated, Status::Unproven, Status::Proven] {
            let of: Vec<_> = claims.iter().filter(|(_, claim)| claim.status == status).collect();
            if of.is_empty() {
                continue;
            }
            let names = of.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let mut reasons: Vec<&str> = Vec::new();
            for reason in of.iter().filter_map(|(_, claim)| claim.reasons.first()) {
                if !reasons.contains(&reason.as_str()) {
                    reasons.push(reason);
                }
            }
            parts.push(match status {
                Status::Proven => format!("{names}: proven{}", self.figures()),
                Status::Violated => format!("{names}: VIOLATED ({})", reasons.join("; ")),
                Status::Unproven => format!("{names}: unproven ({})", reasons.join("; ")),
            });
        }
        parts.join("; ")
    }

    fn figures(&self) -> String {
        match (self.births, self.exits, self.migrations) {
            (Some(births), Some(exits), Some(moves)) => {
                format!(" ({births} born, {exits} exited, {moves} moved)")
            }
            _ => String::new(),
        }
    }
}

impl ClaimReport {
    fn new(claim: &Claim, namer: Namer<'_>) -> Self {
        match claim {
            Claim::Proven => Self { status: Status::Proven, reasons: Vec::new() },
            Claim::Violated { by } => Self {
                status: Status::Violated,
                reasons: by.iter().map(|breach| sentence(breach, namer)).collect(),
            },
            Claim::Unproven { why } => {
                Self { status: Status::Unproven, reasons: why.iter().map(Doubt::to_string).collect() }
            }
        }
    }
}

/// A breach with the events that show it.
fn sentence(breach: &Breach, namer: Namer<'_>) -> String {
    let name = |id: u64| CgroupId::new(id).map_or_else(|| "unknown".to_owned(), namer);
    let mut sentence = breach.fact.describe(&name);
    for (index, event) in breach.examples.iter().enumerate() {
        sentence.push_str(if index == 0 { ": " } else { "; " });
        sentence.push_str(&story(event, namer));
    }
    let told = breach.examples.len() as u64;
    if told > 0 && breach.fact.times() > told {
        sentence.push_str(&format!("; and {} more", breach.fact.times() - told));
    }
    sentence
}

/// What happened in one event, and who did it.
fn story(event: &AuditEvent, namer: Namer<'_>) -> String {
    let AuditEvent { time: _, subject, comm, cgroup, run: _, by, movement } = event;
    let place = cgroup.map_or_else(|| "an unknown cgroup".to_owned(), namer);
    let who = format!("{comm} (pid {})", subject.tgid);
    let doer = |by: &super::decode::Actor| {
        if by.pid == subject.tgid {
            "itself".to_owned()
        } else {
            format!("{} (pid {}, uid {})", by.comm, by.pid, by.uid)
        }
    };
    match movement {
        Movement::ExecutorEntered
        | Movement::Left
        | Movement::Returned
        | Movement::MovedInside
        | Movement::Stranger => format!("{who} was moved to {place} by {}", doer(by)),
        Movement::Foreign { parent } | Movement::Outside { parent } | Movement::Birth { parent } => {
            format!("{who} was born in {place} of pid {parent}")
        }
        Movement::Exit(_) => format!("{who} exited"),
        Movement::OomVictim { uid } => format!("{who}, uid {uid}, was chosen by the OOM killer"),
    }
}

impl KilledBy {
    /// The sender of the main process's fatal signal; none while it lives, when it exited by itself, and when the last signal on record
    /// is another one.
    pub(super) fn of(run: &Run) -> Option<Self> {
        if run.main_exited == 0 {
            return None;
        }
        let fatal = WaitStatus::new(run.main_status).signal()?;
        (fatal == run.signal).then(|| Self {
            pid: run.sender,
            comm: Comm::new(run.sender_comm).to_string(),
            uid: run.sender_uid,
            kernel: run.sender_kernel != 0,
        })
    }
}

#[cfg(test)]
mod tests;
