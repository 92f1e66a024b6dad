//! The layers of the tests, from the cheapest to the dearest.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;

use super::build::{self, Binary};
use super::libtest::{self, Figures, Transcript};
use super::skips::{self, Skip};
use super::tally::Tally;
use super::tools;
use crate::bounded::{Ending, Invocation, Outcome};
use crate::machine::Machine;
use crate::workspace;

/// What the layers need to know.
pub struct Context<'a> {
    pub root: &'a Path,
    pub machine: &'a Machine,
    /// Only tests whose name contains this.
    pub filter: Option<&'a str>,
    /// For one run of cargo.
    pub cargo_limit: Duration,
    /// For one test binary.
    pub test_limit: Duration,
    /// The file to which tests report skips.
    pub skip_file: &'a Path,
}

/// A layer. The order is the one in which they run; the docs are shown to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Layer {
    /// rustfmt agrees
    Fmt,
    /// no warning from clippy
    Clippy,
    /// the rules of the repository
    Tidy,
    /// the documentation builds without a warning
    Docs,
    /// proctor builds
    Build,
    /// unit and property tests
    Unit,
    /// tests against the running kernel
    Kernel,
    /// the committed eBPF object is the one its sources give
    Ebpf,
}

/// Packages whose tests need neither root nor a kernel of ours.
const UNIT: &[&str] = &["supervisor", "supervisor-ebpf", "xtask"];
/// Alone, never together with `supervisor`: it switches proctor's faults on, and cargo would build proctor itself with them.
const KERNEL: &[&str] = &["tests"];
/// For a test binary to say which tests it has.
const LIST_LIMIT: Duration = Duration::from_secs(60);
const PROGRAMS: &str = "supervisor-ebpf/programs/Cargo.toml";

impl Layer {
    /// As it is written behind `--only`.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// What it checks, in one line.
    pub fn about(self) -> String {
        let help = self.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
        help.unwrap_or_default()
    }

    /// Runs the layer. An error means that it could not be run.
    pub fn run(self, context: &Context<'_>) -> Result<Tally> {
        match self {
            Self::Fmt => {
                tools::rust_component("rustfmt")?;
                let mut is_good = context.cargo(&["fmt", "--all", "--check"], &[])?;
                if fs::metadata(context.root.join(PROGRAMS)).is_ok() {
                    is_good &= context.cargo(&["fmt", "--manifest-path", PROGRAMS, "--check"], &[])?;
                }
                Ok(Tally::check("fmt", is_good))
            }
            Self::Clippy => {
                tools::rust_component("clippy")?;
                context.check(self, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])
            }
            Self::Docs => context.check(
                self,
                &["doc", "--workspace", "--no-deps", "--document-private-items"],
                &[("RUSTDOCFLAGS", "-D warnings")],
            ),
            Self::Build => context.check(self, &["build", "--package", "supervisor"], &[]),
            Self::Tidy => context.own(self, &["tidy"]),
            Self::Ebpf => context.own(self, &["ebpf", "--check"]),
            Self::Unit => unit(context),
            Self::Kernel => kernel(context),
        }
    }
}

impl Context<'_> {
    /// Cargo, plain for a machine.
    pub fn cargo_invocation(&self) -> Invocation {
        let invocation = Invocation::new(workspace::cargo(), self.root, self.cargo_limit);
        if workspace::in_ci() {
            invocation.env("CARGO_TERM_COLOR", "never").env("CARGO_TERM_PROGRESS_WHEN", "never")
        } else {
            invocation
        }
    }

    fn cargo(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Result<bool> {
        let mut invocation = self.cargo_invocation().args(arguments);
        for (name, value) in environment {
            invocation = invocation.env(name, value);
        }
        let outcome = invocation.run()?;
        self.say_timeout(&format!("cargo {}", arguments.join(" ")), &outcome, self.cargo_limit);
        Ok(outcome.is_success())
    }

    fn check(&self, layer: Layer, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Tally> {
        Ok(Tally::check(&layer.name(), self.cargo(arguments, environment)?))
    }

    /// Another command of this program, in a process of its own so that its limit can be kept.
    fn own(&self, layer: Layer, arguments: &[&str]) -> Result<Tally> {
        let program = std::env::current_exe().context("find this program")?;
        let outcome = Invocation::new(program, self.root, self.cargo_limit)
            .args(arguments)
            .env(skips::FILE, self.skip_file)
            .run()?;
        self.say_timeout(&format!("cargo xtask {}", arguments.join(" ")), &outcome, self.cargo_limit);
        let mut tally = Tally::check(&layer.name(), outcome.is_success());
        tally.report_skips(self.take_skips()?);
        Ok(tally)
    }

    fn say_timeout(&self, what: &str, outcome: &Outcome, limit: Duration) {
        if outcome.ending == Ending::TimedOut {
            println!("{what} was killed after {} s", limit.as_secs());
        }
    }

    /// The skips that were reported since the last call.
    fn take_skips(&self) -> Result<Vec<Skip>> {
        let text = match fs::read_to_string(self.skip_file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| format!("read {}", self.skip_file.display())),
        };
        fs::remove_file(self.skip_file).with_context(|| format!("remove {}", self.skip_file.display()))?;
        skips::parse(&text).map_err(anyhow::Error::msg).with_context(|| format!("read {}", skips::FILE))
    }

    /// The names of the tests in a binary.
    fn list(&self, binary: &Binary) -> Result<Vec<String>> {
        let mut text = String::new();
        Invocation::new(&binary.path, &binary.package, LIST_LIMIT)
            .args(["--list"].into_iter().chain(self.filter))
            .run_lines(|line| {
                text.push_str(line);
                text.push('\n');
            })?;
        libtest::listed(&text)
            .with_context(|| format!("{} does not list its tests as the standard harness does", binary.name))
    }

    /// Runs one test binary.
    fn binary(&self, binary: &Binary, options: &[&str]) -> Result<Tally> {
        let all = self.list(binary)?;
        if all.is_empty() {
            return Ok(Tally::default());
        }
        println!("\n-- {}", binary.name);
        let mut transcript = Transcript::default();
        let outcome = Invocation::new(&binary.path, &binary.package, self.test_limit)
            .args(options.iter().copied().chain(self.filter))
            .env("CARGO_MANIFEST_DIR", &binary.package)
            .env("PATH", self.machine.path_variable())
            .env(skips::FILE, self.skip_file)
            .run_lines(|line| {
                println!("{line}");
                transcript.line(line);
            })?;
        let mut tally = judge(binary, &outcome, &transcript, &all, self.test_limit);
        tally.report_skips(self.take_skips()?);
        Ok(tally)
    }
}

fn unit(context: &Context<'_>) -> Result<Tally> {
    let Some(binaries) = build::build(context, UNIT)? else {
        return Ok(Tally::check("build of the unit tests", false));
    };
    let mut tally = Tally::default();
    for binary in &binaries {
        tally.add(context.binary(binary, &[])?);
    }
    tally.add(examples(context)?);
    Ok(tally)
}

/// The examples in the documentation, which cargo itself must run.
fn examples(context: &Context<'_>) -> Result<Tally> {
    println!("\n-- examples in the documentation");
    let mut transcript = Transcript::default();
    let outcome = context
        .cargo_invocation()
        .args(["test", "--doc", "--package", "supervisor", "--package", "supervisor-ebpf"])
        .args(["--"].into_iter().chain(context.filter))
        .run_lines(|line| {
            println!("{line}");
            transcript.line(line);
        })?;
    let figures = transcript.sum().unwrap_or_default();
    Ok(count("examples", &transcript, figures, outcome.is_success()))
}

fn kernel(context: &Context<'_>) -> Result<Tally> {
    if context.machine.root {
        tools::install(context.machine)?;
    }
    let Some(binaries) = build::build(context, KERNEL)? else {
        return Ok(Tally::check("build of the kernel tests", false));
    };
    let mut tally = Tally::default();
    for binary in &binaries {
        if context.machine.root {
            // --show-output: figures that a test measured are worth reading when it passes, too.
            tally.add(context.binary(binary, &["--show-output"])?);
        } else {
            let names = context.list(binary)?;
            tally.skipped.extend(
                names
                    .into_iter()
                    .map(|test| Skip { test, reason: "needs root: cgroups and BPF programs".to_owned() }),
            );
        }
    }
    Ok(tally)
}

/// What a binary's end means.
fn judge(
    binary: &Binary,
    outcome: &Outcome,
    transcript: &Transcript,
    all: &[String],
    limit: Duration,
) -> Tally {
    let name = &binary.name;
    let mut tally = match (outcome.ending, transcript.last()) {
        (Ending::Exited(status), Some(figures)) => count(name, transcript, figures, status.success()),
        (Ending::Exited(status), None) => {
            // Also with status 0: a test that calls exit(0) takes all others with it.
            let running = transcript.unfinished(all).join(", ");
            Tally::check(
                &format!("{name}: ended before its result ({status}); not finished: {running}"),
                false,
            )
        }
        (Ending::TimedOut, _) => {
            let running = transcript.unfinished(all).join(", ");
            Tally::check(
                &format!("{name}: killed after {} s; not finished: {running}", limit.as_secs()),
                false,
            )
        }
    };
    if !outcome.leftovers.is_empty() {
        let list: Vec<String> = outcome.leftovers.iter().map(ToString::to_string).collect();
        tally.failed.push(format!("{name}: left behind: {}", list.join(", ")));
    }
    tally
}

fn count(name: &str, transcript: &Transcript, figures: Figures, is_success: bool) -> Tally {
    let skipped =
        transcript.ignored.iter().map(|(test, reason)| Skip { test: test.clone(), reason: reason.clone() });
    let mut tally = Tally {
        passed: figures.passed,
        failed: transcript.failed.iter().map(|test| format!("{name}: {test}")).collect(),
        skipped: skipped.collect(),
    };
    // Lines may be torn by what tests print; the figures are not.
    for number in tally.failed.len()..figures.failed {
        tally.failed.push(format!("{name}: failed test {} (its line is torn)", number + 1));
    }
    for number in tally.skipped.len()..figures.ignored {
        tally
            .skipped
            .push(Skip { test: format!("{name} {number}"), reason: "ignored (its line is torn)".to_owned() });
    }
    if tally.failed.is_empty() && !is_success {
        tally.failed.push(format!("{name}: failed, though its tests passed"));
    }
    tally
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;
    use crate::scope::Leftover;

    const LIMIT: Duration = Duration::from_secs(9);

    fn judged(ending: Ending, lines: &[&str], leftovers: Vec<Leftover>) -> Tally {
        let binary = Binary { path: "/b".into(), name: "p b".to_owned(), package: "/p".into() };
        let mut transcript = Transcript::default();
        lines.iter().for_each(|line| transcript.line(line));
        let all = ["one".to_owned(), "two".to_owned()];
        judge(&binary, &Outcome { ending, leftovers }, &transcript, &all, LIMIT)
    }

    fn exited(code: i32) -> Ending {
        Ending::Exited(ExitStatus::from_raw(code << 8))
    }

    const GOOD: &[&str] =
        &["test one ... ok", "test two ... ok", "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured"];

    #[test]
    fn a_good_binary_is_counted() {
        assert_eq!(judged(exited(0), GOOD, Vec::new()).to_string(), "2 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn failed_tests_are_named_even_when_their_lines_are_torn() {
        let lines = ["test one ... FAILED", "test result: FAILED. 0 passed; 2 failed; 1 ignored; 0 measured"];
        let tally = judged(exited(101), &lines, Vec::new());
        assert_eq!(tally.to_string(), "0 passed, 2 failed, 1 skipped");
        assert_eq!(tally.failed[0], "p b: one");
    }

    #[test]
    fn an_end_without_a_result_is_a_failure() {
        for ending in [exited(0), exited(101), Ending::TimedOut] {
            let tally = judged(ending, &["test one ... ok"], Vec::new());
            assert_eq!(tally.failed.len(), 1, "{ending:?}");
            assert!(tally.failed[0].ends_with("not finished: two"), "{}", tally.failed[0]);
        }
    }

    #[test]
    fn a_bad_status_is_a_failure_though_all_tests_passed() {
        assert_eq!(judged(exited(1), GOOD, Vec::new()).failed.len(), 1);
    }

    #[test]
    fn what_is_left_behind_is_a_failure() {
        let left = vec![Leftover::Process { pid: 7, comm: "sleep".to_owned() }];
        assert_eq!(judged(exited(0), GOOD, left).failed, ["p b: left behind: process 7 (sleep)"]);
    }
}
