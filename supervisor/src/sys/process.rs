//! What a process says and decides about itself.

use std::ffi::CStr;

use nix::errno::Errno;

use super::{Result, SysError, fork::SingleThreaded};

/// Our process id, for messages and names.
pub fn id() -> i32 {
    nix::unistd::getpid().as_raw()
}

/// Whether `/proc` is there and names processes by the numbers of our own pid namespace.
pub fn is_proc_ours() -> bool {
    let own = std::fs::read_link("/proc/self");
    own.is_ok_and(|own| own.to_str().and_then(|own| own.parse().ok()) == Some(id()))
}

/// The session that we lead from now on: no terminal's Ctrl-C reaches us any more.
///
/// # Errors
/// `EPERM`: we already lead a process group.
pub fn new_session() -> Result<()> {
    SysError::from_nix("setsid", nix::unistd::setsid()).map(drop)
}

/// `PR_SET_CHILD_SUBREAPER`: descendants whose parent died become our children.
pub fn become_subreaper() -> Result<()> {
    SysError::from_nix("prctl(PR_SET_CHILD_SUBREAPER)", nix::sys::prctl::set_child_subreaper(true))
}

/// `PR_SET_NAME`: what `ps -o comm` shows; at most 15 bytes.
pub fn set_name(name: &CStr) -> Result<()> {
    SysError::from_nix("prctl(PR_SET_NAME)", nix::sys::prctl::set_name(name))
}

/// Where our own arguments are, as `ps` shows them. A fork has them at the same place.
#[derive(Clone, Copy, Debug)]
pub struct Title {
    start: usize,
    room: usize,
}

impl Title {
    /// Finds the place.
    ///
    /// # Errors
    /// `EIO`: `/proc/self/stat` cannot be understood.
    pub fn find() -> Result<Self> {
        let stat = SysError::from_io("read", std::fs::read_to_string("/proc/self/stat"))?;
        // proc(5): the comm is in parentheses and may hold any byte, so fields are counted from the last one. arg_start is field 48.
        let fields =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_ascii_whitespace()).into_iter().flatten();
        let mut limits = fields.skip(45).map(|field| field.parse::<usize>().unwrap_or(0));
        match (limits.next().unwrap_or(0), limits.next().unwrap_or(0)) {
            (start, end) if start != 0 && end > start + 1 => Ok(Self { start, room: end - start }),
            (_, _) => Err(SysError::new("read", Errno::EIO)),
        }
    }

    /// Overwrites the arguments with `text`, cut to the room that there is. Bytes that are not printable become `?`. The room is that of
    /// the arguments we were started with, so whoever starts us leaves some.
    pub fn set(self, _proof: SingleThreaded, text: &str) {
        let Self { start, room } = self;
        // The last byte stays NUL: otherwise the kernel would go on reading into the environment.
        let text =
            text.bytes().map(|b| if b.is_ascii_graphic() || b == b' ' || b >= 0x80 { b } else { b'?' });
        for (at, byte) in text.take(room - 1).chain(std::iter::repeat(0)).take(room).enumerate() {
            // SAFETY: the kernel says that our argument strings lie in these bytes of this address space, on the stack, where they stay
            // writable; a fork has its own copy of them there. Rust reads them only through `std::env::args`, which copies; the proof
            // says that we are single-threaded, so nobody does so meanwhile.
            unsafe { ((start + at) as *mut u8).write_volatile(byte) };
        }
    }
}

/// A resource limit as `getrlimit(2)` has it; `u64::MAX` is "unlimited".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// `RLIMIT_*`.
    pub resource: u32,
    /// What is enforced.
    pub soft: u64,
    /// Up to where an unprivileged process may raise it.
    pub hard: u64,
}

/// How many kinds of limits Linux has.
pub const LIMITS: u32 = LIMIT_NAMES.len() as u32;

/// `getrlimit(2)`, in the order of the kernel's numbers.
pub const LIMIT_NAMES: [&str; 16] = [
    "cpu",
    "fsize",
    "data",
    "stack",
    "core",
    "rss",
    "nproc",
    "nofile",
    "memlock",
    "as",
    "locks",
    "sigpending",
    "msgqueue",
    "nice",
    "rtprio",
    "rttime",
];

/// This process's limit of one kind.
///
/// # Errors
/// `EINVAL`: no such resource.
pub fn limit(resource: u32) -> Result<Limit> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for one rlimit64.
    if unsafe { libc::getrlimit64(resource as _, &mut limit) } < 0 {
        return Err(SysError::last("getrlimit"));
    }
    Ok(Limit { resource, soft: limit.rlim_cur, hard: limit.rlim_max })
}

/// How many files we may have open.
pub fn open_files() -> Result<u64> {
    Ok(limit(libc::RLIMIT_NOFILE)?.soft)
}

/// Raises our limit on open files as far as we may without a right to it: from the soft to the hard value, which it gives. Programs that
/// we start inherit it.
pub fn allow_open_files() -> Result<u64> {
    let Limit { resource, soft: _, hard } = limit(libc::RLIMIT_NOFILE)?;
    let raised = libc::rlimit64 { rlim_cur: hard, rlim_max: hard };
    // SAFETY: `raised` is valid for the call.
    if unsafe { libc::setrlimit64(resource as _, &raised) } < 0 {
        return Err(SysError::last("setrlimit"));
    }
    Ok(hard)
}

/// Lifts our limit on cpu time as far as we may: altogether with a right to it, else from the soft to the hard value. Programs that we start
/// inherit it.
pub fn allow_cpu_time() -> Result<()> {
    let Limit { resource, soft: _, hard } = limit(libc::RLIMIT_CPU)?;
    for (soft, hard) in [(u64::MAX, u64::MAX), (hard, hard)] {
        let raised = libc::rlimit64 { rlim_cur: soft, rlim_max: hard };
        // SAFETY: `raised` is valid for the call.
        if unsafe { libc::setrlimit64(resource as _, &raised) } == 0 {
            return Ok(());
        }
    }
    Err(SysError::last("setrlimit"))
}

/// Our file mode creation mask. Reading it by `umask(2)` would change it for a moment, so it is read from `/proc/self/status`.
pub fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(mask.trim(), 8).ok()
}

/// Our `oom_score_adj`.
pub fn oom_score_adj() -> Option<i32> {
    std::fs::read_to_string("/proc/self/oom_score_adj").ok()?.trim().parse().ok()
}

/// The number of `read(2)`, as `/proc/PID/syscall` shows it.
pub const READ_CALL: i64 = libc::SYS_read;
