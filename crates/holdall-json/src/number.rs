//! Numbers: counts as `u64`, and other numbers as their text.

use crate::error::{Error, Result};
use crate::reader::{Reader, Token};
use crate::{INTEGER, NUMBER};
use holdall_collections::DebugUnwrap;

/// A number of digits that always fits in 64 bits.
const SAFE_DIGITS: usize = 19;

/// A number as it is written in the text.
#[derive(Debug, Clone, Copy)]
pub struct Number<'a> {
    /// The number's characters, which follow the grammar.
    pub text: &'a str,
    /// Whether the number has neither a point nor an exponent.
    pub is_integer: bool,
}

impl Number<'_> {
    /// Returns the exact value if it has no fraction and at most 20 digits: `3`, `3.0`, `30e-1`.
    pub fn integer(&self) -> Option<i128> {
        whole(self.text)
    }
}

fn whole(text: &str) -> Option<i128> {
    const DIGITS: i64 = 20;
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, digits),
    };
    let (before, after) = digits.split_once('.').unwrap_or((digits, ""));
    let after = after.trim_end_matches('0');
    let all = || before.bytes().chain(after.bytes()).map(|b| i128::from(b.wrapping_sub(b'0')));
    let first = all().position(|digit| digit != 0);
    // All digits are zeros.
    let Some(first) = first else { return Some(0) };
    let zeros = all().rev().take_while(|digit| *digit == 0).count();
    let len = before.len().checked_add(after.len())?;
    let exponent: i64 = exponent.parse().ok()?;
    let exponent = exponent.checked_sub(i64::try_from(after.len()).ok()?)?;
    // The number of digits without zeros at either end, and the power of ten that they are multiplied by.
    let left = len.checked_sub(first)?.checked_sub(zeros)?;
    let power = exponent.checked_add(i64::try_from(zeros).ok()?)?;
    if power < 0 || i64::try_from(left).ok()?.checked_add(power)? > DIGITS {
        return None;
    }
    let size = all()
        .skip(first)
        .take(left)
        .try_fold(0i128, |n, digit| n.checked_mul(10)?.checked_add(digit))?;
    let size = size.checked_mul(10i128.checked_pow(u32::try_from(power).ok()?)?)?;
    if negative { size.checked_neg() } else { Some(size) }
}

impl<'a> Reader<'a> {
    /// Reads a whole number from 0 to 2^64 - 1.
    ///
    /// # Errors
    /// Returns [`TYPE`](crate::TYPE) if the next value is not a number, [`NUMBER`](crate::NUMBER) if it does not follow
    /// the grammar, and [`INTEGER`](crate::INTEGER) if it is any other number.
    #[cfg_attr(not(target_family = "wasm"), inline)]
    pub fn u64(&mut self) -> Result<u64> {
        self.expect(Token::Number)?;
        let start = self.at;
        let bytes = self.text.as_bytes().get(start..).debug_unwrap();
        let mut value = 0u64;
        let mut digits = 0usize;
        for b in bytes {
            let digit = b.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            let next = match digits < SAFE_DIGITS {
                true => Some(value.wrapping_mul(10).wrapping_add(u64::from(digit))),
                false => value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit))),
            };
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
        self.advance(digits);
        Ok(value)
    }

    /// Reads a number as text.
    ///
    /// # Errors
    /// Returns [`TYPE`](crate::TYPE) if the next value is not a number, and [`NUMBER`](crate::NUMBER) if it does not
    /// follow the grammar.
    #[cfg_attr(not(target_family = "wasm"), inline)]
    pub fn number(&mut self) -> Result<Number<'a>> {
        self.expect(Token::Number)?;
        let start = self.at;
        if self.byte() == Some(b'-') {
            self.advance(1);
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
            self.advance(1);
            if self.digits() == 0 {
                return Err(self.bad_number(start, "no digits after the point"));
            }
        }
        if let Some(b'e' | b'E') = self.byte() {
            is_integer = false;
            self.advance(1);
            if let Some(b'+' | b'-') = self.byte() {
                self.advance(1);
            }
            if self.digits() == 0 {
                return Err(self.bad_number(start, "no digits in the exponent"));
            }
        }
        Ok(Number { text: self.text.get(start..self.at).debug_unwrap(), is_integer })
    }

    /// Skips digits, and returns how many there were.
    #[inline]
    fn digits(&mut self) -> usize {
        let rest = self.text.as_bytes().get(self.at..).debug_unwrap();
        let len = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        self.advance(len);
        len
    }

    #[cold]
    fn bad_number(&self, start: usize, why: &str) -> Error {
        let text = self.text.get(start..self.at).debug_unwrap();
        let from = self.offset.saturating_add(start as u64);
        NUMBER.broken(format!("`{}` has {why}", shorten(text))).at(from..self.offset())
    }

    /// Returns the error for a number that [`Reader::u64`] does not accept.
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

/// Returns a number for an error message, cut if it is long.
fn shorten(digits: &str) -> String {
    match digits.get(..40) {
        Some(head) if digits.len() > 44 => format!("{head}…"),
        _ => digits.to_owned(),
    }
}
