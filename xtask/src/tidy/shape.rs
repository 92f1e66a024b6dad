//! Rules on the shape of files: their length, the doc of a module, the changelog.

use super::tree::{Fault, Tree};

const LINES: usize = 500;
/// Tests and tools are lists of cases more than logic.
const LINES_OF_TESTS: usize = 700;

/// Checks all files.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.rust() {
        let limit = if file.path.starts_with("tests/") || file.path.starts_with("xtask/") {
            LINES_OF_TESTS
        } else {
            LINES
        };
        let lines = file.text.lines().count();
        if lines > limit {
            faults
                .push(Fault::whole(&file.path, format!("has {lines} lines, {limit} are allowed: split it")));
        }
        let is_module = file.path.starts_with("supervisor/src/") && file.path.ends_with("/mod.rs");
        if is_module && !file.text.starts_with("//! ") {
            faults.push(Fault::at(&file.path, 1, "begins without `//!`: say what the module is"));
        }
    }
    match tree.get("CHANGELOG.md") {
        None => faults.push(Fault::whole("CHANGELOG.md", "is missing")),
        Some(file) if !file.text.lines().any(|line| line.trim_end() == "## Unreleased") => {
            faults.push(Fault::whole("CHANGELOG.md", "has no line `## Unreleased`"));
        }
        Some(_) => {}
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: (&str, &str) = ("CHANGELOG.md", "# Changelog\n\n## Unreleased\n");

    fn faults(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text), CHANGELOG])).len()
    }

    #[test]
    fn long_files_are_named() {
        assert_eq!(faults("supervisor/src/lib.rs", &"x\n".repeat(500)), 0);
        assert_eq!(faults("supervisor/src/lib.rs", &"x\n".repeat(501)), 1);
        assert_eq!(faults("tests/src/lib.rs", &"x\n".repeat(700)), 0);
        assert_eq!(faults("xtask/src/main.rs", &"x\n".repeat(701)), 1);
    }

    #[test]
    fn modules_say_what_they_are() {
        assert_eq!(faults("supervisor/src/a/mod.rs", "//! Something.\n"), 0);
        assert_eq!(faults("supervisor/src/a/mod.rs", "use x;\n"), 1);
        assert_eq!(faults("supervisor/src/a/other.rs", "use x;\n"), 0);
    }

    #[test]
    fn the_changelog_is_open() {
        assert_eq!(check(&Tree::of(&[CHANGELOG])).len(), 0);
        assert_eq!(check(&Tree::of(&[("CHANGELOG.md", "## 0.1.0\n")])).len(), 1);
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }
}
