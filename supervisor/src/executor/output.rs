//! The task's output: from its pipe to whoever reads it.
//!
//! The rule that loses nothing and waits for nobody: once nothing lives in the run's leaf, all that the task ever wrote is in the pipe.
//! So the pipe is read until it is empty, once, and the end of file, which a process outside could delay for ever, is not waited for.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::sink::{Sink, Taken};
use crate::sys::fd::{self, Read};
use crate::sys::memory::Pages;
use crate::wire::StreamReport;

/// Small while there is little to move …
const BUFFER_MIN: NonZeroUsize = NonZeroUsize::new(16 << 10).expect("not zero");
/// … and large while output is heavy: fewer system calls.
const BUFFER_MAX: NonZeroUsize = NonZeroUsize::new(128 << 10).expect("not zero");
/// The pipe's size once output is heavy, in bytes.
const PIPE_SIZE: i32 = 1 << 20;
/// How much more than the pipe held when its task was dead is read before whoever goes on writing to it is left alone, in bytes.
const STRANGERS_SHARE: u64 = 1 << 20;
/// How much is moved before other events have their turn.
const TURN: usize = 16;

/// One stream of a task's output.
#[derive(Debug)]
pub(super) struct Output {
    /// What the task writes to. Kept open here too, so that an end of file means nothing until we close it, and a next run has it.
    writer: Option<OwnedFd>,
    reader: Option<OwnedFd>,
    sink: Sink,
    pending: Option<Pending>,
    /// A buffer to use again, kept while output goes on.
    spare: Option<Pages>,
    next_size: NonZeroUsize,
    stage: Stage,
    report: StreamReport,
    room: Room,
}

/// Bytes that were read and not yet taken.
#[derive(Debug)]
struct Pending {
    pages: Pages,
    rest: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The task may write.
    Open,
    /// The task is dead: what the pipe holds is all there is, so many bytes at the most.
    Draining { left: u64 },
    /// Everything is read.
    Read,
}

/// Whether the sink may be written to, for those that must be asked before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Unknown,
    Some,
}

/// What a stream waits for.
#[derive(Debug)]
pub(super) enum Wants<'o> {
    /// Bytes from the task.
    Input(BorrowedFd<'o>),
    /// Room at the target.
    Room(BorrowedFd<'o>),
    /// Nothing any more.
    Nothing,
}

/// What a turn of moving bytes ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// Wait for what [`Output::wants`] says.
    Waits,
    /// There is more to do at once.
    More,
    /// The reader of the target has gone just now: the task's next write will tell it.
    Closed,
}

impl Output {
    /// A stream from `reader`, non-blocking, to `target`. `writer` is what tasks get.
    pub(super) fn new(reader: OwnedFd, writer: OwnedFd, target: OwnedFd) -> Self {
        // Of a terminal the two sides are two files, and it is this one that others may hold.
        let inode = fd::identify(writer.as_fd()).map_or(0, |identity| identity.inode);
        Self {
            writer: Some(writer),
            reader: Some(reader),
            sink: Sink::new(target),
            pending: None,
            spare: None,
            next_size: BUFFER_MIN,
            stage: Stage::Open,
            report: StreamReport { inode, ..StreamReport::default() },
            room: Room::Unknown,
        }
    }

    /// What the task's descriptor is to be; none once the run was drained.
    pub(super) fn writer(&self) -> Option<BorrowedFd<'_>> {
        self.writer.as_ref().map(AsFd::as_fd)
    }

    /// The figures so far.
    pub(super) fn report(&self) -> StreamReport {
        self.report
    }

    /// Nothing is left to read or to hand over.
    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Read && self.pending.is_none()
    }

    /// The task is dead: read the rest, then stop.
    pub(super) fn drain(&mut self) {
        // With our own writer closed, an empty pipe that is not at its end is held open by somebody else.
        self.writer = None;
        if self.stage == Stage::Open {
            self.stage = match &self.reader {
                Some(reader) => {
                    Stage::Draining { left: fd::available(reader.as_fd()).saturating_add(STRANGERS_SHARE) }
                }
                None => Stage::Read,
            };
        }
    }

    /// Hands nothing more over. What was read and not taken counts as lost.
    pub(super) fn give_up(&mut self) {
        self.drain();
        // Count what is there, so that the report says how much was not handed over.
        while self.stage != Stage::Read && self.fill() == Filled::Some {
            self.recycle();
        }
        (self.pending, self.spare, self.reader) = (None, None, None);
        self.stage = Stage::Read;
    }

    /// What to wait for.
    pub(super) fn wants(&self) -> Wants<'_> {
        match (&self.pending, &self.reader, self.stage) {
            (Some(_), _, _) => Wants::Room(self.sink.as_fd()),
            (None, Some(reader), Stage::Open | Stage::Draining { .. }) => Wants::Input(reader.as_fd()),
            (None, _, _) => Wants::Nothing,
        }
    }

    /// The target said that there is room.
    pub(super) fn has_room(&mut self) {
        self.room = Room::Some;
    }

    /// Moves what can be moved now.
    pub(super) fn turn(&mut self) -> Moved {
        for _ in 0..TURN {
            if self.pending.is_none() && self.fill() == Filled::Stopped {
                return Moved::Waits;
            }
            let Some(pending) = &mut self.pending else { return Moved::Waits };
            if self.sink.waits_before_write() && self.room == Room::Unknown {
                return Moved::Waits;
            }
            self.room = Room::Unknown;
            match self.sink.write(&pending.pages[pending.rest.clone()]) {
                Taken::Bytes(n) => {
                    self.report.handed_over += n as u64;
                    pending.rest.start += n;
                    if pending.rest.is_empty() {
                        self.recycle();
                    }
                }
                Taken::Full => return Moved::Waits,
                Taken::Lost => self.recycle(),
                Taken::Closed => {
                    self.report.closed = 1;
                    // Without a reader the task's next write gives it SIGPIPE, as in a plain pipeline.
                    (self.reader, self.pending, self.spare) = (None, None, None);
                    if self.stage != Stage::Open {
                        self.stage = Stage::Read;
                    }
                    return Moved::Closed;
                }
            }
        }
        // The pipe may be empty now, and then nothing would come to give the buffer back.
        self.spare = None;
        Moved::More
    }

    /// Everything pending is done with. A buffer that was full tells that output is heavy: the next one is large.
    fn recycle(&mut self) {
        let Some(Pending { pages, rest }) = self.pending.take() else { return };
        if rest.end == pages.len() && self.next_size < BUFFER_MAX {
            self.next_size = BUFFER_MAX;
            if let Some(reader) = &self.reader {
                // Refused for unprivileged users with many pipes: it works with the smaller one too.
                let _ = fd::set_pipe_size(reader.as_fd(), PIPE_SIZE);
            }
        }
        self.spare = (pages.len() == self.next_size.get()).then_some(pages);
    }

    /// Reads once into a buffer.
    fn fill(&mut self) -> Filled {
        let Some(reader) = &self.reader else { return Filled::Stopped };
        let pages = self.spare.take().map_or_else(|| Pages::new(self.next_size), Ok);
        let Ok(mut pages) = pages else { return Filled::Stopped };
        match (fd::read(reader.as_fd(), &mut pages), self.stage) {
            (Ok(Read::Bytes(n)), stage) => {
                self.report.read += n as u64;
                self.pending = Some(Pending { pages, rest: 0..n });
                if let Stage::Draining { left } = stage {
                    let left = left.saturating_sub(n as u64);
                    self.stage = if left > 0 { Stage::Draining { left } } else { Stage::Read };
                    self.report.held_open = u8::from(left == 0);
                }
                return Filled::Some;
            }
            (Ok(Read::Empty), Stage::Draining { .. }) => {
                self.report.held_open = 1;
                self.stage = Stage::Read;
            }
            // Quiet: the pages were given back above.
            (Ok(Read::Empty), Stage::Open | Stage::Read) => self.next_size = BUFFER_MIN,
            (Ok(Read::End) | Err(_), Stage::Draining { .. } | Stage::Read) => self.stage = Stage::Read,
            // We hold a writer, so this is no end but a pipe that cannot be read; the task will be told by SIGPIPE.
            (Ok(Read::End) | Err(_), Stage::Open) => self.reader = None,
        }
        Filled::Stopped
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    Some,
    Stopped,
}

#[cfg(test)]
mod tests;
