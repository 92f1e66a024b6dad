//! What the layers add up to.

use super::skips::Skip;

/// Counts, names and reasons, of one layer or of all.
#[derive(Debug, Default)]
pub struct Tally {
    pub passed: usize,
    /// One line for each fault: a test, or a check that is no test of the harness.
    pub failed: Vec<String>,
    pub skipped: Vec<Skip>,
}

impl Tally {
    /// The tally of one check that counts as one test.
    pub fn check(name: &str, is_good: bool) -> Self {
        let mut tally = Self::default();
        if is_good {
            tally.passed = 1;
        } else {
            tally.failed.push(name.to_owned());
        }
        tally
    }

    pub fn add(&mut self, other: Self) {
        let Self { passed, failed, skipped } = other;
        self.passed += passed;
        self.failed.extend(failed);
        self.skipped.extend(skipped);
    }

    /// Takes in the skips that tests reported themselves. The harness counted each of these tests as passed.
    pub fn report_skips(&mut self, skips: Vec<Skip>) {
        self.passed = self.passed.saturating_sub(skips.len());
        self.skipped.extend(skips);
    }
}

/// `N passed, N failed, N skipped`
impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed.len(), self.skipped.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_the_closing_line() {
        let mut all = Tally::check("fmt", true);
        all.add(Tally::check("clippy", false));
        let mut kernel = Tally { passed: 5, ..Tally::default() };
        kernel.report_skips(vec![Skip { test: "a".to_owned(), reason: "b".to_owned() }]);
        all.add(kernel);
        assert_eq!(all.to_string(), "5 passed, 1 failed, 1 skipped");
        assert_eq!(all.failed, ["clippy"]);
    }
}
