//! Which modules and crates a file mentions: every path in it, resolved from the root of its crate.

use super::rust::{Kind, Token};

/// A path as the code means it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A path into this crate: the first segment below the root.
    Own(String),
    /// The root itself is named in a `use` (`use crate as x`, `use crate::*`): what is reached through it cannot be seen.
    Root,
    /// A path that begins with a name: a crate, or something in scope.
    Name(String),
}

/// Words after which `::name` begins a path.
const KEYWORDS: [&str; 17] = [
    "as", "break", "const", "dyn", "else", "for", "if", "impl", "in", "let", "match", "move", "mut", "ref",
    "return", "where", "while",
];

/// Where a path stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mention {
    pub target: Target,
    /// From 1.
    pub line: usize,
}

/// All paths in the tokens of a file whose module is `module` (`["keeper", "tree"]` for `keeper/tree.rs`).
pub fn mentions(module: &[&str], tokens: &[Token<'_>]) -> Vec<Mention> {
    let mut walk = Walk {
        tokens,
        at: 0,
        depth: 0,
        module: module.iter().map(|name| (*name).to_owned()).collect(),
        inline: Vec::new(),
        found: Vec::new(),
    };
    walk.run();
    walk.found
}

struct Walk<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    depth: usize,
    /// The module we are in, inline modules included.
    module: Vec<String>,
    /// Depths at which the inline modules began.
    inline: Vec<usize>,
    found: Vec<Mention>,
}

impl<'a> Walk<'a> {
    fn kind(&self, offset: usize) -> Option<Kind<'a>> {
        self.tokens.get(self.at + offset).map(|token| token.kind)
    }

    fn before(&self) -> Option<Kind<'a>> {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map(|token| token.kind)
    }

    fn run(&mut self) {
        while let Some(kind) = self.kind(0) {
            match kind {
                Kind::Mark('{') => self.depth += 1,
                Kind::Mark('}') => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.inline.last() == Some(&self.depth) {
                        self.inline.pop();
                        self.module.pop();
                    }
                }
                Kind::Word("mod") => {
                    if let (Some(Kind::Word(name)), Some(Kind::Mark('{'))) = (self.kind(1), self.kind(2)) {
                        self.module.push(name.to_owned());
                        self.inline.push(self.depth);
                        self.at += 1;
                    }
                }
                // `use<'a>` is a bound, not an import.
                Kind::Word("use") if self.kind(1) != Some(Kind::Mark('<')) => {
                    self.at += 1;
                    self.tree(&[]);
                    continue;
                }
                Kind::Word("extern") if self.kind(1) == Some(Kind::Word("crate")) => {
                    if let Some(Kind::Word(name)) = self.kind(2) {
                        self.record(vec![name.to_owned()], self.tokens[self.at].line, Place::Import);
                    }
                    self.at += 2;
                }
                Kind::Word(word) if !KEYWORDS.contains(&word) && self.begins_path() => {
                    let line = self.tokens[self.at].line;
                    let segments = self.segments();
                    self.record(segments, line, Place::Code);
                    continue;
                }
                Kind::Word(_) | Kind::PathSeparator | Kind::Mark(_) => {}
            }
            self.at += 1;
        }
    }

    /// Whether the word here is the first of a path with more than one segment.
    fn begins_path(&self) -> bool {
        self.kind(1) == Some(Kind::PathSeparator) && {
            let inside = self.before() == Some(Kind::PathSeparator)
                && match self.at.checked_sub(2).and_then(|at| self.tokens.get(at)).map(|token| token.kind) {
                    Some(Kind::Word(word)) => !KEYWORDS.contains(&word),
                    Some(Kind::Mark('>' | ']' | ')')) => true,
                    Some(Kind::PathSeparator | Kind::Mark(_)) | None => false,
                };
            !inside
        }
    }

    /// The plain segments from here on; stands behind them.
    fn segments(&mut self) -> Vec<String> {
        let mut segments = Vec::new();
        while let Some(Kind::Word(word)) = self.kind(0) {
            segments.push(word.to_owned());
            self.at += 1;
            if self.kind(0) != Some(Kind::PathSeparator) || !matches!(self.kind(1), Some(Kind::Word(_))) {
                break;
            }
            self.at += 1;
        }
        segments
    }

    /// One tree of a `use`, from its first token to behind its last.
    fn tree(&mut self, prefix: &[String]) {
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        let mut path = prefix.to_vec();
        if self.kind(0) == Some(Kind::PathSeparator) {
            self.at += 1;
        }
        path.extend(self.segments());
        if self.kind(0) == Some(Kind::PathSeparator) {
            self.at += 1;
        }
        match self.kind(0) {
            Some(Kind::Mark('{')) => {
                self.at += 1;
                while !matches!(self.kind(0), Some(Kind::Mark('}')) | None) {
                    let before = self.at;
                    self.tree(&path);
                    // A comma, or something we do not know: never stand still.
                    if self.kind(0) == Some(Kind::Mark(',')) || self.at == before {
                        self.at += 1;
                    }
                }
                self.at += 1;
            }
            Some(Kind::Mark('*')) => {
                self.at += 1;
                path.push("*".to_owned());
                self.record(path, line, Place::Import);
            }
            Some(Kind::Word(_) | Kind::PathSeparator | Kind::Mark(_)) | None => {
                if self.kind(0) == Some(Kind::Word("as")) {
                    self.at += 2;
                }
                self.record(path, line, Place::Import);
            }
        }
    }

    fn record(&mut self, segments: Vec<String>, line: usize, place: Place) {
        let target = match resolve(&self.module, &segments) {
            Some(Target::Root) if place == Place::Code => None,
            other => other,
        };
        self.found.extend(target.map(|target| Mention { target, line }));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Import,
    Code,
}

fn resolve(module: &[String], segments: &[String]) -> Option<Target> {
    let first = segments.first()?;
    let mut path: Vec<&String> = match first.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => module.iter().collect(),
        _ => return Some(Target::Name(first.clone())),
    };
    for segment in segments {
        match segment.as_str() {
            "super" => {
                path.pop();
            }
            "self" | "crate" => {}
            _ => path.push(segment),
        }
    }
    match path.first().map(|name| name.as_str()) {
        None | Some("*") => Some(Target::Root),
        Some(name) => Some(Target::Own(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rust;
    use super::*;

    fn found(module: &[&str], source: &str) -> Vec<Target> {
        let stripped = rust::strip(source);
        let mut found: Vec<_> =
            mentions(module, &rust::tokens(&stripped)).into_iter().map(|mention| mention.target).collect();
        found.sort();
        found.dedup();
        found
    }

    fn own(names: &[&str]) -> Vec<Target> {
        names.iter().map(|name| Target::Own((*name).to_owned())).collect()
    }

    #[test]
    fn use_trees_are_unfolded() {
        assert_eq!(found(&["cli"], "use crate::a;"), own(&["a"]));
        assert_eq!(found(&["cli"], "use crate::{a, b::{self, c}, d as e};"), own(&["a", "b", "d"]));
        assert_eq!(found(&["cli"], "pub(crate) use crate::{\n    a::*,\n    b::x,\n};"), own(&["a", "b"]));
    }

    #[test]
    fn super_is_resolved_from_the_module() {
        assert_eq!(found(&["cli"], "use super::a;"), own(&["a"]));
        assert_eq!(found(&["cli", "run"], "use super::a; use super::super::b::c;"), own(&["b", "cli"]));
        assert_eq!(
            found(&["cli", "run"], "mod tests { use super::super::super::a; } use super::b;"),
            own(&["a", "cli"])
        );
        assert_eq!(found(&["cli"], "use super::{self as root};"), [Target::Root]);
    }

    #[test]
    fn inline_modules_end_where_they_end() {
        assert_eq!(found(&["cli"], "mod x { fn f() { if a { } } } use super::b;"), own(&["b"]));
    }

    #[test]
    fn paths_in_code_count() {
        assert_eq!(
            found(&["cli"], "fn f(x: &crate::a::B) -> super::c::D { crate::e::f::<crate::g::H>() }"),
            own(&["a", "c", "e", "g"])
        );
        assert_eq!(found(&["cli"], "macro_rules! m { () => { $crate::a::b() } }"), own(&["a"]));
        assert_eq!(found(&["cli"], "impl T for <crate::a::X as crate::b::Y>::Z {}"), own(&["a", "b"]));
    }

    #[test]
    fn the_root_cannot_be_hidden_behind_a_name() {
        assert_eq!(found(&["cli"], "use crate as root;"), [Target::Root]);
        assert_eq!(found(&["cli"], "use crate::*;"), [Target::Root]);
        assert_eq!(found(&["cli"], "use crate::{self as root};"), [Target::Root]);
        assert_eq!(found(&["cli"], "pub(crate) fn f() {} pub(super) struct S;"), []);
    }

    #[test]
    fn crates_are_seen_wherever_they_stand() {
        let names = |source| found(&["cli"], source);
        let name = |name: &str| Target::Name(name.to_owned());
        assert_eq!(names("use tokio;"), [name("tokio")]);
        assert_eq!(names("use ::tokio::net as n;"), [name("tokio")]);
        assert_eq!(names("use {tokio::net, aya};"), [name("aya"), name("tokio")]);
        assert_eq!(names("#[tokio::test] fn f() {}"), [name("tokio")]);
        assert_eq!(names("fn f() { ::aya::Ebpf::load(x); }"), [name("aya")]);
        assert_eq!(names("fn f() { return ::aya::Ebpf::load(x); }"), [name("aya")]);
        assert_eq!(names("extern crate clap;"), [name("clap")]);
        assert_eq!(names("// tokio::x\nfn f() { \"tokio::y\"; a.tokio; }"), []);
    }

    #[test]
    fn a_bound_is_no_import() {
        assert_eq!(found(&["cli"], "fn f<'a>() -> impl Sized + use<'a> { crate::a::b() }"), own(&["a"]));
    }

    #[test]
    fn broken_code_ends() {
        for source in ["use crate::{a", "use", "use crate::{,,;}", "crate::", "mod x {", "use a as"] {
            found(&["cli"], source);
        }
    }
}
