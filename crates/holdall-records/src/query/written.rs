//! Parses the text of conditions.
//!
//! ```text
//! condition = all *( "or" all )
//! all       = one *( "and" one )
//! one       = "not" one / "(" condition ")" / "!" one
//!           / path                                    the member is present; a Boolean: it is true
//!           / path "is" ["not"] "null"                the member is absent, or present
//!           / path sign operand                       = != < <= > >=
//!           / path ["not"] "in" "(" operand *( "," operand ) ")"
//!           / path ["not"] "between" operand "and" operand
//!           / path ["not"] "contains" operand
//!           / path ["not"] "like" operand             % for any text, _ for one character, \ before either
//! operand   = a JSON string / "'" text without "'" "'"
//!           / "member(" path ")"
//!           / the text up to `and`, `or`, `)` or, in the list of `in`, `,`
//! ```

use super::condition::Operator;
use crate::rules::CONDITION;
use holdall_core::Result;
use holdall_core::error::Escape as _;
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
    IsPresent(&'t str),
    /// The member is absent.
    Null(&'t str),
    Compare(&'t str, Operator, Operand<'t>),
    In(&'t str, Vec<Operand<'t>>),
    Contains(&'t str, Cow<'t, str>),
    Like(&'t str, Cow<'t, str>),
}

/// The right side of a comparison.
#[derive(Debug, PartialEq)]
pub(super) enum Operand<'t> {
    /// A value, written in quotes.
    Value(Cow<'t, str>),
    /// A text without quotes: a value, or the path of a member if it is not a value of the kind of the left side.
    Bare(&'t str),
    /// The path of a member, written as `member(path)`.
    Member(&'t str),
}

enum Text<'t> {
    Quoted(Cow<'t, str>),
    Bare(&'t str),
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
        while self.consume_word("or") {
            all.push(self.all()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Written::Any(all) })
    }

    fn all(&mut self) -> Result<Written<'t>> {
        let mut all = vec![self.one()?];
        while self.consume_word("and") {
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
        if is_not && self.consume_word("not") {
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
            return Ok(Written::Compare(path, compare, self.operand(false)?));
        }
        if let Some((is_not, rest)) = null(self.rest) {
            self.rest = rest;
            let found = Written::Null(path);
            return Ok(if is_not { Written::Not(Box::new(found)) } else { found });
        }
        let is_not = self.consume_word("not");
        let found = if self.consume_word("contains") {
            Written::Contains(path, self.value()?)
        } else if self.consume_word("in") {
            Written::In(path, self.operands()?)
        } else if self.consume_word("like") {
            Written::Like(path, self.value()?)
        } else if self.consume_word("between") {
            let low = self.operand(false)?;
            if !self.consume_word("and") {
                return Err(
                    self.wrong("has no `and` after `between`, as in `stars between 2 and 4`")
                );
            }
            let high = self.operand(false)?;
            Written::All(vec![
                Written::Compare(path, Operator::GreaterOrEqual, low),
                Written::Compare(path, Operator::LessOrEqual, high),
            ])
        } else if is_not {
            let what =
                "has `not` before something other than `in`, `between`, `contains` and `like`";
            return Err(self.wrong(what));
        } else {
            Written::IsPresent(path)
        };
        Ok(if is_not { Written::Not(Box::new(found)) } else { found })
    }

    /// Parses the member that a condition is about. Without this check, an empty path would mean the whole record,
    /// which is always present.
    fn path(&mut self) -> Result<&'t str> {
        let ends = |(at, c): (usize, char)| {
            let rest = self.rest.get(at..).unwrap_or_default();
            let is_word = || {
                let rest = rest.trim_start();
                ["and", "or", "in", "not", "contains"].iter().any(|w| keyword(rest, w).is_some())
                    || ["like", "between"].iter().any(|word| selects_value(rest, word))
                    || null(rest).is_some()
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
    fn operands(&mut self) -> Result<Vec<Operand<'t>>> {
        if !self.sign("(") {
            return Err(self.wrong("has no list after `in`, as in `label in (cat, dog)`"));
        }
        let mut all = vec![self.operand(true)?];
        while self.sign(",") {
            all.push(self.operand(true)?);
        }
        match self.sign(")") {
            true => Ok(all),
            false => Err(self.wrong("has a `(` without a `)`")),
        }
    }

    /// Parses a value that cannot be a member.
    fn value(&mut self) -> Result<Cow<'t, str>> {
        Ok(match self.text(false)? {
            Text::Quoted(text) => text,
            Text::Bare(text) => text.into(),
        })
    }

    fn operand(&mut self, in_list: bool) -> Result<Operand<'t>> {
        Ok(match self.text(in_list)? {
            Text::Quoted(text) => Operand::Value(text),
            Text::Bare(text) => member(text).map_or(Operand::Bare(text), Operand::Member),
        })
    }

    fn text(&mut self, in_list: bool) -> Result<Text<'t>> {
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
                true => Ok(Text::Quoted(Cow::Owned(value))),
                false => Err(self.wrong("has text after a quoted value")),
            };
        }
        // An apostrophe that is never closed is an ordinary character.
        let single = self.rest.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
        if let Some((value, rest)) = single.filter(|(_, rest)| is_end(rest.trim_start())) {
            self.rest = rest.trim_start();
            return Ok(Text::Quoted(Cow::Borrowed(value)));
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
        Ok(Text::Bare(value.trim()))
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
    fn consume_word(&mut self, word: &str) -> bool {
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
        CONDITION.broken(format!("`{}` {what}", self.text.escaped()))
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

/// Returns the path in `member(path)`.
fn member(text: &str) -> Option<&str> {
    let rest = keyword(text, "member")?.trim_start();
    let path = rest.strip_prefix('(')?.strip_suffix(')')?.trim();
    (!path.is_empty()).then_some(path)
}

/// Returns `true` if the text starts with a word that is followed by a value. Otherwise, the word is a part of the
/// name of a member.
fn selects_value(text: &str, word: &str) -> bool {
    let rest = keyword(text, word).map(str::trim_start);
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['=', '!', '<', '>', ')']))
}

/// Parses `is null` or `is not null`. Returns whether it has `not`, and the text after it.
fn null(text: &str) -> Option<(bool, &str)> {
    let rest = keyword(text, "is")?.trim_start();
    let not = keyword(rest, "not").map(str::trim_start);
    Some((not.is_some(), keyword(not.unwrap_or(rest), "null")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operand::{Bare, Member, Value};
    use Written::{All, Any, Compare, Contains, In, IsPresent, Like, Not, Null};

    fn compare<'t>(path: &'t str, compare: Operator, value: &'t str) -> Written<'t> {
        Compare(path, compare, Bare(value))
    }

    fn not(inner: Written<'_>) -> Written<'_> {
        Not(Box::new(inner))
    }

    #[test]
    fn conditions_are_taken_apart() {
        use Operator::{Equal, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let quoted = |path, value: &'static str| Compare(path, Equal, Value(value.into()));
        let between = |path, low, high| {
            All(vec![compare(path, GreaterOrEqual, low), compare(path, LessOrEqual, high)])
        };
        for (text, found) in [
            ("a.b>=4", compare("a.b", GreaterOrEqual, "4")),
            ("a = x=y", compare("a", Equal, "x=y")),
            ("a!=<b>", compare("a", NotEqual, "<b>")),
            ("a=", compare("a", Equal, "")),
            ("a = f(x) y", compare("a", Equal, "f(x) y")),
            ("a b=c", compare("a b", Equal, "c")),
            ("a=sand or b=2", Any(vec![compare("a", Equal, "sand"), compare("b", Equal, "2")])),
            (r#"a="x and \"y\"" and b"#, All(vec![quoted("a", "x and \"y\""), IsPresent("b")])),
            ("a='x, y' and b", All(vec![quoted("a", "x, y"), IsPresent("b")])),
            ("a in ('x,y', z)", In("a", vec![Value("x,y".into()), Bare("z")])),
            ("a = 'tis", compare("a", Equal, "'tis")),
            ("a = 'tis the cat's", compare("a", Equal, "'tis the cat's")),
            ("image", IsPresent("image")),
            ("not", IsPresent("not")),
            ("!image", not(IsPresent("image"))),
            ("not image", not(IsPresent("image"))),
            ("not(a=1)", not(compare("a", Equal, "1"))),
            ("a in (x, y z,w)", In("a", vec![Bare("x"), Bare("y z"), Bare("w")])),
            ("a not in (\"x,y\")", not(In("a", vec![Value("x,y".into())]))),
            ("tags contains x", Contains("tags", "x".into())),
            ("tags not contains x", not(Contains("tags", "x".into()))),
            ("index=1 AND inside", All(vec![compare("index", Equal, "1"), IsPresent("inside")])),
            ("a or b and c", Any(vec![IsPresent("a"), All(vec![IsPresent("b"), IsPresent("c")])])),
            (
                "(a or b) and c",
                All(vec![Any(vec![IsPresent("a"), IsPresent("b")]), IsPresent("c")]),
            ),
            ("a is null", Null("a")),
            ("(a IS not  NULL) or b", Any(vec![not(Null("a")), IsPresent("b")])),
            ("a is nullable", IsPresent("a is nullable")),
            ("that is = 3", compare("that is", Equal, "3")),
            ("a between 2 and 4 and b", All(vec![between("a", "2", "4"), IsPresent("b")])),
            ("a not between 2 and 4", not(between("a", "2", "4"))),
            ("in between = 4", compare("in between", Equal, "4")),
            ("a like %x_ or b", Any(vec![Like("a", "%x_".into()), IsPresent("b")])),
            ("a not like ' x'", not(Like("a", " x".into()))),
            ("looks like", IsPresent("looks like")),
            ("a < b.c", compare("a", Less, "b.c")),
            ("a = member( b )", Compare("a", Equal, Member("b"))),
            ("a = \"member(b)\"", Compare("a", Equal, Value("member(b)".into()))),
            ("a contains member(b)", Contains("a", "member(b)".into())),
        ] {
            assert_eq!(Written::new(text).unwrap(), found, "{text}");
        }
    }

    #[test]
    fn invalid_conditions_are_refused() {
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
            "a not is null",
            "a between 1",
            "a between 1 or 2",
            "a is null b",
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
