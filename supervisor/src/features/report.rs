//! The report: what was found, and the verdict. Pure.

use super::{Feature, NeededFor};

/// How it is with a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It works.
    Ok,
    /// It works in part, or we work around it.
    Degraded,
    /// It does not work.
    Missing,
    /// It could not be tried.
    Unknown,
}

impl State {
    /// The word in tables and in JSON. Never changes.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }

    /// It can be used.
    pub const fn is_usable(self) -> bool {
        match self {
            Self::Ok | Self::Degraded => true,
            Self::Missing | Self::Unknown => false,
        }
    }
}

/// What was found about one feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The feature.
    pub feature: Feature,
    /// How it is.
    pub state: State,
    /// What was seen.
    pub detail: String,
    /// What to do; nothing when all is well or nothing can be done.
    pub advice: Option<String>,
}

/// All findings, one for each [`Feature`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The kernel's release.
    pub kernel: String,
    /// In the order of [`Feature::ALL`].
    pub findings: Vec<Finding>,
}

impl Report {
    /// Tasks can run here: everything that they need is usable.
    pub fn tasks_can_run(&self) -> bool {
        self.lacking(NeededFor::Tasks).next().is_none()
    }

    /// The audit can prove what tasks do: everything that it needs is usable.
    pub fn audit_can_prove(&self) -> bool {
        self.tasks_can_run() && self.lacking(NeededFor::Audit).next().is_none()
    }

    /// What there is to know in one sentence, e.g. `tasks can run; the audit can prove what they do`.
    pub fn verdict(&self) -> String {
        // What could not be tried follows from what is missing, so it is named only alone.
        let names = |needed_for| {
            let missing = self.lacking(needed_for).any(|finding| finding.state == State::Missing);
            let named = |finding: &&Finding| !missing || finding.state == State::Missing;
            let names = self.lacking(needed_for).filter(named).map(|finding| finding.feature.name());
            names.collect::<Vec<_>>().join(", ")
        };
        if !self.tasks_can_run() {
            return format!("tasks cannot run: {}", names(NeededFor::Tasks));
        }
        if !self.audit_can_prove() {
            return format!("tasks can run; the audit can prove nothing: {}", names(NeededFor::Audit));
        }
        "tasks can run; the audit can prove what they do".to_owned()
    }

    fn lacking(&self, needed_for: NeededFor) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(move |finding| finding.feature.needed_for() == needed_for && !finding.state.is_usable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(state: impl Fn(Feature) -> State) -> Report {
        let findings = Feature::ALL
            .into_iter()
            .map(|feature| Finding { feature, state: state(feature), detail: String::new(), advice: None })
            .collect();
        Report { kernel: "6.1".to_owned(), findings }
    }

    #[test]
    fn all_well() {
        let report = report(|_| State::Ok);
        assert!(report.tasks_can_run() && report.audit_can_prove());
        assert_eq!(report.verdict(), "tasks can run; the audit can prove what they do");
    }

    #[test]
    fn each_needed_feature_decides_and_no_other() {
        for lost in Feature::ALL {
            for state in [State::Missing, State::Unknown] {
                let report = report(|feature| if feature == lost { state } else { State::Ok });
                let needed_for = lost.needed_for();
                assert_eq!(report.tasks_can_run(), needed_for != NeededFor::Tasks, "{}", lost.name());
                assert_eq!(report.audit_can_prove(), needed_for == NeededFor::Comfort, "{}", lost.name());
                assert_eq!(report.verdict().contains(lost.name()), needed_for != NeededFor::Comfort);
            }
        }
    }

    #[test]
    fn what_is_degraded_can_be_used() {
        assert!(report(|_| State::Degraded).audit_can_prove());
    }
}
