//! Who we are and where: kernel, user, capabilities, namespaces.

use std::os::unix::fs::MetadataExt;

use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};

use super::super::{Result, SysError};

/// `uname(2)`: the kernel's release, e.g. `6.1.0-44-amd64`.
///
/// # Errors
/// As uname(2).
pub fn kernel_release() -> Result<String> {
    let names = SysError::from_nix("uname", nix::sys::utsname::uname())?;
    Ok(names.release().to_string_lossy().into_owned())
}

/// Our effective user id.
pub fn user_id() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Capabilities that proctor has a use for, by their bit (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Capability {
    /// Read and write what belongs to others.
    DacOverride = 1,
    /// Signal processes of other users.
    Kill = 5,
    /// Start tasks as another group.
    Setgid = 6,
    /// Start tasks as another user.
    Setuid = 7,
    /// Does nearly all; with it BPF works before Linux 5.8.
    SysAdmin = 21,
    /// Raise hard resource limits, lower oom scores.
    SysResource = 24,
    /// Load tracing programs.
    Perfmon = 38,
    /// Make maps and load programs.
    Bpf = 39,
}

/// Our effective capabilities as a set of bits, from a text of `/proc/self/status`; none when the line is missing.
pub fn capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// A kind of namespace whose first one has an inode number that is fixed in the kernel (include/linux/proc_ns.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// Process ids.
    Pid,
    /// Users and capabilities.
    User,
    /// Cgroups.
    Cgroup,
}

/// We are in the host's first namespace of this kind.
///
/// # Errors
/// /proc cannot be read.
pub fn is_initial(namespace: Namespace) -> Result<bool> {
    let (file, inode) = match namespace {
        Namespace::Pid => ("/proc/self/ns/pid", 0xeffffffc),
        Namespace::User => ("/proc/self/ns/user", 0xeffffffd),
        Namespace::Cgroup => ("/proc/self/ns/cgroup", 0xeffffffb),
    };
    Ok(SysError::from_io("stat", std::fs::metadata(file))?.ino() == inode)
}

/// `close_range(2)` (Linux 5.9) over no descriptor at all, with `CLOSE_RANGE_CLOEXEC` (Linux 5.11): tells only whether it is there.
///
/// # Errors
/// `ENOSYS`: it is not; `EINVAL`: without the flag.
pub fn close_no_range() -> Result<()> {
    // SAFETY: takes integers; no descriptor has a number near the largest unsigned one.
    let result =
        unsafe { libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result < 0 { Err(SysError::last("close_range")) } else { Ok(()) }
}

/// The columns of the terminal on stdout, if it is one that knows them (`TIOCGWINSZ`).
pub fn terminal_width() -> Option<usize> {
    // SAFETY: winsize is plain data for which zero is a valid value.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: `size` is a valid place for one winsize.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Holds back all signals of this thread, so that Ctrl-C cannot end us while a private cgroup is there. The old mask returns on drop.
#[derive(Debug)]
pub struct SignalsHeld(SigSet);

impl SignalsHeld {
    /// Holds them from now on.
    ///
    /// # Errors
    /// As sigprocmask(2).
    pub fn new() -> Result<Self> {
        let mut old = SigSet::empty();
        let all = SigSet::all();
        SysError::from_nix("sigprocmask", sigprocmask(SigmaskHow::SIG_SETMASK, Some(&all), Some(&mut old)))?;
        Ok(Self(old))
    }
}

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        // Cannot fail: the mask is one that the kernel gave us.
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.0), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_effective_set() {
        let status = "CapInh:\t00\nCapEff:\t000001fffeffffff\nCapBnd:\t0\n";
        assert_eq!(capabilities(status), Some(0x1ff_feff_ffff));
        assert_eq!(capabilities("CapBnd:\t0\n"), None);
        assert_eq!(capabilities("CapEff:\tx\n"), None);
        assert_eq!(capabilities(""), None);
    }
}
