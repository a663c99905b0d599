//! The reader, token by token, and a writer of strings.

use super::{DEPTH, INTEGER, NUMBER, STRING, SURROGATE, SYNTAX, TRAILING, TRUNCATED, TYPE, UTF8};
use crate::error::{Error, Result};
use std::fmt::Write as _;
use std::ops::Range;

/// Levels beyond which no limit lets JSON nest: values are read, written and dropped recursively.
const MAX_DEPTH: usize = 512;

/// What the next value is, told by its first byte.
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
    /// What it is called in messages: `an object`.
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

/// A number as it is written.
#[derive(Debug, Clone, Copy)]
pub struct Number<'a> {
    /// Its characters, checked against the grammar.
    pub text: &'a str,
    /// Whether it has neither point nor exponent.
    pub is_integer: bool,
}

/// Reads JSON one token at a time.
///
/// A value is taken by the call for its type, or by [`Reader::skip`]. Objects go
/// `begin_object`, then `next_key` and a value until `None`; arrays `begin_array`, then `next_item`
/// and a value until `false`. [`Reader::end`] checks that nothing follows.
/// A copy of the reader reads the same again.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Offset in the file of the first byte of `text`, for errors.
    offset: u64,
    depth: usize,
    max_depth: usize,
    /// Whether a container was opened and nothing taken from it yet: no comma is due.
    fresh: bool,
}

impl<'a> Reader<'a> {
    /// A reader of `bytes`, which lie at `offset` of the file, nesting at most `max_depth` levels.
    ///
    /// # Errors
    /// [`UTF8`].
    pub fn new(bytes: &'a [u8], offset: u64, max_depth: usize) -> Result<Reader<'a>> {
        let max_depth = max_depth.min(MAX_DEPTH);
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Reader { text, at: 0, offset, depth: 0, max_depth, fresh: false }),
            Err(e) => {
                let at = offset.saturating_add(e.valid_up_to() as u64);
                Err(UTF8
                    .broken(format!("byte {} of the text is not UTF-8", e.valid_up_to()))
                    .at(at..at.saturating_add(1)))
            }
        }
    }

    /// The type of the next value.
    ///
    /// # Errors
    /// [`TRUNCATED`]; [`SYNTAX`] where no value starts.
    #[inline]
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

    /// Opens an object.
    ///
    /// # Errors
    /// [`TYPE`], [`DEPTH`], and those of [`Reader::peek`].
    #[inline]
    pub fn begin_object(&mut self) -> Result<()> {
        self.expect(Token::Object)?;
        self.open()
    }

    /// Opens an array.
    ///
    /// # Errors
    /// As [`Reader::begin_object`].
    #[inline]
    pub fn begin_array(&mut self) -> Result<()> {
        self.expect(Token::Array)?;
        self.open()
    }

    /// The next key of the object opened last, its colon taken; `None` once it is closed.
    /// `scratch` holds the key when it has escapes.
    ///
    /// # Errors
    /// [`SYNTAX`], [`TRUNCATED`], and those of [`Reader::string`].
    #[inline]
    pub fn next_key<'s>(&mut self, scratch: &'s mut String) -> Result<Option<&'s str>>
    where
        'a: 's,
    {
        let fresh = std::mem::take(&mut self.fresh);
        match self.peek_byte() {
            Some(b'}') => {
                self.close();
                return Ok(None);
            }
            Some(b',') if !fresh => {
                self.bump(1);
                if self.peek_byte() != Some(b'"') {
                    return Err(self.unexpected("a key"));
                }
            }
            Some(b'"') if fresh => {}
            _ => return Err(self.unexpected(if fresh { "a key or `}`" } else { "`,` or `}`" })),
        }
        let key = self.string(scratch)?;
        if self.peek_byte() != Some(b':') {
            return Err(self.unexpected("`:`"));
        }
        self.bump(1);
        Ok(Some(key))
    }

    /// Whether the array opened last has another item, which must be taken next; `false` once it is
    /// closed.
    ///
    /// # Errors
    /// [`SYNTAX`], [`TRUNCATED`].
    #[inline]
    pub fn next_item(&mut self) -> Result<bool> {
        let fresh = std::mem::take(&mut self.fresh);
        match self.peek_byte() {
            Some(b']') => {
                self.close();
                Ok(false)
            }
            Some(b',') if !fresh => {
                self.bump(1);
                Ok(true)
            }
            Some(_) if fresh => Ok(true),
            _ => Err(self.unexpected("`,` or `]`")),
        }
    }

    /// A string, borrowed from the text or, when it has escapes, unescaped into `scratch`.
    ///
    /// # Errors
    /// [`TYPE`], [`STRING`], [`SURROGATE`], [`TRUNCATED`].
    #[inline]
    pub fn string<'s>(&mut self, scratch: &'s mut String) -> Result<&'s str>
    where
        'a: 's,
    {
        self.expect(Token::String)?;
        self.bump(1);
        let plain = self.take_plain();
        if self.byte() == Some(b'"') {
            self.bump(1);
            return Ok(plain);
        }
        scratch.clear();
        scratch.push_str(plain);
        self.unescape(scratch)?;
        Ok(scratch)
    }

    /// A whole number from 0 to 2^64 - 1.
    ///
    /// # Errors
    /// [`TYPE`], [`NUMBER`]; [`INTEGER`] for any other number.
    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        self.expect(Token::Number)?;
        let start = self.at;
        let bytes = self.text.as_bytes().get(start..).unwrap_or_default();
        let mut value = 0u64;
        let mut digits = 0usize;
        for b in bytes {
            let digit = b.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit)));
            let Some(next) = next else {
                return Err(self.not_a_count());
            };
            value = next;
            digits = digits.saturating_add(1);
        }
        let leading_zero = digits > 1 && bytes.first() == Some(&b'0');
        let more = matches!(bytes.get(digits), Some(b'.' | b'e' | b'E'));
        if digits == 0 || leading_zero || more {
            return Err(self.not_a_count());
        }
        self.bump(digits);
        Ok(value)
    }

    /// A number as it is written.
    ///
    /// # Errors
    /// [`TYPE`], [`NUMBER`].
    #[inline]
    pub fn number(&mut self) -> Result<Number<'a>> {
        self.expect(Token::Number)?;
        let start = self.at;
        if self.byte() == Some(b'-') {
            self.bump(1);
        }
        let whole = self.at;
        if self.digits() == 0 {
            return Err(self.bad_number(start, "no digits"));
        }
        let zero = self.text.as_bytes().get(whole) == Some(&b'0');
        if zero && self.at > whole.saturating_add(1) {
            return Err(self.bad_number(start, "a leading zero"));
        }
        let mut is_integer = true;
        if self.byte() == Some(b'.') {
            is_integer = false;
            self.bump(1);
            if self.digits() == 0 {
                return Err(self.bad_number(start, "no digits after the point"));
            }
        }
        if let Some(b'e' | b'E') = self.byte() {
            is_integer = false;
            self.bump(1);
            if let Some(b'+' | b'-') = self.byte() {
                self.bump(1);
            }
            if self.digits() == 0 {
                return Err(self.bad_number(start, "no digits in the exponent"));
            }
        }
        Ok(Number { text: self.text.get(start..self.at).unwrap_or_default(), is_integer })
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// [`TYPE`], [`SYNTAX`].
    pub fn bool(&mut self) -> Result<bool> {
        self.expect(Token::Bool)?;
        let value = self.byte() == Some(b't');
        self.word(if value { "true" } else { "false" })?;
        Ok(value)
    }

    /// `null`.
    ///
    /// # Errors
    /// [`TYPE`], [`SYNTAX`].
    pub fn null(&mut self) -> Result<()> {
        self.expect(Token::Null)?;
        self.word("null")
    }

    /// Takes any value, checks its grammar and forgets it. Does not recurse.
    ///
    /// # Errors
    /// Whatever is wrong with the value.
    pub fn skip(&mut self) -> Result<()> {
        // The containers open around the current place: whether each is an object.
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
    /// [`TRAILING`].
    pub fn end(&mut self) -> Result<()> {
        match self.peek_byte() {
            None => Ok(()),
            Some(_) => {
                let left = self.text.len().saturating_sub(self.at);
                Err(TRAILING.broken(format!("{left} bytes follow the value")).at(self.here()))
            }
        }
    }

    /// The text from `start`, an earlier [`Reader::offset`], up to here.
    pub fn text_from(&self, start: u64) -> &'a str {
        let start = usize::try_from(start.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// The offset in the file of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset.saturating_add(self.at as u64)
    }

    /// The one byte at hand, as a range of the file.
    pub fn here(&self) -> Range<u64> {
        self.offset()..self.offset().saturating_add(1)
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is not whitespace.
    #[inline]
    fn peek_byte(&mut self) -> Option<u8> {
        loop {
            match self.byte() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.bump(1),
                other => return other,
            }
        }
    }

    #[inline]
    fn bump(&mut self, n: usize) {
        self.at = self.at.saturating_add(n);
    }

    #[inline]
    fn expect(&mut self, wanted: Token) -> Result<()> {
        let found = self.peek()?;
        if found == wanted {
            return Ok(());
        }
        let message = format!("{} where {} belongs", found.name(), wanted.name());
        Err(TYPE.broken(message).at(self.here()))
    }

    fn open(&mut self) -> Result<()> {
        if self.depth >= self.max_depth {
            let most = self.max_depth;
            return Err(DEPTH.broken(format!("more than {most} levels")).at(self.here()));
        }
        self.depth = self.depth.saturating_add(1);
        self.bump(1);
        self.fresh = true;
        Ok(())
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.bump(1);
    }

    /// Takes the characters of a string up to a quote, an escape or a control character.
    #[inline]
    fn take_plain(&mut self) -> &'a str {
        let start = self.at;
        let rest = self.text.as_bytes().get(start..).unwrap_or_default();
        self.bump(plain_len(rest));
        // Both ends lie next to ASCII, so on character boundaries.
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Takes the rest of a string into `out`, from its first escape to its closing quote.
    fn unescape(&mut self, out: &mut String) -> Result<()> {
        loop {
            match self.byte() {
                Some(b'"') => {
                    self.bump(1);
                    return Ok(());
                }
                Some(b'\\') => {
                    self.bump(1);
                    let c = self.escape()?;
                    out.push(c);
                }
                Some(b) => {
                    let message = format!("control character 0x{b:02x} in a string");
                    return Err(STRING.broken(message).at(self.here()));
                }
                None => return Err(self.unexpected("`\"`")),
            }
            out.push_str(self.take_plain());
        }
    }

    /// The character of an escape whose backslash is taken.
    fn escape(&mut self) -> Result<char> {
        let c = match self.byte() {
            Some(b @ (b'"' | b'\\' | b'/')) => char::from(b),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.bump(1);
                return self.unicode_escape();
            }
            Some(b) => {
                let message = format!("`\\{}` is no escape", b.escape_ascii());
                return Err(STRING.broken(message).at(self.here()));
            }
            None => return Err(self.unexpected("an escape")),
        };
        self.bump(1);
        Ok(c)
    }

    /// The character of an escape whose `\u` is taken.
    fn unicode_escape(&mut self) -> Result<char> {
        let start = self.offset().saturating_sub(2);
        let high = self.hex4()?;
        if let Some(c) = char::from_u32(u32::from(high)) {
            return Ok(c);
        }
        if high < 0xdc00 && self.byte() == Some(b'\\') {
            self.bump(1);
            if self.byte() == Some(b'u') {
                self.bump(1);
                let low = self.hex4()?;
                if let Some(Ok(c)) = char::decode_utf16([high, low]).next() {
                    return Ok(c);
                }
            }
        }
        let message = format!("`\\u{high:04x}` is half of a surrogate pair");
        Err(SURROGATE.broken(message).at(start..self.offset()))
    }

    fn hex4(&mut self) -> Result<u16> {
        let mut value = 0u16;
        for _ in 0..4 {
            let digit = match self.byte() {
                Some(b) => hex_digit(b),
                None => return Err(self.unexpected("a hexadecimal digit")),
            };
            let Some(digit) = digit else {
                return Err(STRING.broken("`\\u` without four digits").at(self.here()));
            };
            value = (value << 4) | u16::from(digit);
            self.bump(1);
        }
        Ok(value)
    }

    /// Takes digits and tells how many.
    fn digits(&mut self) -> usize {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        self.bump(len);
        len
    }

    fn word(&mut self, word: &str) -> Result<()> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if rest.starts_with(word) {
            self.bump(word.len());
            return Ok(());
        }
        let same = rest.bytes().zip(word.bytes()).take_while(|(a, b)| a == b).count();
        self.bump(same);
        Err(self.unexpected(&format!("`{word}`")))
    }

    #[cold]
    fn unexpected(&self, wanted: &str) -> Error {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(c) => {
                let message = format!("`{}` where {wanted} belongs", c.escape_debug());
                SYNTAX.broken(message).at(self.here())
            }
            None => {
                let message = format!("the text ends where {wanted} belongs");
                TRUNCATED.broken(message).at(self.offset()..self.offset())
            }
        }
    }

    #[cold]
    fn bad_number(&self, start: usize, why: &str) -> Error {
        let text = self.text.get(start..self.at).unwrap_or_default();
        let from = self.offset.saturating_add(start as u64);
        NUMBER.broken(format!("`{}` has {why}", shorten(text))).at(from..self.offset())
    }

    /// The error for a number that [`Reader::u64`] does not take.
    #[cold]
    fn not_a_count(&mut self) -> Error {
        let start = self.offset();
        match self.number() {
            Ok(n) => {
                let message =
                    format!("{} is not a whole number from 0 to 2^64 - 1", shorten(n.text));
                INTEGER.broken(message).at(start..self.offset())
            }
            Err(e) => e,
        }
    }
}

/// Bytes before the first quote, backslash or control character.
#[inline]
fn plain_len(bytes: &[u8]) -> usize {
    let stops = |b: &u8| *b == b'"' || *b == b'\\' || *b < 0x20;
    // Eight bytes at a time. In `x - 1 & !x` the top bit of a byte is set where the byte is 0, and
    // perhaps where it comes after one that is: the lowest is right, and the lowest is looked for.
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const TOPS: u64 = u64::from_le_bytes([0x80; 8]);
    const QUOTES: u64 = u64::from_le_bytes([b'"'; 8]);
    const BACKSLASHES: u64 = u64::from_le_bytes([b'\\'; 8]);
    const SPACES: u64 = u64::from_le_bytes([b' '; 8]);
    let zeros = |x: u64| x.wrapping_sub(ONES) & !x;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut len = 0usize;
    for word in words {
        let x = u64::from_le_bytes(*word);
        let control = x.wrapping_sub(SPACES) & !x;
        let found = (zeros(x ^ QUOTES) | zeros(x ^ BACKSLASHES) | control) & TOPS;
        if found != 0 {
            // At most 7: it fits any integer.
            return len.saturating_add((found.trailing_zeros() / 8) as usize);
        }
        len = len.saturating_add(8);
    }
    len.saturating_add(rest.iter().position(stops).unwrap_or(rest.len()))
}

/// The value of a hexadecimal digit.
pub fn hex_digit(b: u8) -> Option<u8> {
    char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

/// A number for an error message, cut where it is long.
fn shorten(digits: &str) -> String {
    match digits.get(..40) {
        Some(head) if digits.len() > 44 => format!("{head}…"),
        _ => digits.to_owned(),
    }
}

/// A key that comes twice, in time n·log n.
pub fn duplicate<'k>(keys: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let mut sorted: Vec<&str> = keys.into_iter().collect();
    sorted.sort_unstable();
    sorted.windows(2).find_map(|pair| match pair {
        [a, b] if a == b => Some(*a),
        _ => None,
    })
}

/// Appends `s` as a JSON string, with the fewest escapes the grammar allows: the bytes that most
/// other writers write, so that files can be equal to theirs.
pub fn write_string(s: &str, out: &mut String) {
    out.push('"');
    let mut plain = s;
    while let Some(at) = plain.find(|c: char| c == '"' || c == '\\' || c < ' ') {
        let (before, rest) = plain.split_at(at);
        out.push_str(before);
        let mut rest = rest.chars();
        match rest.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\u{c}') => out.push_str("\\f"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some(c) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            None => {}
        }
        plain = rest.as_str();
    }
    out.push_str(plain);
    out.push('"');
}
