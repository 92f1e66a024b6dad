//! `cargo xtask test`: every check of the project, in one command and one closing line.

mod build;
mod layer;
mod libtest;
mod skips;
mod tally;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;

use crate::machine::Machine;
use crate::workspace;
use layer::{Context, Layer};
use tally::Tally;

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub struct TestArgs {
    /// Run this layer only (may be given more than once)
    #[arg(long, value_enum, value_name = "LAYER")]
    only: Vec<Layer>,
    /// Fail when a test is skipped that tests/expected-skips.txt does not excuse (always so when CI is set)
    #[arg(long)]
    strict: bool,
    /// Minutes after which a test binary is killed
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: u64,
    /// Run only tests whose name contains this, in the layers that have named tests
    filter: Option<String>,
}

const CARGO_LIMIT: Duration = Duration::from_secs(45 * 60);

#[derive(serde::Deserialize)]
struct Metadata {
    target_directory: PathBuf,
}

/// Runs the layers. The last line is the sum of all, alone, whatever happened.
pub fn run(arguments: TestArgs) -> Result<ExitCode> {
    let TestArgs { only, strict, minutes, filter } = arguments;
    let strict = strict || workspace::in_ci();
    let root = workspace::root()?;
    let metadata: Metadata = workspace::metadata(&root, &["--no-deps"])?;
    let own = metadata.target_directory.join("xtask");
    fs::create_dir_all(&own).with_context(|| format!("create {}", own.display()))?;
    let machine = Machine::look();
    let context = Context {
        root: &root,
        machine: &machine,
        filter: filter.as_deref(),
        cargo_limit: CARGO_LIMIT,
        test_limit: Duration::from_secs(minutes * 60),
        skip_file: &own.join(format!("skips-{}.txt", std::process::id())),
    };

    let mut all = Tally::default();
    let mut summary = Vec::new();
    for layer in selected(&only, context.filter) {
        let name = layer.name();
        println!("\n== {name}: {}", layer.about());
        let started = Instant::now();
        let tally = layer.run(&context).unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Tally::check(&format!("{name}: {error:#}"), false)
        });
        let line = format!("{name:<7} {tally}  ({:.1} s)", started.elapsed().as_secs_f64());
        println!("== {line}");
        summary.push(line);
        all.add(tally);
    }
    let skips = check_skips(&root, &all, &machine, strict)?;
    all.add(skips);

    println!("\n== summary");
    summary.iter().for_each(|line| println!("{line}"));
    all.skipped.iter().for_each(|skip| println!("skipped: {}: {}", skip.test, skip.reason));
    all.failed.iter().for_each(|name| println!("failed: {name}"));
    println!("{all}");
    Ok(if all.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn selected(only: &[Layer], filter: Option<&str>) -> Vec<Layer> {
    let is_selected = |layer: &Layer| match (only, filter) {
        ([], None) => true,
        // A name selects tests: only these layers have any, and proctor must be there for them.
        ([], Some(_)) => matches!(layer, Layer::Build | Layer::Unit | Layer::Kernel),
        // The kernel tests run the proctor that the layer before them builds.
        (only, _) => only.contains(layer) || (*layer == Layer::Build && only.contains(&Layer::Kernel)),
    };
    Layer::value_variants().iter().copied().filter(is_selected).collect()
}

/// Holds the skips against the list: one more check, which can fail in strict runs only.
fn check_skips(root: &Path, all: &Tally, machine: &Machine, strict: bool) -> Result<Tally> {
    let path = root.join(skips::EXPECTED);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let expected = skips::expected(&text).map_err(anyhow::Error::msg).context(skips::EXPECTED)?;
    let unexpected = skips::unexpected(&all.skipped, &expected, machine);
    for skip in &unexpected {
        println!("not excused by {}: {}: {}", skips::EXPECTED, skip.test, skip.reason);
    }
    Ok(Tally::check("skips that nobody expects", unexpected.is_empty() || !strict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_runs_unless_something_is_chosen() {
        assert_eq!(selected(&[], None), Layer::value_variants());
        assert_eq!(selected(&[Layer::Fmt], None), [Layer::Fmt]);
        assert_eq!(selected(&[Layer::Kernel], Some("x")), [Layer::Build, Layer::Kernel]);
        assert_eq!(selected(&[], Some("x")), [Layer::Build, Layer::Unit, Layer::Kernel]);
    }

    #[test]
    fn the_list_of_expected_skips_can_be_read() {
        let root = workspace::root().unwrap();
        skips::expected(&fs::read_to_string(root.join(skips::EXPECTED)).unwrap()).unwrap();
    }
}
