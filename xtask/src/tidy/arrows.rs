//! Rule: modules of `supervisor` use one another only along the arrows, and some crates stay in some modules.
//!
//! The tables here are the truth; `docs/architecture.md` shows them between two markers and `cargo xtask tidy --write` puts them there.

use super::rust;
use super::tree::{Fault, File, Tree};
use super::uses::{self, Target};

/// Who may use whom, from the top down. `lib.rs` and `main.rs` may use all.
const ARROWS: &[(&str, &[&str])] = &[
    ("cli", &["embedded", "features", "task", "audit", "cgroup", "sys"]),
    ("embedded", &["audit", "keeper", "cgroup", "task", "wire", "sys", "features"]),
    ("keeper", &["executor", "cgroup", "task", "wire", "sys"]),
    ("executor", &["task", "cgroup", "wire", "sys"]),
    ("features", &["cgroup", "sys", "audit"]),
    ("audit", &["cgroup", "sys"]),
    ("wire", &["task", "sys"]),
    ("cgroup", &["sys"]),
    ("task", &[]),
    ("sys", &[]),
];

/// Crates that only these modules may mention.
const RESERVED: &[(&str, &[&str])] = &[
    ("clap", &["cli", "lib"]),
    ("aya", &["audit"]),
    ("aya_obj", &["audit"]),
    ("supervisor_ebpf", &["audit"]),
    ("tokio", &["cli", "embedded", "sys"]),
    ("serde_json", &["cli", "embedded", "audit", "features"]),
];

/// Modules that may mention these crates and no other.
const ONLY: &[(&str, &[&str])] = &[("task", &["thiserror"]), ("sys", &["libc", "nix", "thiserror", "tokio"])];

const DOCUMENT: &str = "docs/architecture.md";
const BEGIN: &str = "<!-- arrows: written by `cargo xtask tidy --write` -->";
const END: &str = "<!-- arrows end -->";
const SOURCES: &str = "supervisor/src/";
const MANIFEST: &str = "supervisor/Cargo.toml";

/// Checks every file of `supervisor` and the table in the document.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let crates = tree.get(MANIFEST).map(|file| dependencies(&file.text)).unwrap_or_default();
    let mut faults: Vec<Fault> = tree
        .rust()
        .filter_map(|file| file.path.strip_prefix(SOURCES).map(|below| (file, below)))
        .flat_map(|(file, below)| check_file(file, below, &crates))
        .collect();
    match tree.get(DOCUMENT) {
        None => faults.push(Fault::whole(DOCUMENT, "is missing: `cargo xtask tidy --write` makes it")),
        Some(file) => match written(&file.text) {
            Some(text) if text == file.text => {}
            Some(_) => {
                faults.push(Fault::whole(DOCUMENT, "its arrows are old: run `cargo xtask tidy --write`"))
            }
            None => faults.push(Fault::whole(DOCUMENT, format!("lacks the lines `{BEGIN}` and `{END}`"))),
        },
    }
    faults
}

/// The document with today's tables; none when it lacks the markers.
pub fn written(document: &str) -> Option<String> {
    let begin = document.find(BEGIN)? + BEGIN.len();
    let end = begin + document[begin..].find(END)?;
    Some(format!("{}\n{}{}", &document[..begin], table(), &document[end..]))
}

/// Path of the document with the tables.
pub fn document() -> &'static str {
    DOCUMENT
}

fn table() -> String {
    let list = |names: &[&str]| match names {
        [] => "nothing".to_owned(),
        names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    };
    let mut text = String::from("\n| module | may use |\n| --- | --- |\n");
    for (module, uses) in ARROWS {
        text += &format!("| `{module}` | {} |\n", list(uses));
    }
    text += "\n| crate | only in |\n| --- | --- |\n";
    for (name, modules) in RESERVED {
        text += &format!("| `{name}` | {} |\n", list(modules));
    }
    text += "\n| module | only these crates, and std |\n| --- | --- |\n";
    for (module, crates) in ONLY {
        text += &format!("| `{module}` | {} |\n", list(crates));
    }
    text + "\n"
}

/// Names of the crates in `[dependencies]`, as code writes them. Crates for tests alone are not bound to modules.
fn dependencies(manifest: &str) -> Vec<String> {
    let section = manifest.lines().map(str::trim).skip_while(|line| *line != "[dependencies]").skip(1);
    section
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

fn check_file(file: &File, below: &str, crates: &[String]) -> Vec<Fault> {
    let mut module: Vec<&str> = below.trim_end_matches(".rs").split('/').collect();
    if module.last() == Some(&"mod") {
        module.pop();
    }
    let top = module.first().copied().unwrap_or_default();
    let is_root = module.len() == 1 && matches!(top, "lib" | "main");
    let arrows = ARROWS.iter().find(|(name, _)| *name == top).map(|(_, uses)| *uses);
    if arrows.is_none() && !is_root {
        return vec![Fault::whole(
            &file.path,
            format!(
                "module `{top}` has no arrows: add it to xtask/src/tidy/arrows.rs, then run `cargo xtask tidy --write`"
            ),
        )];
    }
    let stripped = rust::strip(&file.text);
    let path: &[&str] = if is_root { &[] } else { &module };
    let mentions = uses::mentions(path, &rust::tokens(&stripped));
    let mut faults: Vec<Fault> = mentions
        .into_iter()
        .filter_map(|mention| {
            let wrong = match (&mention.target, arrows) {
                (Target::Name(name), _) => wrong_crate(top, name, crates),
                (Target::Own(_) | Target::Root, None) => None,
                (Target::Own(name), Some(uses)) => wrong_module(top, name, uses),
                (Target::Root, Some(_)) => Some(
                    "imports the crate's root, which hides what is used: import from the module that owns it"
                        .to_owned(),
                ),
            };
            wrong.map(|message| Fault::at(&file.path, mention.line, message))
        })
        .collect();
    faults.dedup();
    faults
}

fn wrong_module(top: &str, name: &str, uses: &[&str]) -> Option<String> {
    if name == top || uses.contains(&name) {
        None
    } else if ARROWS.iter().any(|(module, _)| *module == name) {
        Some(format!("`{top}` must not use `{name}`: see the arrows in {DOCUMENT}"))
    } else {
        Some(format!("`crate::{name}` is no module: import it from the module that owns it"))
    }
}

fn wrong_crate(top: &str, name: &str, crates: &[String]) -> Option<String> {
    if let Some((_, modules)) = RESERVED.iter().find(|(reserved, _)| *reserved == name)
        && !modules.contains(&top)
    {
        return Some(format!("`{top}` must not use the crate `{name}`: only {} may", modules.join(", ")));
    }
    let (_, allowed) = ONLY.iter().find(|(module, _)| *module == top)?;
    if crates.iter().any(|known| known == name) && !allowed.contains(&name) {
        return Some(format!(
            "`{top}` must not use the crate `{name}`: it has only std and {}",
            allowed.join(", ")
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCIES: &str = "[package]\nname = \"x\"\n[dependencies]\naya.workspace = true\nnix = { a = 1 }\n# c\nsupervisor-ebpf = 1\nlibc = 1\n[dev-dependencies]\nproptest = 1\n";

    fn faults(path: &str, code: &str) -> Vec<String> {
        let document = written(&format!("x\n{BEGIN}\n{END}\n")).unwrap();
        let tree = Tree::of(&[(path, code), (MANIFEST, DEPENDENCIES), (DOCUMENT, &document)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_arrows_have_no_cycle() {
        for (at, (module, uses)) in ARROWS.iter().enumerate() {
            for name in *uses {
                let target = ARROWS.iter().position(|(other, _)| other == name);
                assert!(
                    target.is_some_and(|target| target > at),
                    "{module} uses {name}, which is not below it"
                );
            }
        }
    }

    #[test]
    fn an_arrow_against_the_table_is_a_fault() {
        assert_eq!(
            faults("supervisor/src/keeper/tree.rs", "use crate::{cgroup::Dir, sys};\nuse super::Keeper;"),
            [""; 0]
        );
        let found =
            faults("supervisor/src/keeper/tree.rs", "use crate::sys;\nuse crate::{cgroup, audit::Judge};\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("supervisor/src/keeper/tree.rs:2: `keeper` must not use `audit`"),
            "{found:?}"
        );
        assert_eq!(faults("supervisor/src/task/mod.rs", "fn f() { super::sys::clock() }").len(), 1);
    }

    #[test]
    fn tests_modules_obey_too() {
        let code = "#[cfg(test)]\nmod tests {\n    use crate::keeper::Keeper;\n}\n";
        assert_eq!(faults("supervisor/src/executor/mod.rs", code).len(), 1);
    }

    #[test]
    fn reserved_crates_stay_where_they_are() {
        assert_eq!(
            faults("supervisor/src/audit/load.rs", "use aya::Ebpf; use supervisor_ebpf::abi;"),
            [""; 0]
        );
        assert_eq!(
            faults("supervisor/src/executor/mod.rs", "async fn f() { tokio::task::yield_now() }").len(),
            1
        );
        assert_eq!(faults("supervisor/src/features/mod.rs", "use aya::Btf;").len(), 1);
        assert_eq!(faults("supervisor/src/keeper/mod.rs", "#[derive(clap::Args)] struct A;").len(), 1);
    }

    #[test]
    fn task_and_sys_use_little_else_than_std() {
        assert_eq!(faults("supervisor/src/sys/mod.rs", "use nix::errno::Errno; use std::fs;"), [""; 0]);
        assert_eq!(faults("supervisor/src/task/mod.rs", "use nix::errno::Errno;").len(), 1);
        assert_eq!(
            faults("supervisor/src/task/mod.rs", "#[cfg(test)] mod t { use proptest::prelude::*; }"),
            [""; 0]
        );
    }

    #[test]
    fn unknown_modules_and_the_root_are_faults() {
        assert!(faults("supervisor/src/extra.rs", "")[0].contains("no arrows"));
        assert!(faults("supervisor/src/cli/mod.rs", "use crate::Thing;")[0].contains("is no module"));
        assert!(faults("supervisor/src/cli/mod.rs", "use crate as c;")[0].contains("root"));
        assert_eq!(
            faults("supervisor/src/lib.rs", "pub use audit::X; fn f() { cli::main(); crate::sys::x() }"),
            [""; 0]
        );
    }

    #[test]
    fn the_document_must_show_the_table() {
        let good = written(&format!("# A\n{BEGIN}\nold\n{END}\nrest\n")).unwrap();
        assert!(good.starts_with("# A\n") && good.ends_with("\nrest\n") && !good.contains("old"));
        assert_eq!(written(&good).as_deref(), Some(good.as_str()));
        assert!(check(&Tree::of(&[(DOCUMENT, &good)])).is_empty());
        assert_eq!(check(&Tree::of(&[(DOCUMENT, &good.replace("`keeper`", "`kept`"))])).len(), 1);
        assert_eq!(check(&Tree::of(&[(DOCUMENT, "no markers")])).len(), 1);
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }
}
