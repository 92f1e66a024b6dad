//! Installs what the tests need and the machine lacks.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::machine::Machine;
use crate::workspace;

/// A command that tests run, and the Debian package that has it.
struct Tool {
    command: &'static str,
    package: &'static str,
}

/// `unshare` and `ps` are on nearly every machine, but not on the smallest images.
const TOOLS: &[Tool] = &[
    Tool { command: "nginx", package: "nginx" },
    Tool { command: "make", package: "make" },
    Tool { command: "gcc", package: "gcc" },
    Tool { command: "ps", package: "procps" },
    Tool { command: "unshare", package: "util-linux" },
    Tool { command: "mkfs.ext4", package: "e2fsprogs" },
];

/// Installs the missing tools as root; says what is missing otherwise. A failed installation is an error, since the tests that need the
/// tool would only be skipped.
pub fn install(machine: &Machine) -> Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !machine.has_command(tool.command)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    if !machine.root || !machine.has_command("apt-get") {
        println!("missing, and not ours to install: {}", packages.join(" "));
        return Ok(());
    }
    println!("installing {}", packages.join(" "));
    let _held = HeldServices::hold()?;
    apt(&["update"])?;
    apt(&[&["install", "--yes", "--no-install-recommends"], packages.as_slice()].concat())
}

fn apt(arguments: &[&str]) -> Result<()> {
    let status = Command::new("apt-get")
        .args(["-qq", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Use-Pty=0"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .context("start apt-get")?;
    ensure!(status.success(), "apt-get {} failed: {status}", arguments.join(" "));
    Ok(())
}

/// Adds what a minimal Rust installation lacks.
pub fn rust_component(name: &str) -> Result<()> {
    let answers = |subcommand: &str| {
        let output = Command::new(workspace::cargo()).args([subcommand, "--version"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let subcommand = if name == "rustfmt" { "fmt" } else { name };
    if answers(subcommand) {
        return Ok(());
    }
    println!("installing {name}");
    let status = Command::new("rustup").args(["component", "add", name]).status().context("start rustup")?;
    ensure!(status.success(), "rustup component add {name} failed: {status}");
    Ok(())
}

const POLICY: &str = "/usr/sbin/policy-rc.d";
const POLICY_TEXT: &str =
    "#!/bin/sh\n# Written by `cargo xtask test` while it installs packages; safe to remove.\nexit 101\n";

/// While this lives, Debian's packages do not start their services: a test tool must not open port 80 on anybody's machine.
struct HeldServices {
    is_ours: bool,
}

impl HeldServices {
    fn hold() -> Result<Self> {
        // One that a killed run of ours left behind is ours as well.
        let is_left = fs::read_to_string(POLICY).is_ok_and(|text| text == POLICY_TEXT);
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(POLICY);
        match made {
            Ok(mut file) => {
                file.write_all(POLICY_TEXT.as_bytes()).with_context(|| format!("write {POLICY}"))?;
                Ok(Self { is_ours: true })
            }
            // The machine has a policy of its own, which stands.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Self { is_ours: is_left }),
            Err(error) => Err(error).with_context(|| format!("create {POLICY}")),
        }
    }
}

impl Drop for HeldServices {
    fn drop(&mut self) {
        if self.is_ours
            && let Err(error) = fs::remove_file(POLICY)
        {
            eprintln!("xtask: remove {POLICY}: {error}: remove it, or no package will start its service");
        }
    }
}
