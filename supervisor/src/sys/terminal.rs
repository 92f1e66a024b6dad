//! Terminals: their settings (`termios(3)`), their size, their process groups, and making one (`pty(7)`).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};

use super::{Result, SysError};

/// The settings of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes(libc::termios);

/// What the line discipline makes of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discipline {
    /// `ICANON`: input is handed over in lines.
    pub lines: bool,
    /// `ISIG`: some keys are signals.
    pub signals: bool,
    /// `VINTR`: the key for SIGINT, if there is one.
    pub interrupt: Option<u8>,
    /// `VSUSP`: the key for SIGTSTP.
    pub suspend: Option<u8>,
    /// `VEOF`: the key that ends the input.
    pub end: Option<u8>,
}

impl Attributes {
    /// `tcgetattr(3)`. On the master side of a pty these are the settings of its slave.
    ///
    /// # Errors
    /// `ENOTTY`: no terminal. `EIO`: it was hung up.
    pub fn of(fd: BorrowedFd<'_>) -> Result<Self> {
        let mut settings = std::mem::MaybeUninit::uninit();
        // SAFETY: `settings` is a valid place for one termios.
        if unsafe { libc::tcgetattr(fd.as_raw_fd(), settings.as_mut_ptr()) } < 0 {
            return Err(SysError::last("tcgetattr"));
        }
        // SAFETY: tcgetattr succeeded and filled it.
        Ok(Self(unsafe { settings.assume_init() }))
    }

    /// `tcsetattr(3)` at once. Works from a background job too, whose process would be stopped otherwise: ask [`ground`] before.
    ///
    /// # Errors
    /// `EIO`: it was hung up.
    pub fn apply(&self, fd: BorrowedFd<'_>) -> Result<()> {
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        let before = SysError::from_nix("sigprocmask", stop.thread_swap_mask(SigmaskHow::SIG_BLOCK))?;
        // SAFETY: the settings are a whole termios.
        let result = match unsafe { libc::tcsetattr(fd.as_raw_fd(), libc::TCSANOW, &self.0) } {
            0 => Ok(()),
            _ => Err(SysError::last("tcsetattr")),
        };
        SysError::from_nix("sigprocmask", before.thread_set_mask())?;
        result
    }

    /// These settings, but every byte comes and goes as it is (`cfmakeraw(3)`), each as soon as it is there.
    pub fn raw(&self) -> Self {
        let mut settings = self.0;
        // SAFETY: a valid termios, changed in place.
        unsafe { libc::cfmakeraw(&mut settings) };
        settings.c_cc[libc::VMIN] = 1;
        settings.c_cc[libc::VTIME] = 0;
        Self(settings)
    }

    /// The part that says what becomes of keys.
    pub fn discipline(&self) -> Discipline {
        // _POSIX_VDISABLE of Linux.
        let key = |at: usize| Some(self.0.c_cc[at]).filter(|key| *key != 0);
        Discipline {
            lines: self.0.c_lflag & libc::ICANON != 0,
            signals: self.0.c_lflag & libc::ISIG != 0,
            interrupt: key(libc::VINTR),
            suspend: key(libc::VSUSP),
            end: key(libc::VEOF),
        }
    }
}

/// Rows and columns.
#[derive(Clone, Copy, Debug)]
pub struct Size(libc::winsize);

impl Size {
    /// `TIOCGWINSZ`.
    ///
    /// # Errors
    /// `ENOTTY`: no terminal.
    pub fn of(fd: BorrowedFd<'_>) -> Result<Self> {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: TIOCGWINSZ stores one winsize there.
        if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) } < 0 {
            return Err(SysError::last("ioctl(TIOCGWINSZ)"));
        }
        Ok(Self(size))
    }

    /// `TIOCSWINSZ`. The foreground process group is told by SIGWINCH when the size is another one.
    pub fn apply(&self, fd: BorrowedFd<'_>) -> Result<()> {
        // SAFETY: TIOCSWINSZ reads one winsize from there.
        if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSWINSZ, &raw const self.0) } < 0 {
            return Err(SysError::last("ioctl(TIOCSWINSZ)"));
        }
        Ok(())
    }
}

/// Whether a descriptor is a terminal that was not hung up.
pub fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    Attributes::of(fd).is_ok()
}

/// Whether the terminal is for us to read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Our process group is in the foreground, or it is not our controlling terminal: the kernel lets us read and set it.
    Fore,
    /// Our controlling terminal, and another group has it.
    Back,
}

/// Whether our process group has the terminal.
pub fn ground(fd: BorrowedFd<'_>) -> Ground {
    match nix::unistd::tcgetpgrp(fd) {
        Ok(group) if group != nix::unistd::getpgrp() => Ground::Back,
        Ok(_) | Err(_) => Ground::Fore,
    }
}

/// Whose terminal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holders {
    /// The session, named by its leader's pid.
    pub session: i32,
    /// The process group in the foreground.
    pub group: i32,
}

/// `TIOCGSID` and `TIOCGPGRP` on the master side of a pty: who has its slave for controlling terminal now. None: nobody, or the leader
/// of the session has ended.
pub fn holders(master: BorrowedFd<'_>) -> Option<Holders> {
    let session = nix::sys::termios::tcgetsid(master).ok()?.as_raw();
    let group = nix::unistd::tcgetpgrp(master).ok()?.as_raw();
    (group > 0).then_some(Holders { session, group })
}

/// `TIOCSIG` on the master side of a pty: SIGINT to the foreground process group of its slave, as the key for it would, but nothing that
/// is on its way between the two sides is thrown away.
pub fn interrupt(master: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: TIOCSIG takes a signal number.
    if unsafe { libc::ioctl(master.as_raw_fd(), TIOCSIG, libc::SIGINT) } < 0 {
        return Err(SysError::last("ioctl(TIOCSIG)"));
    }
    Ok(())
}

/// Not in libc: include/uapi/asm-generic/ioctls.h.
const TIOCSIG: libc::Ioctl = 0x4004_5436;

/// The two sides of a pseudo-terminal.
#[derive(Debug)]
pub struct Pair {
    /// For who stands for the person at the terminal. Reads and writes do not wait.
    pub master: OwnedFd,
    /// For the programs.
    pub slave: OwnedFd,
}

/// Makes a terminal, which becomes nobody's controlling one. The slave side is opened through its master (`TIOCGPTPEER`, Linux 4.13),
/// so that it is found whatever is mounted on /dev/pts here.
///
/// # Errors
/// `ENOENT`: there is no /dev/ptmx. `ENOSPC`: `kernel.pty.max` is reached.
pub fn open() -> Result<Pair> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = SysError::from_nix("posix_openpt", nix::pty::posix_openpt(flags | OFlag::O_NONBLOCK))?;
    SysError::from_nix("unlockpt", nix::pty::unlockpt(&master))?;
    // SAFETY: TIOCGPTPEER takes open flags and gives a new descriptor or -1.
    let slave = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags.bits()) };
    if slave < 0 {
        return Err(SysError::last("ioctl(TIOCGPTPEER)"));
    }
    // SAFETY: the kernel has just made it for us.
    let slave = unsafe { OwnedFd::from_raw_fd(slave) };
    Ok(Pair { master: super::fd::duplicate(master.as_fd())?, slave })
}

/// Makes this user the owner of a terminal; its group stays the one that `write(1)` and the like need.
pub fn give_to(slave: BorrowedFd<'_>, uid: u32) -> Result<()> {
    SysError::from_nix("fchown", nix::unistd::fchown(slave, Some(uid.into()), None))
}

/// Opens the terminal behind `fd` once more for reading without waiting: a file description of our own, whose flags nobody shares.
///
/// # Errors
/// `EACCES`: it belongs to another user, as after `su`. `ENOENT` without /proc.
pub fn reopen(fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    let opened = nix::fcntl::open(path.as_str(), flags, nix::sys::stat::Mode::empty());
    let opened = SysError::from_nix("open", opened)?;
    // /dev/tty would be another file: the descriptor must be what it was.
    match (super::fd::identify(fd)?, super::fd::identify(opened.as_fd())?) {
        (old, new) if old == new => Ok(opened),
        _ => Err(SysError::new("open", Errno::ENXIO)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fd::{self, Read, Write};
    use super::*;

    #[test]
    fn a_new_terminal_takes_settings_and_size_through_its_master() {
        let Pair { master, slave } = open().unwrap();
        assert!(is_terminal(slave.as_fd()) && !is_terminal(fd::null().unwrap().as_fd()));
        let before = Attributes::of(slave.as_fd()).unwrap();
        let discipline = before.discipline();
        assert!(discipline.lines && discipline.signals);
        assert_eq!((discipline.interrupt, discipline.suspend, discipline.end), (Some(3), Some(26), Some(4)));
        before.raw().apply(slave.as_fd()).unwrap();
        let raw = Attributes::of(master.as_fd()).unwrap();
        assert_ne!(raw, before);
        assert!(!raw.discipline().lines && !raw.discipline().signals);
        before.apply(master.as_fd()).unwrap();
        assert_eq!(Attributes::of(slave.as_fd()), Ok(before));
        Size(libc::winsize { ws_row: 7, ws_col: 9, ws_xpixel: 0, ws_ypixel: 0 })
            .apply(master.as_fd())
            .unwrap();
        let size = Size::of(slave.as_fd()).unwrap().0;
        assert_eq!((size.ws_row, size.ws_col), (7, 9));
    }

    #[test]
    fn it_is_nobodys_controlling_terminal_and_does_not_wait() {
        let Pair { master, slave } = open().unwrap();
        assert_eq!(holders(master.as_fd()), None);
        assert_eq!(ground(slave.as_fd()), Ground::Fore);
        let mut buffer = [0; 8];
        assert_eq!(fd::read(master.as_fd(), &mut buffer), Ok(Read::Empty));
        assert_eq!(fd::write(slave.as_fd(), b"x\n"), Write::Bytes(2));
        assert_eq!(fd::read(master.as_fd(), &mut buffer), Ok(Read::Bytes(3)));
        assert_eq!(&buffer[..3], b"x\r\n");
        drop(slave);
        assert_eq!(fd::read(master.as_fd(), &mut buffer), Ok(Read::End));
    }

    #[test]
    fn a_terminal_that_is_opened_again_has_flags_of_its_own() {
        let Pair { master: _master, slave } = open().unwrap();
        let again = reopen(slave.as_fd()).unwrap();
        assert_eq!(fd::read(again.as_fd(), &mut [0; 8]), Ok(Read::Empty));
        let flags = nix::fcntl::fcntl(&slave, nix::fcntl::FcntlArg::F_GETFL).unwrap();
        assert!(!OFlag::from_bits_retain(flags).contains(OFlag::O_NONBLOCK));
    }
}
