//! Loads the object, freezes what the programs must know about this kernel, and attaches them.
//!
//! Not by aya's loader: that one parses the kernel's whole BTF once for itself and wants a second copy for the programs, 13 ms and some
//! 40 MB each. aya reads the object and wraps the maps; the numbers of types come from our own pass over the BTF.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::thread;

use aya::maps::{Array, HashMap, Map, MapData, MapError, RingBuf};
use aya_obj::generated::bpf_insn;
use aya_obj::{EbpfSectionKind, Object};
use nix::errno::Errno;
use supervisor_ebpf::abi::{CgroupClass, Executor, Process, ProcessKey, Run};

use super::btf::{Btf, TypeId};
use super::error::AuditError;
use super::fields::{Kernel, Level, WANTED};
use super::program::Program;
use crate::sys::SysError;
use crate::sys::bpf::{self, Instruction, TracingProgram};

const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
/// Inode number of the initial pid namespace (`PROC_PID_INIT_INO`), the same on every kernel.
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// The bytes of the verifier's log that are read when it refuses a program. What matters stands at its end.
const LOG_BYTES: usize = 1 << 20;

/// The maps, by the names they have in the object.
pub(super) struct Maps {
    pub classes: HashMap<MapData, u64, CgroupClass>,
    pub processes: HashMap<MapData, u32, Process>,
    pub executors: HashMap<MapData, ProcessKey, Executor>,
    pub runs: HashMap<MapData, u64, Run>,
    pub globals: Array<MapData, u64>,
    pub events: RingBuf<MapData>,
}

/// A loaded program and the link by which it runs.
pub(super) struct Loaded {
    pub program: Program,
    pub fd: OwnedFd,
    /// None only after [`detach`](Loaded::detach).
    link: Option<OwnedFd>,
}

impl Loaded {
    /// Whether the kernel still runs it.
    pub fn is_attached(&self) -> bool {
        let Some(link) = &self.link else { return false };
        match (bpf::linked_program(link.as_fd()), bpf::program_id(self.fd.as_fd())) {
            (Ok(linked), Ok(own)) => linked == own,
            (Err(_), _) | (_, Err(_)) => false,
        }
    }

    /// Takes it off its tracepoint.
    #[cfg(feature = "faults")]
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// Puts it back.
    #[cfg(feature = "faults")]
    pub fn attach(&mut self) -> Result<(), AuditError> {
        let attach = |source| AuditError::Attach { program: self.program, source };
        self.link = Some(bpf::attach_tracing_program(self.fd.as_fd()).map_err(attach)?);
        Ok(())
    }
}

/// Refuses where our process ids, or those of our children, are not those that the kernel side sees.
pub(super) fn check_pid_namespace() -> Result<(), AuditError> {
    const OWN: &str = "/proc/self/ns/pid";
    const OF_CHILDREN: &str = "/proc/self/ns/pid_for_children";
    let inode = |path| match fs::metadata(path) {
        Ok(meta) => Ok(Some(meta.ino())),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(AuditError::Namespace { path, source }),
    };
    match (inode(OWN)?, inode(OF_CHILDREN)?) {
        (Some(INITIAL_PID_NAMESPACE), Some(INITIAL_PID_NAMESPACE)) => Ok(()),
        (None, _) => {
            Err(AuditError::Namespace { path: OWN, source: io::Error::from(io::ErrorKind::NotFound) })
        }
        // A namespace for the children that has no process yet has no file either.
        (Some(_), Some(_) | None) => Err(AuditError::PidNamespace),
    }
}

/// The object that is loaded: the embedded one, or in test builds the file that `PROCTOR_BPF_OBJECT` names.
pub(super) fn object_bytes() -> Result<Cow<'static, [u8]>, AuditError> {
    #[cfg(any(debug_assertions, feature = "faults"))]
    if let Some(path) = std::env::var_os("PROCTOR_BPF_OBJECT") {
        let read = fs::read(&path);
        return read.map(Cow::Owned).map_err(|source| AuditError::ObjectFile { path: path.into(), source });
    }
    Ok(Cow::Borrowed(supervisor_ebpf::OBJECT))
}

/// Loads everything and attaches it. `size` gives a map of this name another number of entries (bytes, of the ring buffer).
pub(super) fn load(
    object: &[u8],
    level: Level,
    size: &dyn Fn(&str) -> Option<u32>,
) -> Result<(Maps, Vec<Loaded>), AuditError> {
    let mut object = Object::parse(object).map_err(unusable)?;
    for (name, map) in &mut object.maps {
        if let Some(entries) = size(name) {
            map.set_max_entries(entries);
        }
    }
    let (made, kernel) = beside(|| look_at_kernel(level), || make_maps(&mut object));
    // A user without rights shall learn that first.
    let mut made = made?;
    let kernel = kernel?;
    make_constants(&mut object, &kernel, &mut made)?;
    relocate(&mut object, &made)?;
    let mut loaded = load_programs(&object, &kernel)?;
    // Attached only once all are loaded, so that a refusal leaves no trace.
    for loaded in &mut loaded {
        let attach = |source| AuditError::Attach { program: loaded.program, source };
        loaded.link = Some(bpf::attach_tracing_program(loaded.fd.as_fd()).map_err(attach)?);
    }
    Ok((take_maps(made)?, loaded))
}

/// Does two things at once: `there` in a thread, or after `here` where no thread can be had.
fn beside<A, B: Send>(there: impl Fn() -> B + Send + Sync, here: impl FnOnce() -> A) -> (A, B) {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, &there);
        let here = here();
        let there = match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => there(),
        };
        (here, there)
    })
}

/// Reads the kernel's type information: some 5 MB, of which a hundred bytes are wanted.
fn look_at_kernel(level: Level) -> Result<Kernel, AuditError> {
    let types =
        fs::read(VMLINUX).map_err(|source| AuditError::NoTypeInformation { path: VMLINUX, source })?;
    let find = || Kernel::find(&Btf::scan(&types, WANTED)?, level);
    find().map_err(|source| AuditError::Kernel { source })
}

fn unusable(error: impl std::error::Error) -> AuditError {
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    AuditError::Object { what: format!("{error}{cause}") }
}

/// A map that was made, with what the object said of it: relocation needs both.
struct Made {
    name: String,
    definition: aya_obj::Map,
    data: MapData,
}

/// Makes all maps but the constants, which need the kernel's BTF first.
fn make_maps(object: &mut Object) -> Result<Vec<Made>, AuditError> {
    let is_constant = |definition: &aya_obj::Map| definition.section_kind() == EbpfSectionKind::Rodata;
    let maps: Vec<_> = object.maps.extract_if(|_, definition| !is_constant(definition)).collect();
    maps.into_iter().map(|(name, definition)| make_map(name, definition)).collect()
}

fn make_map(name: String, definition: aya_obj::Map) -> Result<Made, AuditError> {
    match MapData::create(definition.clone(), &name, None) {
        Ok(data) => Ok(Made { name, definition, data }),
        Err(MapError::CreateError { io_error, .. })
            if io_error.raw_os_error() == Some(Errno::EPERM as i32) =>
        {
            Err(AuditError::NotPermitted { object: "a map", source: io_error })
        }
        Err(source) => Err(AuditError::Map { map: known(&name), source: Box::new(source) }),
    }
}

/// The name as a constant, for error messages that outlive the object.
fn known(name: &str) -> &'static str {
    ["CLASSES", "PROCESSES", "EXECUTORS", "RUNS", "GLOBALS", "EVENTS"]
        .into_iter()
        .find(|known| *known == name)
        .unwrap_or("of constants")
}

/// Writes offsets and settings into the object's constants, makes their map and freezes it.
fn make_constants(object: &mut Object, kernel: &Kernel, made: &mut Vec<Made>) -> Result<(), AuditError> {
    let globals: Vec<_> = kernel.globals.iter().map(|(name, value)| (*name, value.to_ne_bytes())).collect();
    let patches = globals.iter().map(|(name, value)| (*name, (value.as_slice(), true))).collect();
    object.patch_map_data(patches).map_err(unusable)?;
    for (name, definition) in object.maps.drain() {
        let constants = make_map(name, definition)?;
        bpf::freeze_array(constants.data.fd().as_fd(), constants.definition.data())
            .map_err(|source| AuditError::Constants { source })?;
        made.push(constants);
    }
    Ok(())
}

/// Puts the maps' fds into the code, and the called functions behind it.
fn relocate(object: &mut Object, made: &[Made]) -> Result<(), AuditError> {
    let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    let maps = made.iter().map(|map| (map.name.as_str(), map.data.fd().as_fd().as_raw_fd(), &map.definition));
    object.relocate_maps(maps, &text).map_err(unusable)?;
    object.relocate_calls(&text).map_err(unusable)
}

/// Loads all programs at once: the verifier is most of the cost of a start, and works on each in the thread that asks for it.
fn load_programs(object: &Object, kernel: &Kernel) -> Result<Vec<Loaded>, AuditError> {
    thread::scope(|scope| {
        let load = |program, attach_to| load_program(object, program, attach_to);
        let start = |&(program, attach_to): &(Program, TypeId)| {
            // Where no thread can be had, this one does it.
            let thread = thread::Builder::new().spawn_scoped(scope, move || load(program, attach_to));
            (program, attach_to, thread)
        };
        let started: Vec<_> = kernel.tracepoints.iter().map(start).collect();
        started
            .into_iter()
            .map(|(program, attach_to, thread)| {
                let loaded = match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    Err(_) => load(program, attach_to),
                };
                Ok(Loaded { program, fd: loaded?, link: None })
            })
            .collect()
    })
}

fn load_program(object: &Object, program: Program, attach_to: TypeId) -> Result<OwnedFd, AuditError> {
    let name = program.name();
    let missing = || AuditError::Object { what: format!("it has no program {name}") };
    let code = object.programs.get(name).ok_or_else(missing)?;
    let function = object.functions.get(&code.function_key()).ok_or_else(missing)?;
    let instructions: Vec<_> = function.instructions.iter().map(instruction).collect();
    let code = TracingProgram {
        name,
        instructions: &instructions,
        license: &code.license,
        attach_to: attach_to.get(),
    };
    bpf::load_tracing_program(&code, None).map_err(|source| refusal(program, &code, source))
}

fn instruction(from: &bpf_insn) -> Instruction {
    Instruction {
        code: from.code,
        registers: from.dst_reg() | from.src_reg() << 4,
        offset: from.off,
        immediate: from.imm,
    }
}

/// Finds out why a program was not loaded.
fn refusal(program: Program, code: &TracingProgram<'_>, source: SysError) -> AuditError {
    if source.errno == Errno::EPERM {
        let lockdown = fs::read_to_string(LOCKDOWN).unwrap_or_default();
        return if lockdown.contains("[confidentiality]") {
            AuditError::Lockdown { source }
        } else {
            AuditError::NotPermitted { object: "a program", source: io::Error::from(source.errno) }
        };
    }
    // Once more, for the log: writing it is slow, so the first try does without.
    let mut log = vec![0; LOG_BYTES];
    let _again = bpf::load_tracing_program(code, Some(&mut log));
    AuditError::Refused { program, log: log_tail(&log), source }
}

/// The last lines of the verifier's log, on one line: the complaint stands just before the statistics.
fn log_tail(log: &[u8]) -> String {
    const LINES: usize = 4;
    const CHARS: usize = 400;
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(log.get(..end).unwrap_or_default());
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| {
            !line.is_empty() && !line.starts_with("processed ") && !line.starts_with("verification time")
        })
        .collect();
    let tail = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join(" | ");
    let skip = tail.chars().count().saturating_sub(CHARS);
    tail.chars().skip(skip).filter(|c| !c.is_control()).collect()
}

fn take_maps(made: Vec<Made>) -> Result<Maps, AuditError> {
    let mut made = made;
    let mut take = |name: &'static str| {
        let index = made.iter().position(|map| map.name == name);
        let index = index.ok_or_else(|| AuditError::Object { what: format!("it has no map {name}") })?;
        Ok(made.swap_remove(index).data)
    };
    let wrong = |map: &'static str| move |source| AuditError::Map { map, source: Box::new(source) };
    Ok(Maps {
        classes: HashMap::try_from(Map::HashMap(take("CLASSES")?)).map_err(wrong("CLASSES"))?,
        processes: HashMap::try_from(Map::HashMap(take("PROCESSES")?)).map_err(wrong("PROCESSES"))?,
        executors: HashMap::try_from(Map::HashMap(take("EXECUTORS")?)).map_err(wrong("EXECUTORS"))?,
        runs: HashMap::try_from(Map::HashMap(take("RUNS")?)).map_err(wrong("RUNS"))?,
        globals: Array::try_from(Map::Array(take("GLOBALS")?)).map_err(wrong("GLOBALS"))?,
        events: RingBuf::try_from(Map::RingBuf(take("EVENTS")?)).map_err(wrong("EVENTS"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_cut_to_its_end() {
        let log = b"0: R1=ctx()\n1: (85) call\nR2 pointer |= pointer prohibited\nprocessed 9 insns (limit 1000000)\n\0rest";
        assert_eq!(log_tail(log), "0: R1=ctx() | 1: (85) call | R2 pointer |= pointer prohibited");
        assert_eq!(log_tail(b""), "");
        let long = [b'x'; 5000];
        assert_eq!(log_tail(&long).len(), 400);
    }

    #[test]
    fn rubbish_is_no_object() {
        let error = load(b"not an object", Level::Anomalies, &|_| None).map(|_| ()).unwrap_err();
        assert!(matches!(error, AuditError::Object { .. }), "{error:?}");
    }
}
