//! What the programs must know about the running kernel, and where its BTF says so.
//!
//! Each value goes into a global of the object that is frozen before the verifier sees it. A kernel without one of the fields gives a
//! reason with the field's name, and the audit is off.

use supervisor_ebpf::abi::level;

use super::btf::{Btf, BtfError, TypeId, Wanted};
use super::program::Program;

/// One offset.
struct Field {
    /// Global of the object.
    global: &'static str,
    /// Kernel struct.
    structure: &'static str,
    /// Dotted path of the field.
    path: &'static str,
    /// What it is called in older kernels.
    older: Option<&'static str>,
}

const fn field(global: &'static str, structure: &'static str, path: &'static str) -> Field {
    Field { global, structure, path, older: None }
}

/// Every `OFF_*` global of `supervisor-ebpf/programs/src/fields.rs`.
const FIELDS: [Field; 22] = [
    field("OFF_TASK_PID", "task_struct", "pid"),
    field("OFF_TASK_TGID", "task_struct", "tgid"),
    field("OFF_TASK_LEADER", "task_struct", "group_leader"),
    field("OFF_TASK_PARENT", "task_struct", "real_parent"),
    field("OFF_TASK_START", "task_struct", "start_boottime"),
    field("OFF_TASK_CGROUPS", "task_struct", "cgroups"),
    field("OFF_TASK_SIGNAL", "task_struct", "signal"),
    // Renamed in Linux 5.14.
    Field { older: Some("state"), ..field("OFF_TASK_STATE", "task_struct", "__state") },
    field("OFF_TASK_EXIT_CODE", "task_struct", "exit_code"),
    field("OFF_TASK_COMM", "task_struct", "comm"),
    field("OFF_SIGNAL_LIVE", "signal_struct", "live"),
    field("OFF_SIGNAL_THREADS", "signal_struct", "nr_threads"),
    field("OFF_SIGNAL_FLAGS", "signal_struct", "flags"),
    field("OFF_SIGNAL_CODE", "signal_struct", "group_exit_code"),
    field("OFF_CSET_CGRP", "css_set", "dfl_cgrp"),
    field("OFF_CGRP_KN", "cgroup", "kn"),
    field("OFF_CGRP_ROOT", "cgroup", "root"),
    field("OFF_CGRP_PARENT_CSS", "cgroup", "self.parent"),
    field("OFF_CSS_CGROUP", "cgroup_subsys_state", "cgroup"),
    field("OFF_KN_ID", "kernfs_node", "id"),
    field("OFF_ROOT_HID", "cgroup_root", "hierarchy_id"),
    field("OFF_INFO_CODE", "kernel_siginfo", "si_code"),
];

const STRUCTS: [&str; 8] = [
    "task_struct",
    "signal_struct",
    "css_set",
    "cgroup",
    "cgroup_subsys_state",
    "kernfs_node",
    "cgroup_root",
    "kernel_siginfo",
];

const fn tracepoints() -> [&'static str; Program::ALL.len()] {
    let mut names = [""; Program::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Program::ALL[index].name();
        index += 1;
    }
    names
}

const TRACEPOINTS: [&str; Program::ALL.len()] = tracepoints();

/// What to look for in one pass over the kernel's BTF.
pub const WANTED: Wanted<'static> = Wanted { structs: &STRUCTS, tracepoints: &TRACEPOINTS };

/// Which events go to the ring buffer. The counters, and so the verdicts, do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Level {
    /// What breaks a claim, and OOM victims.
    #[default]
    Anomalies,
    /// And every move.
    Movements,
    /// And births and exits.
    Births,
}

impl Level {
    fn number(self) -> u64 {
        match self {
            Self::Anomalies => level::ANOMALIES,
            Self::Movements => level::MOVEMENTS,
            Self::Births => level::BIRTHS,
        }
    }
}

/// What a load must know about the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Names and values of all globals of the object.
    pub globals: Vec<(&'static str, u64)>,
    /// The types to attach the programs to.
    pub tracepoints: Vec<(Program, TypeId)>,
}

impl Kernel {
    /// Takes it from the kernel's BTF.
    ///
    /// # Errors
    /// The first field or tracepoint that this kernel does not have.
    pub fn find(btf: &Btf<'_>, level: Level) -> Result<Self, BtfError> {
        let mut globals = Vec::with_capacity(FIELDS.len() + 2);
        for field in &FIELDS {
            globals.push((field.global, offset(btf, field)?));
        }
        let victim = btf.arguments(Program::MarkVictim.name())?;
        let is_task = victim.first().is_some_and(|first| first == "task_struct");
        globals.push(("VICTIM_IS_TASK", u64::from(is_task)));
        globals.push(("EVENT_LEVEL", level.number()));
        let attach = |program: Program| Ok((program, btf.tracepoint(program.name())?));
        Ok(Self { globals, tracepoints: Program::ALL.into_iter().map(attach).collect::<Result<_, _>>()? })
    }
}

fn offset(btf: &Btf<'_>, field: &Field) -> Result<u64, BtfError> {
    btf.offset(field.structure, field.path).or_else(|newest| {
        let older = field.older.and_then(|older| btf.offset(field.structure, older).ok());
        older.ok_or(newest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_struct_is_wanted_and_every_wanted_one_used() {
        for field in &FIELDS {
            assert!(STRUCTS.contains(&field.structure), "{}", field.structure);
        }
        for structure in STRUCTS {
            assert!(FIELDS.iter().any(|field| field.structure == structure), "{structure}");
        }
    }

    /// The names of all globals stand in the programs' source, and each must be set: one that is not would be 0.
    #[test]
    fn every_global_of_the_programs_is_set() {
        let source = include_str!("../../../supervisor-ebpf/programs/src/fields.rs");
        let (_, list) = source.split_once("\nglobals! {").unwrap();
        let (list, _) = list.split_once('}').unwrap();
        let mut theirs: Vec<&str> = list.split([',', '\n', ' ']).filter(|name| !name.is_empty()).collect();
        let mut ours: Vec<&str> = FIELDS.iter().map(|field| field.global).collect();
        ours.extend(["VICTIM_IS_TASK", "EVENT_LEVEL"]);
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn a_kernel_without_a_field_is_told_which() {
        let empty = [0x9f, 0xeb, 1, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        let btf = Btf::scan(&empty, WANTED).unwrap();
        let error = Kernel::find(&btf, Level::Anomalies).unwrap_err();
        assert_eq!(error.to_string(), "this kernel has no field `pid` in `struct task_struct`");
    }
}
