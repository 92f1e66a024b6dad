//! The caller's terminal and the task's, and what goes from the one to the other: keys and the size. The executor brings what is shown
//! the other way.
//!
//! While the task has the caller's terminal, that one is raw: every key comes as a byte and is judged ([`super::keys`]); the task's own
//! terminal makes lines, echo and signals of it. The caller's settings are put back at the end, when we are stopped as a job, when this
//! value is dropped, and by a panic.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use super::error::RunError;
use super::keys::{self, Escape, Meaning, Owner};
use super::manners;
use super::relay::{Handed, Keys, hand_over, look_for_keys, rdev, restore_on_panic};
use crate::sys::signal::is_ignored;
use crate::sys::terminal::{self, Attributes, Ground, Holders, Pair, Size};
use crate::sys::{clock, fd, reactor};

/// So many bytes may wait for the task to take them; then no more are read.
const WAITING: usize = 64 << 10;

/// Both terminals.
#[derive(Debug)]
pub(super) struct Terminal {
    caller: AsyncFd<OwnedFd>,
    /// The caller's settings, as they were before we changed them.
    saved: Attributes,
    mode: Mode,
    hung_up: bool,
    master: AsyncFd<OwnedFd>,
    /// Device number of the slave side.
    device: u64,
    typed: VecDeque<u8>,
    waiting: Vec<u8>,
    escape: Escape,
    interrupt: Interrupt,
    notices: Notices,
    resized: SignalStream,
    continued: SignalStream,
}

/// How the caller's terminal is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// As the caller has it.
    Callers,
    /// By us.
    Raw,
}

/// What the terminal does when a plain program is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// It sends SIGINT to the foreground process group, as terminals do.
    AsTyped,
    /// Nothing: the stop signal that the user chose is sent in its place.
    StopSignal,
}

/// Where our own lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notices {
    /// To the caller's terminal.
    Here,
    /// Somewhere else.
    Elsewhere,
}

/// What the person at the terminal wants of us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// An end, by a SIGINT of the terminal.
    Interrupt,
    /// An end.
    Stop,
    /// To be stopped as a job.
    Suspend(Suspend),
    /// An end at once.
    Kill,
    /// The person is gone.
    HangUp,
}

/// Who is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspend {
    /// Our process group, as a terminal does it on Ctrl-Z.
    Group,
    /// We: the group was told already.
    Us,
}

/// The sides of the task's terminal that the executor gets.
#[derive(Debug)]
pub(super) struct Sides {
    pub(super) slave: OwnedFd,
    pub(super) master: OwnedFd,
}

impl Terminal {
    /// Makes a terminal with the settings and the size of the caller's, and makes the caller's raw if it is ours now. `owner` is the
    /// task's user.
    pub(super) fn open(
        caller: &OwnedFd,
        owner: Option<u32>,
        interrupt: Interrupt,
        notices: Notices,
    ) -> Result<(Self, Sides), RunError> {
        let look = RunError::sys("look at the terminal");
        let saved = Attributes::of(caller.as_fd()).map_err(&look)?;
        let make = RunError::sys("make a terminal for the task (run it with `< /dev/null` if it needs none)");
        let Pair { master, slave } = terminal::open().map_err(&make)?;
        saved.apply(slave.as_fd()).map_err(&make)?;
        if let Some(uid) = owner {
            terminal::give_to(slave.as_fd(), uid).map_err(&make)?;
        }
        let device = rdev(slave.as_fd()).map_err(RunError::io("look at the task's terminal"))?;
        // Where it cannot be opened again it is read when the kernel says that something is there.
        let own =
            terminal::reopen(caller.as_fd()).or_else(|_| fd::duplicate(caller.as_fd())).map_err(&look)?;
        let watch = RunError::sys("wait for the terminal");
        let stream = |kind| signal(kind).map_err(RunError::io("watch for signals"));
        let sides = Sides { slave, master: fd::duplicate(master.as_fd()).map_err(&make)? };
        let mut terminal = Self {
            caller: reactor::register_for(own, Interest::READABLE).map_err(&watch)?,
            saved,
            mode: Mode::Callers,
            hung_up: false,
            master: reactor::register_for(master, Interest::WRITABLE).map_err(&watch)?,
            device,
            typed: VecDeque::new(),
            waiting: Vec::new(),
            escape: Escape::default(),
            interrupt,
            notices,
            resized: stream(SignalKind::window_change())?,
            continued: stream(SignalKind::from_raw(CONT))?,
        };
        restore_on_panic(fd::duplicate(caller.as_fd()).map_err(&look)?, saved);
        terminal.resume();
        Ok((terminal, sides))
    }

    /// What is asked for next. Brings keys and the size to the task meanwhile. Can be cancelled.
    pub(super) async fn next(&mut self) -> Asked {
        loop {
            if let Some(asked) = self.digest() {
                return asked;
            }
            let reads = !self.hung_up && self.waiting.len() < WAITING;
            tokio::select! {
                ready = self.caller.readable(), if reads => {
                    let Ok(mut ready) = ready else {
                        self.hung_up = true;
                        continue;
                    };
                    match look_for_keys(ready.get_inner().as_fd(), &mut self.typed) {
                        Keys::Some => {}
                        Keys::None => ready.clear_ready(),
                        Keys::HungUp => {
                            self.hung_up = true;
                            // Who has us ignore the signal wants the task to outlive the terminal.
                            if !is_ignored(HUP) {
                                return Asked::HangUp;
                            }
                        }
                    }
                    // A job that was brought to the foreground while it ran is told by nothing else.
                    if self.mode == Mode::Callers && !self.typed.is_empty() {
                        self.resume();
                    }
                }
                ready = self.master.writable(), if !self.waiting.is_empty() => match ready {
                    Ok(mut ready) => {
                        if hand_over(ready.get_inner().as_fd(), &mut self.waiting) == Handed::Part {
                            ready.clear_ready();
                        }
                    }
                    Err(_) => self.waiting.clear(),
                },
                _ = self.resized.recv() => self.fit(),
                // Whoever had the terminal while we were stopped may have set it.
                _ = self.continued.recv() => self.resume(),
            }
        }
    }

    /// Judges what was typed, one key after the other.
    fn digest(&mut self) -> Option<Asked> {
        let mut asked = None;
        while asked.is_none()
            && let Some(key) = self.typed.pop_front()
        {
            asked = match (self.judge(key), self.interrupt) {
                (Meaning::Input, _) => {
                    self.waiting.push(key);
                    None
                }
                (Meaning::Interrupt, Interrupt::AsTyped) => Some(Asked::Interrupt),
                (Meaning::Interrupt, Interrupt::StopSignal) | (Meaning::Stop, _) => Some(Asked::Stop),
                (Meaning::Suspend, _) => Some(Asked::Suspend(Suspend::Group)),
                (Meaning::Kill, _) => Some(Asked::Kill),
            };
        }
        // What is not taken now is handed over when there is room.
        let _ = hand_over(self.master.get_ref().as_fd(), &mut self.waiting);
        asked
    }

    /// SIGINT to whoever is in the foreground of the task's terminal. The key itself would make the terminal throw away what the task has
    /// written and nobody has read yet.
    pub(super) fn interrupt(&self) {
        // A terminal without a foreground has nobody to tell; the executor sees to the end.
        let _ = terminal::interrupt(self.master.get_ref().as_fd());
    }

    fn judge(&mut self, key: u8) -> Meaning {
        if self.escape.is_third(key, clock::monotonic()) {
            return Meaning::Kill;
        }
        let master = self.master.get_ref().as_fd();
        let Ok(settings) = Attributes::of(master) else { return Meaning::Input };
        keys::meaning(key, settings.discipline(), || match terminal::holders(master) {
            None => Owner::Nobody,
            // The main process leads the session.
            Some(Holders { session, group }) if group == session => {
                Owner::Main(manners::look(session, self.device))
            }
            Some(_) => Owner::Job,
        })
    }

    /// The task's terminal gets the size of the caller's.
    fn fit(&self) {
        if let Ok(size) = Size::of(self.caller.get_ref().as_fd()) {
            // Our own master: refused only when the task's terminal is gone.
            let _ = size.apply(self.master.get_ref().as_fd());
        }
    }

    /// Takes the caller's terminal, if it is for us to take.
    pub(super) fn resume(&mut self) {
        let caller = self.caller.get_ref().as_fd();
        if !self.hung_up && terminal::ground(caller) == Ground::Fore {
            if let (Mode::Callers, Ok(settings)) = (self.mode, Attributes::of(caller)) {
                self.saved = settings;
                // Lines that were typed before, as lines: raw, the end of the input among them would be another byte.
                while look_for_keys(caller, &mut self.typed) == Keys::Some {}
            }
            // A terminal that cannot be set was hung up, which its next read tells.
            if self.saved.raw().apply(caller).is_ok() {
                self.mode = Mode::Raw;
            }
            // What was half a line is keys now, and nobody announces that.
            while look_for_keys(caller, &mut self.typed) == Keys::Some {}
        }
        self.fit();
    }

    /// Gives the caller's terminal back as it was.
    pub(super) fn restore(&mut self) {
        let caller = self.caller.get_ref().as_fd();
        // In the background it is somebody else's, who has set it as he likes.
        if self.mode == Mode::Raw && terminal::ground(caller) == Ground::Fore {
            let _ = self.saved.apply(caller);
        }
        self.mode = Mode::Callers;
    }

    /// A line of ours, so that it begins at the left on a raw terminal too.
    pub(super) fn shown<'l>(&self, line: &'l str) -> Cow<'l, str> {
        match (self.mode, self.notices) {
            (Mode::Raw, Notices::Here) => Cow::Owned(format!("{line}\r")),
            (Mode::Callers, _) | (_, Notices::Elsewhere) => Cow::Borrowed(line),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.restore();
    }
}

/// `SIGHUP`.
const HUP: i32 = 1;

/// `SIGCONT`.
const CONT: i32 = 18;
