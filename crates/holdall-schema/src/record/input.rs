//! The values that an encoder reads: JSON text, JSON values in memory, and objects of other languages.

use super::number::not;
use crate::dtype::TensorDType;
use crate::error::Result;
use holdall_json::{NUMBER, Reader, TYPE, Token, parse};
use serde_json::{Map, Value};

/// A number of a [`RecordInput`].
#[derive(Debug, Clone)]
pub enum InputNumber {
    /// An integer that is not negative.
    Unsigned(u64),
    /// A negative integer.
    Negative(i64),
    /// An integer of more than 64 bits: its text, and the nearest double.
    Long(Box<str>, f64),
    /// A number with a point or an exponent: the nearest double.
    Float(f64),
}

/// A number of a [`RecordInput`] where an integer is expected, exactly as it is written instead of as the nearest double.
#[derive(Debug)]
pub enum InputInteger {
    /// An integer that is not negative.
    Unsigned(u64),
    /// A negative integer.
    Negative(i64),
    /// A number that is not an integer of 64 bits, as it is written.
    Other(String),
}

impl InputInteger {
    fn from_i128(n: i128) -> Option<InputInteger> {
        let unsigned = u64::try_from(n).map(InputInteger::Unsigned);
        unsigned.or_else(|_| i64::try_from(n).map(InputInteger::Negative)).ok()
    }
}

/// Reads one value piece by piece: JSON, or a value that corresponds to JSON. A clone reads the same value again.
///
/// Each function fails if the next value has another type; [`RecordInput::peek`] tells the type. Functions with a
/// default implementation are for values that JSON does not have, such as bytes and times.
pub trait RecordInput: Clone {
    /// Returns the type of the next value.
    fn peek(&mut self) -> Result<Token>;

    /// Returns the type of the next value: `wanted` if the value can be read as that.
    fn peek_as(&mut self, wanted: Token) -> Result<Token> {
        let _ = wanted;
        self.peek()
    }

    /// Begins to read an object.
    fn begin_object(&mut self) -> Result<()>;
    /// Returns the next key of an object, or `None` at its end. The key may be in `scratch`.
    fn next_key<'s>(&mut self, scratch: &'s mut String) -> Result<Option<&'s str>>
    where
        Self: 's;
    /// Begins to read an array.
    fn begin_array(&mut self) -> Result<()>;
    /// Returns `true` if the array has another item, which is the next value.
    fn next_item(&mut self) -> Result<bool>;
    /// Reads a string, which may be in `scratch`.
    fn string<'s>(&mut self, scratch: &'s mut String) -> Result<&'s str>
    where
        Self: 's;

    /// Appends the next value to `out` if it is bytes, and reads it. Returns `false` for all other values.
    fn bytes(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let _ = out;
        Ok(false)
    }

    /// Reads a time, in nanoseconds since 1970 UTC. Returns `None` for all other values, and for times that do not fit
    /// in 64 bits.
    fn time(&mut self) -> Result<Option<i64>> {
        Ok(None)
    }

    /// Reads an array of any rank with elements of this type: appends them to `out` in row-major order and in their
    /// little-endian form, and returns the shape. Returns `None` for all other values.
    fn block(&mut self, dtype: TensorDType, out: &mut Vec<u8>) -> Result<Option<Vec<u64>>> {
        let _ = (dtype, out);
        Ok(None)
    }

    /// Whether nested arrays of numbers can be tensors. In JSON a tensor is an object.
    const HAS_NESTED_TENSORS: bool = false;

    /// Reads a number.
    fn number(&mut self) -> Result<InputNumber>;
    /// Reads a number where an integer is expected.
    fn integer(&mut self) -> Result<InputInteger>;
    /// Reads a boolean.
    fn bool(&mut self) -> Result<bool>;
    /// Skips a value.
    fn skip(&mut self) -> Result<()>;
    /// Reads an object, checks that its keys are unique, and returns its JSON text.
    fn object_text<'s>(&mut self, scratch: &'s mut String) -> Result<&'s str>
    where
        Self: 's;
}

impl RecordInput for Reader<'_> {
    #[inline]
    fn peek(&mut self) -> Result<Token> {
        Reader::peek(self)
    }

    #[inline]
    fn begin_object(&mut self) -> Result<()> {
        Reader::begin_object(self)
    }

    #[inline]
    fn next_key<'s>(&mut self, scratch: &'s mut String) -> Result<Option<&'s str>>
    where
        Self: 's,
    {
        Reader::next_key(self, scratch)
    }

    #[inline]
    fn begin_array(&mut self) -> Result<()> {
        Reader::begin_array(self)
    }

    #[inline]
    fn next_item(&mut self) -> Result<bool> {
        Reader::next_item(self)
    }

    #[inline]
    fn string<'s>(&mut self, scratch: &'s mut String) -> Result<&'s str>
    where
        Self: 's,
    {
        Reader::string(self, scratch)
    }

    #[inline]
    fn number(&mut self) -> Result<InputNumber> {
        let start = self.offset();
        let number = Reader::number(self)?;
        if number.is_integer {
            if let Ok(n) = number.text.parse::<u64>() {
                return Ok(InputNumber::Unsigned(n));
            }
            if let Some(n) = number.text.parse::<i64>().ok().filter(|n| *n != 0) {
                return Ok(InputNumber::Negative(n));
            }
        }
        if let Some(x) = short_decimal(number.text) {
            return Ok(InputNumber::Float(x));
        }
        match number.text.parse::<f64>() {
            Ok(x) if x.is_finite() && is_long(number.is_integer, x) => {
                Ok(InputNumber::Long(number.text.into(), x))
            }
            Ok(x) if x.is_finite() => Ok(InputNumber::Float(x)),
            _ => {
                let message = "the number is out of range for a double";
                Err(NUMBER.broken(message).at(start..self.offset()))
            }
        }
    }

    #[inline]
    fn integer(&mut self) -> Result<InputInteger> {
        let start = self.offset();
        let number = Reader::number(self)?;
        if number.is_integer
            && let Ok(n) = number.text.parse::<u64>()
        {
            return Ok(InputInteger::Unsigned(n));
        }
        if let Some(n) = number.integer().and_then(InputInteger::from_i128) {
            return Ok(n);
        }
        match number.text.parse::<f64>() {
            Ok(x) if x.is_finite() => Ok(InputInteger::Other(shortened(number.text))),
            _ => {
                let message = "the number is out of range for a double";
                Err(NUMBER.broken(message).at(start..self.offset()))
            }
        }
    }

    #[inline]
    fn bool(&mut self) -> Result<bool> {
        Reader::bool(self)
    }

    fn skip(&mut self) -> Result<()> {
        Reader::skip(self)
    }

    fn object_text<'s>(&mut self, _scratch: &'s mut String) -> Result<&'s str>
    where
        Self: 's,
    {
        Reader::peek(self)?;
        let start = self.offset();
        Reader::skip(self)?;
        let text = self.text_from(start);
        // The depth was checked against the limit before.
        parse(text.as_bytes(), usize::MAX)?;
        Ok(text)
    }
}

/// Shortens a long number for an error message.
#[cold]
fn shortened(text: &str) -> String {
    match text.get(..40) {
        Some(head) if text.len() > 44 => format!("{head}…"),
        _ => text.to_owned(),
    }
}

/// Returns `true` if a number is an integer that does not fit in 64 bits.
fn is_long(is_integer: bool, x: f64) -> bool {
    // `-0` is a float.
    is_integer && x != 0.0
}

/// Returns the double nearest to a number of few digits without an exponent. Its digits and the power of ten are both
/// exact doubles, so one division rounds only once. Returns `None` for all other numbers.
#[inline]
fn short_decimal(text: &str) -> Option<f64> {
    const POWERS: [f64; 19] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18,
    ];
    const EXACT: u64 = 1 << 53;
    let digits = text.strip_prefix('-').unwrap_or(text);
    // 18 digits fit 64 bits.
    if digits.len() > 19 {
        return None;
    }
    let (mut value, mut after) = (0u64, None::<usize>);
    for (at, b) in digits.bytes().enumerate() {
        match b {
            b'0'..=b'9' => {
                value = value.wrapping_mul(10).wrapping_add(u64::from(b.wrapping_sub(b'0')));
            }
            b'.' => after = Some(digits.len().wrapping_sub(at).wrapping_sub(1)),
            _ => return None,
        }
    }
    if value > EXACT {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "at most 2^53")]
    let size = value as f64 / POWERS.get(after?)?;
    Some(if digits.len() < text.len() { -size } else { size })
}

/// Reads a value in memory.
#[derive(Debug, Clone)]
pub(crate) struct ValueInput<'v> {
    /// The value to read next.
    next: Option<&'v Value>,
    open: Vec<Open<'v>>,
}

#[derive(Debug, Clone)]
enum Open<'v> {
    Object(serde_json::map::Iter<'v>),
    Array(std::slice::Iter<'v, Value>),
}

impl<'v> ValueInput<'v> {
    pub(crate) fn new(value: &'v Value) -> ValueInput<'v> {
        ValueInput { next: Some(value), open: Vec::new() }
    }

    fn take(&mut self, wanted: &str) -> Result<&'v Value> {
        // Callers peek first, so a value is left.
        self.next.take().ok_or_else(|| TYPE.broken(format!("expected {wanted}, found nothing")))
    }
}

/// Returns the token that begins a value.
fn token_of(value: &Value) -> Token {
    match value {
        Value::Object(_) => Token::Object,
        Value::Array(_) => Token::Array,
        Value::String(_) => Token::String,
        Value::Number(_) => Token::Number,
        Value::Bool(_) => Token::Bool,
        Value::Null => Token::Null,
    }
}

impl<'v> RecordInput for ValueInput<'v> {
    fn peek(&mut self) -> Result<Token> {
        let next = self.next.map(token_of);
        next.ok_or_else(|| TYPE.broken("expected a value, found nothing"))
    }

    fn begin_object(&mut self) -> Result<()> {
        match self.take("an object")? {
            Value::Object(members) => {
                self.open.push(Open::Object(members.iter()));
                Ok(())
            }
            other => Err(not(token_of(other), "an object")),
        }
    }

    fn next_key<'s>(&mut self, _scratch: &'s mut String) -> Result<Option<&'s str>>
    where
        Self: 's,
    {
        let Some(Open::Object(members)) = self.open.last_mut() else { return Ok(None) };
        match members.next() {
            Some((key, value)) => {
                self.next = Some(value);
                Ok(Some(key))
            }
            None => {
                self.open.pop();
                Ok(None)
            }
        }
    }

    fn begin_array(&mut self) -> Result<()> {
        match self.take("an array")? {
            Value::Array(items) => {
                self.open.push(Open::Array(items.iter()));
                Ok(())
            }
            other => Err(not(token_of(other), "an array")),
        }
    }

    fn next_item(&mut self) -> Result<bool> {
        let Some(Open::Array(items)) = self.open.last_mut() else { return Ok(false) };
        self.next = items.next();
        if self.next.is_none() {
            self.open.pop();
            return Ok(false);
        }
        Ok(true)
    }

    fn string<'s>(&mut self, _scratch: &'s mut String) -> Result<&'s str>
    where
        Self: 's,
    {
        match self.take("a string")? {
            Value::String(text) => Ok(text),
            other => Err(not(token_of(other), "a string")),
        }
    }

    fn number(&mut self) -> Result<InputNumber> {
        let number = match self.take("a number")? {
            Value::Number(number) => number,
            other => return Err(not(token_of(other), "a number")),
        };
        match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(n), ..) => Ok(InputNumber::Unsigned(n)),
            (None, Some(n), _) => Ok(InputNumber::Negative(n)),
            (None, None, Some(x)) => Ok(InputNumber::Float(x)),
            (None, None, None) => Err(NUMBER.broken("the number is out of range for a double")),
        }
    }

    fn integer(&mut self) -> Result<InputInteger> {
        match self.number()? {
            InputNumber::Unsigned(n) => Ok(InputInteger::Unsigned(n)),
            InputNumber::Negative(n) => Ok(InputInteger::Negative(n)),
            InputNumber::Long(text, _) => Ok(InputInteger::Other(shortened(&text))),
            InputNumber::Float(x) => Ok(whole_double(x)
                .and_then(InputInteger::from_i128)
                .unwrap_or_else(|| InputInteger::Other(format!("{x:?}")))),
        }
    }

    fn bool(&mut self) -> Result<bool> {
        match self.take("true or false")? {
            Value::Bool(b) => Ok(*b),
            other => Err(not(token_of(other), "true or false")),
        }
    }

    fn skip(&mut self) -> Result<()> {
        self.take("a value").map(|_| ())
    }

    fn object_text<'s>(&mut self, scratch: &'s mut String) -> Result<&'s str>
    where
        Self: 's,
    {
        let empty = Map::new();
        let members = self.take("an object")?.as_object().unwrap_or(&empty);
        scratch.clear();
        write_object(members, scratch);
        Ok(scratch)
    }
}

/// Returns the integer that a double without a fraction represents. -2^63 is refused, because integers just below it
/// are also converted to this double.
#[expect(clippy::cast_possible_truncation, reason = "a whole number, checked against both ends")]
fn whole_double(x: f64) -> Option<i128> {
    const MIN_INTEGER: f64 = -9_223_372_036_854_775_808.0;
    const MAX_INTEGER: f64 = 18_446_744_073_709_551_616.0;
    (x.fract() == 0.0 && x > MIN_INTEGER && x < MAX_INTEGER).then_some(x as i128)
}

fn write_object(members: &Map<String, Value>, out: &mut String) {
    // A map of strings and values always has a text.
    out.push_str(&serde_json::to_string(members).unwrap_or_default());
}
