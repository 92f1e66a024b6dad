//! Licence expressions as crates write them: `MIT OR Apache-2.0`, `(A OR B) AND C`, and the old `MIT/Apache-2.0`.

/// Whether the expression can be satisfied with the allowed licences alone. An error says what cannot be read.
pub fn satisfied(expression: &str, allowed: &[String]) -> Result<bool, String> {
    let words = words(expression);
    let mut parser = Parser { words: &words, at: 0, allowed };
    let answer = parser.any()?;
    match parser.next() {
        None => Ok(answer),
        Some(word) => Err(format!("`{word}` is not expected in `{expression}`")),
    }
}

fn words(expression: &str) -> Vec<String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

struct Parser<'a> {
    words: &'a [String],
    at: usize,
    allowed: &'a [String],
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).map(String::as_str)
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek();
        self.at += 1;
        word
    }

    /// `all (OR all)*`
    fn any(&mut self) -> Result<bool, String> {
        let mut answer = self.all()?;
        while self.peek() == Some("OR") {
            self.at += 1;
            answer |= self.all()?;
        }
        Ok(answer)
    }

    /// `one (AND one)*`
    fn all(&mut self) -> Result<bool, String> {
        let mut answer = self.one()?;
        while self.peek() == Some("AND") {
            self.at += 1;
            answer &= self.one()?;
        }
        Ok(answer)
    }

    /// `( any )` or a licence, perhaps `WITH` an exception.
    fn one(&mut self) -> Result<bool, String> {
        match self.next() {
            Some("(") => {
                let answer = self.any()?;
                match self.next() {
                    Some(")") => Ok(answer),
                    Some(word) => Err(format!("`{word}` stands where `)` belongs")),
                    None => Err("a `)` is missing".to_owned()),
                }
            }
            Some(word @ (")" | "OR" | "AND" | "WITH")) => {
                Err(format!("`{word}` stands where a licence belongs"))
            }
            Some(licence) => {
                let mut name = licence.to_owned();
                if self.peek() == Some("WITH") {
                    self.at += 1;
                    let exception = self.next().ok_or("an exception is missing behind WITH")?;
                    name = format!("{name} WITH {exception}");
                }
                Ok(self.allowed.contains(&name))
            }
            None => Err("a licence is missing".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(expression: &str) -> Result<bool, String> {
        let allowed = ["MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        satisfied(expression, &allowed)
    }

    #[test]
    fn a_choice_needs_one_and_a_sum_needs_all() {
        assert_eq!(ok("MIT"), Ok(true));
        assert_eq!(ok("GPL-3.0-only"), Ok(false));
        assert_eq!(ok("GPL-3.0-only OR MIT"), Ok(true));
        assert_eq!(ok("Apache-2.0/MIT"), Ok(true));
        assert_eq!(ok("(MIT OR Apache-2.0) AND Unicode-3.0"), Ok(true));
        assert_eq!(ok("(MIT OR Apache-2.0) AND GPL-3.0-only"), Ok(false));
        assert_eq!(ok("GPL-3.0-only AND X OR MIT"), Ok(true), "AND binds closer than OR");
    }

    #[test]
    fn an_exception_belongs_to_its_licence() {
        assert_eq!(ok("Apache-2.0 WITH LLVM-exception"), Ok(true));
        assert_eq!(ok("Apache-2.0"), Ok(false));
        assert_eq!(ok("MIT WITH Other-exception"), Ok(false));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for expression in ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "AND", "MIT WITH"] {
            assert!(ok(expression).is_err(), "{expression}");
        }
    }
}
