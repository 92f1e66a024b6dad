//! The toolchain: what of it is missing is installed.
//!
//! Rust's own nightly is not needed: Debian packages a rustc, the sources of `core` and the LLVM that fit one another, and bpf-linker is
//! built against that LLVM. Its own bundled ones would be a second LLVM of another version.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::record::Versions;
use super::{Places, build, shell};

const PACKAGES: [&str; 4] = ["rustc-web", "rust-web-src", "llvm-22-dev", "llvm-22"];
const LLVM: &str = "/usr/lib/llvm-22";
/// Debian's rustc, which fits the sources of `core` in `rust-web-src`.
pub const RUSTC: &str = "/usr/bin/rustc";
const BPF_LINKER: &str = "0.13.0";

/// A program of that LLVM.
pub fn llvm(program: &str) -> PathBuf {
    PathBuf::from(LLVM).join("bin").join(program)
}

/// Installs what is missing and gives the versions of all.
pub fn prepare(places: &Places) -> Result<Versions> {
    packages()?;
    bpf_linker(places)?;
    Ok(Versions {
        rustc: shell::output(Command::new(RUSTC).arg("--version"))?,
        cargo: shell::output(shell::cargo(places).arg("--version"))?,
        llvm: shell::output(Command::new(llvm("llvm-config")).arg("--version"))?,
        bpf_linker: BPF_LINKER.to_owned(),
        aya_ebpf: build::locked_version(places, "aya-ebpf")?,
    })
}

fn packages() -> Result<()> {
    let missing: Vec<&str> = PACKAGES
        .into_iter()
        .map(|package| Ok((package, is_installed(package)?)))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .filter_map(|(package, installed)| (!installed).then_some(package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing {} (about 200 MB)", missing.join(", "));
    let with_apt = || -> Result<()> {
        shell::run(Command::new("apt-get").arg("update"))?;
        shell::run(
            Command::new("apt-get")
                .args(["install", "--yes", "--no-install-recommends"])
                .args(&missing)
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )
    };
    with_apt().with_context(|| {
        format!("install {} (run this as root on Debian 12, or install them yourself)", missing.join(" "))
    })
}

fn is_installed(package: &str) -> Result<bool> {
    // Its exit status is 1 for a package that it has never heard of, so the answer is in what it prints.
    let answer =
        Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}", package]).output().context(
            "run `dpkg-query`: the toolchain of the eBPF programs comes from Debian's packages. To build proctor itself it is not needed",
        )?;
    Ok(answer.stdout == b"installed")
}

fn bpf_linker(places: &Places) -> Result<()> {
    let program = places.tools().join("bin/bpf-linker");
    match Command::new(&program).arg("--version").output() {
        Ok(answer) if answer.status.success() => {
            if String::from_utf8_lossy(&answer.stdout).trim_end() == format!("bpf-linker {BPF_LINKER}") {
                return Ok(());
            }
        }
        // Not there, or it does not run any more, as when LLVM's library went away: build it.
        Ok(_) | Err(_) => {}
    }
    println!("building bpf-linker {BPF_LINKER} into {}", places.tools().display());
    // Its default feature is another LLVM. Without debug information it is built in half the time and has a twentieth of the size.
    shell::run(
        shell::cargo(places)
            .args(["install", "bpf-linker", "--version", BPF_LINKER, "--locked", "--force"])
            .args(["--no-default-features", "--features", "llvm-22"])
            .args(["--config", "profile.release.debug=0", "--config", "profile.release.strip=true"])
            .arg("--root")
            .arg(places.tools())
            .env("LLVM_PREFIX", LLVM),
    )?;
    if !program.is_file() {
        bail!("`cargo install bpf-linker` left no {}", program.display());
    }
    Ok(())
}
