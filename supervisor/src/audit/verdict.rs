//! Reads the counters at one moment and has them judged.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use aya::maps::MapError;
use supervisor_ebpf::abi::{Process, ProcessKey, Run, class, global};

use super::decode::Movement;
use super::doubt::Doubt;
use super::error::AuditError;
use super::escape::{EscapedProcess, Life, key_of, lives, place};
use super::judge::{Attachment, Birth, Claims, ExecutorLife, Faults, Snapshot, Watch, judge};
use super::report::{AuditReport, Figures, KilledBy, State};
use super::{Audit, WALK};
use crate::cgroup::CgroupId;
use crate::sys::bpf;

/// How often the maps are read again when an exit came between two reads.
const ATTEMPTS: u32 = 4;

/// What a verdict is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The executor, as [`Audit::executor`] gave it; none when the kernel side did not see its birth.
    pub executor: Option<ProcessKey>,
    /// Whether the caller's keeper has reaped it.
    pub executor_life: ExecutorLife,
    /// The run's leaf.
    pub run: CgroupId,
    /// Process id of the main process as the executor reported it.
    pub main: Option<u32>,
}

/// What the audit says about a run.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The judgements, typed.
    pub claims: Claims,
    /// The same for the report, with figures.
    pub audit: AuditReport,
    /// Who ended the main process by a signal, when that is on record.
    pub killed_by: Option<KilledBy>,
    /// Processes of the run that were outside it. All that live are here; of those that are gone, the ones whose events were kept.
    pub escaped: Vec<EscapedProcess>,
    /// Events that were read but not kept, beyond the first ones: the counters have them.
    pub not_kept: u64,
}

impl Verdict {
    /// The verdict on a run that nobody audited.
    pub fn off(why: &str) -> Self {
        let claims = judge(&Snapshot {
            watch: Watch::Off { why: why.to_owned() },
            executor: Birth::Unseen,
            executor_life: ExecutorLife::Exited,
            run: Birth::Unseen,
            faults: Faults::default(),
            main: None,
            alive: 0,
            events: &[],
            entries: &[],
        });
        let figures = Figures {
            state: State::Off,
            reason: Some(why.to_owned()),
            run: Birth::Unseen,
            lost_events: None,
        };
        let audit = AuditReport::new(&claims, figures, &|id| id.to_string());
        Self { claims, audit, killed_by: None, escaped: Vec::new(), not_kept: 0 }
    }
}

/// The counters of a run with the processes that belong to it.
struct Reading {
    members: BTreeMap<u32, Process>,
    run: Birth<Run>,
}

impl Audit {
    /// Judges a run and its executor by what the kernel side has counted until now.
    ///
    /// # Errors
    /// [`AuditError::Map`] when a map cannot be read.
    pub fn verdict(&mut self, subject: &Subject) -> Result<Verdict, AuditError> {
        let produced = self.global(global::PRODUCED)?;
        self.reader.catch_up(produced, &mut self.names);
        let Subject { executor, executor_life, run, main } = *subject;
        let reading = self.read_run(run)?;
        let alive = reading
            .members
            .iter()
            .filter(|(tgid, record)| lives(key_of(**tgid, record), self.clock) == Life::Alive);
        let snapshot = Snapshot {
            watch: Watch::On(self.attachment()),
            executor: match executor {
                Some(key) => found(self.maps.executors.get(&key, 0), "EXECUTORS")?,
                None => Birth::Unseen,
            },
            executor_life,
            run: reading.run,
            faults: self.faults()?,
            main,
            alive: alive.count() as u64,
            events: self.reader.shelf.of_run(run),
            entries: &executor.map(|key| self.reader.shelf.entries_of(key)).unwrap_or_default(),
        };
        let claims = judge(&snapshot);
        let reason = degradation(&snapshot);
        let figures = Figures {
            state: if reason.is_some() { State::Degraded } else { State::Active },
            reason,
            run: reading.run,
            lost_events: Some(self.lost(produced)?),
        };
        // The leaf is often gone by now, and whoever reads the report of a run knows which one it is.
        let namer = |id: CgroupId| {
            if id == run { "the run".to_owned() } else { place(Some(id), |id| self.names.path(id)) }
        };
        Ok(Verdict {
            audit: AuditReport::new(&claims, figures, &namer),
            claims,
            killed_by: match reading.run {
                Birth::Seen(run) => KilledBy::of(&run),
                Birth::Unseen => None,
            },
            escaped: self.all_escaped(run)?,
            not_kept: self.reader.shelf.not_kept(run),
        })
    }

    /// The members of a run and its counters, read so that they fit together: members first, since an exit takes the member away before it
    /// is counted, and again when one came between.
    fn read_run(&self, id: CgroupId) -> Result<Reading, AuditError> {
        let mut attempts = ATTEMPTS;
        loop {
            attempts -= 1;
            let members = self.members(id)?;
            let run = found(self.maps.runs.get(&id.get(), 0), "RUNS")?;
            let expected = match run {
                Birth::Seen(run) => (run.births + run.outside).saturating_sub(run.exits + run.outside_exits),
                Birth::Unseen => members.len() as u64,
            };
            if expected == members.len() as u64 || attempts == 0 {
                return Ok(Reading { members, run });
            }
        }
    }

    /// The processes of a run, inside and outside, by the map: lossless.
    pub(super) fn members(&self, run: CgroupId) -> Result<BTreeMap<u32, Process>, AuditError> {
        let mut members = BTreeMap::new();
        for entry in self.maps.processes.iter().take(WALK) {
            match entry {
                Ok((tgid, record)) if record.run == run.get() && record.class != class::EXECUTOR => {
                    members.insert(tgid, record);
                }
                Ok(_) | Err(MapError::KeyNotFound) => {}
                Err(source) => return Err(AuditError::Map { map: "PROCESSES", source: Box::new(source) }),
            }
        }
        Ok(members)
    }

    /// The living ones of the map, and of the events those that are gone.
    fn all_escaped(&self, run: CgroupId) -> Result<Vec<EscapedProcess>, AuditError> {
        let mut escaped = self.escaped(run)?;
        for event in self.reader.shelf.of_run(run) {
            let is_escape = matches!(event.movement, Movement::Left | Movement::Outside { .. });
            let Some(known) = escaped.iter().position(|process| process.key == event.subject) else {
                if is_escape {
                    escaped.push(EscapedProcess {
                        key: event.subject,
                        pid: event.subject.tgid,
                        comm: event.comm.to_string(),
                        cgroup: place(event.cgroup, |id| self.names.path(id)),
                        alive: lives(event.subject, self.clock),
                    });
                }
                continue;
            };
            // Of several moves the last one tells where it went.
            if let Some(process) = escaped.get_mut(known)
                && is_escape
                && process.alive == Life::Gone
            {
                process.cgroup = place(event.cgroup, |id| self.names.path(id));
            }
        }
        Ok(escaped)
    }

    fn attachment(&self) -> Attachment {
        let broken = self.programs.iter().find(|loaded| !loaded.is_attached());
        broken.map_or(Attachment::Unbroken, |loaded| Attachment::Broken(loaded.program))
    }

    fn faults(&self) -> Result<Faults, AuditError> {
        let mut skipped_runs = 0u64;
        for loaded in &self.programs {
            let misses = bpf::recursion_misses(loaded.fd.as_fd());
            let misses = misses.map_err(|source| AuditError::Program { program: loaded.program, source })?;
            skipped_runs = skipped_runs.saturating_add(misses);
        }
        Ok(Faults {
            failed: self.global(global::FAILED)?,
            young_moves: self.global(global::YOUNG_MOVES)?,
            identity_mismatches: self.global(global::IDENTITY_MISMATCH)?,
            skipped_runs,
        })
    }

    /// Events that nobody can tell of: dropped by a full buffer, unreadable, or counted as produced and not found.
    fn lost(&self, produced: u64) -> Result<u64, AuditError> {
        let missing = produced.saturating_sub(self.reader.consumed);
        Ok(self.global(global::DROPPED)? + self.reader.undecodable + missing)
    }

    pub(super) fn global(&self, index: u32) -> Result<u64, AuditError> {
        let value = self.maps.globals.get(&index, 0);
        value.map_err(|source| AuditError::Map { map: "GLOBALS", source: Box::new(source) })
    }
}

/// A record, or that there is none.
fn found<T>(value: Result<T, MapError>, map: &'static str) -> Result<Birth<T>, AuditError> {
    match value {
        Ok(value) => Ok(Birth::Seen(value)),
        Err(MapError::KeyNotFound) => Ok(Birth::Unseen),
        Err(source) => Err(AuditError::Map { map, source: Box::new(source) }),
    }
}

/// What is wrong with the audit as a whole; none when it is in order.
fn degradation(snapshot: &Snapshot<'_>) -> Option<String> {
    let reasons = snapshot.watch_doubts().iter().map(Doubt::to_string).collect::<Vec<_>>().join("; ");
    if reasons.is_empty() { None } else { Some(reasons) }
}
