//! Lines for people, on stderr: stdout belongs to the task.

use std::io::Write;

/// One line. A closed stderr is no reason to fail.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "proctor: {line}");
}
