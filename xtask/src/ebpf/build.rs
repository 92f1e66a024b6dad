//! Building the object, the same bytes from any directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Places, shell, tools};

/// Flags for rustc that do not depend on where we are. Part of the hash of the sources.
const FLAGS: [&str; 3] = ["--cfg=bpf_target_arch=\"x86_64\"", "-Cdebuginfo=2", "-Clink-arg=--btf"];
const TARGET: &str = "bpfel-unknown-none";
const BINARY: &str = "proctor";

/// Builds and strips the object; gives its path.
pub fn object(places: &Places) -> Result<PathBuf> {
    // Paths of sources get into line information and into messages. Both prefixes are made constant; the compiler takes the last that
    // fits, and the registry may lie in the workspace.
    let mut flags: Vec<OsString> = FLAGS.iter().map(OsString::from).collect();
    flags.push(remap(&places.root, "/src"));
    flags.push(remap(&registry(places)?, "/registry"));
    let mut path = OsString::from(places.tools().join("bin"));
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());

    shell::run(
        shell::cargo(places)
            .current_dir(places.programs())
            .args(["build", "--release", "--locked", "--target", TARGET, "-Zbuild-std=core"])
            .env("CARGO_TARGET_DIR", places.target())
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join(std::ffi::OsStr::new("\u{1f}")))
            .env("RUSTC", tools::RUSTC)
            // build-std, and the intrinsics that the programs use, are not stable.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("PATH", path),
    )?;

    let built = places.target().join(TARGET).join("release").join(BINARY);
    let object = places.target().join("proctor.bpf.o");
    // The debug information served to make the BTF, which stays.
    shell::run(
        Command::new(tools::llvm("llvm-strip")).arg("--strip-debug").arg("-o").arg(&object).arg(&built),
    )?;
    Ok(object)
}

fn remap(from: &Path, to: &str) -> OsString {
    let mut flag = OsString::from("--remap-path-prefix=");
    flag.push(from);
    flag.push("=");
    flag.push(to);
    flag
}

/// The directory that the sources of dependencies are unpacked in.
fn registry(places: &Places) -> Result<PathBuf> {
    let metadata = metadata(places)?;
    let manifest =
        package(&metadata, "aya-ebpf")?["manifest_path"].as_str().context("aya-ebpf has no manifest")?;
    let registry = Path::new(manifest).ancestors().nth(2).context("aya-ebpf lies in no directory")?;
    Ok(registry.to_owned())
}

/// The version of a dependency of the programs.
pub fn locked_version(places: &Places, name: &str) -> Result<String> {
    let metadata = metadata(places)?;
    Ok(package(&metadata, name)?["version"].as_str().context("a package has no version")?.to_owned())
}

fn metadata(places: &Places) -> Result<serde_json::Value> {
    let text = shell::output(shell::cargo(places).current_dir(places.programs()).args([
        "metadata",
        "--locked",
        "--format-version",
        "1",
    ]))?;
    serde_json::from_str(&text).context("understand `cargo metadata`")
}

fn package<'a>(metadata: &'a serde_json::Value, name: &str) -> Result<&'a serde_json::Value> {
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    packages
        .iter()
        .find(|package| package["name"] == name)
        .with_context(|| format!("the programs do not depend on {name}"))
}

/// sha256 over all of this repository that decides about the object: sources, manifest, lock file and flags.
pub fn hash_of_sources(places: &Places) -> Result<String> {
    let mut files = vec![
        places.crate_dir().join("src/abi.rs"),
        places.programs().join("Cargo.toml"),
        places.programs().join("Cargo.lock"),
    ];
    sources_in(&places.programs().join("src"), &mut files)?;
    files.sort();
    let mut all = FLAGS.join("\n").into_bytes();
    for file in files {
        let name = file.strip_prefix(&places.root).context("a source lies outside the workspace")?;
        let content = std::fs::read(&file).with_context(|| format!("read {}", file.display()))?;
        // The length keeps two different lists of files from giving the same bytes.
        all.extend_from_slice(format!("\n{} {}\n", name.display(), content.len()).as_bytes());
        all.extend_from_slice(&content);
    }
    shell::sha256(&all)
}

fn sources_in(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("list {}", directory.display()))?;
        let kind = entry.file_type().with_context(|| format!("look at {}", entry.path().display()))?;
        if kind.is_dir() {
            sources_in(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        } else {
            bail!("{} is neither a file nor a directory", entry.path().display());
        }
    }
    Ok(())
}
