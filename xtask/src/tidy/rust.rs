//! Just enough of Rust's lexical grammar for the rules: code without comments and strings, its tokens, and its test regions.

use std::ops::Range;

/// The code with every comment, string and character literal blanked. Lines keep their numbers.
pub fn strip(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match &bytes[at..] {
            [b'/', b'/', ..] => end_of_line(bytes, at),
            [b'/', b'*', ..] => end_of_block_comment(bytes, at),
            [b'"', ..] => end_of_string(bytes, at),
            [b'\'', ..] => end_of_quote(bytes, at),
            [first, ..] if is_word(*first) => {
                let word = at + bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
                match end_of_raw_string(bytes, at, word) {
                    Some(end) => end,
                    None => {
                        at = word;
                        continue;
                    }
                }
            }
            _ => {
                at += 1;
                continue;
            }
        };
        blank(&mut out[at..end]);
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn end_of_line(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length)
}

fn end_of_block_comment(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    at += 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// End of the character literal at `at`, or of the quote alone when it begins a lifetime.
fn end_of_quote(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => {
            // The escaped byte itself may be a quote.
            let from = (at + 3).min(bytes.len());
            bytes[from..]
                .iter()
                .position(|byte| *byte == b'\'')
                .map_or(bytes.len(), |length| from + length + 1)
        }
        Some(first) => {
            let length = match first {
                0..=0x7f => 1,
                0x80..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xff => 4,
            };
            if bytes.get(at + 1 + length) == Some(&b'\'') { at + length + 2 } else { at + 1 }
        }
        None => at + 1,
    }
}

/// End of the raw string whose prefix is the word `at..word` (`r`, `br`, `cr`); none when it is another word.
fn end_of_raw_string(bytes: &[u8], at: usize, word: usize) -> Option<usize> {
    if !matches!(&bytes[at..word], b"r" | b"br" | b"cr") {
        return None;
    }
    let hashes = bytes[word..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(word + hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let from = word + hashes + 1;
    let found = bytes[from..].windows(close.len()).position(|window| window == close);
    Some(found.map_or(bytes.len(), |length| from + length + close.len()))
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// An identifier, a keyword or a number.
    Word(&'a str),
    /// `::`
    PathSeparator,
    /// Any other character that is not white space.
    Mark(char),
}

/// A token and the line it is on, counted from 1.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub kind: Kind<'a>,
    pub line: usize,
}

/// The tokens of stripped code.
pub fn tokens(stripped: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = stripped;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_alphanumeric() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(Token { kind: Kind::Word(&rest[..length]), line });
            length
        } else if rest.starts_with("::") {
            tokens.push(Token { kind: Kind::PathSeparator, line });
            2
        } else {
            if first == '\n' {
                line += 1;
            } else if !first.is_whitespace() {
                tokens.push(Token { kind: Kind::Mark(first), line });
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// What stands behind `#[cfg(test)]` in a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TestParts {
    /// Lines (from 1) of items that are compiled for tests only.
    pub lines: Vec<Range<usize>>,
    /// Names of modules in files of their own that are compiled for tests only.
    pub modules: Vec<String>,
}

/// Finds the items marked `#[cfg(test)]`.
pub fn test_parts(tokens: &[Token<'_>]) -> TestParts {
    use Kind::{Mark, Word};
    const ATTRIBUTE: [Kind<'static>; 7] =
        [Mark('#'), Mark('['), Word("cfg"), Mark('('), Word("test"), Mark(')'), Mark(']')];
    let mut parts = TestParts::default();
    let mut at = 0;
    while at + ATTRIBUTE.len() <= tokens.len() {
        if tokens[at..at + ATTRIBUTE.len()].iter().map(|token| token.kind).ne(ATTRIBUTE) {
            at += 1;
            continue;
        }
        let start = tokens[at].line;
        at += ATTRIBUTE.len();
        let mut depth = 0_usize;
        while let Some(token) = tokens.get(at) {
            match token.kind {
                Mark('{') => depth += 1,
                Mark('}') => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        break;
                    }
                }
                Mark(';') if depth == 0 => break,
                Word("mod") if depth == 0 => {
                    if let (Some(Word(name)), Some(Mark(';'))) =
                        (tokens.get(at + 1).map(|t| t.kind), tokens.get(at + 2).map(|t| t.kind))
                    {
                        parts.modules.push(name.to_owned());
                    }
                }
                Mark(_) | Word(_) | Kind::PathSeparator => {}
            }
            at += 1;
        }
        let end = tokens.get(at).or(tokens.last()).map_or(start, |token| token.line);
        parts.lines.push(start..end + 1);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped_words(source: &str) -> Vec<String> {
        let stripped = strip(source);
        assert_eq!(source.lines().count(), stripped.lines().count(), "lines must keep their numbers");
        let words = tokens(&stripped).into_iter().filter_map(|token| match token.kind {
            Kind::Word(word) => Some(word.to_owned()),
            Kind::PathSeparator | Kind::Mark(_) => None,
        });
        words.collect()
    }

    #[test]
    fn comments_and_strings_are_blanked() {
        assert_eq!(stripped_words("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(stripped_words(r#"a "b \" c" d"#), ["a", "d"]);
        assert_eq!(stripped_words("a r\"b\" c"), ["a", "c"]);
        assert_eq!(stripped_words("a r##\"b \"# c\"## d"), ["a", "d"]);
        assert_eq!(stripped_words("a br#\"b\n\"# c \"d\ne\" f"), ["a", "c", "f"]);
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        assert_eq!(stripped_words("x('\"', a, '\\'', b, 'é', '\\u{1F600}', c)"), ["x", "a", "b", "c"]);
        assert_eq!(stripped_words("fn f<'a>(x: &'a str) { '{' }"), ["fn", "f", "a", "x", "a", "str"]);
    }

    #[test]
    fn raw_identifiers_are_no_strings() {
        assert_eq!(stripped_words("r#type var bar\"x\""), ["r", "type", "var", "bar"]);
    }

    #[test]
    fn unfinished_input_ends() {
        for source in ["\"abc", "/* abc", "r#\"abc", "'\\", "'", "/"] {
            strip(source);
        }
    }

    #[test]
    fn test_parts_are_found() {
        let source = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { }\n}\nfn c() {}\n#[cfg(test)]\nmod properties;\n";
        let stripped = strip(source);
        let parts = test_parts(&tokens(&stripped));
        assert_eq!(parts.lines, [2..6, 7..9]);
        assert_eq!(parts.modules, ["properties"]);
    }
}
