//! Reads the ring buffer and keeps what reports tell of: a bounded number of events for each run, and an exact account of the rest.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{MapData, RingBuf};
use supervisor_ebpf::abi::ProcessKey;

use super::decode::{AuditEvent, Movement, decode};
use super::names::Names;
use crate::cgroup::CgroupId;

/// Most records that one call takes, so that a storm of events cannot hold the caller: reading may itself make events.
const BATCH: usize = 4096;
/// Most anomalies that are kept of one run. The first ones tell how it began.
const KEPT: usize = 32;
/// Most runs that events are kept of.
const RUNS: usize = 1024;

/// Whether a call took all there was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// The buffer was empty at the end.
    Empty,
    /// The bound was reached first: call again.
    More,
}

/// The events of one run.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The first anomalies.
    pub events: Vec<AuditEvent>,
    /// How many more there were.
    pub more: u64,
}

/// What is kept of the events, apart from where they come from.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    runs: HashMap<Option<CgroupId>, Kept>,
    unfiled: u64,
}

impl Shelf {
    /// Keeps an anomaly where there is room. Returns whether it was kept.
    fn keep(&mut self, event: AuditEvent) -> bool {
        if !event.movement.is_anomaly() {
            return false;
        }
        if self.runs.len() >= RUNS && !self.runs.contains_key(&event.run) {
            self.unfiled += 1;
            return false;
        }
        let kept = self.runs.entry(event.run).or_default();
        if kept.events.len() >= KEPT {
            kept.more += 1;
            return false;
        }
        kept.events.push(event);
        true
    }

    /// The kept anomalies of a run.
    pub fn of_run(&self, run: CgroupId) -> &[AuditEvent] {
        self.runs.get(&Some(run)).map(|kept| kept.events.as_slice()).unwrap_or_default()
    }

    /// Anomalies that were read but not kept: of this run, and of runs beyond the bound.
    pub fn not_kept(&self, run: CgroupId) -> u64 {
        self.runs.get(&Some(run)).map_or(0, |kept| kept.more) + self.unfiled
    }

    /// The kept entries of one executor, into whatever cgroup.
    pub fn entries_of(&self, executor: ProcessKey) -> Vec<AuditEvent> {
        let is_entry =
            |event: &&AuditEvent| event.movement == Movement::ExecutorEntered && event.subject == executor;
        self.runs.values().flat_map(|kept| &kept.events).filter(is_entry).copied().collect()
    }

    /// Forgets a run.
    pub fn forget(&mut self, run: CgroupId) {
        self.runs.remove(&Some(run));
    }
}

/// The reading end of the ring buffer.
pub(super) struct Reader {
    ring: RingBuf<MapData>,
    /// What was kept.
    pub shelf: Shelf,
    /// Records taken, readable or not.
    pub consumed: u64,
    /// Records that were no event.
    pub undecodable: u64,
}

impl Reader {
    /// Reads from `ring`, which nobody else reads.
    pub fn new(ring: RingBuf<MapData>) -> Self {
        Self { ring, shelf: Shelf::default(), consumed: 0, undecodable: 0 }
    }

    /// Becomes readable when 64 KiB wait; before that only a look tells.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// Takes what is there, at most [`BATCH`] records.
    pub fn drain(&mut self, names: &mut Names) -> Drained {
        for _ in 0..BATCH {
            let Some(record) = self.ring.next() else { return Drained::Empty };
            self.consumed += 1;
            match decode(&record) {
                Ok(event) => {
                    if self.shelf.keep(event)
                        && let Some(cgroup) = event.cgroup
                    {
                        names.remember(cgroup);
                    }
                }
                Err(_) => self.undecodable += 1,
            }
        }
        Drained::More
    }

    /// Drains until `produced` records were taken or no more come.
    pub fn catch_up(&mut self, produced: u64, names: &mut Names) {
        while self.consumed < produced {
            let before = self.consumed;
            self.drain(names);
            if self.consumed == before {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::decode::{Actor, Comm};

    fn event(run: u64, movement: Movement) -> AuditEvent {
        AuditEvent {
            time: 1,
            subject: ProcessKey { start: 1, tgid: 2, pad: 0 },
            comm: Comm::default(),
            cgroup: None,
            run: CgroupId::new(run),
            by: Actor { pid: 1, uid: 0, comm: Comm::default() },
            movement,
        }
    }

    #[test]
    fn the_first_anomalies_are_kept_and_the_rest_counted() {
        let mut shelf = Shelf::default();
        let run = CgroupId::new(7).unwrap();
        for _ in 0..KEPT + 5 {
            shelf.keep(event(7, Movement::Left));
            shelf.keep(event(7, Movement::Birth { parent: 1 }));
        }
        assert_eq!(shelf.of_run(run).len(), KEPT);
        assert_eq!(shelf.not_kept(run), 5);
        shelf.forget(run);
        assert_eq!((shelf.of_run(run).len(), shelf.not_kept(run)), (0, 0));
    }

    #[test]
    fn the_number_of_runs_is_bounded() {
        let mut shelf = Shelf::default();
        for run in 1..=RUNS as u64 + 3 {
            shelf.keep(event(run, Movement::Left));
        }
        assert_eq!(shelf.runs.len(), RUNS);
        assert_eq!(shelf.not_kept(CgroupId::new(1).unwrap()), 3);
        shelf.keep(event(1, Movement::Stranger));
        assert_eq!(shelf.of_run(CgroupId::new(1).unwrap()).len(), 2);
    }

    #[test]
    fn entries_of_an_executor_are_found_in_any_run() {
        let mut shelf = Shelf::default();
        let entry = event(7, Movement::ExecutorEntered);
        shelf.keep(entry);
        shelf.keep(event(7, Movement::Left));
        shelf.keep(event(0, Movement::ExecutorEntered));
        assert_eq!(shelf.entries_of(entry.subject).len(), 2);
        assert_eq!(shelf.entries_of(ProcessKey { start: 9, ..entry.subject }), []);
    }
}
