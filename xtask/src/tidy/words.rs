//! Rule: nothing in the project is left open, and nothing names a machine it was written on or a place crates come from.
//!
//! The patterns are put together from pieces, so that this file does not break its own rule.

use super::tree::{Fault, Tree};

struct Pattern {
    text: &'static str,
    boundary: Boundary,
    why: &'static str,
}

/// What may not stand beside the text for it to be a hit.
#[derive(Clone, Copy)]
enum Boundary {
    /// A letter, digit or underscore on either side.
    Word,
    /// A letter, digit or underscore before; behind it must stand a name (perhaps with a dot first).
    Directory,
}

const OPEN: &str = "marks something left open: do it, or file an issue and say there what is missing";
const MACHINE: &str = "is a path of one machine: use a relative path, or a directory made for the purpose";
const REGISTRY: &str =
    "names a package registry: the project knows its dependencies by name and version alone";

const PATTERNS: &[Pattern] = &[
    Pattern { text: concat!("TO", "DO"), boundary: Boundary::Word, why: OPEN },
    Pattern { text: concat!("FIX", "ME"), boundary: Boundary::Word, why: OPEN },
    Pattern { text: concat!("X", "XX"), boundary: Boundary::Word, why: OPEN },
    Pattern { text: concat!("/ho", "me/"), boundary: Boundary::Directory, why: MACHINE },
    Pattern { text: concat!("/ro", "ot/"), boundary: Boundary::Directory, why: MACHINE },
    Pattern { text: concat!("/Us", "ers/"), boundary: Boundary::Directory, why: MACHINE },
    Pattern { text: concat!("crates", ".io"), boundary: Boundary::Word, why: REGISTRY },
    Pattern { text: concat!("py", "pi.org"), boundary: Boundary::Word, why: REGISTRY },
    Pattern { text: concat!("python", "hosted.org"), boundary: Boundary::Word, why: REGISTRY },
    Pattern { text: concat!("npm", "js."), boundary: Boundary::Directory, why: REGISTRY },
    Pattern { text: concat!("proxy.go", "lang.org"), boundary: Boundary::Word, why: REGISTRY },
    Pattern { text: concat!("ruby", "gems.org"), boundary: Boundary::Word, why: REGISTRY },
    Pattern { text: concat!("deb.deb", "ian.org"), boundary: Boundary::Word, why: REGISTRY },
];

/// Where cargo itself writes the registry's name; [`check_lock`] reads it instead.
const LOCK: &str = "Cargo.lock";

/// Checks all texts.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in &tree.files {
        if file.path.rsplit('/').next() == Some(LOCK) {
            faults.extend(check_lock(&file.path, &file.text));
            continue;
        }
        for (number, line) in file.text.lines().enumerate() {
            for pattern in PATTERNS.iter().filter(|pattern| hits(pattern, line)) {
                faults.push(Fault::at(&file.path, number + 1, format!("`{}` {}", pattern.text, pattern.why)));
            }
        }
    }
    faults
}

/// Every locked crate comes from the default registry: a mirror's name would bind all users to that mirror.
fn check_lock(path: &str, text: &str) -> Vec<Fault> {
    const DEFAULT: &str =
        concat!("source = \"registry+https://github.com/rust-lang/", "crates", ".io-index\"");
    let wrong =
        text.lines().enumerate().filter(|(_, line)| line.starts_with("source = ") && *line != DEFAULT);
    wrong.map(|(number, _)| Fault::at(path, number + 1, "is not the default registry")).collect()
}

fn hits(pattern: &Pattern, line: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(pattern.text).any(|(at, text)| {
        let before = line[..at].chars().next_back().is_some_and(is_word);
        let behind = line[at + text.len()..].chars().next();
        match pattern.boundary {
            Boundary::Word => !before && !behind.is_some_and(is_word),
            Boundary::Directory => !before && behind.is_some_and(|c| is_word(c) || c == '.'),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn open_ends_are_found() {
        assert_eq!(faults("a.rs", &format!("// {}: later", ["TO", "DO"].concat())), 1);
        assert_eq!(faults("a.md", &format!("a\n{}\n", ["FIX", "ME"].concat())), 1);
        assert_eq!(faults("a.sh", "mktemp /tmp/a.XXXXXX; let AUTODOC = 1;"), 0);
    }

    #[test]
    fn paths_of_machines_are_found() {
        assert_eq!(faults("a.md", &["see /ho", "me/alice/x"].concat()), 1);
        assert_eq!(faults("a.rs", &["\"/ro", "ot/.cache\""].concat()), 1);
        assert_eq!(faults("a.rs", "ProtectHome=, /var/lib/home, HOME=/root, <root>/keeper, if x /root"), 0);
    }

    #[test]
    fn registries_are_found() {
        assert_eq!(faults("a.md", &["https://crates", ".io/x"].concat()), 1);
        assert_eq!(faults("a.md", "the default registry"), 0);
    }

    #[test]
    fn the_lock_file_names_the_default_registry_alone() {
        let good = ["source = \"registry+https://github.com/rust-lang/crates", ".io-index\""].concat();
        assert_eq!(faults("x/Cargo.lock", &good), 0);
        assert_eq!(faults("Cargo.lock", "source = \"registry+http://mirror/\""), 1);
        assert_eq!(faults("Cargo.lock", "source = \"git+https://example.org/a\""), 1);
    }
}
