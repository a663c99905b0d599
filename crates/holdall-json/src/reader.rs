//! A JSON reader whose caller requests one token at a time.

use crate::error::{Error, Result};
use crate::{DEPTH, SYNTAX, TRAILING, TRUNCATED, TYPE, UTF8};
use holdall_collections::DebugUnwrap;
use holdall_collections::sort;
use std::ops::Range;

/// The maximum nesting depth, even if the caller's limit is greater: values are read, written and dropped recursively.
const MAX_DEPTH: usize = 512;

/// The type of the next value, which its first byte determines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `"`
    String,
    /// A digit or `-`.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`
    Null,
}

impl Token {
    /// Returns the type's name in messages: `an object`.
    pub fn name(self) -> &'static str {
        match self {
            Token::Object => "an object",
            Token::Array => "an array",
            Token::String => "a string",
            Token::Number => "a number",
            Token::Bool => "true or false",
            Token::Null => "null",
        }
    }
}

/// Reads JSON one token at a time.
///
/// A value is read by the method for its type, or skipped with [`Reader::skip`]. For an object call `begin_object`,
/// then `next_key` and read a value until it returns `None`; for an array `begin_array`, then `next_item` and read a
/// value until it returns `false`. [`Reader::end`] checks that nothing follows. A clone of the reader reads the same
/// tokens again.
///
/// On WebAssembly no method is inlined into other crates, because there this crate is optimised for speed and its
/// callers for size.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
    /// Offset in the file of the first byte of `text`, for errors.
    pub(crate) offset: u64,
    depth: usize,
    max_depth: usize,
    /// Whether a container was opened and nothing was read from it yet, so that no comma is expected.
    is_first: bool,
}

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes`, which lie at `offset` in the file, for values that nest at most `max_depth` levels
    /// deep.
    ///
    /// # Errors
    /// Returns [`UTF8`] if `bytes` are not UTF-8.
    pub fn new(bytes: &'a [u8], offset: u64, max_depth: usize) -> Result<Reader<'a>> {
        let max_depth = max_depth.min(MAX_DEPTH);
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Reader { text, at: 0, offset, depth: 0, max_depth, is_first: false }),
            Err(e) => {
                let at = offset.saturating_add(e.valid_up_to() as u64);
                Err(UTF8
                    .broken(format!("byte {} of the text is not UTF-8", e.valid_up_to()))
                    .at(at..at.saturating_add(1)))
            }
        }
    }

    /// Returns the type of the next value.
    ///
    /// # Errors
    /// Returns [`TRUNCATED`] if the text ends, and [`SYNTAX`] if no value starts here.
    #[cfg_attr(not(target_family = "wasm"), inline)]
    pub fn peek(&mut self) -> Result<Token> {
        match self.peek_byte() {
            Some(b'{') => Ok(Token::Object),
            Some(b'[') => Ok(Token::Array),
            Some(b'"') => Ok(Token::String),
            Some(b'-' | b'0'..=b'9') => Ok(Token::Number),
            Some(b't' | b'f') => Ok(Token::Bool),
            Some(b'n') => Ok(Token::Null),
            _ => Err(self.unexpected("a value")),
        }
    }

    /// Reads the start of an object.
    ///
    /// # Errors
    /// Returns [`TYPE`] if the next value is not an object, [`DEPTH`] if it is nested too deeply, and the errors of
    /// [`Reader::peek`].
    #[cfg_attr(not(target_family = "wasm"), inline)]
    pub fn begin_object(&mut self) -> Result<()> {
        self.expect(Token::Object)?;
        self.open()
    }

    /// Reads the start of an array.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::begin_object`], for an array.
    #[cfg_attr(not(target_family = "wasm"), inline)]
    pub fn begin_array(&mut self) -> Result<()> {
        self.expect(Token::Array)?;
        self.open()
    }

    /// Reads the next key of the innermost open object, and the colon after it. Returns `None`, and closes the object,
    /// if there are no more keys. `scratch` stores a key that has escapes.
    ///
    /// # Errors
    /// Returns [`SYNTAX`], [`TRUNCATED`], and the errors of [`Reader::string`].
    #[cfg_attr(not(target_family = "wasm"), inline)]
    pub fn next_key<'s>(&mut self, scratch: &'s mut String) -> Result<Option<&'s str>>
    where
        'a: 's,
    {
        let is_first = std::mem::take(&mut self.is_first);
        match self.peek_byte() {
            Some(b'}') => {
                self.close();
                return Ok(None);
            }
            Some(b',') if !is_first => {
                self.advance(1);
                if self.peek_byte() != Some(b'"') {
                    return Err(self.unexpected("a key"));
                }
            }
            Some(b'"') if is_first => {}
            _ => return Err(self.unexpected(if is_first { "a key or `}`" } else { "`,` or `}`" })),
        }
        let key = self.string(scratch)?;
        if self.peek_byte() != Some(b':') {
            return Err(self.unexpected("`:`"));
        }
        self.advance(1);
        Ok(Some(key))
    }

    /// Returns `true` if the innermost open array has another item, which must be read next. Returns `false`, and
    /// closes the array, if there are no more items.
    ///
    /// # Errors
    /// Returns [`SYNTAX`] or [`TRUNCATED`].
    #[cfg_attr(not(target_family = "wasm"), inline)]
    pub fn next_item(&mut self) -> Result<bool> {
        let is_first = std::mem::take(&mut self.is_first);
        match self.peek_byte() {
            Some(b']') => {
                self.close();
                Ok(false)
            }
            Some(b',') if !is_first => {
                self.advance(1);
                Ok(true)
            }
            Some(_) if is_first => Ok(true),
            _ => Err(self.unexpected("`,` or `]`")),
        }
    }

    /// Reads `true` or `false`.
    ///
    /// # Errors
    /// Returns [`TYPE`] if the next value is of another type, and [`SYNTAX`] if it is misspelled.
    #[cfg_attr(not(target_family = "wasm"), inline)]
    pub fn bool(&mut self) -> Result<bool> {
        self.expect(Token::Bool)?;
        let value = self.byte() == Some(b't');
        self.literal(if value { "true" } else { "false" })?;
        Ok(value)
    }

    /// Reads `null`.
    ///
    /// # Errors
    /// Returns [`TYPE`] if the next value is of another type, and [`SYNTAX`] if it is misspelled.
    #[cfg_attr(not(target_family = "wasm"), inline)]
    pub fn null(&mut self) -> Result<()> {
        self.expect(Token::Null)?;
        self.literal("null")
    }

    /// Skips a value of any type, and checks its grammar. Does not recurse.
    ///
    /// # Errors
    /// Returns an error if the value is malformed or nested too deeply.
    pub fn skip(&mut self) -> Result<()> {
        // The open containers that enclose the current position: whether each is an object.
        let mut open: Vec<bool> = Vec::new();
        let mut scratch = String::new();
        loop {
            match self.peek()? {
                Token::Object => {
                    self.begin_object()?;
                    open.push(true);
                }
                Token::Array => {
                    self.begin_array()?;
                    open.push(false);
                }
                Token::String => {
                    self.string(&mut scratch)?;
                }
                Token::Number => {
                    self.number()?;
                }
                Token::Bool => {
                    self.bool()?;
                }
                Token::Null => self.null()?,
            }
            loop {
                let more = match open.last() {
                    None => return Ok(()),
                    Some(true) => self.next_key(&mut scratch)?.is_some(),
                    Some(false) => self.next_item()?,
                };
                if more {
                    break;
                }
                open.pop();
            }
        }
    }

    /// Checks that only whitespace is left.
    ///
    /// # Errors
    /// Returns [`TRAILING`] if anything else follows.
    pub fn end(&mut self) -> Result<()> {
        match self.peek_byte() {
            None => Ok(()),
            Some(_) => {
                let left = self.text.len().saturating_sub(self.at);
                Err(TRAILING.broken(format!("{left} bytes follow the value")).at(self.here()))
            }
        }
    }

    /// Returns the text from `start`, an earlier [`Reader::offset`], up to the current position.
    #[inline]
    pub fn text_from(&self, start: u64) -> &'a str {
        let start = usize::try_from(start.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        self.text.get(start..self.at).debug_unwrap()
    }

    /// Returns the offset of the next byte in the file.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.offset.saturating_add(self.at as u64)
    }

    /// Returns the range of the next byte in the file.
    #[inline]
    pub fn here(&self) -> Range<u64> {
        self.offset()..self.offset().saturating_add(1)
    }

    #[inline]
    pub(crate) fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips whitespace, and returns the next byte without reading it.
    #[inline]
    fn peek_byte(&mut self) -> Option<u8> {
        loop {
            match self.byte() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.advance(1),
                other => return other,
            }
        }
    }

    #[inline]
    pub(crate) fn advance(&mut self, n: usize) {
        self.at = self.at.saturating_add(n);
    }

    #[inline(always)]
    pub(crate) fn expect(&mut self, wanted: Token) -> Result<()> {
        // Most values have no whitespace before them.
        match (wanted, self.byte()) {
            (Token::Object, Some(b'{'))
            | (Token::Array, Some(b'['))
            | (Token::String, Some(b'"'))
            | (Token::Number, Some(b'0'..=b'9')) => Ok(()),
            _ => self.expect_late(wanted),
        }
    }

    fn expect_late(&mut self, wanted: Token) -> Result<()> {
        let found = self.peek()?;
        if found == wanted {
            return Ok(());
        }
        let message = format!("expected {}, found {}", wanted.name(), found.name());
        Err(TYPE.broken(message).at(self.here()))
    }

    #[inline]
    fn open(&mut self) -> Result<()> {
        if self.depth >= self.max_depth {
            let most = self.max_depth;
            return Err(DEPTH
                .broken(format!("nested more than {most} levels deep"))
                .at(self.here()));
        }
        self.depth = self.depth.saturating_add(1);
        self.advance(1);
        self.is_first = true;
        Ok(())
    }

    #[inline]
    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.advance(1);
    }

    #[inline]
    fn literal(&mut self, word: &str) -> Result<()> {
        let rest = self.text.get(self.at..).debug_unwrap();
        if rest.starts_with(word) {
            self.advance(word.len());
            return Ok(());
        }
        let same = rest.bytes().zip(word.bytes()).take_while(|(a, b)| a == b).count();
        self.advance(same);
        Err(self.unexpected(&format!("`{word}`")))
    }

    #[cold]
    pub(crate) fn unexpected(&self, wanted: &str) -> Error {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(c) => {
                let message = format!("expected {wanted}, found `{}`", c.escape_debug());
                SYNTAX.broken(message).at(self.here())
            }
            None => {
                let message = format!("the text ends where {wanted} was expected");
                TRUNCATED.broken(message).at(self.offset()..self.offset())
            }
        }
    }
}

/// Returns a key that occurs more than once. Takes time n·log n.
pub fn duplicate<'k>(keys: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let mut sorted: Vec<&str> = keys.into_iter().collect();
    sort(&mut sorted);
    sorted.windows(2).find_map(|pair| match pair {
        [a, b] if a == b => Some(*a),
        _ => None,
    })
}
