//! Lines for people, on stderr: stdout belongs to the task.

use std::io::Write;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::sys::poll::{Interest, Poll};

/// One line. A closed stderr is no reason to fail.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "proctor: {}", printable(line));
}

/// The line as one line, whatever names it tells of: those of files and processes may hold line breaks and what a terminal obeys. The return
/// that a raw terminal needs at the end stays.
fn printable(line: &str) -> String {
    let (text, end) = line.strip_suffix('\r').map_or((line, ""), |text| (text, "\r"));
    let mut shown = String::with_capacity(line.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown + end
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

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(printable("a\nb\u{1b}[31mä\r"), "a\\nb\\u{1b}[31mä\r");
        assert_eq!(printable(""), "");
    }
}
