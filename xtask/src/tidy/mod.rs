//! `cargo xtask tidy`: the rules of the repository that neither the compiler nor clippy knows.

mod arrows;
mod fence;
mod invariants;
mod licences;
mod rust;
mod shape;
mod spdx;
mod tree;
mod uses;
mod words;

use anyhow::{Context as _, Result, bail};

use crate::workspace;
use tree::Tree;

/// Arguments of `cargo xtask tidy`.
#[derive(clap::Args)]
pub struct TidyArgs {
    /// Write the tables of docs/architecture.md first
    #[arg(long)]
    write: bool,
}

/// Checks every rule and prints each fault; an error when there was one.
pub fn run(arguments: TidyArgs) -> Result<()> {
    let root = workspace::root()?;
    if arguments.write {
        let path = root.join(arrows::document());
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let text = arrows::written(&text).with_context(|| format!("{} lacks the markers", path.display()))?;
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    let tree = Tree::read(&root)?;
    let mut faults = licences::check(&root, &tree)?;
    for rule in [arrows::check, fence::check, shape::check, invariants::check, words::check] {
        faults.extend(rule(&tree));
    }
    faults.sort();
    faults.dedup();
    for fault in &faults {
        println!("{fault}");
    }
    match faults.len() {
        0 => {
            println!("tidy: {} files, no fault", tree.files.len());
            Ok(())
        }
        count => bail!("tidy found {count} faults"),
    }
}
