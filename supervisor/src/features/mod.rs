//! What this kernel and this host can do, found out by trying it once.
//!
//! [`look()`] does the I/O and gives [`Observed`]; [`judge()`] makes a [`Report`] of it and is pure. What is tried is undone: a private cgroup is
//! made and removed, children are killed and reaped, BPF objects are attached to nothing and closed.

mod controllers;
mod feature;
mod judge;
mod look;
pub mod observed;
mod report;
mod scratch;
mod trial;

pub use feature::{Feature, NeededFor};
pub use judge::judge;
pub use look::look;
pub use observed::Observed;
pub use report::{Finding, Report, State};

/// Loads the audit's own programs and lets them go again; an error is one line for people. Passed in, so that this module need not know
/// the audit.
pub type AuditProbe = fn() -> Result<(), String>;

/// Tries everything and judges it. Takes some milliseconds, and what loading the audit's programs takes. Without a probe for the audit its
/// programs count as not tried, and so nothing as provable.
pub fn probe(audit: Option<AuditProbe>) -> Report {
    judge(&look(audit))
}
