//! `cargo xtask ebpf`: builds the eBPF object that is committed under `supervisor-ebpf/prebuilt`, or checks it.
//!
//! The object is committed so that who builds proctor needs no BPF toolchain. So three things have to be told: that it was built from
//! the sources beside it (`--stale`, needs no toolchain), that the sources give these very bytes (`--check`), and with which toolchain.

mod build;
mod record;
mod shell;
mod tools;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use record::{Record, Versions};

/// Arguments of `cargo xtask ebpf`. Without any it builds the object and writes it where it is committed.
#[derive(clap::Args)]
pub struct EbpfArgs {
    /// Build, and compare with the committed object instead of replacing it. With another toolchain than the recorded one the bytes may
    /// differ: then the kernel tests of the programs are run with the fresh object
    #[arg(long, conflicts_with = "stale")]
    check: bool,
    /// Only compare hashes: is the committed object the recorded one, and was it built from these sources? Needs no BPF toolchain
    #[arg(long)]
    stale: bool,
}

/// Where things are. All paths are absolute.
pub struct Places {
    root: PathBuf,
}

impl Places {
    fn of_this_workspace() -> Result<Self> {
        // `cargo run` tells where the package is now; the compiled-in path would be wrong after a move of the repository.
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package.parent().context("xtask has no parent directory")?;
        Ok(Self { root: root.to_owned() })
    }

    fn crate_dir(&self) -> PathBuf {
        self.root.join("supervisor-ebpf")
    }

    fn programs(&self) -> PathBuf {
        self.crate_dir().join("programs")
    }

    fn prebuilt(&self) -> PathBuf {
        self.crate_dir().join("prebuilt")
    }

    fn object(&self) -> PathBuf {
        self.prebuilt().join("proctor.bpf.o")
    }

    fn record(&self) -> PathBuf {
        self.prebuilt().join("proctor.bpf.toml")
    }

    fn target(&self) -> PathBuf {
        self.root.join("target/ebpf")
    }

    fn tools(&self) -> PathBuf {
        self.root.join("target/ebpf-tools")
    }
}

/// Runs the command.
pub fn run(arguments: EbpfArgs) -> Result<()> {
    let places = Places::of_this_workspace()?;
    match arguments {
        EbpfArgs { stale: true, check: _ } => stale(&places).map(|_| ()),
        EbpfArgs { check: true, stale: false } => check(&places),
        EbpfArgs { check: false, stale: false } => update(&places),
    }
}

/// Builds, and replaces the committed object and its record.
fn update(places: &Places) -> Result<()> {
    let versions = tools::prepare(places)?;
    let fresh = build::object(places)?;
    let record = record_of(places, &fresh, versions)?;
    std::fs::create_dir_all(places.prebuilt())
        .with_context(|| format!("make directory {}", places.prebuilt().display()))?;
    std::fs::copy(&fresh, places.object())
        .with_context(|| format!("copy {} to {}", fresh.display(), places.object().display()))?;
    // The record last: an interrupted update leaves an object that `--stale` refuses.
    std::fs::write(places.record(), record.to_text())
        .with_context(|| format!("write {}", places.record().display()))?;
    println!("{}: {} bytes, sha256 {}", places.object().display(), record.size, record.object);
    Ok(())
}

/// Compares hashes, and gives the record.
fn stale(places: &Places) -> Result<Record> {
    let record = Record::read(&places.record())?;
    let sources = build::hash_of_sources(places)?;
    if sources != record.sources {
        bail!(
            "the eBPF object is stale: the sources of the programs changed since it was built (they hash to {sources}, {} has {}); \
             run `cargo xtask ebpf` and commit what it writes",
            places.record().display(),
            record.sources
        );
    }
    let object = shell::sha256_of_file(&places.object())?;
    if object != record.object {
        bail!(
            "{} is not the object that {} describes (sha256 {object}, recorded {}); run `cargo xtask ebpf` and commit both files",
            places.object().display(),
            places.record().display(),
            record.object
        );
    }
    println!(
        "the committed eBPF object is the recorded one and was built from these sources (sha256 {object})"
    );
    Ok(record)
}

/// Rebuilds and compares.
fn check(places: &Places) -> Result<()> {
    let recorded = stale(places)?;
    let versions = tools::prepare(places)?;
    let fresh = build::object(places)?;
    let rebuilt = record_of(places, &fresh, versions)?;
    let differences = recorded.versions.differences(&rebuilt.versions);
    if rebuilt.object == recorded.object {
        if differences.is_empty() {
            println!("rebuilt with the recorded toolchain: the same bytes");
        } else {
            println!("rebuilt with another toolchain ({}): the same bytes", differences.join("; "));
        }
        return Ok(());
    }
    if differences.is_empty() {
        bail!(
            "the recorded toolchain gave other bytes than are committed: {} has sha256 {}, {} has {}. Either the committed object was not \
             built by `cargo xtask ebpf`, or the build depends on something that is not recorded. Compare the two with `llvm-objdump -d`; \
             if the fresh one is right, run `cargo xtask ebpf` and commit what it writes",
            fresh.display(),
            rebuilt.object,
            places.object().display(),
            recorded.object
        );
    }
    println!(
        "another toolchain than the recorded one ({}) gave other bytes, which is no fault: the kernel tests of the programs decide about \
         the fresh object {}",
        differences.join("; "),
        fresh.display()
    );
    shell::run(
        shell::cargo(places)
            .args(["test", "--package", "tests", "--test", "ebpf_programs"])
            .env("PROCTOR_BPF_OBJECT", &fresh),
    )
    .context("the programs built with this machine's toolchain fail their kernel tests")?;
    println!("the fresh object passes; to commit it, run `cargo xtask ebpf`");
    Ok(())
}

fn record_of(places: &Places, object: &Path, versions: Versions) -> Result<Record> {
    let size = std::fs::metadata(object).with_context(|| format!("look at {}", object.display()))?.len();
    Ok(Record {
        object: shell::sha256_of_file(object)?,
        size,
        sources: build::hash_of_sources(places)?,
        versions,
    })
}
