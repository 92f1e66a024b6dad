//! The audit: eBPF programs watch every birth, move and exit in proctor's cgroups, and this module loads them, reads their counters and
//! judges what they prove.
//!
//! | file | what it is |
//! | --- | --- |
//! | `load` | makes the maps, freezes the constants, loads and attaches the programs |
//! | `btf`, `fields` | what the programs must know about the running kernel |
//! | `reader`, `decode` | the ring buffer: detail for reasons, never their ground |
//! | `judge`, `breach`, `doubt` | pure: counters to claims |
//! | `report`, `escape`, `names` | what people are told |
//!
//! The verdict rests on counters in maps that the kernel side bumps itself. A full ring buffer loses the detail of an event and nothing
//! else. Nothing here is asynchronous; [`Audit::ring_fd`] is for the caller's own loop.

mod breach;
pub mod btf;
mod decode;
mod doubt;
mod error;
mod escape;
mod fields;
mod judge;
mod load;
mod names;
#[cfg(feature = "faults")]
pub mod probe;
mod program;
mod reader;
mod report;
mod verdict;

use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::MapError;
use supervisor_ebpf::abi::{CgroupClass, class};

pub use breach::{Breach, Fact};
pub use decode::{Actor, AuditEvent, Comm, Movement, WaitStatus};
pub use doubt::Doubt;
pub use error::AuditError;
pub use escape::{EscapedProcess, Life};
pub use fields::Level;
pub use judge::{Claim, Claims, ExecutorLife};
pub use program::Program;
pub use reader::Drained;
pub use report::{AuditReport, ClaimReport, ClaimsReport, KilledBy, State, Status};
pub use supervisor_ebpf::abi::ProcessKey;
pub use verdict::{Subject, Verdict};

use crate::cgroup::CgroupId;
use escape::{Clock, comm_of, key_of, lives, place};
use load::{Loaded, Maps};
use names::Names;
use reader::Reader;

/// Most steps of a walk over a map. A walk starts anew when the entry that it stands on goes away, so it misses nothing and may meet
/// something twice; in a storm of exits it could go on for ever. This is several times what the largest map holds.
const WALK: usize = 1 << 18;

/// The loaded audit. Its programs run from [`Audit::load`] until it is dropped, without a break.
pub struct Audit {
    maps: Counters,
    programs: Vec<Loaded>,
    reader: Reader,
    names: Names,
    clock: Clock,
}

/// The maps apart from the ring buffer.
struct Counters {
    classes: aya::maps::HashMap<aya::maps::MapData, u64, CgroupClass>,
    processes: aya::maps::HashMap<aya::maps::MapData, u32, supervisor_ebpf::abi::Process>,
    executors: aya::maps::HashMap<aya::maps::MapData, ProcessKey, supervisor_ebpf::abi::Executor>,
    runs: aya::maps::HashMap<aya::maps::MapData, u64, supervisor_ebpf::abi::Run>,
    globals: aya::maps::Array<aya::maps::MapData, u64>,
}

impl Audit {
    /// Loads the programs and attaches them. They watch nothing yet.
    ///
    /// # Errors
    /// [`AuditError`], each with what to do: [`AuditError::why`] is the line for people.
    pub fn load(level: Level) -> Result<Self, AuditError> {
        Self::load_with(level, |_| None)
    }

    /// Loads with other sizes for the maps that `size` gives one for.
    fn load_with(level: Level, size: impl Fn(&str) -> Option<u32>) -> Result<Self, AuditError> {
        load::check_pid_namespace()?;
        let object = load::object_bytes()?;
        let (maps, programs) = load::load(&object, level, &size)?;
        let Maps { classes, processes, executors, runs, globals, events } = maps;
        Ok(Self {
            maps: Counters { classes, processes, executors, runs, globals },
            programs,
            reader: Reader::new(events),
            names: Names::new(),
            clock: Clock::of_this_process(),
        })
    }

    /// Watches two cgroups: what is born in `executors` is an executor, what is made below `tasks` is a task. Call it before anything is
    /// born or made there: what is older stays unknown, and its claims unproven.
    ///
    /// # Errors
    /// [`AuditError::Watch`].
    pub fn watch(&mut self, executors: CgroupId, tasks: CgroupId) -> Result<(), AuditError> {
        for (cgroup, class) in [(executors, class::EXECUTOR), (tasks, class::TASKS)] {
            let entry = CgroupClass { class, ..CgroupClass::default() };
            let watch = |source| AuditError::Watch { cgroup, source: Box::new(source) };
            self.maps.classes.insert(cgroup.get(), entry, 0).map_err(watch)?;
        }
        Ok(())
    }

    /// The executor with this process id, as the kernel side recorded its birth; none when it did not see it. One that has exited is
    /// found as well, of several with the same number the youngest. One that lives without a place in the map of processes is none: its
    /// moves are not seen.
    pub fn executor(&self, pid: u32) -> Option<ProcessKey> {
        match self.maps.processes.get(&pid, 0) {
            Ok(record) if record.class == class::EXECUTOR => Some(key_of(pid, &record)),
            Ok(_) | Err(_) => {
                let records = self.maps.executors.iter().take(WALK).flatten();
                let exited = records.filter(|(key, record)| key.tgid == pid && record.exited != 0);
                exited.map(|(key, _)| key).max_by_key(|key| key.start)
            }
        }
    }

    /// Readable when much waits in the ring buffer: for the caller's loop, which should also [`drain`](Self::drain) now and then.
    pub fn ring_fd(&self) -> BorrowedFd<'_> {
        self.reader.fd()
    }

    /// Takes events out of the ring buffer, a bounded number.
    pub fn drain(&mut self) -> Drained {
        self.reader.drain(&mut self.names)
    }

    /// The processes of this run that live outside it, now. Lossless: it is read from a map, not from events.
    ///
    /// # Errors
    /// [`AuditError::Map`] when the map could not be read to its end.
    pub fn escaped(&self, run: CgroupId) -> Result<Vec<EscapedProcess>, AuditError> {
        let outside = self.members(run)?.into_iter().filter(|(_, record)| record.class == class::ESCAPED);
        Ok(outside
            .map(|(tgid, record)| EscapedProcess {
                key: key_of(tgid, &record),
                pid: tgid,
                comm: comm_of(tgid),
                cgroup: place(CgroupId::new(record.cgroup), |id| self.names.path(id)),
                alive: lives(key_of(tgid, &record), self.clock),
            })
            .filter(|process| process.alive == Life::Alive)
            .collect())
    }

    /// Forgets a run and its executor, whose records the kernel side would keep for ever. Processes that live outside the run are not
    /// counted any more.
    ///
    /// # Errors
    /// [`AuditError::Map`]; a record that was not there is no error.
    pub fn forget(&mut self, run: CgroupId, executor: Option<ProcessKey>) -> Result<(), AuditError> {
        let gone = |map: &'static str, result| match result {
            Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
            // A removal tells a missing key by the plain errno.
            Err(MapError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::ENOENT) => {
                Ok(())
            }
            Err(source) => Err(AuditError::Map { map, source: Box::new(source) }),
        };
        gone("RUNS", self.maps.runs.remove(&run.get()))?;
        if let Some(executor) = executor {
            gone("EXECUTORS", self.maps.executors.remove(&executor))?;
        }
        self.reader.shelf.forget(run);
        Ok(())
    }

    /// Takes a program off its tracepoint: what a verdict says then is what tests ask. A process that this one has forked meanwhile, and
    /// that has not executed its own program yet, keeps it attached for that moment.
    #[cfg(feature = "faults")]
    pub fn fault_detach(&mut self, program: Program) {
        for loaded in self.programs.iter_mut().filter(|loaded| loaded.program == program) {
            loaded.detach();
        }
    }

    /// Puts a program back after [`fault_detach`](Self::fault_detach), so that only what it missed can give the gap away.
    ///
    /// # Errors
    /// [`AuditError::Attach`].
    #[cfg(feature = "faults")]
    pub fn fault_attach(&mut self, program: Program) -> Result<(), AuditError> {
        self.programs.iter_mut().filter(|loaded| loaded.program == program).try_for_each(Loaded::attach)
    }
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").field("ring", &self.ring_fd().as_fd()).finish_non_exhaustive()
    }
}
