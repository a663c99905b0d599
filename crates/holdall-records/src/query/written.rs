//! Parses the text of conditions.
//!
//! ```text
//! condition = all *( "or" all )
//! all       = one *( "and" one )
//! one       = "not" one / "(" condition ")" / "!" one
//!           / path                                    the member is present; a Boolean: it is true
//!           / path sign value                         = != < <= > >=
//!           / path ["not"] "in" "(" value *( "," value ) ")"
//!           / path ["not"] "contains" value
//! value     = a JSON string / "'" text without "'" "'"
//!           / the text up to `and`, `or`, `)` or, in the list of `in`, `,`
//! ```

use super::condition::Operator;
use crate::rules::CONDITION;
use holdall_core::Result;
use holdall_core::error::Shown as _;
use std::borrow::Cow;

/// A parsed condition.
#[derive(Debug, PartialEq)]
pub(super) enum Written<'t> {
    /// At least one condition holds.
    Any(Vec<Written<'t>>),
    /// All conditions hold.
    All(Vec<Written<'t>>),
    Not(Box<Written<'t>>),
    /// The member is present.
    There(&'t str),
    Compare(&'t str, Operator, Cow<'t, str>),
    In(&'t str, Vec<Cow<'t, str>>),
    Contains(&'t str, Cow<'t, str>),
}

impl<'t> Written<'t> {
    /// Parses a condition.
    ///
    /// # Errors
    /// Returns [`CONDITION`] if the text is not a condition.
    pub(super) fn new(text: &'t str) -> Result<Written<'t>> {
        let mut reader = Reader { text, rest: text, depth: 0 };
        let found = reader.any()?;
        match reader.rest.is_empty() {
            true => Ok(found),
            false => Err(reader.wrong("has a `)` without a `(`")),
        }
    }
}

/// Largest nesting depth of conditions.
const DEPTH: u32 = 64;

struct Reader<'t> {
    text: &'t str,
    rest: &'t str,
    depth: u32,
}

impl<'t> Reader<'t> {
    fn any(&mut self) -> Result<Written<'t>> {
        let mut all = vec![self.all()?];
        while self.takes("or") {
            all.push(self.all()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Written::Any(all) })
    }

    fn all(&mut self) -> Result<Written<'t>> {
        let mut all = vec![self.one()?];
        while self.takes("and") {
            all.push(self.one()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Written::All(all) })
    }

    fn one(&mut self) -> Result<Written<'t>> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(CONDITION.broken(format!("a condition nests at most {DEPTH} deep")));
        }
        let found = self.inner()?;
        self.depth -= 1;
        self.rest = self.rest.trim_start();
        Ok(found)
    }

    fn inner(&mut self) -> Result<Written<'t>> {
        self.rest = self.rest.trim_start();
        // A member can be called `not`.
        let is_not = keyword(self.rest, "not").is_some_and(|rest| !rest.trim_start().is_empty());
        if is_not && self.takes("not") {
            return Ok(Written::Not(Box::new(self.one()?)));
        }
        if self.sign("!") {
            return Ok(Written::Not(Box::new(self.one()?)));
        }
        if self.sign("(") {
            let found = self.any()?;
            return match self.sign(")") {
                true => Ok(found),
                false => Err(self.wrong("has a `(` without a `)`")),
            };
        }
        let path = self.path()?;
        if let Some(compare) = SIGNS.iter().find_map(|(sign, c)| self.sign(sign).then_some(*c)) {
            return Ok(Written::Compare(path, compare, self.value(false)?));
        }
        let is_not = self.takes("not");
        let found = if self.takes("contains") {
            Written::Contains(path, self.value(false)?)
        } else if self.takes("in") {
            Written::In(path, self.values()?)
        } else if is_not {
            return Err(self.wrong("has `not` before something other than `in` and `contains`"));
        } else {
            Written::There(path)
        };
        Ok(if is_not { Written::Not(Box::new(found)) } else { found })
    }

    /// Parses the member that a condition is about. Without this check, an empty path would mean the whole record,
    /// which is always present.
    fn path(&mut self) -> Result<&'t str> {
        let ends = |(at, c): (usize, char)| {
            let rest = self.rest.get(at..).unwrap_or_default();
            let is_word = || {
                ["and", "or", "in", "not", "contains"]
                    .iter()
                    .any(|word| keyword(rest.trim_start(), word).is_some())
            };
            matches!(c, '=' | '!' | '<' | '>' | ')') || c.is_whitespace() && is_word()
        };
        let end = self.rest.char_indices().find_map(|at| ends(at).then_some(at.0));
        let (path, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        let is_word = |word: &str| keyword(path, word).is_some_and(|rest| !rest.trim().is_empty());
        match path.trim() {
            "" => Err(self.wrong("names no member")),
            _ if is_word("and") || is_word("or") => {
                Err(self.wrong("has two of the words `and` and `or` in a row"))
            }
            path => Ok(path),
        }
    }

    /// Parses the values of `in`.
    fn values(&mut self) -> Result<Vec<Cow<'t, str>>> {
        if !self.sign("(") {
            return Err(self.wrong("has no list after `in`, as in `label in (cat, dog)`"));
        }
        let mut all = vec![self.value(true)?];
        while self.sign(",") {
            all.push(self.value(true)?);
        }
        match self.sign(")") {
            true => Ok(all),
            false => Err(self.wrong("has a `(` without a `)`")),
        }
    }

    fn value(&mut self, in_list: bool) -> Result<Cow<'t, str>> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('"') {
            let end = self
                .quoted()
                .ok_or_else(|| self.wrong("has an opening `\"` without a closing one"))?;
            let (value, rest) = self.rest.split_at(end);
            let value = serde_json::from_str(value)
                .map_err(|_| self.wrong("has a quoted value that is not a JSON string"))?;
            self.rest = rest.trim_start();
            return match is_end(self.rest) {
                true => Ok(Cow::Owned(value)),
                false => Err(self.wrong("has text after a quoted value")),
            };
        }
        // An apostrophe that is never closed is an ordinary character.
        let single = self.rest.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
        if let Some((value, rest)) = single.filter(|(_, rest)| is_end(rest.trim_start())) {
            self.rest = rest.trim_start();
            return Ok(Cow::Borrowed(value));
        }
        let mut open = 0usize;
        let mut end = self.rest.len();
        for (at, c) in self.rest.char_indices() {
            let rest = self.rest.get(at..).unwrap_or_default();
            let is_word =
                || ["and", "or"].iter().any(|word| keyword(rest.trim_start(), word).is_some());
            let ends = match c {
                ')' => open == 0,
                ',' => in_list && open == 0,
                c => c.is_whitespace() && !in_list && is_word(),
            };
            if ends {
                end = at;
                break;
            }
            match c {
                '(' => open += 1,
                ')' => open -= 1,
                _ => {}
            }
        }
        let (value, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(Cow::Borrowed(value.trim()))
    }

    /// Returns the end of the quoted string that comes next.
    fn quoted(&self) -> Option<usize> {
        let mut is_escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                '"' if !is_escaped => return at.checked_add(1),
                c => is_escaped = c == '\\' && !is_escaped,
            }
        }
        None
    }

    /// Skips a word if it comes next, and returns whether it did.
    fn takes(&mut self, word: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = keyword(self.rest, word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Skips a sign if it comes next, and returns whether it did.
    fn sign(&mut self, sign: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn wrong(&self, what: &str) -> holdall_core::Error {
        CONDITION.broken(format!("`{}` {what}", self.text.shown()))
    }
}

const SIGNS: [(&str, Operator); 7] = [
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("==", Operator::Equal),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

/// Returns `true` if a value may end before `rest`.
fn is_end(rest: &str) -> bool {
    rest.is_empty()
        || rest.starts_with([')', ','])
        || ["and", "or"].iter().any(|word| keyword(rest, word).is_some())
}

/// Returns the text after a word if the text starts with that word.
fn keyword<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(word.len())?;
    let ends = rest.chars().next().is_none_or(|c| c.is_whitespace() || c == '(' || c == ')');
    (ends && start.eq_ignore_ascii_case(word)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Written::{All, Any, Contains, In, Not, There};

    fn compare<'t>(path: &'t str, compare: Operator, value: &'t str) -> Written<'t> {
        Written::Compare(path, compare, value.into())
    }

    fn not(inner: Written<'_>) -> Written<'_> {
        Not(Box::new(inner))
    }

    #[test]
    fn conditions_are_taken_apart() {
        use Operator::{Equal, GreaterOrEqual, NotEqual};
        for (text, found) in [
            ("a.b>=4", compare("a.b", GreaterOrEqual, "4")),
            ("a = x=y", compare("a", Equal, "x=y")),
            ("a!=<b>", compare("a", NotEqual, "<b>")),
            ("a=", compare("a", Equal, "")),
            ("a = f(x) y", compare("a", Equal, "f(x) y")),
            ("a b=c", compare("a b", Equal, "c")),
            ("a=sand or b=2", Any(vec![compare("a", Equal, "sand"), compare("b", Equal, "2")])),
            (r#"a="x and \"y\"" and b"#, All(vec![compare("a", Equal, "x and \"y\""), There("b")])),
            ("a='x, y' and b", All(vec![compare("a", Equal, "x, y"), There("b")])),
            ("a in ('x,y', 'z')", In("a", vec!["x,y".into(), "z".into()])),
            ("a = 'tis", compare("a", Equal, "'tis")),
            ("a = 'tis the cat's", compare("a", Equal, "'tis the cat's")),
            ("image", There("image")),
            ("not", There("not")),
            ("!image", not(There("image"))),
            ("not image", not(There("image"))),
            ("not(a=1)", not(compare("a", Equal, "1"))),
            ("a in (x, y z,w)", In("a", vec!["x".into(), "y z".into(), "w".into()])),
            ("a not in (\"x,y\")", not(In("a", vec!["x,y".into()]))),
            ("tags contains x", Contains("tags", "x".into())),
            ("tags not contains x", not(Contains("tags", "x".into()))),
            ("index=1 AND inside", All(vec![compare("index", Equal, "1"), There("inside")])),
            ("a or b and c", Any(vec![There("a"), All(vec![There("b"), There("c")])])),
            ("(a or b) and c", All(vec![Any(vec![There("a"), There("b")]), There("c")])),
        ] {
            assert_eq!(Written::new(text).unwrap(), found, "{text}");
        }
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        let deep = "(".repeat(1000);
        let nots = "not ".repeat(1000) + "a";
        for text in [
            "",
            "!",
            " ",
            "=1",
            "(a",
            "a)",
            "a and",
            "a in x",
            "a in (x",
            "a=\"x",
            "a=\"x\" y",
            "a=\"\\q\"",
            "a not b",
            "()",
            "a or or b",
            "(a=1))",
            &deep,
            &nots,
        ] {
            assert_eq!(Written::new(text).unwrap_err().code(), "records/condition", "{text}");
        }
    }
}
