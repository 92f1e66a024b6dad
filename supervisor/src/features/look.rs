//! Looks at everything. I/O only; nothing is judged here.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use nix::errno::Errno;

use super::AuditProbe;
use super::observed::{
    AuditTried, CgroupTrial, Compiled, HierarchyMissing, HierarchySeen, Observed, Proc, Tried, User,
};
use super::trial;
use crate::cgroup::parse::{self, Controller};
use crate::cgroup::{Hierarchy, HierarchyError};
use crate::sys::mount::{FileSystem, is_on, open_place, open_place_below};
use crate::sys::probe::{self, Capability, Namespace};
use crate::sys::{Result, SysError};

/// Tries everything once.
pub fn look(audit: Option<AuditProbe>) -> Observed {
    let found = Hierarchy::find();
    let cgroup = match &found {
        Ok(hierarchy) => trial::cgroup(hierarchy),
        Err(_) => CgroupTrial::not_tried("needs a cgroup2 mount"),
    };
    Observed {
        release: probe::kernel_release().into(),
        user: user(),
        proc: proc().into(),
        first_pid_namespace: probe::is_initial(Namespace::Pid).into(),
        hierarchy: found
            .map(|hierarchy| hierarchy_seen(&hierarchy))
            .map_err(|error| hierarchy_missing(&error)),
        cgroup,
        pidfd: trial::pidfd(),
        close_range: probe::close_no_range().into(),
        openat2: open_place(Path::new("/"))
            .and_then(|root| open_place_below(root.as_fd(), Path::new("")))
            .map(drop)
            .into(),
        btf: btf().into(),
        bpf: probe::create_ring_buffer().and_then(|_map| probe::load_program()).map(drop).into(),
        audit: match audit.map(|load| load()) {
            Some(Ok(())) => AuditTried::Loaded,
            Some(Err(reason)) => AuditTried::Failed(reason),
            None => AuditTried::NotTried,
        },
        bpffs: bpffs().into(),
        pressure: read("/proc/pressure/memory").map(drop).into(),
    }
}

fn read(file: &str) -> Result<Vec<u8>> {
    SysError::from_io("read", std::fs::read(file))
}

fn unclear(call: &'static str) -> SysError {
    SysError::new(call, Errno::EBADMSG)
}

fn user() -> User {
    const WANTED: [(Capability, &str); 7] = [
        (Capability::DacOverride, "CAP_DAC_OVERRIDE"),
        (Capability::Kill, "CAP_KILL"),
        (Capability::Setgid, "CAP_SETGID"),
        (Capability::Setuid, "CAP_SETUID"),
        (Capability::SysResource, "CAP_SYS_RESOURCE"),
        (Capability::Perfmon, "CAP_PERFMON"),
        (Capability::Bpf, "CAP_BPF"),
    ];
    let status = read("/proc/self/status").unwrap_or_default();
    let set = probe::capabilities(&String::from_utf8_lossy(&status)).unwrap_or(0);
    let has = |capability: Capability| set & (1 << capability as u32) != 0;
    let stands_for = |capability| match capability {
        Capability::Perfmon | Capability::Bpf => has(Capability::SysAdmin),
        _ => false,
    };
    let lacks =
        WANTED.into_iter().filter(|(wanted, _)| !has(*wanted) && !stands_for(*wanted)).map(|(_, name)| name);
    User {
        id: probe::user_id(),
        lacks: lacks.collect(),
        // Without /proc nobody knows; the line of /proc says so.
        first_namespace: probe::is_initial(Namespace::User).unwrap_or(true),
    }
}

fn proc() -> Result<Proc> {
    let own = parse::stat(&read("/proc/self/stat")?).map_err(|_| unclear("read of /proc/self/stat"))?;
    if u32::try_from(own.pid) != Ok(std::process::id()) {
        return Ok(Proc::Foreign);
    }
    // There is a process 1 in every pid namespace, and without hidepid everybody may look at it.
    Ok(match read("/proc/1/stat") {
        Ok(_) => Proc::Whole,
        Err(_) => Proc::Hidden(hidepid()),
    })
}

fn hidepid() -> Option<String> {
    let mounts = parse::mounts(&read("/proc/self/mountinfo").ok()?, "proc").ok()?;
    let own = mounts.into_iter().rev().find(|mount| mount.point == Path::new("/proc"))?;
    own.fs_option("hidepid")
}

fn hierarchy_seen(hierarchy: &Hierarchy) -> HierarchySeen {
    let own_controllers = match hierarchy.open_own() {
        Ok(own) => controllers(own.as_fd()).into(),
        Err(_) => Tried::NotTried("our own cgroup cannot be opened"),
    };
    HierarchySeen {
        mount_point: hierarchy.mount_point().display().to_string(),
        read_only: hierarchy.is_read_only(),
        nsdelegate: hierarchy.is_nsdelegate(),
        own: hierarchy.own_cgroup().clone(),
        layout: hierarchy.layout().clone(),
        own_controllers,
        top_controllers: controllers(hierarchy.top()).into(),
        compiled: compiled(&read("/proc/cgroups").unwrap_or_default()),
    }
}

fn hierarchy_missing(error: &HierarchyError) -> HierarchyMissing {
    let reason = match std::error::Error::source(error) {
        Some(source) => format!("{}: {source}", error.reason()),
        None => error.reason(),
    };
    HierarchyMissing { reason, advice: error.advice() }
}

fn controllers(dir: BorrowedFd<'_>) -> Result<Vec<Controller>> {
    let file = probe::open_to_read(dir, c"cgroup.controllers")?;
    let text = probe::read_again(file.as_fd())?;
    parse::controllers(&text).map_err(|_| unclear("read of cgroup.controllers"))
}

/// The lines of `/proc/cgroups`: name, hierarchy, number of cgroups, enabled. What cannot be read is left out: the file only serves to
/// explain why a controller is not there, and newer kernels list those of v1 only.
fn compiled(text: &[u8]) -> Vec<Compiled> {
    let line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let name = Controller::new(fields.next()?.as_bytes())?;
        Some(Compiled { name, enabled: fields.nth(2)? == "1" })
    };
    String::from_utf8_lossy(text).lines().filter_map(line).collect()
}

/// The size of the kernel's BTF, which must begin with its magic number.
fn btf() -> Result<u64> {
    const MAGIC: u16 = 0xeb9f;
    const FILE: &str = "/sys/kernel/btf/vmlinux";
    let mut file = SysError::from_io("open", std::fs::File::open(FILE))?;
    let mut magic = [0; 2];
    SysError::from_io("read", file.read_exact(&mut magic))?;
    if u16::from_ne_bytes(magic) != MAGIC {
        return Err(unclear("read of /sys/kernel/btf/vmlinux"));
    }
    Ok(SysError::from_io("fstat", file.metadata())?.len())
}

/// Where a BPF file system is mounted, at its usual place if there are several.
fn bpffs() -> Result<Option<String>> {
    let text = read("/proc/self/mountinfo")?;
    let mut points: Vec<_> = parse::mounts(&text, "bpf")
        .map_err(|_| unclear("read of /proc/self/mountinfo"))?
        .into_iter()
        .map(|mount| mount.point)
        .collect();
    points.sort_by_key(|point| point != Path::new("/sys/fs/bpf"));
    let there = |point: &Path| open_place(point).and_then(|dir| is_on(dir.as_fd(), FileSystem::Bpf));
    // Something else may lie over it.
    Ok(points.into_iter().find(|point| there(point) == Ok(true)).map(|point| point.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_controllers_are_read_and_the_rest_passed_over() {
        let text = b"#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t1\t1\nmemory\t0\t5\t0\nbroken\n";
        let found = compiled(text);
        let short: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.enabled)).collect();
        assert_eq!(short, [("cpu", true), ("memory", false)]);
    }
}
