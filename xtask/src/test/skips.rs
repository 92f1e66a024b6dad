//! Tests that were not run: collected from the tests, and held against `tests/expected-skips.txt`.
//!
//! A test that cannot run here appends one line `skipped: NAME: REASON` to the file named by `PROCTOR_SKIP_FILE` (opened for appending,
//! one write, so that parallel tests do not mix) and returns; the harness then calls it passed, and we take it out again.

use crate::machine::Machine;

/// Environment variable with the path of the file.
pub const FILE: &str = "PROCTOR_SKIP_FILE";
/// The expected skips, from the root of the repository.
pub const EXPECTED: &str = "tests/expected-skips.txt";

/// A test that was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    pub test: String,
    pub reason: String,
}

/// The skips in the file's text. A line of another form is a fault of the test that wrote it and is returned as an error.
pub fn parse(text: &str) -> Result<Vec<Skip>, String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let parts = line.strip_prefix("skipped: ").and_then(|rest| rest.split_once(": "));
            let (test, reason) = parts.ok_or_else(|| format!("`{line}` is not `skipped: NAME: REASON`"))?;
            Ok(Skip { test: test.trim().to_owned(), reason: reason.trim().to_owned() })
        })
        .collect()
}

/// One line of the list: this test may be skipped on machines where this condition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Name of a test; `*` stands for every test.
    test: String,
    condition: Condition,
}

/// What a machine may lack.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    NotRoot,
    NoController(String),
    NoCommand(String),
    NoFile(String),
    KernelBefore(u32, u32),
}

/// Reads the list: `TEST | CONDITION | REASON`, `#` begins a comment.
pub fn expected(text: &str) -> Result<Vec<Expected>, String> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [test, condition, reason] = cells[..] else {
                return Err(format!("line {number} is not `TEST | CONDITION | REASON`"));
            };
            if test.is_empty() || reason.is_empty() {
                return Err(format!("line {number} lacks the test or the reason"));
            }
            let condition = Condition::parse(condition).ok_or_else(|| {
                format!(
                    "line {number}: `{condition}` is no condition: write not-root, no-controller:NAME, no-command:NAME, no-file:PATH or kernel-before:X.Y"
                )
            })?;
            Ok(Expected { test: test.to_owned(), condition })
        })
        .collect()
}

impl Condition {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None => (text == "not-root").then_some(Self::NotRoot),
            Some((_, "")) => None,
            Some(("no-controller", name)) => Some(Self::NoController(name.to_owned())),
            Some(("no-command", name)) => Some(Self::NoCommand(name.to_owned())),
            Some(("no-file", path)) => Some(Self::NoFile(path.to_owned())),
            Some(("kernel-before", version)) => {
                let (major, minor) = version.split_once('.')?;
                Some(Self::KernelBefore(major.parse().ok()?, minor.parse().ok()?))
            }
            Some(_) => None,
        }
    }

    fn holds(&self, machine: &Machine) -> bool {
        match self {
            Self::NotRoot => !machine.root,
            Self::NoController(name) => !machine.controllers.iter().any(|known| known == name),
            Self::NoCommand(name) => !machine.has_command(name),
            Self::NoFile(path) => std::fs::symlink_metadata(path).is_err(),
            Self::KernelBefore(major, minor) => machine.kernel < (*major, *minor),
        }
    }
}

/// The skips that the list does not excuse on this machine.
pub fn unexpected<'a>(skips: &'a [Skip], expected: &[Expected], machine: &Machine) -> Vec<&'a Skip> {
    let is_excused = |skip: &&Skip| {
        expected
            .iter()
            .any(|line| (line.test == "*" || line.test == skip.test) && line.condition.holds(machine))
    };
    skips.iter().filter(|skip| !is_excused(skip)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            root: true,
            controllers: vec!["pids".to_owned()],
            kernel: (6, 1),
            path: vec!["/bin".into()],
        }
    }

    fn skip(test: &str) -> Skip {
        Skip { test: test.to_owned(), reason: "r".to_owned() }
    }

    #[test]
    fn lines_of_tests_are_read() {
        let skips = parse("skipped: a::b: no controller memory: v1 has it\n\nskipped: c: d\n").unwrap();
        assert_eq!(
            skips[0],
            Skip { test: "a::b".to_owned(), reason: "no controller memory: v1 has it".to_owned() }
        );
        assert_eq!(skips.len(), 2);
        assert!(parse("skipped a").is_err());
    }

    #[test]
    fn a_skip_is_excused_only_where_its_condition_holds() {
        let list = "# c\na | no-controller:memory | why\nb | no-controller:pids | why\nc | kernel-before:6.9 | why\nd | kernel-before:5.14 | why\n* | not-root | why\ne | no-command:no-such-command | why\nf | no-command:sh | why\ng | no-file:/proc/1 | why\n";
        let list = expected(list).unwrap();
        let skips: Vec<Skip> = ["a", "b", "c", "d", "e", "f", "g", "unlisted"].map(skip).to_vec();
        let names = |machine: &Machine| -> Vec<String> {
            unexpected(&skips, &list, machine).into_iter().map(|skip| skip.test.clone()).collect()
        };
        assert_eq!(names(&machine()), ["b", "d", "f", "g", "unlisted"]);
        assert_eq!(names(&Machine { root: false, ..machine() }), [""; 0]);
    }

    #[test]
    fn wrong_lists_are_refused() {
        for text in [
            "a | b",
            "a | sometimes | c",
            "a | no-controller: | c",
            "a | kernel-before:6 | c",
            "a | not-root |",
            " | not-root | c",
        ] {
            assert!(expected(text).is_err(), "{text}");
        }
    }
}
