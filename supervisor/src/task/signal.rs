//! Signals by number and name.

use std::fmt;

/// A signal that can be sent: 1 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal(u8);

/// A text that names no signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalError(pub String);

/// `signal(7)` for x86 and ARM.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// The first and last real-time signals that the C library leaves to programs.
const REAL_TIME: (u8, u8) = (34, 64);

impl Signal {
    /// SIGHUP.
    pub const HUP: Self = Self(1);
    /// SIGINT.
    pub const INT: Self = Self(2);
    /// SIGQUIT.
    pub const QUIT: Self = Self(3);
    /// SIGKILL.
    pub const KILL: Self = Self(9);
    /// SIGTERM.
    pub const TERM: Self = Self(15);
    /// Goes on after a stop.
    pub const CONT: Self = Self(18);

    /// The signal with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        (1..=64).contains(&number).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its name without `SIG`: `TERM`, `RTMIN+3`; the number for those that have none.
    pub fn name(self) -> String {
        match self.0 {
            n @ 1..=31 => NAMES[usize::from(n) - 1].to_owned(),
            n if n == REAL_TIME.0 => "RTMIN".to_owned(),
            n if n > REAL_TIME.0 => format!("RTMIN+{}", n - REAL_TIME.0),
            n => n.to_string(),
        }
    }
}

impl std::str::FromStr for Signal {
    type Err = SignalError;

    /// `TERM`, `SIGTERM`, `sigterm`, `15`, `RTMIN+3`, `RTMAX-1`.
    fn from_str(text: &str) -> Result<Self, SignalError> {
        let error = || SignalError(text.to_owned());
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        if let Ok(number) = text.parse::<u8>() {
            return Self::from_number(number).ok_or_else(error);
        }
        if let Some(at) = NAMES.iter().position(|known| *known == name) {
            return Ok(Self(at as u8 + 1));
        }
        let offset = |rest: &str, sign: char| match rest.strip_prefix(sign) {
            Some(digits) => digits.parse::<u8>().ok(),
            None => rest.is_empty().then_some(0),
        };
        let real_time = |number: Option<u8>| number.filter(|n| (REAL_TIME.0..=REAL_TIME.1).contains(n));
        let number = match (name, name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
            ("POLL", _, _) => Some(29),
            ("IOT", _, _) => Some(6),
            ("CLD", _, _) => Some(17),
            (_, Some(rest), _) => real_time(offset(rest, '+').and_then(|n| REAL_TIME.0.checked_add(n))),
            (_, _, Some(rest)) => real_time(offset(rest, '-').and_then(|n| REAL_TIME.1.checked_sub(n))),
            (_, None, None) => None,
        };
        number.map(Self).ok_or_else(error)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SIG{}", self.name())
    }
}

impl fmt::Display for SignalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no signal is called `{}`: use a name such as TERM or SIGUSR1, RTMIN+n, or a number from 1 to 64",
            self.0
        )
    }
}

impl std::error::Error for SignalError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_is_found_by_its_own_name() {
        for number in 1..=64 {
            let signal = Signal::from_number(number).expect("in range");
            assert_eq!(signal.name().parse(), Ok(signal));
            assert_eq!(number.to_string().parse(), Ok(signal));
            if !matches!(number, 32 | 33) {
                assert_eq!(signal.to_string().to_lowercase().parse(), Ok(signal));
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "0", "65", "SIG", "SIGFOO", "-9", "RTMIN+31", "RTMAX-40", "TERM ", "256", "RTMIN-1"]
        {
            assert!(text.parse::<Signal>().is_err(), "{text}");
        }
        assert_eq!("RTMAX".parse(), Ok(Signal(64)));
        assert_eq!("RTMAX-30".parse(), Ok(Signal(34)));
    }
}
