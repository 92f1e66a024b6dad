//! Where things are: the repository, cargo, the files that belong to the project.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail};

/// The root of the repository.
pub fn root() -> Result<PathBuf> {
    // `cargo run` tells where the package is now; the compiled-in path would be wrong after a move of the repository.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = package.parent().ok_or_else(|| anyhow!("{} has no parent directory", package.display()))?;
    Ok(root.to_owned())
}

/// The cargo that runs us.
pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

/// Whether we run for a machine: no colours, no progress bars, and every surprise is a fault.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// Paths of all files of the project, relative to `root`, sorted: what git tracks and what it would track. In a copy without git
/// everything is the project but build results.
pub fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = match tracked(root) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("git does not list the files ({error:#}): taking all but target/");
            let mut files = Vec::new();
            walk(root, Path::new(""), &mut files)?;
            files
        }
    };
    files.sort();
    Ok(files)
}

fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    // safe.directory: a build as root in another user's clone is common in CI, and listing files is all we do.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("start git")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let files = text.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    // A file that was deleted but not yet taken out of the index is still listed.
    Ok(files.filter(|path| std::fs::symlink_metadata(root.join(path)).is_ok()).collect())
}

fn walk(root: &Path, below: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let directory = root.join(below);
    let entries = std::fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("read {}", directory.display()))?;
        let path = below.join(entry.file_name());
        if !entry.file_type()?.is_dir() {
            files.push(path);
        } else if entry.file_name() != "target" && entry.file_name() != ".git" {
            walk(root, &path, files)?;
        }
    }
    Ok(())
}

/// The answer of `cargo metadata` for the manifest.
pub fn metadata<T: serde::de::DeserializeOwned>(root: &Path, arguments: &[&str]) -> Result<T> {
    let output = Command::new(cargo())
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(arguments)
        .current_dir(root)
        .output()
        .context("start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("read the answer of cargo metadata")
}
