//! Rule: every invariant that documents speak of is known, and every one that is due is named by a test.
//!
//! The table in `docs/testing.md` is the list: `| INV-1 | what it says | due | tests |` with `now` or `not yet` as due.

use std::collections::BTreeMap;

use super::tree::{Fault, Tree};

const TABLE: &str = "docs/testing.md";
const BEGIN: &str = "<!-- invariants: checked by `cargo xtask tidy` -->";
const END: &str = "<!-- invariants end -->";

#[derive(Debug, PartialEq, Eq)]
enum Due {
    Now { tests: Vec<String> },
    NotYet,
}

/// Checks the documents against the tests.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let Some(document) = tree.get(TABLE) else {
        return vec![Fault::whole(TABLE, "is missing: it lists the invariants")];
    };
    let (table, mut faults) = table(&document.text);
    let tests = tree.tests();
    let known = |number: u32| table.contains_key(&number);
    for file in &tree.files {
        for (line, text) in file.text.lines().enumerate() {
            for number in numbers(text).into_iter().filter(|number| !known(*number)) {
                faults.push(Fault::at(
                    &file.path,
                    line + 1,
                    format!("INV-{number} is not in the table of {TABLE}"),
                ));
            }
        }
    }
    for (number, (line, due)) in &table {
        let named_in = tests.iter().find(|(_, text)| numbers(text).contains(number)).map(|(path, _)| *path);
        match (due, named_in) {
            (Due::Now { .. }, None) => faults.push(Fault::at(
                TABLE,
                *line,
                format!("INV-{number} is due, but no test names it: write `INV-{number}` above the test or `inv_{number}_` into its name"),
            )),
            (Due::NotYet, Some(path)) => faults.push(Fault::at(
                TABLE,
                *line,
                format!("INV-{number} is `not yet` due, but {path} tests it: set `now` and name the test"),
            )),
            (Due::NotYet, None) => {}
            (Due::Now { tests: names }, Some(_)) => {
                for name in names.iter().filter(|name| !tests.iter().any(|(_, text)| defines(text, name))) {
                    faults.push(Fault::at(TABLE, *line, format!("INV-{number}: there is no test `{name}`")));
                }
            }
        }
    }
    faults
}

/// The rows between the markers: number, line in the document, due.
fn table(document: &str) -> (BTreeMap<u32, (usize, Due)>, Vec<Fault>) {
    let mut rows = BTreeMap::new();
    let mut faults = Vec::new();
    let lines = document.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let between = lines.skip_while(|(_, line)| *line != BEGIN).skip(1).take_while(|(_, line)| *line != END);
    for (number, line) in between.filter(|(_, line)| line.starts_with("| INV-")) {
        match row(line) {
            Ok((invariant, due)) => {
                if rows.insert(invariant, (number, due)).is_some() {
                    faults.push(Fault::at(
                        TABLE,
                        number,
                        format!("INV-{invariant} stands twice in the table"),
                    ));
                }
            }
            Err(message) => faults.push(Fault::at(TABLE, number, message)),
        }
    }
    if rows.is_empty() && faults.is_empty() {
        faults.push(Fault::whole(TABLE, format!("has no table of invariants between `{BEGIN}` and `{END}`")));
    }
    (rows, faults)
}

fn row(line: &str) -> Result<(u32, Due), String> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [name, _, due, tests] = cells[..] else {
        return Err(format!("has {} cells: invariant, what it says, due, tests are needed", cells.len()));
    };
    let [number] = numbers(name)[..] else {
        return Err(format!("`{name}` is no invariant: write INV-1"));
    };
    let names: Vec<String> = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    match due {
        "now" if names.is_empty() => {
            Err(format!("INV-{number} is due, but its row names no test in backticks"))
        }
        "now" => Ok((number, Due::Now { tests: names })),
        "not yet" => Ok((number, Due::NotYet)),
        other => Err(format!("INV-{number} is due `{other}`: write `now` or `not yet`")),
    }
}

/// The invariants that a text names, as `INV-7` or as `inv_7` in the name of a test.
fn numbers(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for prefix in ["INV-", "inv_"] {
        for (at, _) in text.match_indices(prefix) {
            let before = text[..at].chars().next_back();
            let digits: String = text[at + prefix.len()..].chars().take_while(char::is_ascii_digit).collect();
            if let Ok(number) = digits.parse()
                && !before.is_some_and(char::is_alphanumeric)
            {
                found.push(number);
            }
        }
    }
    found
}

/// Whether the text has a function of this name.
fn defines(text: &str, name: &str) -> bool {
    let head = format!("fn {name}");
    text.match_indices(&head).any(|(at, _)| text[at + head.len()..].starts_with(['(', '<']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(rows: &str, others: &[(&str, &str)]) -> Vec<String> {
        let document = format!(
            "# T\n{BEGIN}\n| invariant | a | due | tests |\n| --- | --- | --- | --- |\n{rows}{END}\n"
        );
        let mut files = others.to_vec();
        files.push((TABLE, &document));
        check(&Tree::of(&files)).iter().map(ToString::to_string).collect()
    }

    // The invariants of these examples are written in two pieces, or this file would count as a test of them.
    fn inv(number: u32, due: &str, tests: &str) -> String {
        format!("| {}-{number} | x | {due} | {tests} |\n", "INV")
    }

    #[test]
    fn a_due_invariant_needs_its_test() {
        let rows = inv(1, "now", "`a_test`");
        let named = ["// IN", "V-1\nfn a_test() {}"].concat();
        assert_eq!(faults(&rows, &[("tests/src/a.rs", &named)]), [""; 0]);
        assert!(faults(&rows, &[])[0].contains("no test names it"));
        assert!(
            faults(&rows, &[("supervisor/src/a.rs", &named)])[0].contains("no test names it"),
            "code is no test"
        );
        let other = named.replace("a_test", "b_test");
        assert!(faults(&rows, &[("tests/src/a.rs", &other)])[0].contains("there is no test `a_test`"));
    }

    #[test]
    fn eleven_is_not_one() {
        let eleven = ["fn in", "v_11_x() {}"].concat();
        assert_eq!(numbers(&eleven), [11]);
        assert_eq!(
            faults(&inv(11, "now", &["`in", "v_11_x`"].concat()), &[("tests/a.rs", &eleven)]),
            [""; 0]
        );
        assert_eq!(numbers("MINV-1 INV- inv_x"), [0; 0]);
    }

    #[test]
    fn the_table_may_not_lag_behind() {
        let named = ["// IN", "V-2"].concat();
        assert!(faults(&inv(2, "not yet", ""), &[("tests/a.rs", &named)])[0].contains("set `now`"));
        assert_eq!(faults(&inv(2, "not yet", ""), &[("docs/a.md", &named)]), [""; 0]);
        assert!(faults(&inv(3, "not yet", ""), &[("docs/a.md", &named)])[0].starts_with("docs/a.md:1: "));
    }

    #[test]
    fn wrong_rows_are_named() {
        assert!(faults(&inv(1, "soon", ""), &[])[0].contains("`soon`"));
        assert!(faults(&inv(1, "now", "a"), &[])[0].contains("names no test"));
        let twice = inv(1, "not yet", "") + &inv(1, "not yet", "");
        assert!(faults(&twice, &[])[0].contains("twice"));
        assert!(faults("", &[])[0].contains("no table"));
    }
}
