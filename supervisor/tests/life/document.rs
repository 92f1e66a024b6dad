//! docs/lifecycle.md names the states, events and effects that the code has, in its order, and no others.

/// The variants of an enum in a source text that rustfmt has laid out.
fn variants(source: &str, name: &str) -> Vec<String> {
    let start = format!("enum {name} {{");
    let lines =
        source.lines().skip_while(|line| !line.ends_with(&start)).skip(1).take_while(|line| *line != "}");
    lines
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(char::is_uppercase))
        .map(|line| line.chars().take_while(char::is_ascii_alphanumeric).collect())
        .collect()
}

/// The first column of the table under a heading, without back-ticks.
fn column(document: &str, heading: &str) -> Vec<String> {
    let section = document.lines().skip_while(|line| *line != heading).skip(1);
    section
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[test]
fn the_document_names_what_the_code_has() {
    let document = include_str!("../../../docs/lifecycle.md");
    for (heading, name, source) in [
        ("## States", "State", include_str!("../../src/task/life/state.rs")),
        ("## Events", "Event", include_str!("../../src/task/life/event.rs")),
        ("## Effects", "Effect", include_str!("../../src/task/life/effect.rs")),
    ] {
        let code = variants(source, name);
        assert!(code.len() > 5, "{name}: only {code:?} found");
        assert_eq!(column(document, heading), code, "{heading}");
    }
}
