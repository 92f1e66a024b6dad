//! What nothing can be proven without.

use nix::errno::Errno;

use super::super::observed::{AuditTried, Observed, Tried};
use super::{REPORT_IT, Said, refusal_advice, tried};
use crate::sys::SysError;

pub(super) fn btf(seen: &Observed) -> Said {
    match &seen.btf {
        Tried::Worked(size) => Said::ok(format!("/sys/kernel/btf/vmlinux, {} KiB", size / 1024)),
        Tried::Refused(error) => Said::missing(
            format!("/sys/kernel/btf/vmlinux: {error}"),
            "mount sysfs at /sys; use a kernel that is built with CONFIG_DEBUG_INFO_BTF=y",
        ),
        other => tried(other, "Linux 5.4", ""),
    }
}

pub(super) fn rights(seen: &Observed) -> Said {
    match &seen.bpf {
        Tried::Refused(error) => {
            let lacks: Vec<_> = seen.user.lacks.iter().copied().filter(|name| BPF.contains(name)).collect();
            let because = match (lacks.is_empty(), seen.user.first_namespace) {
                (false, _) => format!(" (we lack {})", lacks.join(" and ")),
                (true, false) => " (capabilities of another user namespace do not count)".to_owned(),
                (true, true) => String::new(),
            };
            Said::missing(format!("{error}{because}"), rights_advice(error))
        }
        other => tried(other, "Linux 5.8", "a ring buffer and a small tracing program were made"),
    }
}

/// What the audit's programs need since Linux 5.8; CAP_SYS_ADMIN has both in it.
const BPF: [&str; 2] = ["CAP_BPF", "CAP_PERFMON"];

fn rights_advice(error: &SysError) -> String {
    match error.errno {
        Errno::EPERM | Errno::EACCES => {
            "run as root of the host, or with CAP_BPF and CAP_PERFMON; if we have them, kernel lockdown, a \
             security module or a seccomp filter forbids BPF"
                .to_owned()
        }
        Errno::ENOMEM => "raise the limit of locked memory (ulimit -l)".to_owned(),
        _ => refusal_advice(error, "Linux 5.8, built with CONFIG_BPF_SYSCALL=y,"),
    }
}

pub(super) fn programs(seen: &Observed) -> Said {
    match &seen.audit {
        AuditTried::Loaded => Said::ok("they load and attach"),
        AuditTried::Failed(reason) if seen.btf.worked().is_none() || seen.bpf.worked().is_none() => {
            Said::missing(reason, "mend kernel-btf and bpf-rights first")
        }
        AuditTried::Failed(reason) => Said::missing(reason, REPORT_IT),
        AuditTried::NotTried => Said {
            advice: Some("use a build of proctor with the audit in it".to_owned()),
            ..Said::unknown("this build has no audit")
        },
    }
}
