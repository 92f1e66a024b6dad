//! Reads what the standard test harness prints.

/// The figures of a `test result:` line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub passed: usize,
    pub failed: usize,
    pub ignored: usize,
}

/// What one test binary (or one `cargo test --doc`) has printed so far.
#[derive(Debug, Default)]
pub struct Transcript {
    results: Vec<Figures>,
    finished: Vec<String>,
    slow: Vec<String>,
    /// Names of tests that failed.
    pub failed: Vec<String>,
    /// Names and reasons of tests marked `#[ignore]`.
    pub ignored: Vec<(String, String)>,
}

impl Transcript {
    /// Takes in the next line.
    pub fn line(&mut self, line: &str) {
        if let Some(figures) = line.split_once("test result: ").and_then(|(_, rest)| figures(rest)) {
            self.results.push(figures);
            return;
        }
        let Some(rest) = line.strip_prefix("test ") else { return };
        if let Some(name) = rest.strip_suffix(" has been running for over 60 seconds") {
            self.slow.push(name.to_owned());
        } else if let Some((name, end)) = rest.split_once(" ... ") {
            // `name - should panic`
            let name = name.split(" - should panic").next().unwrap_or(name).to_owned();
            if let Some(reason) = end.strip_prefix("ignored") {
                let reason = reason.trim_start_matches([',', ' ']);
                let reason = if reason.is_empty() { "#[ignore] without a reason" } else { reason };
                self.ignored.push((name.clone(), reason.to_owned()));
            } else if end.ends_with("FAILED") {
                self.failed.push(name.clone());
            }
            self.finished.push(name);
        }
    }

    /// The figures of a binary: the last line counts, because a test may itself print such a line of something that it ran.
    pub fn last(&self) -> Option<Figures> {
        self.results.last().copied()
    }

    /// The figures of all binaries that printed into this transcript.
    pub fn sum(&self) -> Option<Figures> {
        self.results.iter().copied().reduce(|a, b| Figures {
            passed: a.passed + b.passed,
            failed: a.failed + b.failed,
            ignored: a.ignored + b.ignored,
        })
    }

    /// Which of these tests were running when the binary was killed: those that were called slow, or else all that had not ended.
    pub fn unfinished(&self, all: &[String]) -> Vec<String> {
        let is_open = |name: &&String| !self.finished.contains(name);
        let slow: Vec<String> = self.slow.iter().filter(is_open).cloned().collect();
        if slow.is_empty() { all.iter().filter(is_open).cloned().collect() } else { slow }
    }
}

/// The names in the answer to `--list`; none when it is not the answer of the standard harness, which ends with the sum.
pub fn listed(output: &str) -> Option<Vec<String>> {
    let sum = output.lines().last()?;
    if !sum.contains(" test") || !sum.contains(" benchmark") {
        return None;
    }
    Some(output.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// `ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
fn figures(text: &str) -> Option<Figures> {
    let (_, counts) = text.split_once(". ")?;
    let mut figures = Figures::default();
    let mut seen = 0;
    for part in counts.split("; ") {
        let (count, word) = part.split_once(' ')?;
        let slot = match word {
            "passed" => &mut figures.passed,
            "failed" => &mut figures.failed,
            "ignored" => &mut figures.ignored,
            _ => continue,
        };
        *slot = count.parse().ok()?;
        seen += 1;
    }
    (seen == 3).then_some(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(lines: &[&str]) -> Transcript {
        let mut transcript = Transcript::default();
        lines.iter().for_each(|line| transcript.line(line));
        transcript
    }

    const OK: &str =
        "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s";
    const FAILED: &str =
        "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s";

    #[test]
    fn the_result_line_is_read() {
        let ok = Figures { passed: 3, failed: 0, ignored: 1 };
        assert_eq!(transcript(&["running 4 tests", OK]).last(), Some(ok));
        assert_eq!(transcript(&[FAILED, OK]).last(), Some(ok));
        assert_eq!(transcript(&[&format!("noise without an end{OK}")]).last(), Some(ok));
        assert_eq!(transcript(&[FAILED, OK]).sum(), Some(Figures { passed: 4, failed: 2, ignored: 1 }));
        assert_eq!(
            transcript(&["test result: unclear", "test result: ok. x passed; 0 failed; 0 ignored"]).last(),
            None
        );
    }

    #[test]
    fn names_of_failed_and_ignored_tests_are_kept() {
        let transcript = transcript(&[
            "test a::b ... ok",
            "test c - should panic ... FAILED",
            "test d ... ignored, needs a kernel",
            "test e ... ignored",
        ]);
        assert_eq!(transcript.failed, ["c"]);
        assert_eq!(transcript.ignored[0], ("d".to_owned(), "needs a kernel".to_owned()));
        assert_eq!(transcript.ignored[1].1, "#[ignore] without a reason");
    }

    #[test]
    fn what_was_running_is_known() {
        let all = listed("a: test\nb: test\nc: test\nx: benchmark\n\n3 tests, 1 benchmark\n").unwrap();
        assert_eq!(all, ["a", "b", "c"]);
        assert_eq!(listed("0 tests, 0 benchmarks\n"), Some(Vec::new()));
        assert_eq!(listed("started the server\n"), None);
        assert_eq!(transcript(&["test a ... ok"]).unfinished(&all), ["b", "c"]);
        let slow = [
            "test b has been running for over 60 seconds",
            "test a has been running for over 60 seconds",
            "test a ... ok",
        ];
        assert_eq!(transcript(&slow).unfinished(&all), ["b"]);
    }
}
