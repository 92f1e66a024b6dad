//! Rule (INV-9): in user space only `sys` has `unsafe`, and every block says why it is sound.
//!
//! The lints say the same for the workspace; this rule also sees the programs (another workspace) and cannot be allowed away.

use super::rust::{self, Kind};
use super::tree::{Fault, File, Tree};

const INSIDE: &[&str] = &["supervisor/src/sys/", "supervisor-ebpf/", "tests/"];

/// Checks every Rust file.
pub fn check(tree: &Tree) -> Vec<Fault> {
    tree.rust().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Fault> {
    let inside = INSIDE.iter().any(|prefix| file.path.starts_with(prefix));
    let stripped = rust::strip(&file.text);
    let tokens = rust::tokens(&stripped);
    let lines = Lines { source: file.text.lines().collect(), code: stripped.lines().collect() };
    let mut faults = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.kind != Kind::Word("unsafe") {
            continue;
        }
        let next = tokens.get(at + 1).map(|token| token.kind);
        if !inside {
            faults.push(Fault::at(
                &file.path,
                token.line,
                "`unsafe` outside the fence: put the call into supervisor/src/sys behind a safe function",
            ));
        } else if matches!(next, Some(Kind::Mark('{') | Kind::Word("impl")))
            && !lines.safety_above(token.line)
        {
            faults.push(Fault::at(
                &file.path,
                token.line,
                "no `// SAFETY:` directly above: say which invariant makes this sound",
            ));
        }
    }
    faults
}

struct Lines<'a> {
    source: Vec<&'a str>,
    code: Vec<&'a str>,
}

impl Lines<'_> {
    /// Whether the comment above the statement that holds this line (from 1) says SAFETY.
    fn safety_above(&self, line: usize) -> bool {
        let mut in_comment = false;
        for above in (0..line.saturating_sub(1)).rev() {
            let source = self.source.get(above).map_or("", |text| text.trim());
            let code = self.code.get(above).map_or("", |text| text.trim());
            if source.starts_with("//") {
                if source.trim_start_matches('/').trim_start().starts_with("SAFETY:") {
                    return true;
                }
                in_comment = true;
            } else if in_comment || source.is_empty() || (ends_statement(code) && !code.starts_with("#[")) {
                // The comment is over, or there was none above the statement.
                return false;
            }
        }
        false
    }
}

fn ends_statement(code: &str) -> bool {
    code.ends_with([';', '{', '}', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, code: &str) -> usize {
        check(&Tree::of(&[(path, code)])).len()
    }

    #[test]
    fn inv_9_unsafe_outside_sys_is_a_fault() {
        let code = "// SAFETY: none needed.\nfn f() { unsafe { g() } }\n";
        assert_eq!(faults("supervisor/src/keeper/mod.rs", code), 1);
        assert_eq!(faults("supervisor/src/system/mod.rs", code), 1);
        assert_eq!(faults("xtask/src/main.rs", "unsafe fn f() {}"), 1);
        assert_eq!(
            faults(
                "supervisor/src/keeper/mod.rs",
                "// unsafe\n#![deny(unsafe_code)]\nconst A: &str = \"unsafe\";"
            ),
            0
        );
    }

    #[test]
    fn a_block_needs_its_reason() {
        let path = "supervisor/src/sys/fd.rs";
        assert_eq!(faults(path, "// SAFETY: the fd is open.\nlet a = unsafe { f() };"), 0);
        assert_eq!(faults(path, "let a = unsafe { f() };"), 1);
        assert_eq!(
            faults(path, "// SAFETY: two lines,\n// the first names it.\nunsafe impl Pod for A {}"),
            0
        );
        assert_eq!(faults(path, "// SAFETY: for b.\nlet b = 1;\nlet a = unsafe { f() };"), 1);
        assert_eq!(faults(path, "// SAFETY: far.\n\nlet a = unsafe { f() };"), 1);
    }

    #[test]
    fn the_reason_stands_above_the_statement() {
        let path = "supervisor/src/sys/fd.rs";
        assert_eq!(faults(path, "// SAFETY: long.\nlet a =\n    unsafe { f() };"), 0);
        assert_eq!(faults(path, "// SAFETY: attribute.\n#[expect(x, reason = \"y\")]\nunsafe { f() };"), 0);
        assert_eq!(faults(path, "g(\n    // SAFETY: argument.\n    unsafe { f() },\n);"), 0);
        assert_eq!(faults(path, "// SAFETY: of the function.\nfn f() {\n    unsafe { f() }\n}"), 1);
    }

    #[test]
    fn declarations_are_no_blocks() {
        assert_eq!(
            faults(
                "supervisor-ebpf/programs/src/main.rs",
                "#[unsafe(no_mangle)]\npub unsafe fn f() {}\nunsafe extern \"C\" {}"
            ),
            0
        );
    }
}
