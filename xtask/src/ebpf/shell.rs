//! Running other programs, and hashing with one.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Places;

/// The cargo that runs us, free of what the environment would change in a build.
pub fn cargo(places: &Places) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(&places.root);
    for (name, _) in std::env::vars_os() {
        if changes_builds(&name) {
            command.env_remove(name);
        }
    }
    command
}

fn changes_builds(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    ["CARGO_BUILD_", "CARGO_PROFILE_", "CARGO_TARGET_", "CARGO_UNSTABLE_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "RUSTC",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTC_BOOTSTRAP",
            // Set by `cargo run` to its own toolchain's libraries, which another rustc must not load.
            "LD_LIBRARY_PATH",
        ]
        .contains(&name)
}

/// Runs to the end, with our own output.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("run {}", text(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", text(command));
    }
    Ok(())
}

/// Runs to the end and gives what it printed, without the last line's end.
pub fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("run {}", text(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", text(command), output.status);
    }
    let printed =
        String::from_utf8(output.stdout).with_context(|| format!("{} printed no UTF-8", text(command)))?;
    Ok(printed.trim_end().to_owned())
}

fn text(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    format!("`{}`", words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" "))
}

/// sha256 in hex. By coreutils' program: it is on every Debian, and a crate with its dependencies for two hashes is not worth it.
pub fn sha256(bytes: &[u8]) -> Result<String> {
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("run `sha256sum`, of the package coreutils")?;
    // It prints after it has read all, so writing first cannot block both.
    child
        .stdin
        .take()
        .context("`sha256sum` has no stdin")?
        .write_all(bytes)
        .context("write to `sha256sum`")?;
    let output = child.wait_with_output().context("wait for `sha256sum`")?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    match printed.split_whitespace().next() {
        Some(hash) if output.status.success() => Ok(hash.to_owned()),
        _ => bail!("`sha256sum` ended with {} and printed {printed:?}", output.status),
    }
}

/// sha256 of a file's content, in hex.
pub fn sha256_of_file(path: &Path) -> Result<String> {
    sha256(&std::fs::read(path).with_context(|| format!("read {}", path.display()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_sha256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(b"").unwrap(), empty);
    }
}
