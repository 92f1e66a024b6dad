//! A terminal with the test in front of it: the test types and sees what is shown.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nix::fcntl::OFlag;
use nix::pty::{posix_openpt, ptsname_r, unlockpt};
use nix::sys::stat::Mode;
use nix::sys::termios::{Termios, tcgetattr};

use crate::{Running, wait_until};

/// The terminal. What is shown on it is collected all the time.
#[derive(Debug)]
pub struct Screen {
    master: File,
    slave: OwnedFd,
    shown: Arc<Mutex<Vec<u8>>>,
    /// Up to where [`Screen::wait_for`] has looked.
    seen: usize,
    reader: JoinHandle<()>,
}

impl Screen {
    /// A new terminal of 24 rows and 80 columns.
    ///
    /// # Panics
    /// When there are no more.
    pub fn new() -> Self {
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).expect("a terminal");
        unlockpt(&master).expect("unlock it");
        let name = ptsname_r(&master).expect("its name");
        let slave = nix::fcntl::open(name.as_str(), flags, Mode::empty()).expect("its other side");
        // SAFETY: the PtyMaster gives the descriptor up.
        let master = unsafe { File::from_raw_fd(master.into_raw_fd()) };
        let mut output = master.try_clone().expect("a second descriptor");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            // The end is an error (EIO): nobody holds the other side any more.
            while let Ok(n @ 1..) = output.read(&mut buffer) {
                collected.lock().expect("the screen").extend_from_slice(&buffer[..n]);
            }
        });
        let screen = Self { master, slave, shown, seen: 0, reader };
        screen.resize(24, 80);
        screen
    }

    /// Starts a command that leads a session with this controlling terminal, on all three streams that the command does not name.
    pub fn start(&self, mut command: Command) -> Running {
        let stdio = || Stdio::from(self.slave.try_clone().expect("a second descriptor"));
        command.stdin(stdio()).stdout(stdio()).stderr(stdio());
        self.start_as_is(command)
    }

    /// The same with the command's own ideas of stdout and stderr; [`Screen::stream`] makes one of them this terminal.
    pub fn start_as_is(&self, mut command: Command) -> Running {
        command.stdin(self.stream());
        // SAFETY: setsid and ioctl are async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        Running::spawn_as_is(command)
    }

    /// The terminal as a stream of a command.
    pub fn stream(&self) -> Stdio {
        Stdio::from(self.slave.try_clone().expect("a second descriptor"))
    }

    /// Types.
    pub fn keys(&self, keys: &str) {
        (&self.master).write_all(keys.as_bytes()).expect("type");
    }

    /// Waits until this text is shown after what was waited for last. Gives what came between.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> String {
        let look = || {
            let shown = self.shown.lock().expect("the screen");
            let rest = &shown[self.seen..];
            let at = rest.windows(text.len()).position(|window| window == text.as_bytes())?;
            Some((String::from_utf8_lossy(&rest[..at]).into_owned(), self.seen + at + text.len()))
        };
        let (between, seen) = wait_until(&format!("`{text}` on the screen"), look);
        self.seen = seen;
        between
    }

    /// Everything that was shown so far.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("the screen")).into_owned()
    }

    /// Its settings.
    pub fn settings(&self) -> Termios {
        tcgetattr(&self.slave).expect("settings")
    }

    /// The settings, to be changed.
    pub fn set(&self, settings: &Termios) {
        nix::sys::termios::tcsetattr(&self.slave, nix::sys::termios::SetArg::TCSANOW, settings).expect("set");
    }

    /// Another size; who is in the foreground gets SIGWINCH.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: TIOCSWINSZ reads one winsize.
        let result = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(result, 0, "resize");
    }

    /// Takes the person away from the terminal: it is hung up.
    pub fn hang_up(self) {
        // SAFETY: TIOCVHANGUP takes no argument.
        let hung_up = unsafe { libc::ioctl(self.slave.as_raw_fd(), libc::TIOCVHANGUP, 0) };
        assert_eq!(hung_up, 0, "hang up");
    }

    /// Waits until nobody has the terminal any more and gives every byte that was shown.
    pub fn end(self) -> Vec<u8> {
        let Self { master: _master, slave, shown, seen: _, reader } = self;
        drop(slave);
        reader.join().expect("reader");
        std::mem::take(&mut *shown.lock().expect("the screen"))
    }
}

impl Default for Screen {
    fn default() -> Self {
        Self::new()
    }
}
