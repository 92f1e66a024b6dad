use std::io::{Read as _, Seek, SeekFrom, Write as _};
use std::os::fd::AsRawFd;

use super::*;
use crate::sys::fd::PipeFlags;
use crate::sys::socket;

/// Writes until no more is taken. A sink that waited would hang here.
fn fill(sink: &Sink) -> usize {
    let mut total = 0;
    loop {
        match sink.write(&[0; 10_000]) {
            Taken::Bytes(n) => total += n,
            Taken::Full => return total,
            other => panic!("{other:?} after {total} bytes"),
        }
    }
}

#[test]
fn a_pipe_is_opened_again_so_that_the_callers_own_flags_stay() {
    let (reader, target) = fd::pipe(PipeFlags::ReadNonBlocking).expect("a pipe");
    let callers = fd::duplicate(target.as_fd()).expect("a duplicate");
    let sink = Sink::new(target);
    assert!(matches!(sink, Sink::Own(_)));
    assert!(fill(&sink) >= 4096);
    // proc(5): the flags of an open file in octal; 4000 is O_NONBLOCK.
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", callers.as_raw_fd())).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags");
    assert_eq!(u32::from_str_radix(flags.trim(), 8).unwrap() & 0o4000, 0, "{info}");
    drop((callers, reader));
    assert_eq!(sink.write(b"x"), Taken::Closed);
}

#[test]
fn a_socket_is_not_waited_for_and_its_end_is_seen() {
    let (one, other) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let sink = Sink::new(one.into());
    assert!(matches!(sink, Sink::Socket(_)));
    assert!(fill(&sink) > 0);
    drop(other);
    assert_eq!(sink.write(b"x"), Taken::Closed);
    // One that keeps messages apart is a socket as well.
    let (one, _other) = socket::pair().expect("a pair");
    assert!(matches!(Sink::new(one), Sink::Socket(_)));
}

#[test]
fn a_file_is_written_where_its_caller_stands() {
    let sealed = fd::sealed("sink", b"").expect("a memory file");
    assert!(matches!(Sink::new(sealed), Sink::File(_)));
    let mut path = std::env::temp_dir();
    path.push(format!("proctor-sink-{}", std::process::id()));
    let mut file = std::fs::File::options().create_new(true).read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(b"before ").unwrap();
    let sink = Sink::new(fd::duplicate(file.as_fd()).expect("a duplicate"));
    assert_eq!(sink.write(b"ours "), Taken::Bytes(5));
    file.write_all(b"after").unwrap();
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "before ours after");
}

#[test]
fn a_pipe_that_nobody_reads_is_found_closed_by_the_first_write() {
    let (reader, target) = fd::pipe(PipeFlags::ReadNonBlocking).expect("a pipe");
    drop(reader);
    assert_eq!(Sink::new(target).write(b"x"), Taken::Closed);
}

#[test]
fn a_shared_target_gets_no_more_than_it_has_room_for() {
    let (_reader, target) = fd::pipe(PipeFlags::ReadNonBlocking).expect("a pipe");
    let sink = Sink::Shared { fd: target, portion: ROOM_OF_PIPE };
    assert!(sink.waits_before_write());
    assert_eq!(sink.write(&[0; 10_000]), Taken::Bytes(4096));
    assert_eq!(sink.write(b"x"), Taken::Bytes(1));
}
