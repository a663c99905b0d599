//! Writing CBOR in its deterministic form.

use super::reader::{ARRAY, BYTES, MAP, NEGATIVE, TAG, TEXT, UNSIGNED};
use super::value::{has_duplicate_keys, narrow_half, narrow_single};
use super::*;
use crate::error::Result;
use crate::model::{Attributes, Value};

/// Writes CBOR deterministically: definite lengths, integers and floats in the shortest form that keeps their bits, map
/// entries in the given order.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// Creates an empty writer.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Returns the number of bytes written so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Returns `true` if nothing was written.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns the bytes written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.out
    }

    /// Converts the writer into the bytes written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Appends items that are already encoded.
    pub fn raw(&mut self, items: &[u8]) {
        self.out.extend_from_slice(items);
    }

    /// Writes an unsigned integer.
    pub fn u64(&mut self, n: u64) {
        self.head(UNSIGNED, n);
    }

    /// Writes text.
    pub fn text(&mut self, text: &str) {
        self.head(TEXT, text.len() as u64);
        self.raw(text.as_bytes());
    }

    /// Writes a byte string.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.head(BYTES, bytes.len() as u64);
        self.raw(bytes);
    }

    /// Writes the start of an array. Its `count` items must follow.
    pub fn array(&mut self, count: usize) {
        self.head(ARRAY, count as u64);
    }

    /// Writes the start of a map. Its `count` keys and values must follow.
    pub fn map(&mut self, count: usize) {
        self.head(MAP, count as u64);
    }

    /// Writes a float in the shortest of the three widths that keeps its bits.
    pub fn float(&mut self, x: f64) {
        if let Some(bits) = narrow_half(x) {
            self.out.push(0xf9);
            self.raw(&bits.to_be_bytes());
        } else if let Some(bits) = narrow_single(x) {
            self.out.push(0xfa);
            self.raw(&bits.to_be_bytes());
        } else {
            self.out.push(0xfb);
            self.raw(&x.to_bits().to_be_bytes());
        }
    }

    /// Writes a map of all attributes, in their order.
    ///
    /// # Errors
    /// Returns the errors of [`Writer::value`].
    pub fn attributes(&mut self, attributes: &Attributes) -> Result<()> {
        self.map(attributes.len());
        for (key, value) in attributes.iter() {
            self.text(key);
            self.value(value)?;
        }
        Ok(())
    }

    /// Writes any value.
    ///
    /// # Errors
    /// Returns the errors of [`check`].
    pub fn value(&mut self, value: &Value) -> Result<()> {
        check(value, MAX_DEPTH)?;
        self.spell(value);
        Ok(())
    }

    /// Writes any value that was read, or that [`check`] accepted.
    pub(super) fn spell(&mut self, value: &Value) {
        match value {
            Value::Null => self.simple(22),
            Value::Undefined => self.simple(23),
            Value::Bool(b) => self.simple(if *b { 21 } else { 20 }),
            Value::Integer(n) => self.integer(*n),
            Value::Float(x) => self.float(*x),
            Value::Bytes(bytes) => self.bytes(bytes),
            Value::Text(text) => self.text(text),
            Value::Array(items) => {
                self.array(items.len());
                items.iter().for_each(|item| self.spell(item));
            }
            Value::Map(pairs) => {
                self.map(pairs.len());
                for (key, value) in pairs {
                    self.spell(key);
                    self.spell(value);
                }
            }
            Value::Tag(tag, inner) => {
                self.head(TAG, *tag);
                self.spell(inner);
            }
            Value::Simple(n) => self.simple(*n),
        }
    }

    fn integer(&mut self, n: i128) {
        // `!n` is -1 - n.
        match (u64::try_from(n), u64::try_from(!n)) {
            (Ok(n), _) => self.head(UNSIGNED, n),
            (_, n) => self.head(NEGATIVE, n.unwrap_or(u64::MAX)),
        }
    }

    fn simple(&mut self, n: u8) {
        self.head(7, n.into());
    }

    fn head(&mut self, major: u8, arg: u64) {
        let major = major << 5;
        if let Ok(n) = u8::try_from(arg) {
            if n < 24 {
                self.out.push(major | n);
            } else {
                self.out.extend_from_slice(&[major | 24, n]);
            }
        } else if let Ok(n) = u16::try_from(arg) {
            self.out.push(major | 25);
            self.raw(&n.to_be_bytes());
        } else if let Ok(n) = u32::try_from(arg) {
            self.out.push(major | 26);
            self.raw(&n.to_be_bytes());
        } else {
            self.out.push(major | 27);
            self.raw(&arg.to_be_bytes());
        }
    }
}

/// Checks that CBOR can represent `value`, and that it nests at most `depth` arrays, maps and tags.
///
/// # Errors
/// Returns [`NOT_CBOR`] or [`DEPTH`] if not.
pub fn check(value: &Value, depth: usize) -> Result<()> {
    let inner = depth.saturating_sub(1);
    match value {
        Value::Array(_) | Value::Map(_) | Value::Tag(..) if depth == 0 => {
            return Err(DEPTH.broken("a value to be written is nested too deeply to be read back"));
        }
        Value::Integer(n) if u64::try_from(*n).is_err() && u64::try_from(!*n).is_err() => {
            return Err(NOT_CBOR.broken(format!("the integer {n} is outside -2^64..2^64")));
        }
        Value::Simple(n @ 20..=31) => {
            return Err(NOT_CBOR.broken(format!("simple value {n} is reserved")));
        }
        Value::Array(items) => items.iter().try_for_each(|item| check(item, inner))?,
        Value::Tag(_, item) => check(item, inner)?,
        Value::Map(pairs) => {
            for (key, value) in pairs {
                check(key, inner)?;
                check(value, inner)?;
            }
            if has_duplicate_keys(pairs) {
                return Err(NOT_CBOR.broken("a map to be written has the same key twice"));
            }
        }
        _ => {}
    }
    Ok(())
}
