//! Only for the tests: the raw counters, and maps of other sizes. With these a test can say exactly what the kernel side must count, and
//! fill a map or the ring buffer that would take minutes to fill otherwise.

use aya::maps::MapError;
pub use supervisor_ebpf::abi::{Executor, Process, Run, global};

use super::{Audit, AuditError, Level, ProcessKey};
use crate::cgroup::CgroupId;

/// Sizes of maps; none for what the object says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of the ring buffer: a power of two and a multiple of the page size.
    pub ring: Option<u32>,
    /// Entries of the map of processes.
    pub processes: Option<u32>,
}

impl Sizes {
    /// The size for the map of this name.
    pub(super) fn of(self, map: &str) -> Option<u32> {
        match map {
            "EVENTS" => self.ring,
            "PROCESSES" => self.processes,
            _ => None,
        }
    }
}

/// A record as the map has it; none when the map has none.
fn found<T>(value: Result<T, MapError>, map: &'static str) -> Result<Option<T>, AuditError> {
    match value {
        Ok(value) => Ok(Some(value)),
        Err(MapError::KeyNotFound) => Ok(None),
        Err(source) => Err(AuditError::Map { map, source: Box::new(source) }),
    }
}

impl Audit {
    /// [`Audit::load`] with maps of these sizes.
    ///
    /// # Errors
    /// As [`Audit::load`].
    pub fn load_sized(level: Level, sizes: Sizes) -> Result<Self, AuditError> {
        Self::load_with(level, |map| sizes.of(map))
    }

    /// The counters of a run; none when its directory was not seen.
    ///
    /// # Errors
    /// [`AuditError::Map`].
    pub fn run_figures(&self, run: CgroupId) -> Result<Option<Run>, AuditError> {
        found(self.maps.runs.get(&run.get(), 0), "RUNS")
    }

    /// The record of a living process that is watched.
    ///
    /// # Errors
    /// [`AuditError::Map`].
    pub fn process_figures(&self, pid: u32) -> Result<Option<Process>, AuditError> {
        found(self.maps.processes.get(&pid, 0), "PROCESSES")
    }

    /// All executors that were born since the beginning, also those that are gone.
    ///
    /// # Errors
    /// [`AuditError::Map`].
    pub fn executor_figures(&self) -> Result<Vec<(ProcessKey, Executor)>, AuditError> {
        let all: Result<Vec<_>, MapError> = self.maps.executors.iter().collect();
        all.map_err(|source| AuditError::Map { map: "EXECUTORS", source: Box::new(source) })
    }

    /// The global counters, by the indexes of [`global`].
    ///
    /// # Errors
    /// [`AuditError::Map`].
    pub fn global_figures(&self) -> Result<Vec<u64>, AuditError> {
        (0..global::COUNT).map(|index| self.global(index)).collect()
    }

    /// How many processes are watched now: executors and those of runs.
    ///
    /// # Errors
    /// [`AuditError::Map`].
    pub fn watched(&self) -> Result<usize, AuditError> {
        let all: Result<Vec<_>, MapError> = self.maps.processes.iter().collect();
        let all = all.map_err(|source| AuditError::Map { map: "PROCESSES", source: Box::new(source) })?;
        Ok(all.len())
    }
}
