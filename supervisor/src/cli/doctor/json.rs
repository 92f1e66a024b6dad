//! The report for programs. Fields are added over time, never renamed.

use serde::Serialize;

use crate::features::{Finding, NeededFor, Report};

#[derive(Serialize)]
struct Document<'report> {
    kernel: &'report str,
    /// The sentence for people.
    verdict: String,
    tasks_can_run: bool,
    audit_can_prove: bool,
    features: Vec<Line<'report>>,
}

#[derive(Serialize)]
struct Line<'report> {
    name: &'static str,
    state: &'static str,
    detail: &'report str,
    /// What it costs to be without.
    cost: &'static str,
    /// Null when there is nothing to do.
    advice: Option<&'report str>,
    /// No task can run without it.
    required: bool,
    /// `tasks`, `audit` or `comfort`.
    needed_for: &'static str,
}

pub(super) fn render(report: &Report) -> String {
    let Report { kernel, findings } = report;
    let document = Document {
        kernel,
        verdict: report.verdict(),
        tasks_can_run: report.tasks_can_run(),
        audit_can_prove: report.audit_can_prove(),
        features: findings.iter().map(line).collect(),
    };
    let mut text = serde_json::to_string_pretty(&document)
        .expect("strings and booleans have a JSON form, and a String can be written to");
    text.push('\n');
    text
}

fn line(finding: &Finding) -> Line<'_> {
    let Finding { feature, state, detail, advice } = finding;
    Line {
        name: feature.name(),
        state: state.word(),
        detail,
        cost: feature.cost(),
        advice: advice.as_deref(),
        required: feature.needed_for() == NeededFor::Tasks,
        needed_for: match feature.needed_for() {
            NeededFor::Tasks => "tasks",
            NeededFor::Audit => "audit",
            NeededFor::Comfort => "comfort",
        },
    }
}
