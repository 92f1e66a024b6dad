//! Lines for people, on stderr: stdout belongs to the task.

use std::io::Write;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::sys::poll::{Interest, Poll};

/// One line. A closed stderr is no reason to fail.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "proctor: {line}");
}

/// One line while a task runs, or none where stderr takes nothing now, a pipe that nobody reads say: to wait for its reader would be to
/// act on no signal meanwhile.
pub(super) fn remark(line: &str) {
    let stderr = std::io::stderr();
    let mut poll = Poll::<1>::new();
    let room = poll.add(stderr.as_fd(), Interest::Write);
    if poll.wait(Some(Duration::ZERO)).is_ok() && poll.ready(room) {
        say(line);
    }
}
