//! From `clone3` to `execve`: the child's few steps, all prepared beforehand.
//!
//! Between the two the child shares nothing with us but must not allocate, lock or run exit handlers. So [`Image`] holds every byte it
//! needs, and what goes wrong comes back as one fixed-size [`Failure`] on a close-on-exec pipe. The end of that pipe without a failure
//! means that `execve` succeeded (or that the child was killed on the way, which its wait status tells).

use std::ffi::{CString, c_char};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;

use super::fork::{Child, clone_into};
use super::process::Limit;
use super::{Result, fd};

/// The steps of the child, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// `setsid(2)`.
    Session = 1,
    /// Descriptors 0, 1 and 2 put in place, all others closed.
    Stdio,
    /// `TIOCSCTTY`: the terminal on descriptor 0 becomes the controlling one.
    Terminal,
    /// `/proc/self/oom_score_adj`.
    OomScore,
    /// `setrlimit(2)`.
    Limits,
    /// `setgroups(2)`, `setresgid(2)`.
    Groups,
    /// `setresuid(2)` and the loss of all capabilities that goes with it.
    User,
    /// `chdir(2)`, as the user that the task runs as.
    Directory,
    /// `PR_SET_NO_NEW_PRIVS`.
    NoNewPrivileges,
    /// `execve(2)`.
    Exec,
}

impl Step {
    /// The step with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        use Step::*;
        [Session, Stdio, Terminal, OomScore, Limits, Groups, User, Directory, NoNewPrivileges, Exec]
            .into_iter()
            .find(|step| *step as u8 == number)
    }
}

/// Why the program was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where.
    pub step: Step,
    /// What the kernel said.
    pub errno: Errno,
}

/// Who the task runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User id, real, effective and saved.
    pub uid: u32,
    /// Group id, likewise.
    pub gid: u32,
    /// Supplementary groups, exactly these.
    pub groups: Vec<u32>,
}

/// Whether descriptor 0 becomes the controlling terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// No terminal.
    None,
    /// Descriptor 0 is one, and ours to have.
    Controlling,
}

/// What becomes of the task's `oom_score_adj`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OomScore<T> {
    /// It stays.
    Keep,
    /// This one, if we may: lowering it below what an ancestor was given needs CAP_SYS_RESOURCE.
    IfAllowed(T),
    /// This one, or no start.
    Exactly(T),
}

impl<T> OomScore<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> OomScore<U> {
        match self {
            Self::Keep => OomScore::Keep,
            Self::IfAllowed(score) => OomScore::IfAllowed(change(score)),
            Self::Exactly(score) => OomScore::Exactly(change(score)),
        }
    }
}

/// All that the child needs, laid out before it is born.
#[derive(Debug)]
pub struct Image {
    candidates: Vec<CString>,
    _strings: Vec<CString>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    directory: CString,
    umask: u32,
    limits: Vec<Limit>,
    oom_score_adj: OomScore<CString>,
    credentials: Option<Credentials>,
    terminal: Terminal,
}

/// What goes into an [`Image`].
#[derive(Debug)]
pub struct Program {
    /// Paths to try in this order, as `execvp(3)` does.
    pub candidates: Vec<CString>,
    /// Arguments, the name first.
    pub arguments: Vec<CString>,
    /// `NAME=value` each.
    pub environment: Vec<CString>,
    /// The directory to start in.
    pub directory: CString,
    /// File mode creation mask.
    pub umask: u32,
    /// Limits to set; what is not named stays.
    pub limits: Vec<Limit>,
    /// What is done about `oom_score_adj`.
    pub oom_score_adj: OomScore<i32>,
    /// None: keep what we run as.
    pub credentials: Option<Credentials>,
    /// See [`Terminal`].
    pub terminal: Terminal,
}

impl Image {
    /// Lays the program out in memory.
    pub fn new(program: Program) -> Self {
        let pointers = |strings: &[CString]| -> Vec<*const c_char> {
            strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (argv, envp) = (pointers(&program.arguments), pointers(&program.environment));
        // Moving a CString does not move its bytes, so the pointers stay good as long as the strings are kept.
        let mut strings = program.arguments;
        strings.extend(program.environment);
        Self {
            candidates: program.candidates,
            _strings: strings,
            argv,
            envp,
            directory: program.directory,
            umask: program.umask,
            limits: program.limits,
            oom_score_adj: program
                .oom_score_adj
                .map(|score| CString::new(score.to_string()).expect("the digits of a number hold no NUL")),
            credentials: program.credentials,
            terminal: program.terminal,
        }
    }
}

/// A program that is on its way.
#[derive(Debug)]
pub struct Spawned {
    /// The process.
    pub child: Child,
    /// Readable when the outcome of `execve` is known: give it to [`outcome`].
    pub report: OwnedFd,
}

/// Starts the program inside `cgroup` (INV-1) with exactly these three descriptors.
///
/// # Errors
/// As [`super::fork::into_cgroup`]. What fails in the child comes by [`Spawned::report`].
pub fn spawn(image: &Image, cgroup: BorrowedFd<'_>, stdio: [BorrowedFd<'_>; 3]) -> Result<Spawned> {
    let (read, write) = fd::pipe(fd::PipeFlags::ReadNonBlocking)?;
    // All sources above 2, so that putting one in place never overwrites another.
    let stdio: [OwnedFd; 3] = [fd::duplicate(stdio[0])?, fd::duplicate(stdio[1])?, fd::duplicate(stdio[2])?];
    let stdio = stdio.each_ref().map(|fd| fd.as_raw_fd());
    let write = fd::duplicate(write.as_fd())?;
    // SAFETY: `run` makes only async-signal-safe system calls, does not allocate, and ends in execve or _exit.
    match unsafe { clone_into(Some(cgroup)) }? {
        // SAFETY: we are the child.
        None => unsafe { run(image, stdio, write.as_raw_fd()) },
        Some(child) => Ok(Spawned { child, report: read }),
    }
}

/// What came of a spawn: None while it is not known yet, `Some(Ok)` when `execve` succeeded or the child died before it.
pub fn outcome(report: BorrowedFd<'_>) -> Result<Option<std::result::Result<(), Failure>>> {
    let mut bytes = [0; 5];
    Ok(match fd::read(report, &mut bytes)? {
        fd::Read::Empty => None,
        fd::Read::End => Some(Ok(())),
        fd::Read::Bytes(_) => {
            let [step, errno @ ..] = bytes;
            let step = Step::from_number(step).unwrap_or(Step::Exec);
            Some(Err(Failure { step, errno: Errno::from_raw(i32::from_ne_bytes(errno)) }))
        }
    })
}

/// Where the report pipe lives in the child: the one descriptor beside stdio. It is a pipe's write end, so a path through
/// `/proc/self/fd` that a spec might name finds no directory behind it.
const REPORT: RawFd = 3;

/// # Safety
/// Only in a fresh child of [`clone_into`]; `stdio` and `report` are its descriptors, all above 2.
unsafe fn run(image: &Image, stdio: [RawFd; 3], mut report: RawFd) -> ! {
    // SAFETY: the caller's promise is the callee's.
    let failure = unsafe { steps(image, stdio, &mut report) };
    let mut bytes = [failure.step as u8, 0, 0, 0, 0];
    bytes[1..].copy_from_slice(&(failure.errno as i32).to_ne_bytes());
    // SAFETY: `bytes` is valid for 5 bytes. A pipe takes them at once; if not, the parent sees the exit code below.
    unsafe { libc::write(report, bytes.as_ptr().cast(), bytes.len()) };
    // SAFETY: _exit runs no handlers of the image that we are a copy of.
    unsafe { libc::_exit(125) }
}

/// # Safety
/// As [`run`].
unsafe fn steps(image: &Image, stdio: [RawFd; 3], report: &mut RawFd) -> Failure {
    /// Returns the failure of this step when the call gives -1.
    macro_rules! step {
        ($step:ident, $call:expr) => {
            // SAFETY: a system call with plain integers, or with pointers into `image`, which outlives the child's steps.
            let result = unsafe { $call };
            if result == -1 {
                return Failure { step: Step::$step, errno: Errno::last() };
            }
        };
    }
    step!(Session, libc::setsid());
    for (target, source) in stdio.into_iter().enumerate() {
        step!(Stdio, libc::dup2(source, target as RawFd));
    }
    if *report != REPORT {
        step!(Stdio, libc::dup3(*report, REPORT, libc::O_CLOEXEC));
        *report = REPORT;
    }
    // Closed now and not by exec, so that no later step can be led through an inherited descriptor (the CVE-2024-21626 shape).
    step!(Stdio, libc::syscall(libc::SYS_close_range, REPORT + 1, u32::MAX, 0));
    if image.terminal == Terminal::Controlling {
        step!(Terminal, libc::ioctl(0, libc::TIOCSCTTY, 0));
    }
    if let OomScore::IfAllowed(score) | OomScore::Exactly(score) = &image.oom_score_adj {
        // SAFETY: see the macro.
        let file =
            unsafe { libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
        if file == -1 {
            return Failure { step: Step::OomScore, errno: Errno::last() };
        }
        // SAFETY: see the macro.
        let written = unsafe { libc::write(file, score.as_ptr().cast(), score.as_bytes().len()) };
        let may_fail =
            matches!(image.oom_score_adj, OomScore::IfAllowed(_)) && Errno::last() == Errno::EACCES;
        if written == -1 && !may_fail {
            return Failure { step: Step::OomScore, errno: Errno::last() };
        }
        step!(OomScore, libc::close(file));
    }
    for limit in &image.limits {
        let value = libc::rlimit64 { rlim_cur: limit.soft, rlim_max: limit.hard };
        step!(Limits, libc::setrlimit64(limit.resource as _, &value));
    }
    // SAFETY: umask cannot fail.
    unsafe { libc::umask(image.umask) };
    if let Some(who) = &image.credentials {
        step!(Groups, libc::syscall(libc::SYS_setgroups, who.groups.len(), who.groups.as_ptr()));
        step!(Groups, libc::syscall(libc::SYS_setresgid, who.gid, who.gid, who.gid));
        if who.uid != 0 {
            // The bounding set needs CAP_SETPCAP, which goes with the uid. The kernel knows at most 64 capabilities; EINVAL ends them.
            for capability in 0..64 {
                // SAFETY: plain integers.
                if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } == -1 {
                    match Errno::last() {
                        Errno::EINVAL => break,
                        errno => return Failure { step: Step::User, errno },
                    }
                }
            }
        }
        step!(User, libc::syscall(libc::SYS_setresuid, who.uid, who.uid, who.uid));
        if who.uid != 0 {
            // setresuid emptied the permitted, effective and ambient sets; the inheritable one is left (CVE-2019-12618's kind).
            let header = [CAPABILITY_VERSION_3, 0];
            let none = [0u32; 6];
            step!(User, libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()));
        }
    }
    step!(Directory, libc::chdir(image.directory.as_ptr()));
    if image.credentials.as_ref().is_some_and(|who| who.uid != 0) {
        step!(NoNewPrivileges, libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    }
    // By the raw calls: libc keeps two real-time signals to itself, and a task starts with all of them at their defaults (INV-13).
    let default = [0u64; 4];
    for signal in 1..=64 {
        // SAFETY: `default` is a kernel sigaction of zeros, SIG_DFL. It fails for SIGKILL and SIGSTOP, which have no other action.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null::<u64>(), 8)
        };
    }
    let no_signals = 0u64;
    // SAFETY: a kernel signal set is 8 bytes.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const no_signals,
            std::ptr::null::<u64>(),
            8,
        )
    };
    let mut errno = Errno::ENOENT;
    for path in &image.candidates {
        // SAFETY: both arrays end with a null pointer and point to strings that `image` keeps.
        unsafe { libc::execve(path.as_ptr(), image.argv.as_ptr(), image.envp.as_ptr()) };
        match Errno::last() {
            // As execvp(3): go on looking, but do not forget that one was there and could not be run.
            Errno::ENOENT => {}
            Errno::ENOTDIR if image.candidates.len() > 1 => {}
            Errno::EACCES => errno = Errno::EACCES,
            other => {
                errno = other;
                break;
            }
        }
    }
    Failure { step: Step::Exec, errno }
}

/// `_LINUX_CAPABILITY_VERSION_3`, include/uapi/linux/capability.h.
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;
