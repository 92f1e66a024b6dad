//! What the rules look at, and what they find.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::rust::{self, TestParts};
use crate::workspace;

/// A file of the project.
#[derive(Clone, Debug)]
pub struct File {
    /// Relative to the root of the repository, with `/`.
    pub path: String,
    /// Empty for what is no text.
    pub text: String,
}

/// All files of the project.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub files: Vec<File>,
}

/// A rule that is broken somewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    pub path: String,
    /// From 1; none when the whole file is meant.
    pub line: Option<usize>,
    /// What is wrong and what to do about it.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

impl Fault {
    pub fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), message: message.into() }
    }

    pub fn whole(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into() }
    }
}

impl Tree {
    /// Reads the project below `root`.
    pub fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for path in workspace::files(root)? {
            let full = root.join(&path);
            let kind =
                std::fs::symlink_metadata(&full).with_context(|| format!("look at {}", full.display()))?;
            if !kind.is_file() {
                continue;
            }
            let bytes = std::fs::read(&full).with_context(|| format!("read {}", full.display()))?;
            files.push(File {
                path: path.to_string_lossy().into_owned(),
                text: String::from_utf8(bytes).unwrap_or_default(),
            });
        }
        Ok(Self { files })
    }

    /// The file with this path.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The files with Rust code.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// Every piece of text that is compiled for tests only: (path, text of the tests in it).
    pub fn tests(&self) -> Vec<(&str, String)> {
        let parts: Vec<(&File, TestParts)> = self
            .rust()
            .map(|file| (file, rust::test_parts(&rust::tokens(&rust::strip(&file.text)))))
            .collect();
        let test_modules: Vec<String> = parts
            .iter()
            .flat_map(|(file, parts)| {
                parts.modules.iter().map(|name| format!("{}/{name}", children(&file.path)))
            })
            .collect();
        let texts = parts.iter().filter_map(|(file, parts)| {
            let stem = file.path.trim_end_matches(".rs").trim_end_matches("/mod");
            let whole = file.path.split('/').any(|part| part == "tests")
                || test_modules.iter().any(|module| {
                    stem.strip_prefix(module.as_str())
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                });
            if whole {
                return Some((file.path.as_str(), file.text.clone()));
            }
            let lines: Vec<&str> = file.text.lines().collect();
            let mut text = String::new();
            for range in &parts.lines {
                for line in lines.get(range.start - 1..(range.end - 1).min(lines.len())).unwrap_or_default() {
                    text.push_str(line);
                    text.push('\n');
                }
            }
            (!text.is_empty()).then_some((file.path.as_str(), text))
        });
        texts.collect()
    }

    /// A tree for tests of rules.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files =
            files.iter().map(|(path, text)| File { path: (*path).to_owned(), text: (*text).to_owned() });
        Self { files: files.collect() }
    }
}

/// The directory in which a module's own submodules lie.
fn children(path: &str) -> &str {
    let stem = path.trim_end_matches(".rs");
    let (directory, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    if matches!(name, "mod" | "lib" | "main") { directory } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_inline_in_their_own_files_and_in_the_tests_package() {
        let tree = Tree::of(&[
            (
                "a/src/lib.rs",
                "fn x() {}\n#[cfg(test)]\nmod properties;\n#[cfg(test)]\nmod tests {\n // here\n}\n",
            ),
            ("a/src/properties.rs", "// props"),
            ("a/src/properties/deep.rs", "// deep"),
            ("a/src/propertiesnot.rs", "// no"),
            ("a/src/b.rs", "#[cfg(test)]\nmod inner;\n"),
            ("a/src/b/inner.rs", "// inner"),
            ("tests/src/lib.rs", "// kernel"),
        ]);
        let found: String = tree.tests().into_iter().map(|(_, text)| text).collect();
        for word in ["here", "props", "deep", "inner", "kernel"] {
            assert!(found.contains(word), "{word} is missing in {found}");
        }
        assert!(!found.contains("fn x") && !found.contains("// no"), "{found}");
    }
}
