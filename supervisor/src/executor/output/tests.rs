//! Output through real pipes. A writer of the tests' own never waits: it stands for the task, and a full pipe ends its turn.

use proptest::prelude::*;

use super::*;
use crate::sys::Errno;
use crate::sys::fd::{PipeFlags, Write};

/// What a pipe holds when nobody has changed it, in bytes (pipe(7)).
const PIPE: usize = 64 << 10;

/// A stream, the task's end of it, and the end that its reader has.
struct Rig {
    output: Output,
    task: Option<OwnedFd>,
    reader: Option<OwnedFd>,
    written: Vec<u8>,
    got: Vec<u8>,
}

impl Rig {
    /// To a pipe of its own.
    fn new() -> Self {
        let (reader, target) = fd::pipe(PipeFlags::ReadNonBlocking).expect("a pipe for the target");
        Self::to(target, Some(reader))
    }

    fn to(target: OwnedFd, reader: Option<OwnedFd>) -> Self {
        let (input, writer) = fd::pipe(PipeFlags::ReadNonBlocking).expect("a pipe for the task");
        let task = fd::reopen_for_writing(writer.as_fd()).expect("a writer that does not wait");
        let output = Output::new(input, writer, target);
        Self { output, task: Some(task), reader, written: Vec::new(), got: Vec::new() }
    }

    /// The task writes so many bytes, or as many as there is room for. No two places of the stream look alike for a while.
    fn write(&mut self, length: usize) -> Write {
        let at = self.written.len();
        let bytes: Vec<u8> = (at..at + length).map(|n| (n % 251) as u8).collect();
        let written = fd::write(self.task.as_ref().expect("the task lives").as_fd(), &bytes);
        if let Write::Bytes(n) = written {
            self.written.extend(&bytes[..n]);
        }
        written
    }

    /// The reader takes so many bytes, or all there are.
    fn read(&mut self, length: usize) {
        let mut bytes = vec![0; length];
        let reader = self.reader.as_ref().expect("the reader is there");
        if let Ok(Read::Bytes(n)) = fd::read(reader.as_fd(), &mut bytes) {
            self.got.extend(&bytes[..n]);
        }
    }

    /// The task dies and all is handed over.
    fn end(&mut self) {
        self.task = None;
        self.output.drain();
        // Each round moves something or ends it, so this many are more than enough for what the tests write.
        for _ in 0..1000 {
            self.output.turn();
            self.read(1 << 20);
            if self.output.is_done() {
                return;
            }
        }
        panic!("not done: {:?}", self.output);
    }

    fn assert_all_handed_over(&self) {
        let report = self.output.report();
        assert!(
            self.got == self.written,
            "{} bytes written, {} others came",
            self.written.len(),
            self.got.len()
        );
        assert_eq!((report.read, report.handed_over), (self.got.len() as u64, self.got.len() as u64));
        assert_eq!((report.held_open, report.closed), (0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_comes_in_order_however_it_is_cut(
        steps in proptest::collection::vec((0usize..3, 0usize..200_000), 0..40)
    ) {
        let mut rig = Rig::new();
        for (what, length) in steps {
            match what {
                0 if length > 0 => drop(rig.write(length)),
                1 => rig.read(length.max(1)),
                _ => drop(rig.output.turn()),
            }
        }
        rig.end();
        rig.assert_all_handed_over();
    }

    #[test]
    fn what_is_given_up_is_counted(written in 1usize..PIPE, taken in 0usize..PIPE, turns in 0usize..3) {
        let mut rig = Rig::new();
        rig.write(written);
        for _ in 0..turns {
            rig.output.turn();
            // The target is full from now on.
            rig.write(written);
            rig.output.turn();
        }
        rig.read(taken + 1);
        rig.output.give_up();
        prop_assert!(rig.output.is_done());
        rig.read(1 << 20);
        let report = rig.output.report();
        prop_assert_eq!(report.read, rig.written.len() as u64);
        prop_assert_eq!(report.handed_over, rig.got.len() as u64);
        prop_assert!(rig.written.starts_with(&rig.got));
    }
}

#[test]
fn a_heavy_stream_gets_a_large_buffer_and_gives_it_back_when_it_is_quiet() {
    let mut rig = Rig::to(fd::null().expect("/dev/null"), None);
    assert!(rig.output.spare.is_none() && rig.output.pending.is_none(), "an idle stream holds no memory");
    rig.write(100);
    rig.output.turn();
    assert_eq!(rig.output.next_size, BUFFER_MIN);
    // A full buffer, twice: the first makes the next one large, and the pipe too.
    assert_eq!(rig.write(PIPE), Write::Bytes(PIPE));
    assert_eq!(rig.output.fill(), Filled::Some);
    rig.output.recycle();
    assert_eq!(rig.output.next_size, BUFFER_MAX);
    assert_eq!(rig.output.fill(), Filled::Some);
    assert_eq!(rig.output.pending.as_ref().map(|pending| pending.pages.len()), Some(BUFFER_MAX.get()));
    let Write::Bytes(more) = rig.write(PIPE_SIZE as usize) else { panic!("no room") };
    assert!(more > 2 * PIPE, "the pipe took only {more} bytes");
    rig.output.recycle();
    assert!(rig.output.spare.is_some(), "kept while output goes on");

    while rig.output.turn() == Moved::More {}
    assert_eq!(rig.output.report().read, rig.written.len() as u64);
    assert!(rig.output.spare.is_none() && rig.output.pending.is_none(), "given back");
    assert_eq!(rig.output.next_size, BUFFER_MIN);
}

#[test]
fn a_reader_that_goes_away_is_told_to_the_task_by_epipe() {
    let mut rig = Rig::new();
    rig.write(10);
    assert_eq!(rig.output.turn(), Moved::Waits);
    rig.reader = None;
    // Nobody knows yet.
    assert_eq!(rig.write(10), Write::Bytes(10));
    assert_eq!(rig.output.turn(), Moved::Closed);
    assert_eq!(rig.write(10), Write::Closed(Errno::EPIPE));
    let report = rig.output.report();
    assert_eq!((report.read, report.handed_over, report.closed), (20, 10, 1));
    assert!(matches!(rig.output.wants(), Wants::Nothing));
    assert!(!rig.output.is_done(), "the task lives");
    rig.output.drain();
    assert!(rig.output.is_done());
}

#[test]
fn a_full_disk_costs_bytes_and_not_the_task() {
    let full =
        fd::reopen_for_writing(std::fs::File::options().write(true).open("/dev/full").unwrap().as_fd());
    let mut rig = Rig::to(full.expect("/dev/full"), None);
    for _ in 0..3 {
        assert_eq!(rig.write(1000), Write::Bytes(1000));
        assert_eq!(rig.output.turn(), Moved::Waits);
    }
    let report = rig.output.report();
    assert_eq!((report.read, report.handed_over, report.closed), (3000, 0, 0));
    assert!(matches!(rig.output.wants(), Wants::Input(_)));
    rig.task = None;
    rig.output.drain();
    rig.output.turn();
    assert!(rig.output.is_done());
    assert_eq!(rig.output.report().held_open, 0);
}

#[test]
fn who_holds_the_pipe_open_is_told_of_and_not_waited_for() {
    let mut rig = Rig::new();
    let stranger = fd::duplicate(rig.output.writer().expect("a task may start")).expect("a duplicate");
    rig.write(5000);
    rig.end();
    assert_eq!(rig.got, rig.written);
    assert_eq!(rig.output.report().held_open, 1);
    drop(stranger);
}

#[test]
fn a_stranger_that_writes_for_ever_is_left_alone_soon() {
    let mut rig = Rig::to(fd::null().expect("/dev/null"), None);
    rig.write(5000);
    // The task is dead; whoever writes on is a stranger.
    rig.output.drain();
    let mut rounds = 0;
    while rig.output.stage != Stage::Read {
        assert!(matches!(rig.write(PIPE_SIZE as usize), Write::Bytes(_) | Write::Full));
        assert_eq!(rig.output.fill(), Filled::Some);
        rig.output.recycle();
        rounds += 1;
        assert!(rounds < 1000, "{:?}", rig.output);
    }
    let report = rig.output.report();
    assert!(report.read > STRANGERS_SHARE, "{report:?}");
    assert!(report.read <= 5000 + STRANGERS_SHARE + BUFFER_MAX.get() as u64, "{report:?}");
    assert_eq!(report.held_open, 1);
    assert!(rig.output.is_done());
}

#[test]
fn giving_up_ends_with_a_stranger_that_writes_for_ever_too() {
    let mut rig = Rig::new();
    let stranger = fd::duplicate(rig.output.writer().expect("a task may start")).expect("a duplicate");
    let writes_for_ever = std::thread::spawn(move || {
        let bytes = vec![0; 4096];
        while matches!(fd::write(stranger.as_fd(), &bytes), Write::Bytes(_)) {}
    });
    rig.output.give_up();
    assert!(rig.output.is_done());
    let report = rig.output.report();
    let most = PIPE as u64 + STRANGERS_SHARE + BUFFER_MAX.get() as u64;
    assert!(report.read <= most && report.handed_over == 0, "{report:?}");
    // With the pipe closed it ends, or this test does not.
    writes_for_ever.join().expect("the stranger ends by EPIPE");
}

#[test]
fn a_target_that_cannot_be_opened_again_is_asked_before_each_small_write() {
    let mut rig = Rig::new();
    let (reader, target) = fd::pipe(PipeFlags::ReadNonBlocking).expect("a pipe");
    (rig.reader, rig.output.sink) = (Some(reader), Sink::Shared { fd: target, portion: 4096 });
    rig.write(10_000);
    for handed_over in [4096, 8192, 10_000] {
        // Without the word of the kernel nothing is written: it could wait.
        assert_eq!(rig.output.turn(), Moved::Waits);
        assert!(matches!(rig.output.wants(), Wants::Room(_)));
        rig.output.has_room();
        assert_eq!(rig.output.turn(), Moved::Waits);
        assert_eq!(rig.output.report().handed_over, handed_over);
    }
    rig.end();
    rig.assert_all_handed_over();
}
