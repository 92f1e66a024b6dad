//! What something smaller is lost without.

use super::super::controllers::{Place, places};
use super::super::observed::{Birth, ExitKept, Observed, Tried};
use super::{Said, tried};
use crate::cgroup::Layout;

/// The first kernel with everything that tasks need.
const LOWEST: (u32, u32) = (5, 14);

pub(super) fn release(seen: &Observed) -> Said {
    match &seen.release {
        Tried::Worked(release) => match version(release) {
            Some(version) if version >= LOWEST => Said::ok(release),
            Some(_) => Said::degraded(
                format!("{release} is older than {}.{}", LOWEST.0, LOWEST.1),
                "use a newer kernel, unless the lines of this report are ok by patches of the distribution",
            ),
            None => Said::known(format!("`{release}` has no version in it")),
        },
        other => tried(other, "Linux", ""),
    }
}

/// Major and minor version at the beginning of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

pub(super) fn user(seen: &Observed) -> Said {
    let user = &seen.user;
    let mut detail = if user.id == 0 { "root".to_owned() } else { format!("uid {}", user.id) };
    if !user.first_namespace {
        detail.push_str(" of another user namespace than the host's");
    }
    if !user.lacks.is_empty() {
        detail.push_str(&format!(", without {}", user.lacks.join(", ")));
    }
    if user.id == 0 && user.lacks.is_empty() && user.first_namespace {
        return Said::ok(detail);
    }
    let advice =
        if user.id == 0 { "give it what it lacks if tasks need it (capabilities(7))" } else { "run as root" };
    Said::degraded(detail, advice)
}

pub(super) fn hierarchies(seen: &Observed) -> Said {
    let Ok(found) = &seen.hierarchy else { return Said::unknown("needs a cgroup2 mount") };
    match &found.layout {
        Layout::Unified => Said::ok("unified: cgroup v2 alone"),
        Layout::Hybrid { v1_controllers } if v1_controllers.is_empty() => {
            Said::ok("hybrid: v1 beside v2, without controllers")
        }
        Layout::Hybrid { v1_controllers } => {
            let names: Vec<_> = v1_controllers.iter().map(|controller| controller.as_str()).collect();
            let advice = "boot with systemd.unified_cgroup_hierarchy=1 if tasks need limits";
            Said::degraded(format!("hybrid: v1 holds {}", names.join(", ")), advice)
        }
    }
}

pub(super) fn controllers(seen: &Observed) -> Said {
    let Ok(found) = &seen.hierarchy else { return Said::unknown("needs a cgroup2 mount") };
    let places = places(found);
    let list = |(place, names): &(Place, Vec<&str>)| format!("{}: {}", place.words(), names.join(", "));
    let detail = places.iter().map(list).collect::<Vec<_>>().join("; ");
    let advice = places.iter().filter_map(|(place, _)| place.advice()).collect::<Vec<_>>().join("; ");
    let usable = places.iter().any(|(place, _)| *place == Place::Usable);
    match (usable, advice.is_empty()) {
        (_, true) => Said::ok(detail),
        (true, false) => Said::degraded(detail, advice),
        (false, false) => Said::missing(detail, advice),
    }
}

pub(super) fn birth_after_kill(seen: &Observed) -> Said {
    match &seen.cgroup.birth_after_kill {
        Tried::Worked(Birth::Healthy) => Said::ok("a cgroup that was killed takes new processes"),
        Tried::Worked(Birth::KilledAtBirth) => Said::known(
            "affected: this kernel kills whatever is cloned into a cgroup that was ever killed; proctor works \
             around it",
        ),
        other => tried(other, "Linux 5.14", ""),
    }
}

pub(super) fn pidfd_info(seen: &Observed) -> Said {
    match &seen.pidfd.info {
        Tried::Worked(ExitKept::Kept) => Said::ok("with exit status after the reaping"),
        Tried::Worked(ExitKept::Lost) => {
            Said::degraded("without exit status", "use Linux 6.15 or later if that matters")
        }
        other => tried(other, "Linux 6.13", ""),
    }
}

pub(super) fn pid_namespace(seen: &Observed) -> Said {
    match &seen.first_pid_namespace {
        Tried::Worked(true) => Said::ok("the host's"),
        Tried::Worked(false) => {
            Said::degraded("not the host's", "run proctor in the host's pid namespace if that matters")
        }
        other => tried(other, "Linux 3.8", ""),
    }
}

pub(super) fn bpffs(seen: &Observed) -> Said {
    match &seen.bpffs {
        Tried::Worked(Some(point)) => Said::ok(format!("mounted at {point}")),
        Tried::Worked(None) => Said::missing("not mounted", "mount -t bpf bpf /sys/fs/bpf"),
        other => tried(other, "Linux 4.4", ""),
    }
}

pub(super) fn pressure(seen: &Observed) -> Said {
    match &seen.pressure {
        Tried::Refused(error) => Said::missing(
            format!("/proc/pressure/memory: {error}"),
            "boot with psi=1, on a kernel that is built with CONFIG_PSI=y",
        ),
        other => tried(other, "Linux 4.20", "/proc/pressure can be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_distributions_are_understood() {
        assert_eq!(version("6.18.44-cloud-amd64"), Some((6, 18)));
        assert_eq!(version("5.14.0-570.el9.x86_64"), Some((5, 14)));
        assert_eq!(version("7.0-rc1"), Some((7, 0)));
        assert_eq!(version("6"), None);
        assert_eq!(version("linux"), None);
    }
}
