//! How a process behaves at its terminal: what `/proc` shows of it.

use std::os::unix::fs::MetadataExt;

use super::keys::{Activity, Handling, Manners};
use crate::sys::process;

/// `SIGINT` and `SIGTSTP`.
const INT: u32 = 2;
const TSTP: u32 = 20;

/// The device number of /dev/tty, another name for whatever terminal a process has.
const OWN_TERMINAL: u64 = 5 << 8;

/// Looks at a process whose terminal has this device number. What cannot be read counts as what a plain program does.
pub(super) fn look(pid: i32, terminal: u64) -> Manners {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let reads = reads_from(&call).is_some_and(|fd| {
        std::fs::metadata(format!("/proc/{pid}/fd/{fd}"))
            .is_ok_and(|file| [terminal, OWN_TERMINAL].contains(&file.rdev()))
    });
    Manners {
        stop: handling(&status, TSTP),
        interrupt: handling(&status, INT),
        activity: if reads { Activity::Reads } else { Activity::Other },
    }
}

/// From `/proc/PID/status`.
fn handling(status: &str, signal: u32) -> Handling {
    let is_in = |field: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(field));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & 1 << (signal - 1) != 0)
    };
    match (is_in("SigIgn:"), is_in("SigCgt:")) {
        (true, _) => Handling::Ignored,
        (false, true) => Handling::Caught,
        (false, false) => Handling::Default,
    }
}

/// The descriptor that a process waits to `read(2)` from, from `/proc/PID/syscall`: `running`, or the number of the call and its
/// arguments.
fn reads_from(call: &str) -> Option<u32> {
    let mut fields = call.split_ascii_whitespace();
    let number = fields.next()?.parse::<i64>().ok()?;
    let fd = fields.next()?.strip_prefix("0x")?;
    (number == process::READ_CALL).then(|| u32::from_str_radix(fd, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str =
        "Name:\tx\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000380004\nSigCgt:\t000000004b817efb\n";

    #[test]
    fn masks_are_read_as_the_kernel_writes_them() {
        assert_eq!(handling(STATUS, TSTP), Handling::Ignored);
        assert_eq!(handling(STATUS, INT), Handling::Caught);
        assert_eq!(handling(STATUS, 30), Handling::Default);
        assert_eq!(handling("", INT), Handling::Default);
        assert_eq!(handling("SigIgn: nonsense", INT), Handling::Default);
    }

    #[test]
    fn a_waiting_read_is_recognised() {
        let read = process::READ_CALL;
        assert_eq!(
            reads_from(&format!("{read} 0x3 0x7fd75c23c000 0x20000 0x0 0x0 0x0 0x7f 0x7f\n")),
            Some(3)
        );
        assert_eq!(reads_from(&format!("{} 0x0 0x7f\n", read + 100)), None);
        for other in ["running\n", "", "-1 0x7ffe 0x7f\n", "nonsense"] {
            assert_eq!(reads_from(other), None, "{other:?}");
        }
    }

    #[test]
    fn we_are_plain() {
        assert_eq!(look(process::id(), 1).activity, Activity::Other);
    }
}
