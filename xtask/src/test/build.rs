//! Builds test binaries and finds them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::layer::Context;

/// A built test binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    pub path: PathBuf,
    /// `supervisor lib`, `tests kill`: package and target, for people.
    pub name: String,
    /// Directory of its package: where cargo would start it.
    pub package: PathBuf,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the tests of these packages; none when they do not build (cargo has said why).
pub fn build(context: &Context<'_>, packages: &[&str]) -> Result<Option<Vec<Binary>>> {
    let mut arguments: Vec<OsString> =
        ["test", "--no-run", "--message-format", "json-render-diagnostics"].map(OsString::from).to_vec();
    for package in packages {
        arguments.extend(["--package".into(), OsString::from(package)]);
    }
    let mut binaries = Vec::new();
    let mut unread = None;
    let outcome = context.cargo_invocation().args(&arguments).run_lines(|line| match binary(line) {
        Ok(found) => binaries.extend(found),
        Err(error) => unread = Some(error),
    })?;
    if let Some(error) = unread {
        return Err(error).context("read what cargo says about the tests it built");
    }
    binaries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(outcome.is_success().then_some(binaries))
}

fn binary(line: &str) -> Result<Option<Binary>> {
    let message: Message = serde_json::from_str(line)?;
    let Message {
        reason,
        executable: Some(path),
        manifest_path: Some(manifest),
        target: Some(target),
        profile: Some(profile),
    } = message
    else {
        return Ok(None);
    };
    if reason != "compiler-artifact" || !profile.test {
        return Ok(None);
    }
    let package = manifest.parent().map(Path::to_owned).unwrap_or_default();
    let kind = target.kind.first().map_or("", String::as_str);
    let owner = package.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = if kind == "test" {
        format!("{owner} {}", target.name)
    } else {
        format!("{owner} {kind} {}", target.name)
    };
    Ok(Some(Binary { path, name, package }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_told_from_other_artifacts() {
        let line = |executable: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/p/tests/Cargo.toml","target":{{"kind":["test"],"name":"kill"}},"profile":{{"test":{test}}},"executable":{executable},"fresh":true}}"#
            )
        };
        let found = binary(&line("\"/t/kill-1\"", true)).unwrap();
        let expected =
            Binary { path: "/t/kill-1".into(), name: "tests kill".to_owned(), package: "/p/tests".into() };
        assert_eq!(found, Some(expected));
        assert_eq!(binary(&line("null", true)).unwrap(), None);
        assert_eq!(binary(&line("\"/t/proctor\"", false)).unwrap(), None);
        assert_eq!(binary(r#"{"reason":"build-finished","success":true}"#).unwrap(), None);
        assert!(binary("no json").is_err());
    }
}
