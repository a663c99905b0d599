//! Reading attribute values without loss.

use super::reader::{ARRAY, BYTES, Head, INDEFINITE, MAP, NEGATIVE, TAG, TEXT, UNSIGNED};
use super::*;
use crate::error::Result;
use crate::model::{Attributes, Value};

/// The maximum nesting depth, whatever [`crate::Limits::depth`] is: values are read, written and dropped recursively.
pub const MAX_DEPTH: usize = 512;

impl Reader<'_> {
    /// Reads a map from text to any values; null is an empty map.
    ///
    /// # Errors
    /// Returns [`ITEM_KIND`] if the next item is not a map, [`KEY`] if a key is not text, [`DUPLICATE_KEY`] if a key
    /// occurs twice, and the errors of [`Reader::value`].
    pub fn attributes(&mut self, context: &'static str) -> Result<Attributes> {
        let mut attributes = Attributes::new();
        if self.null() {
            return Ok(attributes);
        }
        let start = self.offset();
        let mut items = self.map(context)?;
        while self.more(&mut items)? {
            let at = self.offset();
            let key = self.key(context)?;
            let key = self.utf8(key, at)?;
            self.count_value()?;
            attributes.push(key, self.value()?);
        }
        let mut keys: Vec<&str> = attributes.iter().map(|(key, _)| key).collect();
        if has_duplicates(&mut keys) {
            return Err(DUPLICATE_KEY
                .broken(format!("{context} has the same key twice"))
                .at(self.since(start)));
        }
        Ok(attributes)
    }

    /// Reads the next item of any kind.
    ///
    /// # Errors
    /// Returns [`TRUNCATED`], [`RESERVED`], [`BREAK`], [`UTF8`], [`COUNT`], [`DEPTH`], [`DUPLICATE_KEY`] or
    /// [`TOO_MANY_VALUES`] if the item is invalid.
    pub fn value(&mut self) -> Result<Value> {
        self.count_value()?;
        let start = self.offset();
        let head = self.head()?;
        Ok(match head.major {
            UNSIGNED => Value::Integer(head.arg.into()),
            // -1 - n, where n is below 2^64.
            NEGATIVE => Value::Integer(i128::from(head.arg).wrapping_neg().wrapping_sub(1)),
            BYTES => Value::Bytes(self.string_value(head, start)?),
            TEXT => {
                let bytes = self.string_value(head, start)?;
                let text = String::from_utf8(bytes).map_err(|e| {
                    let e = e.utf8_error();
                    UTF8.broken("text is not UTF-8").because(e).at(self.since(start))
                })?;
                Value::Text(text)
            }
            ARRAY => {
                let mut items = self.open(head, start)?;
                let mut out = Vec::new();
                while self.more(&mut items)? {
                    out.push(self.value()?);
                }
                Value::Array(out)
            }
            MAP => self.map_value(head, start)?,
            TAG => {
                self.check_depth(0, start)?;
                self.depth = self.depth.saturating_add(1);
                let inner = self.value()?;
                self.depth = self.depth.saturating_sub(1);
                Value::Tag(head.arg, Box::new(inner))
            }
            _ => self.simple_value(head, start)?,
        })
    }

    fn map_value(&mut self, head: Head, start: u64) -> Result<Value> {
        let mut items = self.open(head, start)?;
        let mut out = Vec::new();
        while self.more(&mut items)? {
            out.push((self.value()?, self.value()?));
        }
        if has_duplicate_keys(&out) {
            return Err(DUPLICATE_KEY.broken("a map has the same key twice").at(self.since(start)));
        }
        Ok(Value::Map(out))
    }

    fn string_value(&mut self, head: Head, start: u64) -> Result<Vec<u8>> {
        if head.info != INDEFINITE {
            return Ok(self.take(head.arg, start)?.to_vec());
        }
        let mut out = Vec::new();
        self.chunks(head.major, |chunk| out.extend_from_slice(chunk))?;
        Ok(out)
    }

    fn simple_value(&mut self, head: Head, start: u64) -> Result<Value> {
        self.check_simple(head, start)?;
        // The argument has the width that the additional information states.
        let low = head.arg.to_le_bytes();
        let [a, b, c, d, ..] = low;
        Ok(match head.info {
            20 => Value::Bool(false),
            21 => Value::Bool(true),
            22 => Value::Null,
            23 => Value::Undefined,
            25 => Value::Float(widen_half(u16::from_le_bytes([a, b]))),
            26 => Value::Float(widen_single(u32::from_le_bytes([a, b, c, d]))),
            27 => Value::Float(f64::from_bits(head.arg)),
            INDEFINITE => return Err(self.stray_break(start)),
            _ => Value::Simple(a),
        })
    }

    fn count_value(&mut self) -> Result<()> {
        match self.values_left.checked_sub(1) {
            Some(left) => self.values_left = left,
            None => {
                let at = self.offset();
                return Err(TOO_MANY_VALUES
                    .broken("the attributes have more values than the limit allows")
                    .at(at..at));
            }
        }
        Ok(())
    }
}

/// Returns `true` if any two of `keys` are equal. Sorts them.
pub fn has_duplicates<T: Ord>(keys: &mut [T]) -> bool {
    keys.sort_unstable();
    keys.windows(2).any(|pair| matches!(pair, [a, b] if a == b))
}

/// Checks that no two attributes to be written have the same name.
///
/// # Errors
/// Returns [`NOT_CBOR`] if two have.
pub fn check_keys(attributes: &Attributes) -> Result<()> {
    let mut keys: Vec<&str> = attributes.iter().map(|(key, _)| key).collect();
    match has_duplicates(&mut keys) {
        true => Err(NOT_CBOR.broken("two attributes to be written have the same name")),
        false => Ok(()),
    }
}

/// Returns `true` if a map has the same key twice. Keys that are not text are compared by their deterministic encoding.
pub(super) fn has_duplicate_keys(pairs: &[(Value, Value)]) -> bool {
    if pairs.len() < 2 {
        return false;
    }
    let texts: Option<Vec<&str>> = pairs.iter().map(|(key, _)| key.as_text()).collect();
    if let Some(mut texts) = texts {
        return has_duplicates(&mut texts);
    }
    let spell = |key| {
        let mut w = Writer::new();
        w.spell(key);
        w.into_bytes()
    };
    let mut spelled: Vec<Vec<u8>> = pairs.iter().map(|(key, _)| spell(key)).collect();
    has_duplicates(&mut spelled)
}

/// Converts f16 bits to the f64 of the same value; NaN keeps its sign and payload.
fn widen_half(bits: u16) -> f64 {
    let wide = u64::from(bits);
    if wide & 0x7c00 == 0x7c00 {
        return f64::from_bits((wide & 0x8000) << 48 | 0x7ff << 52 | (wide & 0x3ff) << 42);
    }
    half::f16::from_bits(bits).to_f64()
}

/// Converts f32 bits to the f64 of the same value; NaN keeps its sign and payload.
fn widen_single(bits: u32) -> f64 {
    let wide = u64::from(bits);
    if wide & 0x7f80_0000 == 0x7f80_0000 {
        return f64::from_bits((wide & 0x8000_0000) << 32 | 0x7ff << 52 | (wide & 0x7f_ffff) << 29);
    }
    f32::from_bits(bits).into()
}

/// Returns the f32 bits of exactly this f64, if they exist: the inverse of [`widen_single`].
pub(super) fn narrow_single(x: f64) -> Option<u32> {
    let bits = x.to_bits();
    let narrow = if x.is_nan() {
        let sign = u32::try_from(bits >> 63).ok()? << 31;
        let payload = u32::try_from(bits >> 29 & 0x7f_ffff).ok()?;
        sign | 0x7f80_0000 | payload
    } else {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "widening again shows whether it was exact"
        )]
        let rounded = x as f32;
        rounded.to_bits()
    };
    (widen_single(narrow).to_bits() == bits).then_some(narrow)
}

/// Returns the f16 bits of exactly this f64, if they exist: the inverse of [`widen_half`].
pub(super) fn narrow_half(x: f64) -> Option<u16> {
    let bits = x.to_bits();
    let narrow = if x.is_nan() {
        let sign = u16::try_from(bits >> 63).ok()? << 15;
        sign | 0x7c00 | u16::try_from(bits >> 42 & 0x3ff).ok()?
    } else {
        half::f16::from_f64(x).to_bits()
    };
    (widen_half(narrow).to_bits() == bits).then_some(narrow)
}
