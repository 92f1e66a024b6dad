//! The file beside the committed object that says what it is and what it was built with.
//!
//! It is flat TOML: lines of `key = "value"`. No parser is needed for what only this file writes.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// The versions that decide about the object's bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Versions {
    pub rustc: String,
    pub cargo: String,
    pub llvm: String,
    pub bpf_linker: String,
    pub aya_ebpf: String,
}

impl Versions {
    fn entries(&self) -> [(&'static str, &str); 5] {
        let Self { rustc, cargo, llvm, bpf_linker, aya_ebpf } = self;
        [
            ("rustc", rustc),
            ("cargo", cargo),
            ("llvm", llvm),
            ("bpf_linker", bpf_linker),
            ("aya_ebpf", aya_ebpf),
        ]
    }

    /// What is not the same in `other`, for people.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        self.entries()
            .iter()
            .zip(other.entries())
            .filter(|(ours, theirs)| ours.1 != theirs.1)
            .map(|(ours, theirs)| format!("{} `{}`, recorded `{}`", ours.0, theirs.1, ours.1))
            .collect()
    }
}

/// What the file says.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    /// sha256 of the object, in hex.
    pub object: String,
    /// Its size in bytes.
    pub size: u64,
    /// sha256 over all that it is built from, in hex: see `build::hash_of_sources`.
    pub sources: String,
    pub versions: Versions,
}

impl Record {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| {
            format!("read {}, which `cargo xtask ebpf` writes beside the object", path.display())
        })?;
        Self::parse(&text).with_context(|| format!("understand {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let value = |key: &str| -> Result<String> {
            for line in text.lines() {
                if let Some((name, value)) = line.split_once(" = ")
                    && name == key
                {
                    return Ok(value.trim_matches('"').to_owned());
                }
            }
            bail!("no `{key}` in it; run `cargo xtask ebpf` to write it anew")
        };
        Ok(Self {
            object: value("object_sha256")?,
            size: value("object_size")?.parse().context("`object_size` is no number")?,
            sources: value("sources_sha256")?,
            versions: Versions {
                rustc: value("rustc")?,
                cargo: value("cargo")?,
                llvm: value("llvm")?,
                bpf_linker: value("bpf_linker")?,
                aya_ebpf: value("aya_ebpf")?,
            },
        })
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "# Written by `cargo xtask ebpf`; `cargo xtask ebpf --check` compares. Do not edit.\n\
             object_sha256 = \"{}\"\nobject_size = {}\nsources_sha256 = \"{}\"\n",
            self.object, self.size, self.sources
        );
        for (name, value) in self.versions.entries() {
            text.push_str(&format!("{name} = \"{value}\"\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            object: "0a".into(),
            size: 7,
            sources: "0b".into(),
            versions: Versions {
                rustc: "rustc 1.96.0 (ac68faa20 2026-05-25)".into(),
                cargo: "cargo 1.95.0".into(),
                llvm: "22.1.8".into(),
                bpf_linker: "0.13.0".into(),
                aya_ebpf: "0.2.1".into(),
            },
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Record::parse(&record().to_text()).unwrap(), record());
    }

    #[test]
    fn a_missing_key_is_named() {
        let text = record().to_text().replace("llvm = ", "clang = ");
        assert!(Record::parse(&text).unwrap_err().to_string().contains("`llvm`"));
    }

    #[test]
    fn differences_name_both_versions() {
        let mut other = record().versions;
        assert!(record().versions.differences(&other).is_empty());
        other.llvm = "22.1.9".into();
        assert_eq!(record().versions.differences(&other), ["llvm `22.1.9`, recorded `22.1.8`"]);
    }
}
