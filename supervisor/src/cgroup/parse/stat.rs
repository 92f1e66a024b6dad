//! `/proc/PID/stat`: what identifies a process and how it is.

use super::{ParseError, number};

/// The parts of `/proc/PID/stat` that we use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Process id, in the pid namespace of the /proc that was read.
    pub pid: i32,
    /// The command's name, at most 15 bytes; any bytes.
    pub comm: Vec<u8>,
    /// What it is doing.
    pub state: ProcessState,
    /// The parent's id; 0 when it has none in that pid namespace.
    pub ppid: i32,
    /// When it started, in clock ticks (`sysconf(_SC_CLK_TCK)`, 100 a second everywhere) after boot, shifted by the reader's time namespace.
    /// With the pid it names a process, as long as no number is used twice within one tick.
    pub start_ticks: u64,
}

/// The state letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// `R`: running or ready to.
    Running,
    /// `S`: waiting, can be interrupted.
    Sleeping,
    /// `D`: waiting, cannot be interrupted; does not die before the wait ends.
    Uninterruptible,
    /// `T`: stopped by a signal.
    Stopped,
    /// `t`: stopped by a tracer.
    Traced,
    /// `Z`: ended and not reaped.
    Zombie,
    /// `X`: ended, about to be gone.
    Dead,
    /// `I`: an idle kernel thread.
    Idle,
    /// `P`: a parked kernel thread.
    Parked,
    /// Another letter.
    Other(u8),
}

impl ProcessState {
    fn from_letter(letter: u8) -> Self {
        match letter {
            b'R' => Self::Running,
            b'S' => Self::Sleeping,
            b'D' => Self::Uninterruptible,
            b'T' => Self::Stopped,
            b't' => Self::Traced,
            b'Z' => Self::Zombie,
            b'X' => Self::Dead,
            b'I' => Self::Idle,
            b'P' => Self::Parked,
            letter => Self::Other(letter),
        }
    }
}

/// Place of the start time behind the command's name: field 22 of proc_pid_stat(5), where field 3 (state) is place 0.
const START_TIME: usize = 19;

/// Parses `/proc/PID/stat`.
///
/// # Errors
/// There is no name in parentheses, or fields are missing.
pub fn stat(text: &[u8]) -> Result<Stat, ParseError> {
    parse(text).ok_or_else(|| {
        ParseError::new("/proc/PID/stat", "pid (name) state parent ... start time in field 22", text)
    })
}

fn parse(text: &[u8]) -> Option<Stat> {
    // The name is printed as it is, parentheses, spaces and line ends too; behind it there are only numbers. So its end is the last one.
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let comm = text.get(open + 1..close)?.to_vec();
    let pid = pid(text[..open].strip_suffix(b" ")?)?;
    let mut fields = text[close + 1..].strip_prefix(b" ")?.split(|&byte| byte == b' ');
    let &[letter] = fields.next()? else { return None };
    let ppid = self::pid(fields.next()?)?;
    let start = fields.nth(START_TIME - 2)?;
    let start_ticks = number(start.strip_suffix(b"\n").unwrap_or(start))?;
    Some(Stat { pid, comm, state: ProcessState::from_letter(letter), ppid, start_ticks })
}

fn pid(field: &[u8]) -> Option<i32> {
    number(field).and_then(|pid| i32::try_from(pid).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(comm: &[u8], letter: char, ppid: i32, start: u64) -> Vec<u8> {
        let mut text = b"42 (".to_vec();
        text.extend_from_slice(comm);
        let middle = "7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0";
        text.extend_from_slice(format!(") {letter} {ppid} {middle} {start} 99 0\n").as_bytes());
        text
    }

    #[test]
    fn our_own_is_read() {
        let stat = stat(&std::fs::read("/proc/self/stat").unwrap()).unwrap();
        assert_eq!(stat.pid, std::process::id() as i32);
        assert_eq!(stat.ppid, std::os::unix::process::parent_id() as i32);
        assert!(stat.start_ticks > 0);
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_cannot_lie() {
        let stat = stat(&line(b") Z 1 (x", 'D', 5, 1234)).unwrap();
        assert_eq!(stat.comm, b") Z 1 (x");
        assert_eq!(stat.state, ProcessState::Uninterruptible);
        assert_eq!(stat.ppid, 5);
        assert_eq!(stat.start_ticks, 1234);
    }

    #[test]
    fn a_line_cut_short_is_refused() {
        let whole = line(b"sh", 'S', 1, 77);
        assert!(stat(&whole).is_ok());
        let end = whole.iter().rposition(|&byte| byte == b'7').unwrap();
        for length in 0..end - 1 {
            assert!(stat(&whole[..length]).is_err(), "{length}");
        }
        for wrong in [&b""[..], b"1 )x( S 1", b"x (sh) S 1", b"()"] {
            assert!(stat(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = stat(&text);
        }

        #[test]
        fn any_name_comes_back(
            comm in proptest::collection::vec(any::<u8>(), 0..16), ppid in 0..=i32::MAX, start: u64,
            letter in proptest::char::range('A', 'z'),
        ) {
            let stat = stat(&line(&comm, letter, ppid, start)).unwrap();
            prop_assert_eq!(stat.comm, comm);
            prop_assert_eq!(stat.ppid, ppid);
            prop_assert_eq!(stat.start_ticks, start);
            prop_assert_eq!(stat.state, ProcessState::from_letter(letter as u8));
        }
    }
}
