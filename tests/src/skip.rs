//! Tests that cannot run here.

use std::io::Write;

/// Counts the test as skipped, for this reason. `cargo xtask test` compares the skips with the expected list.
#[track_caller]
pub fn skip(test: &str, reason: &str) {
    if let Some(path) = std::env::var_os("PROCTOR_SKIP_FILE") {
        let line = format!("skipped: {test}: {reason}\n");
        let file = std::fs::File::options().append(true).create(true).open(path);
        // One write of one line in append mode: tests that run side by side do not mix theirs.
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("note the skip");
    }
    #[expect(clippy::print_stderr, reason = "for who runs one test by hand")]
    {
        eprintln!("skipped: {test}: {reason}");
    }
}
