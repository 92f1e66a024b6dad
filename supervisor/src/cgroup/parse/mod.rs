//! What the kernel writes about cgroups and processes, parsed. Pure and total: any bytes give a value or a [`ParseError`], never a panic.

mod files;
mod membership;
mod mountinfo;
mod stat;

pub use files::{Controller, Events, Procs, controllers, events, flat_keyed, procs};
pub use membership::{Memberships, V1Hierarchy, V2Membership, memberships};
pub use mountinfo::{Mount, MountId, mounts};
pub use stat::{ProcessState, Stat, stat};

/// Text of the kernel that does not look as documented: a newer kernel, or not the file that it was taken for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} is not as documented: expected {expected}, found `{found}`")]
pub struct ParseError {
    /// The kind of file, e.g. `cgroup.events`.
    pub file: &'static str,
    /// What should have been there.
    pub expected: &'static str,
    /// The beginning of what was there instead, made printable.
    pub found: String,
}

impl ParseError {
    /// As much of a wrong line as a message should hold.
    const SHOWN: usize = 80;

    fn new(file: &'static str, expected: &'static str, found: &[u8]) -> Self {
        let shown = &found[..found.len().min(Self::SHOWN)];
        Self { file, expected, found: shown.escape_ascii().to_string() }
    }
}

/// Lines without their ends; an empty text has none.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.strip_suffix(b"\n").unwrap_or(text).split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
}

/// A decimal number of digits only: no sign, no spaces, no overflow.
fn number(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_that_fit() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [&b""[..], b"+1", b"-1", b" 1", b"1 ", b"18446744073709551616", b"x"] {
            assert_eq!(number(wrong), None, "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn a_message_is_short_and_printable() {
        let error = ParseError::new("f", "a number", &[0xff; 4096]);
        assert!(error.to_string().is_ascii());
        assert!(error.to_string().len() < 500);
    }
}
