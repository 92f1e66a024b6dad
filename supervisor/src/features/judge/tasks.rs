//! What no task can run without.

use nix::errno::Errno;

use super::super::observed::{Observed, Proc, Tried};
use super::{Said, refusal_advice, tried};
use crate::sys::SysError;

pub(super) fn proc(seen: &Observed) -> Said {
    const MOUNT: &str = "mount it: mount -t proc proc /proc";
    match &seen.proc {
        Tried::Worked(Proc::Whole) => Said::ok("all processes can be seen"),
        Tried::Worked(Proc::Hidden(hidepid)) => {
            let by = hidepid.as_deref().map_or(String::new(), |value| format!(" (hidepid={value})"));
            Said::degraded(
                format!("processes of others are hidden{by}"),
                "run as root, or mount /proc without hidepid",
            )
        }
        Tried::Worked(Proc::Foreign) => Said::missing(
            "/proc shows another pid namespace: its numbers mean other processes than ours",
            "mount the right one: mount -t proc proc /proc (unshare: --mount-proc)",
        ),
        Tried::Refused(error) => Said::missing(format!("/proc/self/stat: {error}"), MOUNT),
        Tried::Wrong(what) => Said::missing(what, MOUNT),
        Tried::NotTried(why) => Said::unknown(why),
    }
}

pub(super) fn mount(seen: &Observed) -> Said {
    match &seen.hierarchy {
        Ok(found) => {
            let options = if found.nsdelegate { ", nsdelegate" } else { "" };
            let place = format!("{}, our cgroup is {}{options}", found.mount_point, found.own);
            if found.read_only {
                Said::degraded(
                    format!("{place}; mounted read-only"),
                    format!("mount -o remount,bind,rw {}", found.mount_point),
                )
            } else {
                Said::ok(place)
            }
        }
        Err(missing) => Said::missing(&missing.reason, missing.advice),
    }
}

pub(super) fn write(seen: &Observed) -> Said {
    match (&seen.cgroup.made, &seen.cgroup.left_behind) {
        (Tried::Worked(()), None) => Said::ok("a private cgroup was made and removed"),
        (Tried::Worked(()), Some(left)) => Said::degraded(
            format!("a private cgroup was made but not removed: {left}"),
            "remove it with rmdir, and report it",
        ),
        (Tried::Refused(error), _) => Said::missing(
            format!("cannot make a cgroup below {}: {error}", own_place(seen)),
            make_advice(error, seen),
        ),
        (other, _) => tried(other, "Linux 5.14", ""),
    }
}

fn make_advice(error: &SysError, seen: &Observed) -> String {
    let mount_point = || seen.hierarchy.as_ref().map_or("", |found| &found.mount_point);
    match error.errno {
        Errno::EROFS => format!("make it writable: mount -o remount,bind,rw {}", mount_point()),
        Errno::EACCES | Errno::EPERM => {
            "run as root, or in a cgroup that is delegated to this user (systemd: Delegate=yes)".to_owned()
        }
        Errno::EAGAIN => {
            "raise cgroup.max.descendants or cgroup.max.depth of our cgroup or one above".to_owned()
        }
        Errno::EEXIST => "remove what earlier runs left there: rmdir proctor-doctor.*".to_owned(),
        _ => refusal_advice(error, "Linux 5.14"),
    }
}

fn own_place(seen: &Observed) -> String {
    match &seen.hierarchy {
        Ok(found) => format!("{} (cgroup2 at {})", found.own, found.mount_point),
        Err(_) => "our own".to_owned(),
    }
}

pub(super) fn kill(seen: &Observed) -> Said {
    tried(&seen.cgroup.kill, "Linux 5.14", "a child in a private cgroup was killed by it")
}

pub(super) fn birth(seen: &Observed) -> Said {
    match &seen.cgroup.birth {
        Tried::Refused(error) => Said::missing(error.to_string(), birth_advice(error)),
        other => tried(other, "Linux 5.7", "a child was born in a private cgroup"),
    }
}

fn birth_advice(error: &SysError) -> String {
    match error.errno {
        Errno::EBUSY => {
            "start proctor from a cgroup that hands down no domain controllers to its children".to_owned()
        }
        Errno::EOPNOTSUPP => {
            "start proctor from a cgroup of type domain: the type of ours does not let it hold processes"
                .to_owned()
        }
        Errno::EACCES => {
            "run as root, or move proctor into the delegated cgroup first: whoever starts a process in a \
             cgroup must be allowed to write cgroup.procs of the nearest cgroup that it shares with it"
                .to_owned()
        }
        _ => refusal_advice(error, "Linux 5.7"),
    }
}
