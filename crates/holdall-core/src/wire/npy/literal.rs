//! Parsing the subset of Python literals that headers use.

use super::{DTYPE, HEADER};
use crate::error::{Escape as _, Result};
use std::borrow::Cow;

/// The maximum nesting of structured types.
const MAX_DEPTH: usize = 32;

/// Text that is parsed token by token.
pub(super) struct Literal<'a> {
    pub(super) rest: &'a str,
}

/// A type in a header.
pub(super) enum Descr<'a> {
    /// A type name.
    Name(Cow<'a, str>),
    /// A list of fields.
    Fields(Vec<FieldDescr<'a>>),
}

/// A field in a header.
pub(super) struct FieldDescr<'a> {
    pub(super) title: Option<Cow<'a, str>>,
    pub(super) name: Cow<'a, str>,
    pub(super) ty: Descr<'a>,
    pub(super) shape: Vec<u64>,
}

impl<'a> Literal<'a> {
    pub(super) fn accept(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    pub(super) fn expect(&mut self, token: &str) -> Result<()> {
        if self.accept(token) {
            return Ok(());
        }
        let found: String = self.rest.trim_start().chars().take(16).collect();
        Err(HEADER.broken(format!("expected `{token}` before `{}`", found.escaped())))
    }

    fn is_next(&self, token: char) -> bool {
        self.rest.trim_start().starts_with(token)
    }

    pub(super) fn string(&mut self) -> Result<Cow<'a, str>> {
        let quote = if self.accept("\"") { '"' } else { '\'' };
        if quote == '\'' {
            self.expect("'")?;
        }
        let mut out = Cow::Borrowed("");
        loop {
            let end = self.rest.find([quote, '\\']);
            let (text, rest) = end
                .and_then(|end| self.rest.split_at_checked(end))
                .ok_or_else(|| HEADER.broken("a string has no closing quote"))?;
            match &mut out {
                Cow::Borrowed("") => out = Cow::Borrowed(text),
                out => out.to_mut().push_str(text),
            }
            let mut rest = rest.chars();
            let is_end = rest.next() == Some(quote);
            self.rest = rest.as_str();
            if is_end {
                return Ok(out);
            }
            let c = self.escape()?;
            out.to_mut().push(c);
        }
    }

    /// Reads an escape after its backslash, as written by `repr`.
    fn escape(&mut self) -> Result<char> {
        let broken = || HEADER.broken("a string has an invalid escape");
        let mut rest = self.rest.chars();
        let kind = rest.next().ok_or_else(broken)?;
        self.rest = rest.as_str();
        let digits = match kind {
            '\\' | '\'' | '"' => return Ok(kind),
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return Err(broken()),
        };
        let (number, rest) = self.rest.split_at_checked(digits).ok_or_else(broken)?;
        self.rest = rest;
        let is_hex = number.bytes().all(|b| b.is_ascii_hexdigit());
        let number = is_hex.then(|| u32::from_str_radix(number, 16).ok()).flatten();
        number.and_then(char::from_u32).ok_or_else(broken)
    }

    /// Reads a type: its name, or a list of fields.
    pub(super) fn descr(&mut self) -> Result<Descr<'a>> {
        self.descr_in(0)
    }

    fn descr_in(&mut self, depth: usize) -> Result<Descr<'a>> {
        if self.is_next('(') {
            return Err(DTYPE.broken("unsupported elements that are arrays"));
        }
        if !self.accept("[") {
            return self.string().map(Descr::Name);
        }
        if depth == MAX_DEPTH {
            let message = format!("structured types nested more than {MAX_DEPTH} levels deep");
            return Err(HEADER.broken(message));
        }
        let mut fields = Vec::new();
        while !self.accept("]") {
            fields.push(self.field(depth)?);
            if !self.accept(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(Descr::Fields(fields))
    }

    /// Reads `('name', type)` or `('name', type, shape)`, where a name may be a pair of a title and a name.
    fn field(&mut self, depth: usize) -> Result<FieldDescr<'a>> {
        self.expect("(")?;
        let (title, name) = if self.accept("(") {
            let title = self.string()?;
            self.expect(",")?;
            let name = self.string()?;
            self.expect(")")?;
            (Some(title), name)
        } else {
            (None, self.string()?)
        };
        self.expect(",")?;
        let ty = self.descr_in(depth.saturating_add(1))?;
        let mut shape = Vec::new();
        if self.accept(",") && !self.is_next(')') {
            shape = match self.is_next('(') {
                true => self.in_parentheses()?.0,
                false => vec![self.number()?],
            };
            self.accept(",");
        }
        self.expect(")")?;
        Ok(FieldDescr { title, name, ty, shape })
    }

    pub(super) fn bool(&mut self) -> Result<bool> {
        if self.accept("True") {
            return Ok(true);
        }
        self.expect("False").map(|()| false)
    }

    /// Reads a tuple of dimensions.
    pub(super) fn shape(&mut self) -> Result<Vec<u64>> {
        match self.in_parentheses()? {
            (shape, true) => Ok(shape),
            (shape, false) => {
                let number = shape.first().copied().unwrap_or(0);
                let message = format!(
                    "the shape is the number `({number})`, expected the tuple `({number},)`"
                );
                Err(HEADER.broken(message))
            }
        }
    }

    /// Reads numbers in parentheses, and returns whether they are a tuple: a single number needs a comma after it.
    fn in_parentheses(&mut self) -> Result<(Vec<u64>, bool)> {
        self.expect("(")?;
        let (mut out, mut has_comma) = (Vec::new(), false);
        while !self.accept(")") {
            out.push(self.number()?);
            if !self.accept(",") {
                self.expect(")")?;
                break;
            }
            has_comma = true;
        }
        let is_tuple = has_comma || out.is_empty();
        Ok((out, is_tuple))
    }

    fn number(&mut self) -> Result<u64> {
        let text = self.rest.trim_start();
        let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let (number, rest) = text
            .split_at_checked(text.len().saturating_sub(digits.len()))
            .ok_or_else(|| HEADER.broken("expected the shape as a tuple of integers"))?;
        // Python 2 wrote long integers as `3L`.
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        let broken = |_| HEADER.broken(format!("invalid dimension `{}`", number.escaped()));
        number.parse().map_err(broken)
    }
}
