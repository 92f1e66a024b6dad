//! `cargo xtask bench WHAT`: one binary of the tests for each benchmark, built as users build proctor.

use anyhow::{Context as _, Result, ensure};

use crate::workspace;

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct BenchArgs {
    /// Which benchmark: `start` runs the binary `bench-start` of the package `tests`
    what: String,
    /// Arguments for the benchmark itself
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Builds proctor and the benchmark in release mode and runs it.
pub fn run(arguments: BenchArgs) -> Result<()> {
    let name = format!("bench-{}", arguments.what);
    // A build of its own: built together with the tests, proctor would get their fault switches.
    cargo(&["build", "--release", "--package", "supervisor"], &[])?;
    cargo(&["run", "--release", "--package", "tests", "--bin", &name, "--"], &arguments.rest)
}

fn cargo(arguments: &[&str], rest: &[String]) -> Result<()> {
    let status = std::process::Command::new(workspace::cargo())
        .args(arguments)
        .args(rest)
        .current_dir(workspace::root()?)
        .status()
        .context("start cargo")?;
    ensure!(status.success(), "cargo {} failed: {status}", arguments.join(" "));
    Ok(())
}
