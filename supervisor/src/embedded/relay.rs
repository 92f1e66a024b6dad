//! The single steps between two terminals: reading keys, handing them over, giving a terminal back.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::sys::fd::{self, Read, Write};
use crate::sys::poll::{Interest, Poll};
use crate::sys::terminal::{self, Attributes, Ground};

/// A panic ends the process without dropping anything.
pub(super) fn restore_on_panic(caller: OwnedFd, saved: Attributes) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if terminal::ground(caller.as_fd()) == Ground::Fore {
            let _ = saved.apply(caller.as_fd());
        }
        before(info);
    }));
}

/// What a look for keys found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// Some were typed.
    Some,
    /// None now, or none that are for us.
    None,
    /// There will never be one.
    HungUp,
}

/// Reads what was typed, without waiting and only while it is for us.
pub(super) fn look_for_keys(caller: BorrowedFd<'_>, typed: &mut VecDeque<u8>) -> Keys {
    if terminal::ground(caller) == Ground::Back {
        return Keys::None;
    }
    // Not every descriptor here reads without waiting (see `open`).
    let mut poll = Poll::<1>::new();
    let slot = poll.add(caller, Interest::Read);
    if poll.wait(Some(Duration::ZERO)).is_err() || !poll.ready(slot) {
        return Keys::None;
    }
    let mut buffer = [0; 4096];
    match fd::read(caller, &mut buffer) {
        Ok(Read::Bytes(n)) => {
            typed.extend(&buffer[..n]);
            Keys::Some
        }
        Ok(Read::Empty) => Keys::None,
        // Before it was raw, Ctrl-D may have ended a line: the task's terminal shall see it.
        Ok(Read::End) => match Attributes::of(caller).map(|settings| settings.discipline().end) {
            Ok(end) => {
                typed.extend(end);
                Keys::Some
            }
            Err(_) => Keys::HungUp,
        },
        Err(_) => Keys::HungUp,
    }
}

/// How much a terminal took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handed {
    /// Everything.
    All,
    /// As much as it has room for now.
    Part,
}

/// Writes to the task's terminal what it takes now.
pub(super) fn hand_over(master: BorrowedFd<'_>, waiting: &mut Vec<u8>) -> Handed {
    while !waiting.is_empty() {
        match fd::write(master, waiting) {
            Write::Bytes(n) => drop(waiting.drain(..n)),
            Write::Full => return Handed::Part,
            // The task's terminal is gone, and its input with it.
            Write::Closed(_) => waiting.clear(),
        }
    }
    Handed::All
}

/// The device number of a terminal.
pub(super) fn rdev(fd: BorrowedFd<'_>) -> std::io::Result<u64> {
    Ok(std::fs::File::from(fd.try_clone_to_owned()?).metadata()?.rdev())
}
