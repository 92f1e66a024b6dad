//! Why there is no audit.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use aya::maps::MapError;

use super::btf::BtfError;
use super::program::Program;
use crate::cgroup::CgroupId;
use crate::sys::SysError;

/// The audit could not be started or used. Tasks run all the same: what it costs is the proof, as every claim is unproven then.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// Our process ids are not the kernel's.
    #[error("proctor runs in a pid namespace, where process ids are not those that the audit counts by")]
    PidNamespace,
    /// It is not known which pid namespace we are in.
    #[error("cannot read `{path}`")]
    Namespace {
        /// The file.
        path: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No rights.
    #[error("the kernel does not let this user load eBPF ({object})")]
    NotPermitted {
        /// What was to be made.
        object: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Kernel lockdown.
    #[error("kernel lockdown (confidentiality) forbids eBPF that reads kernel memory")]
    Lockdown {
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// The kernel does not describe its types.
    #[error("cannot read the kernel's type information `{path}`")]
    NoTypeInformation {
        /// The file.
        path: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A field or a tracepoint is missing.
    #[error("this kernel cannot be audited")]
    Kernel {
        /// Which.
        #[source]
        source: BtfError,
    },
    /// The object given by `PROCTOR_BPF_OBJECT` cannot be read.
    #[error("cannot read the eBPF object `{}`", path.display())]
    ObjectFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The object is no object of ours.
    #[error("the eBPF object is not what proctor needs: {what}")]
    Object {
        /// What is wrong.
        what: String,
    },
    /// A map could not be made or used.
    #[error("cannot use the audit's map {map}")]
    Map {
        /// Its name.
        map: &'static str,
        /// What went wrong.
        #[source]
        source: Box<MapError>,
    },
    /// The globals could not be frozen.
    #[error("cannot set the constants of the audit's programs")]
    Constants {
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// The verifier refused a program.
    #[error("the kernel refused the audit's program {program}{}", log_clause(log))]
    Refused {
        /// Which.
        program: Program,
        /// The end of what the verifier said; may be empty.
        log: String,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// A program could not be attached.
    #[error("cannot attach the audit's program {program}")]
    Attach {
        /// Which.
        program: Program,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// The kernel does not tell about a program.
    #[error("cannot ask the kernel about the audit's program {program}")]
    Program {
        /// Which.
        program: Program,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// A root could not be entered into the classes.
    #[error("cannot tell the audit about cgroup {cgroup}")]
    Watch {
        /// Id of the cgroup.
        cgroup: CgroupId,
        /// What went wrong.
        #[source]
        source: Box<MapError>,
    },
}

fn log_clause(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!(" (verifier: {log})") }
}

impl AuditError {
    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::PidNamespace => "run proctor on the host, or go without proof by --no-audit",
            Self::Namespace { .. } => "mount /proc",
            Self::NotPermitted { .. } => "run proctor as root, or give it CAP_BPF and CAP_PERFMON",
            Self::Lockdown { .. } => "boot with lockdown=integrity or without lockdown",
            Self::NoTypeInformation { .. } => "use a kernel built with CONFIG_DEBUG_INFO_BTF and mount /sys",
            Self::Kernel { .. } | Self::Refused { .. } => {
                "use one of the kernels that docs/kernel.md lists, and report this one"
            }
            Self::ObjectFile { .. } | Self::Object { .. } => "rebuild the object by `cargo xtask ebpf`",
            Self::Map { .. }
            | Self::Constants { .. }
            | Self::Attach { .. }
            | Self::Program { .. }
            | Self::Watch { .. } => "look at `proctor doctor`, and at the memory that is free to the kernel",
        }
    }

    /// The whole story in one line: what failed, why, what to do.
    pub fn why(&self) -> String {
        let mut line = self.to_string();
        let mut source = self.source();
        while let Some(error) = source {
            line.push_str(": ");
            line.push_str(&error.to_string());
            source = error.source();
        }
        line.push_str("; ");
        line.push_str(self.advice());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    #[test]
    fn a_reason_is_one_line_with_cause_and_advice() {
        let source = SysError::new("bpf(BPF_PROG_LOAD)", Errno::EACCES);
        let error = AuditError::Refused { program: Program::MarkVictim, log: "R1 invalid".into(), source };
        assert_eq!(
            error.why(),
            "the kernel refused the audit's program mark_victim (verifier: R1 invalid): bpf(BPF_PROG_LOAD): \
             EACCES: Permission denied; use one of the kernels that docs/kernel.md lists, and report this one"
        );
    }
}
