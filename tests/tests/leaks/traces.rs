//! What proctor could leave on a machine outside of its cgroups.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use supervisor::audit::Program;
use tests::wait_until;

/// Everything of that kind that is there now.
#[derive(Debug)]
pub struct Traces {
    mounts: BTreeSet<String>,
    files: BTreeSet<String>,
    bpf: BTreeSet<(Kind, u32)>,
}

impl Traces {
    pub fn look() -> Self {
        Self { mounts: mounts(), files: files(), bpf: bpf_objects() }
    }

    /// Asserts that nothing of proctor's is there now that was not there before. Other tests may run beside this one: what they have now
    /// goes away with them, what is left behind stays.
    #[track_caller]
    pub fn assert_no_more(&self) {
        let mounts: Vec<_> = mounts().difference(&self.mounts).cloned().collect();
        assert!(mounts.is_empty(), "mounts were left behind: {mounts:?}");
        let files: Vec<_> = files().difference(&self.files).cloned().collect();
        assert!(files.is_empty(), "files were left behind: {files:?}");
        let new: BTreeSet<_> = bpf_objects().difference(&self.bpf).copied().collect();
        wait_until("the end of all eBPF objects that were made meanwhile", || {
            let now = bpf_objects();
            new.is_disjoint(&now).then_some(())
        });
    }
}

/// Mounts that have to do with proctor: it makes none.
fn mounts() -> BTreeSet<String> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").expect("read the mounts");
    mountinfo.lines().filter(|line| line.contains("proctor")).map(str::to_owned).collect()
}

/// Files with proctor's name where programs leave such. The places of tests are not proctor's.
fn files() -> BTreeSet<String> {
    let dirs = ["/run", "/tmp", "/var/tmp", "/dev/shm", "/sys/fs/bpf"];
    let entries = dirs.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
    let paths = entries.map(|entry| entry.path().display().to_string());
    paths.filter(|path| path.contains("proctor") && !path.contains("proctor-test-")).collect()
}

/// A kind of eBPF object that the kernel lists by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Program,
    Map,
}

impl Kind {
    /// The commands that give the next number and a descriptor.
    fn commands(self) -> (libc::c_int, libc::c_int) {
        match self {
            Self::Program => (11, 13),
            Self::Map => (12, 14),
        }
    }

    /// Where the name is in what the kernel tells of it.
    fn name_at(self) -> usize {
        match self {
            Self::Program => 64,
            Self::Map => 24,
        }
    }

    /// Whether an object of this name is the audit's. The kernel keeps 15 bytes.
    fn is_ours(self, name: &str) -> bool {
        match self {
            Self::Program => Program::ALL.iter().any(|program| program.name().starts_with(name)),
            Self::Map => ["CLASSES", "PROCESSES", "EXECUTORS", "RUNS", "GLOBALS", "EVENTS"].contains(&name),
        }
    }
}

/// The audit's programs and maps that the kernel has now, of all who use it.
fn bpf_objects() -> BTreeSet<(Kind, u32)> {
    let mut found = BTreeSet::new();
    for kind in [Kind::Program, Kind::Map] {
        let (next, _) = kind.commands();
        let mut id = 0;
        loop {
            let mut attributes = [id, 0, 0, 0];
            if bpf(next, &mut attributes).is_err() {
                break;
            }
            [_, id, _, _] = attributes;
            if let Some(name) = name_of(kind, id)
                && !name.is_empty()
                && kind.is_ours(&name)
            {
                found.insert((kind, id));
            }
        }
    }
    found
}

/// The name of an object; none when it is gone.
fn name_of(kind: Kind, id: u32) -> Option<String> {
    const GET_INFO: libc::c_int = 15;
    let (_, open) = kind.commands();
    let fd = bpf(open, &mut [id, 0, 0, 0]).ok()?;
    // SAFETY: the kernel made this descriptor for us, and nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut info = [0u8; 80];
    let at = info.as_mut_ptr() as u64;
    let [low, high] = [at as u32, (at >> 32) as u32];
    let (low, high) = if cfg!(target_endian = "big") { (high, low) } else { (low, high) };
    bpf(GET_INFO, &mut [fd.as_raw_fd() as u32, info.len() as u32, low, high]).ok()?;
    let name = info.get(kind.name_at()..kind.name_at() + 16)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Some(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// The system call, with attributes of up to four words.
fn bpf(command: libc::c_int, attributes: &mut [u32; 4]) -> std::io::Result<RawFd> {
    let at = attributes.as_mut_ptr();
    // SAFETY: the attributes have the size that we say, and what they point to lives in the caller.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, at, size_of::<[u32; 4]>()) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result as RawFd) }
}

#[test]
fn a_loaded_audit_would_be_noticed() {
    let before = Traces::look();
    let audit = supervisor::audit::Audit::load(supervisor::audit::Level::Anomalies).expect("load");
    let held: Vec<_> = bpf_objects().difference(&before.bpf).copied().collect();
    assert!(held.iter().filter(|(kind, _)| *kind == Kind::Program).count() >= Program::ALL.len(), "{held:?}");
    assert!(held.iter().filter(|(kind, _)| *kind == Kind::Map).count() >= 6, "{held:?}");
    drop(audit);
    before.assert_no_more();
}
