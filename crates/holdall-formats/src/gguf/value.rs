//! The types of key–values, and how key–values are read and written.

use super::{STRING, TOO_MANY_VALUES, VALUE_TYPE};
use holdall_collections::DebugUnwrap;
use holdall_core::error::{Error, Result};
use holdall_core::model::{Attributes, Value};
use holdall_core::wire::cursor::Cursor;
use std::borrow::Cow;

/// The key of the attribute that names the types of key–values whose type does not follow from the value.
pub(super) const TYPES: &str = "holdall.gguf.types";
/// The maximum length of a string in bytes, and of an array in items.
const MAX_LEN: u64 = 1 << 30;

/// The type of a single value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind(u32);

impl Kind {
    const U32: Kind = Kind(4);
    const I32: Kind = Kind(5);
    const F32: Kind = Kind(6);
    const BOOL: Kind = Kind(7);
    const STRING: Kind = Kind(8);
    const ARRAY: u32 = 9;
    const U64: Kind = Kind(10);
    const I64: Kind = Kind(11);
    const F64: Kind = Kind(12);

    /// The names, in the order of the type numbers.
    const NAMES: [&'static str; 13] = [
        "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64",
        "f64",
    ];

    fn name(self) -> &'static str {
        usize::try_from(self.0).ok().and_then(|at| Kind::NAMES.get(at)).unwrap_or(&"array")
    }

    /// Returns the type of a single value with this number.
    fn single(number: u32) -> Option<Kind> {
        (number < 13 && number != Kind::ARRAY).then_some(Kind(number))
    }

    fn by_name(name: &str) -> Option<Kind> {
        let number = Kind::NAMES.iter().position(|own| *own == name)?;
        Kind::single(u32::try_from(number).ok()?)
    }

    /// Returns the minimum and maximum of an integer type.
    fn integers(self) -> Option<(i128, i128)> {
        Some(match self.0 {
            0 => (0, u8::MAX.into()),
            1 => (i8::MIN.into(), i8::MAX.into()),
            2 => (0, u16::MAX.into()),
            3 => (i16::MIN.into(), i16::MAX.into()),
            4 => (0, u32::MAX.into()),
            5 => (i32::MIN.into(), i32::MAX.into()),
            10 => (0, u64::MAX.into()),
            11 => (i64::MIN.into(), i64::MAX.into()),
            _ => return None,
        })
    }

    /// Returns the number of bytes of a value; for a string, that of its length field.
    fn width(self) -> usize {
        match self.0 {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            _ => 8,
        }
    }

    /// Returns `true` if a value of this type can hold `value` without loss.
    fn holds(self, value: &Value) -> bool {
        match value {
            Value::Bool(_) => self == Kind::BOOL,
            Value::Integer(n) => {
                self.integers().is_some_and(|(least, most)| (least..=most).contains(n))
            }
            Value::Float(x) => self == Kind::F64 || (self == Kind::F32 && narrow(*x).is_some()),
            Value::Text(text) => self == Kind::STRING && text.len() as u64 <= MAX_LEN,
            // Bytes that are valid UTF-8 would be read back as text.
            Value::Bytes(bytes) => self == Kind::STRING && std::str::from_utf8(bytes).is_err(),
            _ => false,
        }
    }
}

/// The type of a key–value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    One(Kind),
    Array(Kind),
}

impl Type {
    /// Text.
    pub(super) const STRING: Type = Type::One(Kind::STRING);

    /// Returns the default type for a value: the first of a few types that can hold it.
    pub(super) fn default_for(value: &Value) -> Option<Type> {
        const ONE: [Kind; 8] = [
            Kind::BOOL,
            Kind::U32,
            Kind::I32,
            Kind::U64,
            Kind::I64,
            Kind::F32,
            Kind::F64,
            Kind::STRING,
        ];
        const MANY: [Kind; 8] = [
            Kind::BOOL,
            Kind::I32,
            Kind::U32,
            Kind::I64,
            Kind::U64,
            Kind::F32,
            Kind::F64,
            Kind::STRING,
        ];
        match value {
            Value::Array(items) => {
                let mut kinds = MANY.into_iter();
                kinds.find(|kind| items.iter().all(|item| kind.holds(item))).map(Type::Array)
            }
            one => ONE.into_iter().find(|kind| kind.holds(one)).map(Type::One),
        }
    }

    /// Returns `true` if a key–value of this type can hold `value`.
    fn holds(self, value: &Value) -> bool {
        match (self, value) {
            (Type::One(kind), value) => kind.holds(value),
            (Type::Array(kind), Value::Array(items)) => items.iter().all(|item| kind.holds(item)),
            _ => false,
        }
    }

    /// Returns the name: `u64`, `[f32]`.
    pub(super) fn name(self) -> Cow<'static, str> {
        match self {
            Type::One(kind) => kind.name().into(),
            Type::Array(kind) => format!("[{}]", kind.name()).into(),
        }
    }

    /// Returns the type with this name, if it can hold the value.
    fn by_name(name: &str, value: &Value) -> Option<Type> {
        let array = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let found = match array {
            Some(name) => Type::Array(Kind::by_name(name)?),
            None => Type::One(Kind::by_name(name)?),
        };
        found.holds(value).then_some(found)
    }

    /// Returns the type in which an attribute is written: the one that [`TYPES`] names, or else the default for the
    /// value; `None` if no key–value can hold it.
    pub(super) fn to_write(key: &str, value: &Value, all: &Attributes) -> Option<Type> {
        let named = || {
            let Some(Value::Map(pairs)) = all.get(TYPES) else { return None };
            let (_, name) = pairs.iter().find(|(k, _)| k.as_text() == Some(key))?;
            Type::by_name(name.as_text()?, value)
        };
        named().or_else(|| Type::default_for(value))
    }
}

/// Reads the parts of a header, in the byte order of the file. Every read returns `None` if it needs more bytes than
/// are available.
#[derive(Debug, Clone)]
pub(super) struct Head<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) is_big: bool,
}

impl<'a> Head<'a> {
    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = self.cursor.array::<N>()?;
        if self.is_big {
            bytes.reverse();
        }
        Some(bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a string. Returns an error if it is too long.
    pub(super) fn string(&mut self) -> Option<Result<&'a [u8]>> {
        let start = self.cursor.position();
        let len = self.u64()?;
        if len > MAX_LEN {
            let e = STRING.broken(format!("a string of {len} bytes"));
            return Some(Err(e.at(start..self.cursor.position())));
        }
        self.cursor.take(len).map(Ok)
    }

    /// Reads the type of a key–value, and the number of items if it is an array.
    fn value_type(&mut self) -> Option<Result<(Type, u64)>> {
        let start = self.cursor.position();
        let wrong = |number: u32, end: u64, value_type: &str| -> Error {
            VALUE_TYPE
                .broken(format!("{number} is not a valid type of {value_type}"))
                .at(start..end)
        };
        let number = self.u32()?;
        if number != Kind::ARRAY {
            let end = self.cursor.position();
            let kind = Kind::single(number).ok_or_else(|| wrong(number, end, "values"));
            return Some(kind.map(|kind| (Type::One(kind), 1)));
        }
        let number = self.u32()?;
        let Some(kind) = Kind::single(number) else {
            return Some(Err(wrong(number, self.cursor.position(), "items of an array")));
        };
        let count = self.u64()?;
        if count > MAX_LEN {
            let e = STRING.broken(format!("an array of {count} items"));
            return Some(Err(e.at(start..self.cursor.position())));
        }
        Some(Ok((Type::Array(kind), count)))
    }

    /// Skips a value with its type.
    pub(super) fn skip_value(&mut self) -> Option<Result<()>> {
        let (value_type, count) = match self.value_type()? {
            Ok(found) => found,
            Err(e) => return Some(Err(e)),
        };
        let (Type::One(kind) | Type::Array(kind)) = value_type;
        if kind != Kind::STRING {
            self.cursor.take(count.checked_mul(kind.width() as u64)?)?;
            return Some(Ok(()));
        }
        for _ in 0..count {
            if let Err(e) = self.string()? {
                return Some(Err(e));
            }
        }
        Some(Ok(()))
    }

    /// Reads a value with its type. `left` is the number of further values that are allowed.
    pub(super) fn value(&mut self, left: &mut u64) -> Option<Result<(Type, Value)>> {
        let (value_type, count) = match self.value_type()? {
            Ok(found) => found,
            Err(e) => return Some(Err(e)),
        };
        let (Type::One(kind) | Type::Array(kind)) = value_type;
        if count.saturating_mul(kind.width() as u64) > self.cursor.remaining() {
            return None;
        }
        match left.checked_sub(count) {
            Some(rest) => *left = rest,
            None => {
                let message = format!("found {count} more values, at most {left} more are allowed");
                return Some(Err(TOO_MANY_VALUES.broken(message)));
            }
        }
        let mut one = || self.single(kind);
        let read = match value_type {
            Type::One(_) => one()?,
            Type::Array(_) => {
                // The bytes of all items are available.
                (0..count).map(|_| one()).collect::<Option<Result<Vec<Value>>>>()?.map(Value::Array)
            }
        };
        Some(read.map(|value| (value_type, value)))
    }

    fn single(&mut self, kind: Kind) -> Option<Result<Value>> {
        Some(Ok(match kind.0 {
            0 => Value::Integer(self.array::<1>().map(u8::from_le_bytes)?.into()),
            1 => Value::Integer(self.array().map(i8::from_le_bytes)?.into()),
            2 => Value::Integer(self.array().map(u16::from_le_bytes)?.into()),
            3 => Value::Integer(self.array().map(i16::from_le_bytes)?.into()),
            4 => Value::Integer(self.u32()?.into()),
            5 => Value::Integer(self.array().map(i32::from_le_bytes)?.into()),
            6 => Value::Float(widen(f32::from_bits(self.u32()?))),
            7 => Value::Bool(self.cursor.u8()? != 0),
            10 => Value::Integer(self.u64()?.into()),
            11 => Value::Integer(self.array().map(i64::from_le_bytes)?.into()),
            12 => Value::Float(f64::from_bits(self.u64()?)),
            _ => match self.string()? {
                Err(e) => return Some(Err(e)),
                Ok(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => Value::Text(text.to_owned()),
                    Err(_) => Value::Bytes(bytes.to_owned()),
                },
            },
        }))
    }
}

/// Converts a float to a double with the same payload bits, also for NaN.
fn widen(x: f32) -> f64 {
    if !x.is_nan() {
        return x.into();
    }
    let bits = u64::from(x.to_bits());
    f64::from_bits((bits >> 31 << 63) | (0x7ff << 52) | ((bits & 0x7f_ffff) << 29))
}

/// Reverses [`widen`]. Returns `None` if the double is not the result of it.
fn narrow(x: f64) -> Option<f32> {
    let float = if x.is_nan() {
        let bits = x.to_bits();
        let (sign, mantissa) = (bits >> 63 << 31, bits >> 29 & 0x7f_ffff);
        f32::from_bits(u32::try_from(sign | 0x7f80_0000 | mantissa).ok()?)
    } else {
        #[allow(clippy::cast_possible_truncation)] // Any loss is detected below.
        let float = x as f32;
        float
    };
    (widen(float).to_bits() == x.to_bits()).then_some(float)
}

/// Appends a string.
pub(super) fn write_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Appends a key–value. `value_type` must be a type that can hold the value.
pub(super) fn write_pair(key: &str, value_type: Type, value: &Value, out: &mut Vec<u8>) {
    write_string(key.as_bytes(), out);
    match (value_type, value) {
        (Type::Array(kind), Value::Array(items)) => {
            out.extend_from_slice(&Kind::ARRAY.to_le_bytes());
            out.extend_from_slice(&kind.0.to_le_bytes());
            out.extend_from_slice(&(items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| write_single(kind, item, out));
        }
        (Type::One(kind) | Type::Array(kind), value) => {
            out.extend_from_slice(&kind.0.to_le_bytes());
            write_single(kind, value, out);
        }
    }
}

fn write_single(kind: Kind, value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Bool(b) => out.push((*b).into()),
        Value::Integer(n) => {
            let bytes = n.to_le_bytes();
            out.extend_from_slice(bytes.get(..kind.width()).debug_unwrap());
        }
        Value::Float(x) => match narrow(*x).filter(|_| kind == Kind::F32) {
            Some(float) => out.extend_from_slice(&float.to_le_bytes()),
            None => out.extend_from_slice(&x.to_le_bytes()),
        },
        Value::Text(text) => write_string(text.as_bytes(), out),
        Value::Bytes(bytes) => write_string(bytes, out),
        // No type holds other values.
        _ => {}
    }
}
