//! What the keys mean that somebody types at a task's terminal: for the task, or for us.
//!
//! Every key belongs to the task, as at any terminal. Ctrl-C and Ctrl-Z (whatever keys they are set to) are also for us when the task
//! is a plain program, which leaves them to the terminal: then Ctrl-C asks for the end of the task, not only for a SIGINT, and Ctrl-Z
//! stops us as a job of the caller's shell. A program that deals with its terminal itself (a shell, an editor, one that waits for a line
//! of input) gets them, and we do nothing.

use std::time::Duration;

use crate::sys::terminal::Discipline;

/// How a process behaves at its terminal, as the kernel shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manners {
    /// What it does with SIGTSTP. Whoever does not leave it to the kernel manages jobs or a whole screen.
    pub(super) stop: Handling,
    /// What it does with SIGINT.
    pub(super) interrupt: Handling,
    /// What it does now.
    pub(super) activity: Activity,
}

/// What a process does with a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handling {
    /// What the kernel does by default.
    Default,
    /// Nothing.
    Ignored,
    /// Something of its own.
    Caught,
}

/// What a process is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// It waits in a read of the terminal.
    Reads,
    /// Something else, or nobody can tell.
    Other,
}

/// Who has the task's terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// No session: the task has not taken it yet, or its main process has ended.
    Nobody,
    /// The process group of the task's main process, which behaves so.
    Main(Manners),
    /// Another group: a job of a shell.
    Job,
}

/// What becomes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It goes to the task, and that is all.
    Input,
    /// An end was asked for, and the task heeds a SIGINT.
    Interrupt,
    /// An end was asked for, but nobody there heeds a SIGINT.
    Stop,
    /// We are to be stopped as a job.
    Suspend,
    /// The task is to be killed, whatever it does.
    Kill,
}

/// Judges the key. `owner` is asked only when the answer counts.
pub(super) fn meaning(key: u8, discipline: Discipline, owner: impl FnOnce() -> Owner) -> Meaning {
    if !discipline.signals {
        return Meaning::Input;
    }
    if Some(key) == discipline.interrupt && discipline.lines {
        match owner() {
            Owner::Nobody => Meaning::Stop,
            Owner::Main(Manners { stop: Handling::Ignored | Handling::Caught, .. })
            | Owner::Main(Manners { activity: Activity::Reads, .. })
            | Owner::Job => Meaning::Input,
            Owner::Main(Manners { interrupt: Handling::Ignored, .. }) => Meaning::Stop,
            Owner::Main(Manners { interrupt: Handling::Default | Handling::Caught, .. }) => {
                Meaning::Interrupt
            }
        }
    } else if Some(key) == discipline.suspend {
        // The kernel stops nobody in the task's session for it, since nobody there could continue it: it would be lost.
        match owner() {
            Owner::Nobody | Owner::Main(Manners { stop: Handling::Default, .. }) => Meaning::Suspend,
            Owner::Main(Manners { stop: Handling::Ignored | Handling::Caught, .. }) | Owner::Job => {
                Meaning::Input
            }
        }
    } else {
        Meaning::Input
    }
}

/// Ctrl-], three times within a second: ends a task that takes every other key for itself.
#[derive(Debug, Default)]
pub(super) struct Escape {
    /// When the last ones were typed, the oldest first.
    last: [Option<Duration>; 2],
}

const ESCAPE: u8 = 0x1d;
const WITHIN: Duration = Duration::from_secs(1);

impl Escape {
    /// Whether this key, typed now, is the third one.
    pub(super) fn is_third(&mut self, key: u8, now: Duration) -> bool {
        let [first, second] = self.last;
        if key != ESCAPE {
            self.last = [None, None];
            return false;
        }
        self.last = [second, Some(now)];
        first.is_some_and(|first| now.saturating_sub(first) <= WITHIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOKED: Discipline =
        Discipline { lines: true, signals: true, interrupt: Some(3), suspend: Some(26), end: Some(4) };
    const PLAIN: Manners =
        Manners { stop: Handling::Default, interrupt: Handling::Default, activity: Activity::Other };
    const SHELL: Manners =
        Manners { stop: Handling::Ignored, interrupt: Handling::Caught, activity: Activity::Other };

    fn judge(key: u8, discipline: Discipline, owner: Owner) -> Meaning {
        meaning(key, discipline, || owner)
    }

    #[test]
    fn a_plain_program_is_interrupted_and_we_are_suspended() {
        assert_eq!(judge(3, COOKED, Owner::Main(PLAIN)), Meaning::Interrupt);
        assert_eq!(judge(26, COOKED, Owner::Main(PLAIN)), Meaning::Suspend);
        let caught = Manners { interrupt: Handling::Caught, ..PLAIN };
        assert_eq!(judge(3, COOKED, Owner::Main(caught)), Meaning::Interrupt);
        let deaf = Manners { interrupt: Handling::Ignored, ..PLAIN };
        assert_eq!(judge(3, COOKED, Owner::Main(deaf)), Meaning::Stop);
        assert_eq!(judge(3, COOKED, Owner::Nobody), Meaning::Stop);
    }

    #[test]
    fn whoever_deals_with_the_terminal_gets_its_keys() {
        let raw = Discipline { lines: false, ..COOKED };
        let silent = Discipline { signals: false, ..COOKED };
        for (discipline, owner) in [
            (COOKED, Owner::Main(SHELL)),
            (COOKED, Owner::Job),
            (raw, Owner::Main(PLAIN)),
            (silent, Owner::Main(PLAIN)),
            (COOKED, Owner::Main(Manners { activity: Activity::Reads, ..PLAIN })),
        ] {
            assert_eq!(judge(3, discipline, owner), Meaning::Input, "{discipline:?} {owner:?}");
        }
        for (discipline, owner) in
            [(COOKED, Owner::Main(SHELL)), (COOKED, Owner::Job), (silent, Owner::Main(PLAIN))]
        {
            assert_eq!(judge(26, discipline, owner), Meaning::Input, "{discipline:?} {owner:?}");
        }
    }

    #[test]
    fn other_keys_and_keys_that_are_switched_off_are_input() {
        let owner = || panic!("must not be asked");
        for key in (0..=255).filter(|key| ![3, 26].contains(key)) {
            assert_eq!(meaning(key, COOKED, owner), Meaning::Input);
        }
        let off = Discipline { interrupt: None, suspend: Some(5), ..COOKED };
        assert_eq!(judge(3, off, Owner::Main(PLAIN)), Meaning::Input);
        assert_eq!(judge(5, off, Owner::Main(PLAIN)), Meaning::Suspend);
        assert_eq!(judge(0, off, Owner::Main(PLAIN)), Meaning::Input);
    }

    #[test]
    fn three_escapes_in_a_row_within_a_second() {
        let typed = |keys: &[(u8, u64)]| {
            let mut escape = Escape::default();
            keys.iter().filter(|(key, at)| escape.is_third(*key, Duration::from_millis(*at))).count()
        };
        assert_eq!(typed(&[(ESCAPE, 0), (ESCAPE, 500), (ESCAPE, 1000)]), 1);
        assert_eq!(typed(&[(ESCAPE, 0), (ESCAPE, 500), (ESCAPE, 1001)]), 0);
        assert_eq!(typed(&[(ESCAPE, 0), (ESCAPE, 1), (b'x', 2), (ESCAPE, 3)]), 0);
        assert_eq!(typed(&[(ESCAPE, 0), (ESCAPE, 900), (ESCAPE, 1800), (ESCAPE, 1850)]), 1);
    }
}
