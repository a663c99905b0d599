//! Strings: borrowed from the text if they have no escapes, and otherwise unescaped into a buffer.

use crate::error::Result;
use crate::reader::{Reader, Token};
use crate::{STRING, SURROGATE};
use holdall_collections::DebugUnwrap;

impl<'a> Reader<'a> {
    /// Reads a string. It is borrowed from the text or, if it has escapes, unescaped into `scratch`.
    ///
    /// # Errors
    /// Returns [`TYPE`](crate::TYPE) if the next value is not a string, [`STRING`](crate::STRING) or
    /// [`SURROGATE`](crate::SURROGATE) if it is malformed, and [`TRUNCATED`](crate::TRUNCATED) if the text ends inside
    /// it.
    #[cfg_attr(not(target_family = "wasm"), inline)]
    pub fn string<'s>(&mut self, scratch: &'s mut String) -> Result<&'s str>
    where
        'a: 's,
    {
        self.expect(Token::String)?;
        self.advance(1);
        let plain = self.take_plain();
        if self.byte() == Some(b'"') {
            self.advance(1);
            return Ok(plain);
        }
        scratch.clear();
        scratch.push_str(plain);
        self.unescape(scratch)?;
        Ok(scratch)
    }

    /// Reads the characters of a string up to a quote, an escape or a control character.
    #[inline]
    fn take_plain(&mut self) -> &'a str {
        let start = self.at;
        let rest = self.text.as_bytes().get(start..).debug_unwrap();
        self.advance(plain_len(rest));
        // Both ends are next to ASCII bytes, so they are character boundaries.
        self.text.get(start..self.at).debug_unwrap()
    }

    /// Appends the rest of a string to `out`, from its first escape to its closing quote.
    fn unescape(&mut self, out: &mut String) -> Result<()> {
        loop {
            match self.byte() {
                Some(b'"') => {
                    self.advance(1);
                    return Ok(());
                }
                Some(b'\\') => {
                    self.advance(1);
                    let c = self.escape()?;
                    out.push(c);
                }
                Some(b) => {
                    let message = format!("a string contains the control character 0x{b:02x}");
                    return Err(STRING.broken(message).at(self.here()));
                }
                None => return Err(self.unexpected("`\"`")),
            }
            out.push_str(self.take_plain());
        }
    }

    /// Reads an escape after its backslash, and returns the character.
    fn escape(&mut self) -> Result<char> {
        let c = match self.byte() {
            Some(b @ (b'"' | b'\\' | b'/')) => char::from(b),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.advance(1);
                return self.unicode_escape();
            }
            Some(b) => {
                let message = format!("`\\{}` is not an escape", b.escape_ascii());
                return Err(STRING.broken(message).at(self.here()));
            }
            None => return Err(self.unexpected("an escape")),
        };
        self.advance(1);
        Ok(c)
    }

    /// Reads an escape after its `\u`, and returns the character.
    fn unicode_escape(&mut self) -> Result<char> {
        let start = self.offset().saturating_sub(2);
        let high = self.hex4()?;
        if let Some(c) = char::from_u32(u32::from(high)) {
            return Ok(c);
        }
        if high < 0xdc00 && self.byte() == Some(b'\\') {
            self.advance(1);
            if self.byte() == Some(b'u') {
                self.advance(1);
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
                return Err(STRING
                    .broken("`\\u` is not followed by four hexadecimal digits")
                    .at(self.here()));
            };
            value = (value << 4) | u16::from(digit);
            self.advance(1);
        }
        Ok(value)
    }
}

/// Returns the number of bytes before the first quote, backslash or control character.
#[inline]
fn plain_len(bytes: &[u8]) -> usize {
    let stops = |b: &u8| *b == b'"' || *b == b'\\' || *b < 0x20;
    // Eight bytes at a time. In `x - 1 & !x` the top bit of a byte is set if the byte is 0, and perhaps if it follows a
    // byte that is 0. The lowest such bit is always right, and only the lowest is used.
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
            // At most 7, which fits in any integer.
            return len.saturating_add((found.trailing_zeros() / 8) as usize);
        }
        len = len.saturating_add(8);
    }
    len.saturating_add(rest.iter().position(stops).unwrap_or(rest.len()))
}

/// Returns the value of a hexadecimal digit.
pub fn hex_digit(b: u8) -> Option<u8> {
    char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok())
}
