//! Rule: every dependency comes from the default registry under a licence that `deny.toml` allows.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::spdx;
use super::tree::{Fault, Tree};
use crate::workspace;

const LIST: &str = "deny.toml";
/// The programs are a workspace of their own with dependencies of their own.
const MANIFESTS: &[&str] = &["Cargo.toml", "supervisor-ebpf/programs/Cargo.toml"];

#[derive(serde::Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(serde::Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// None for a package in this repository.
    source: Option<String>,
}

/// Checks the dependencies of every workspace of the project, as cargo resolved them for all platforms.
pub fn check(root: &Path, tree: &Tree) -> Result<Vec<Fault>> {
    let Some(list) = tree.get(LIST) else {
        return Ok(vec![Fault::whole(LIST, "is missing: it lists the licences that dependencies may have")]);
    };
    let allowed = match allowed(&list.text) {
        Ok(allowed) => allowed,
        Err(message) => return Ok(vec![Fault::whole(LIST, message)]),
    };
    let mut faults = Vec::new();
    for manifest in MANIFESTS.iter().filter(|manifest| tree.get(manifest).is_some()) {
        let metadata: Metadata = workspace::metadata(root, &["--manifest-path", manifest])
            .with_context(|| format!("find the dependencies of {manifest}"))?;
        faults.extend(metadata.packages.iter().filter_map(|package| {
            wrong(package, &allowed).map(|message| {
                Fault::whole(manifest, format!("{} {}: {message}", package.name, package.version))
            })
        }));
    }
    Ok(faults)
}

fn wrong(package: &Package, allowed: &[String]) -> Option<String> {
    if let Some(source) = package.source.as_deref().filter(|source| !source.starts_with("registry+")) {
        return Some(format!("comes from {source}: take crates from the default registry"));
    }
    let Some(licence) = &package.license else {
        return Some("names no licence".to_owned());
    };
    match spdx::satisfied(licence, allowed) {
        Ok(true) => None,
        Ok(false) => Some(format!("`{licence}` is not among the licences of {LIST}")),
        Err(message) => Some(format!("its licence cannot be read: {message}")),
    }
}

/// The strings of `allow = [...]` in the section `[licenses]`.
fn allowed(text: &str) -> Result<Vec<String>, String> {
    let section = text.lines().map(str::trim).skip_while(|line| *line != "[licenses]").skip(1);
    let section: Vec<&str> = section
        .take_while(|line| !(line.starts_with('[') && line.ends_with(']')))
        .filter(|line| !line.starts_with('#'))
        .collect();
    let section = section.join("\n");
    let missing = || "has no list `allow = [...]` in [licenses]".to_owned();
    let (_, behind) = section.split_once("allow = [").ok_or_else(missing)?;
    let (list, _) = behind.split_once(']').ok_or_else(missing)?;
    // Every second piece between quotes is a string.
    Ok(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(licence: Option<&str>, source: Option<&str>) -> Package {
        Package {
            name: "a".to_owned(),
            version: "1.0.0".to_owned(),
            license: licence.map(str::to_owned),
            source: source.map(str::to_owned),
        }
    }

    #[test]
    fn a_package_needs_a_known_source_and_an_allowed_licence() {
        let allowed = ["MIT".to_owned()];
        assert_eq!(wrong(&package(Some("MIT OR X"), Some("registry+https://r")), &allowed), None);
        assert_eq!(wrong(&package(Some("MIT"), None), &allowed), None);
        assert!(
            wrong(&package(Some("X"), None), &allowed).is_some_and(|message| message.contains("not among"))
        );
        assert!(wrong(&package(None, None), &allowed).is_some_and(|message| message.contains("no licence")));
        assert!(
            wrong(&package(Some("MIT"), Some("git+https://g")), &allowed)
                .is_some_and(|m| m.contains("comes from"))
        );
        assert!(
            wrong(&package(Some("MIT AND"), None), &allowed).is_some_and(|m| m.contains("cannot be read"))
        );
    }

    #[test]
    fn the_list_is_read_from_its_section() {
        let text = "[x]\nallow = [\"No\"]\n[licenses]\n# allow = [\"No\"]\nallow = [\n  \"MIT\", # why\n  \"Zlib\",\n]\n[bans]\n";
        assert_eq!(allowed(text), Ok(vec!["MIT".to_owned(), "Zlib".to_owned()]));
        assert!(allowed("[licenses]\n[bans]\nallow = [\"No\"]").is_err());
    }
}
