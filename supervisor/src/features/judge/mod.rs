//! Makes findings of what was seen. Pure: every line of the report can be tested without a kernel that lacks it.

mod audit;
mod comfort;
mod tasks;
#[cfg(test)]
pub(super) mod tests;

use nix::errno::Errno;

use super::observed::{Observed, Tried};
use super::{Feature, Finding, Report, State};
use crate::sys::SysError;

/// Judges what was seen.
pub fn judge(seen: &Observed) -> Report {
    let kernel = match &seen.release {
        Tried::Worked(release) => release.clone(),
        Tried::Refused(_) | Tried::Wrong(_) | Tried::NotTried(_) => "unknown".to_owned(),
    };
    Report { kernel, findings: Feature::ALL.into_iter().map(|feature| finding(feature, seen)).collect() }
}

fn finding(feature: Feature, seen: &Observed) -> Finding {
    let said = match feature {
        Feature::Proc => tasks::proc(seen),
        Feature::Cgroup2Mount => tasks::mount(seen),
        Feature::CgroupWrite => tasks::write(seen),
        Feature::CgroupKill => tasks::kill(seen),
        Feature::CloneIntoCgroup => tasks::birth(seen),
        Feature::ClonePidfd => tried(&seen.pidfd.clone, "Linux 5.3", "a child was cloned with a pidfd"),
        Feature::PidfdSignal => {
            tried(&seen.pidfd.signal, "Linux 5.1", "a child was signalled through its pidfd")
        }
        Feature::PidfdWait => tried(&seen.pidfd.wait, "Linux 5.4", "a child was reaped through its pidfd"),
        Feature::CloseRange => tried(&seen.close_range, "Linux 5.11", "works, with close-on-exec"),
        Feature::Openat2 => tried(&seen.openat2, "Linux 5.6", "works"),
        Feature::KernelBtf => audit::btf(seen),
        Feature::BpfRights => audit::rights(seen),
        Feature::AuditPrograms => audit::programs(seen),
        Feature::KernelRelease => comfort::release(seen),
        Feature::User => comfort::user(seen),
        Feature::Hierarchies => comfort::hierarchies(seen),
        Feature::Controllers => comfort::controllers(seen),
        Feature::CgroupFreeze => {
            tried(&seen.cgroup.freeze, "Linux 5.2", "a private cgroup was frozen and thawed")
        }
        Feature::BirthAfterKill => comfort::birth_after_kill(seen),
        Feature::PidfdInfo => comfort::pidfd_info(seen),
        Feature::PidNamespace => comfort::pid_namespace(seen),
        Feature::Bpffs => comfort::bpffs(seen),
        Feature::Pressure => comfort::pressure(seen),
    };
    let Said { state, detail, advice } = said;
    Finding { feature, state, detail, advice }
}

/// A finding without its feature.
struct Said {
    state: State,
    detail: String,
    advice: Option<String>,
}

impl Said {
    fn ok(detail: impl Into<String>) -> Self {
        Self { state: State::Ok, detail: detail.into(), advice: None }
    }

    fn degraded(detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: State::Degraded, detail: detail.into(), advice: Some(advice.into()) }
    }

    /// Degraded, and there is nothing to do about it.
    fn known(detail: impl Into<String>) -> Self {
        Self { state: State::Degraded, detail: detail.into(), advice: None }
    }

    fn missing(detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: State::Missing, detail: detail.into(), advice: Some(advice.into()) }
    }

    fn unknown(why: &str) -> Self {
        let detail = format!("not tried: {why}");
        Self { state: State::Unknown, detail, advice: Some("mend what it needs first".to_owned()) }
    }
}

/// The finding of an attempt that either works or does not. `since` is the kernel that brought it.
fn tried<T>(tried: &Tried<T>, since: &str, works: &str) -> Said {
    match tried {
        Tried::Worked(_) => Said::ok(works),
        Tried::Refused(error) => Said::missing(error.to_string(), refusal_advice(error, since)),
        Tried::Wrong(what) => Said::missing(what, REPORT_IT),
        Tried::NotTried(why) => Said::unknown(why),
    }
}

const REPORT_IT: &str = "report it, with the output of `proctor doctor --json`";

/// What to do about a refused call that has no advice of its own.
fn refusal_advice(error: &SysError, since: &str) -> String {
    match error.errno {
        Errno::ENOSYS | Errno::ENOTTY | Errno::E2BIG | Errno::EINVAL | Errno::ENOENT => {
            format!("use {since} or later; if it is, a seccomp filter hides the call: run outside of it")
        }
        Errno::EPERM | Errno::EACCES => {
            "run as root, outside of seccomp filters and security modules that forbid it".to_owned()
        }
        Errno::EAGAIN => "raise the limit of processes (ulimit -u, pids.max)".to_owned(),
        Errno::EMFILE | Errno::ENFILE => "raise the limit of open files (ulimit -n)".to_owned(),
        Errno::ETIMEDOUT => "try again when the machine is less busy".to_owned(),
        _ => REPORT_IT.to_owned(),
    }
}
