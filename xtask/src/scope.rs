//! A place of its own for a command and all that it starts, so that all of it can be found and ended afterwards.
//!
//! It is a cgroup below our own, where we may make one (as root nearly always). Elsewhere what a command started is found through
//! parents in /proc, which misses what got a new parent; [`Scope::is_complete`] tells the difference.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::machine::cgroup2_mount;

/// How long processes that are being killed may take to be gone.
const SETTLE: Duration = Duration::from_secs(5);
const PREFIX: &str = "proctor-xtask.";

/// A process or a cgroup that a command left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    Process { pid: i32, comm: String },
    Cgroup(PathBuf),
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process { pid, comm } => write!(f, "process {pid} ({comm})"),
            Self::Cgroup(path) => write!(f, "cgroup {}", path.display()),
        }
    }
}

/// A place for one command; dropped, it ends all that is in it.
#[derive(Debug)]
pub struct Scope {
    cgroup: Option<PathBuf>,
}

impl Scope {
    /// Makes a place, in a cgroup if that is possible.
    pub fn new() -> Self {
        Self { cgroup: own_cgroup().and_then(|own| make(&own)) }
    }

    /// Whether everything that the command starts is found, whoever its parent is.
    pub fn is_complete(&self) -> bool {
        self.cgroup.is_some()
    }

    /// A command that runs the program in this place from its first instruction on.
    pub fn command(&self, program: &OsStr) -> Command {
        match &self.cgroup {
            Some(cgroup) => {
                // The shell moves itself and then becomes the program: no moment in which a child could be born elsewhere.
                let mut command = Command::new("/bin/sh");
                command.args(["-c", "echo $$ >\"$0\" || exit 125; exec \"$@\""]);
                command.arg(cgroup.join("cgroup.procs")).arg(program);
                command
            }
            None => Command::new(program),
        }
    }

    /// What is still there after the command ended; waits a moment for what is just ending.
    pub fn leftovers(&self) -> Vec<Leftover> {
        let Some(cgroup) = &self.cgroup else { return Vec::new() };
        wait_until_empty(cgroup, Instant::now() + SETTLE);
        let mut found = Vec::new();
        collect(cgroup, &mut found);
        found
    }

    /// Kills all that is in here; `main` is the command itself.
    pub fn kill(&self, main: u32) {
        match &self.cgroup {
            Some(cgroup) => {
                if let Err(error) = fs::write(cgroup.join("cgroup.kill"), "1") {
                    eprintln!("xtask: kill {}: {error}, going on", cgroup.display());
                }
            }
            None => kill_descendants(main),
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let Some(cgroup) = &self.cgroup else { return };
        let killed = fs::write(cgroup.join("cgroup.kill"), "1");
        wait_until_empty(cgroup, Instant::now() + SETTLE);
        if let Err(error) = remove(cgroup) {
            eprintln!("xtask: {} stays behind: {error} (kill: {killed:?})", cgroup.display());
        }
    }
}

/// The directory of our own cgroup in the v2 hierarchy.
fn own_cgroup() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
    directory(&mounts, &cgroups)
}

fn directory(mounts: &str, cgroups: &str) -> Option<PathBuf> {
    let own = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(cgroup2_mount(mounts)?).join(own))
}

fn make(own: &Path) -> Option<PathBuf> {
    sweep(own);
    let me = std::process::id();
    for number in 0..1000 {
        let path = own.join(format!("{PREFIX}{me}.{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Some(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => return None,
        }
    }
    None
}

/// Removes what an earlier xtask left that was itself killed. What still has processes stays.
fn sweep(own: &Path) {
    for path in children(own) {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('.').next());
        let is_gone = |pid| fs::metadata(Path::new("/proc").join(pid)).is_err();
        if owner.is_some_and(is_gone)
            && let Err(error) = remove(&path)
        {
            eprintln!("xtask: {} of an earlier run stays: {error}", path.display());
        }
    }
}

fn children(cgroup: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cgroup).into_iter().flatten().filter_map(Result::ok);
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn remove(cgroup: &Path) -> io::Result<()> {
    for child in children(cgroup) {
        remove(&child)?;
    }
    fs::remove_dir(cgroup)
}

fn wait_until_empty(cgroup: &Path, deadline: Instant) {
    loop {
        let Ok(events) = fs::File::open(cgroup.join("cgroup.events")) else { return };
        let text = io::read_to_string(&events).unwrap_or_default();
        let left = deadline.saturating_duration_since(Instant::now());
        if !text.lines().any(|line| line == "populated 1") || left.is_zero() {
            return;
        }
        // The kernel may hold a notification back for some 10 ms, but it does not lose it for good: the read above re-armed it.
        let mut fds = [PollFd::new(events.as_fd(), PollFlags::POLLPRI)];
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        if nix::poll::poll(&mut fds, timeout).is_err() {
            return;
        }
    }
}

fn collect(cgroup: &Path, found: &mut Vec<Leftover>) {
    let procs = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    found.extend(procs.lines().filter_map(|line| line.parse().ok()).map(|pid: i32| {
        Leftover::Process {
            pid,
            comm: fs::read_to_string(format!("/proc/{pid}/comm"))
                .map_or("?".to_owned(), |comm| comm.trim().to_owned()),
        }
    }));
    for child in children(cgroup) {
        collect(&child, found);
        found.push(Leftover::Cgroup(child));
    }
}

/// The best that can be done without a cgroup: children before parents would let them get away, so parents first.
fn kill_descendants(main: u32) {
    let Ok(main) = i32::try_from(main) else { return };
    let mut pids = vec![main];
    let mut at = 0;
    while let Some(parent) = pids.get(at).copied() {
        let threads =
            fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().filter_map(Result::ok);
        for thread in threads {
            let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            pids.extend(text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
        at += 1;
    }
    for pid in pids {
        // It may have ended by itself meanwhile.
        let _ = nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_cgroup_is_found_on_unified_and_hybrid_hosts() {
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(directory(unified, "0::/a/b\n"), Some(PathBuf::from("/sys/fs/cgroup/a/b")));
        let hybrid = "31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n";
        assert_eq!(directory(hybrid, "4:memory:/x\n0::/\n"), Some(PathBuf::from("/sys/fs/cgroup/unified/")));
        assert_eq!(directory("", "0::/\n"), None);
        assert_eq!(directory(unified, "4:memory:/x\n"), None);
    }
}
