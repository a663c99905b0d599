//! Converts numbers between JSON and bytes (sections 5.2 and 5.3).

use super::float::{self, SmallFloat};
use super::input::{InputInteger, InputNumber, RecordInput};
use super::rules::{COUNT, RANGE, TIMESTAMP, TYPE};
use super::time;
use crate::dtype::TensorDType;
use crate::error::{Error, Escape as _, Result};
use crate::kinds::Scalar;
use holdall_collections::DebugUnwrap;
use holdall_json::Token;
use std::fmt::Write as _;

/// The type of a number in a record or in a tensor of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Num {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    Small8(SmallFloat),
    Small16(SmallFloat),
    Pair32,
    Pair64,
    Bool,
    Time,
}

impl Num {
    pub(crate) const fn from_scalar(scalar: Scalar) -> Num {
        match scalar {
            Scalar::Int8 => Num::I8,
            Scalar::Int16 => Num::I16,
            Scalar::Int32 => Num::I32,
            Scalar::Int64 => Num::I64,
            Scalar::Uint8 => Num::U8,
            Scalar::Uint16 => Num::U16,
            Scalar::Uint32 => Num::U32,
            Scalar::Uint64 => Num::U64,
            Scalar::Float16 => Num::Small16(float::F16),
            Scalar::Float32 => Num::F32,
            Scalar::Float64 => Num::F64,
            Scalar::BFloat16 => Num::Small16(float::BF16),
            Scalar::Float8E4M3 => Num::Small8(float::F8_E4M3),
            Scalar::Float8E5M2 => Num::Small8(float::F8_E5M2),
            Scalar::Complex64 => Num::Pair32,
            Scalar::Complex128 => Num::Pair64,
            Scalar::Boolean => Num::Bool,
            Scalar::Timestamp => Num::Time,
        }
    }

    /// Returns the type of a tensor's elements.
    pub(super) const fn from_dtype(dtype: TensorDType) -> Element {
        Element::Whole(match dtype {
            TensorDType::F4 => return Element::Bits(float::F4_E2M1),
            TensorDType::F6_E2M3 => return Element::Bits(float::F6_E2M3),
            TensorDType::F6_E3M2 => return Element::Bits(float::F6_E3M2),
            TensorDType::Bool => Num::Bool,
            TensorDType::U8 => Num::U8,
            TensorDType::I8 => Num::I8,
            TensorDType::F8_E5M2 => Num::Small8(float::F8_E5M2),
            TensorDType::F8_E4M3 => Num::Small8(float::F8_E4M3),
            TensorDType::F8_E8M0 => Num::Small8(float::F8_E8M0),
            TensorDType::F8_E4M3Fnuz => Num::Small8(float::F8_E4M3FNUZ),
            TensorDType::F8_E5M2Fnuz => Num::Small8(float::F8_E5M2FNUZ),
            TensorDType::I16 => Num::I16,
            TensorDType::U16 => Num::U16,
            TensorDType::F16 => Num::Small16(float::F16),
            TensorDType::Bf16 => Num::Small16(float::BF16),
            TensorDType::I32 => Num::I32,
            TensorDType::U32 => Num::U32,
            TensorDType::F32 => Num::F32,
            TensorDType::C64 => Num::Pair32,
            TensorDType::F64 => Num::F64,
            TensorDType::I64 => Num::I64,
            TensorDType::U64 => Num::U64,
        })
    }

    /// Encodes one value. `out` has the size of the value.
    #[inline]
    pub(crate) fn encode(
        self,
        input: &mut impl RecordInput,
        out: &mut [u8],
        text: &mut String,
    ) -> Result<()> {
        match self {
            Num::I8 => put(out, integer(input, i8::MIN, i8::MAX)?.to_le_bytes()),
            Num::I16 => put(out, integer(input, i16::MIN, i16::MAX)?.to_le_bytes()),
            Num::I32 => put(out, integer(input, i32::MIN, i32::MAX)?.to_le_bytes()),
            Num::I64 => put(out, integer(input, i64::MIN, i64::MAX)?.to_le_bytes()),
            Num::U8 => put(out, integer(input, 0, u8::MAX)?.to_le_bytes()),
            Num::U16 => put(out, integer(input, 0, u16::MAX)?.to_le_bytes()),
            Num::U32 => put(out, integer(input, 0, u32::MAX)?.to_le_bytes()),
            Num::U64 => put(out, integer(input, 0, u64::MAX)?.to_le_bytes()),
            Num::F32 => {
                let real = real(input, text)?;
                let x = single(real.nearest())?;
                real.check(f64::from(x), |out| out.push_str(&x.to_string()))?;
                put(out, x.to_le_bytes());
            }
            Num::F64 => {
                let real = real(input, text)?;
                let x = real.nearest();
                real.check(x, |out| out.push_str(&x.to_string()))?;
                put(out, x.to_le_bytes());
            }
            Num::Small8(kind) => {
                let code = small(kind, &real(input, text)?)?.to_le_bytes();
                put(out, [code[0]]);
            }
            Num::Small16(kind) => {
                let code = small(kind, &real(input, text)?)?.to_le_bytes();
                put(out, [code[0], code[1]]);
            }
            Num::Pair32 => pair(input, Num::F32, 4, out, text)?,
            Num::Pair64 => pair(input, Num::F64, 8, out, text)?,
            Num::Bool => match input.peek()? {
                Token::Bool => put(out, [u8::from(input.bool()?)]),
                found => return Err(not(found, "true or false")),
            },
            Num::Time => {
                if let Some(nanos) = input.time()? {
                    put(out, nanos.to_le_bytes());
                    return Ok(());
                }
                expect(input, Token::String, "a time")?;
                let found = input.string(text)?;
                let Some(nanos) = time::parse(found) else {
                    let found = found.get(..40).unwrap_or(found).escaped();
                    let message = format!(
                        "`{found}` is not an RFC 3339 time in the range of 64-bit nanoseconds"
                    );
                    return Err(TIMESTAMP.broken(message));
                };
                put(out, nanos.to_le_bytes());
            }
        }
        Ok(())
    }

    /// Appends the JSON of one value. `bytes` has the size of the value.
    pub(super) fn decode(self, bytes: &[u8], out: &mut String) {
        // Writing to a String cannot fail.
        let _ = match self {
            Num::I8 => write!(out, "{}", i8::from_le_bytes(le(bytes))),
            Num::I16 => write!(out, "{}", i16::from_le_bytes(le(bytes))),
            Num::I32 => write!(out, "{}", i32::from_le_bytes(le(bytes))),
            Num::I64 => write!(out, "{}", i64::from_le_bytes(le(bytes))),
            Num::U8 => write!(out, "{}", u8::from_le_bytes(le(bytes))),
            Num::U16 => write!(out, "{}", u16::from_le_bytes(le(bytes))),
            Num::U32 => write!(out, "{}", u32::from_le_bytes(le(bytes))),
            Num::U64 => write!(out, "{}", u64::from_le_bytes(le(bytes))),
            Num::F32 => {
                let x = f32::from_le_bytes(le(bytes));
                if x.is_finite() {
                    out.push_str(zmij::Buffer::new().format_finite(x));
                } else {
                    odd(f64::from(x), out);
                }
                Ok(())
            }
            Num::F64 => {
                let x = f64::from_le_bytes(le(bytes));
                if x.is_finite() {
                    out.push_str(zmij::Buffer::new().format_finite(x));
                } else {
                    odd(x, out);
                }
                Ok(())
            }
            Num::Small8(kind) => {
                small_text(kind, u32::from(u8::from_le_bytes(le(bytes))), out);
                Ok(())
            }
            Num::Small16(kind) => {
                small_text(kind, u32::from(u16::from_le_bytes(le(bytes))), out);
                Ok(())
            }
            Num::Pair32 => pair_text(Num::F32, 4, bytes, out),
            Num::Pair64 => pair_text(Num::F64, 8, bytes, out),
            Num::Bool => write!(out, "{}", bytes.first() == Some(&1)),
            Num::Time => {
                out.push('"');
                time::write(i64::from_le_bytes(le(bytes)), out);
                out.push('"');
                Ok(())
            }
        };
    }
}

/// How the elements of a tensor are stored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Element {
    /// In whole bytes.
    Whole(Num),
    /// In bits, starting with the lowest bits of the first byte.
    Bits(SmallFloat),
}

/// Reads a number and returns its code as a small float.
pub(super) fn small_code(
    kind: SmallFloat,
    input: &mut impl RecordInput,
    text: &mut String,
) -> Result<u32> {
    small(kind, &real(input, text)?)
}

/// Appends the JSON of a small float.
pub(super) fn small_text(kind: SmallFloat, code: u32, out: &mut String) {
    let x = kind.number(code);
    if x.is_finite() { kind.shortest(code, out) } else { odd(x, out) }
}

/// Returns the first bytes of `bytes`, which has at least that many.
#[inline]
pub(crate) fn le<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

#[inline]
fn put<const N: usize>(out: &mut [u8], bytes: [u8; N]) {
    if let Some(slot) = out.first_chunk_mut() {
        *slot = bytes;
    }
}

/// Reads a whole number in the range of the kind.
#[inline]
fn integer<T>(input: &mut impl RecordInput, least: T, most: T) -> Result<T>
where
    T: TryFrom<u64> + TryFrom<i64> + std::fmt::Display,
{
    expect(input, Token::Number, "an integer")?;
    let number = input.integer()?;
    let found = match number {
        InputInteger::Unsigned(n) => T::try_from(n).ok(),
        InputInteger::Negative(n) => T::try_from(n).ok(),
        InputInteger::Other(_) => None,
    };
    found.ok_or_else(|| no_integer(number, &format!("not a whole number from {least} to {most}")))
}

/// Reads a float. Floats that JSON cannot represent are written as `{"$float": …}`.
#[inline]
fn real(input: &mut impl RecordInput, text: &mut String) -> Result<Real> {
    match input.peek_as(Token::Number)? {
        Token::Number => Ok(Real(input.number()?)),
        Token::Object => Ok(Real(InputNumber::Float(odd_float(input, text)?))),
        found => Err(not(found, "a number")),
    }
}

/// A number where a float is expected. A number that is written as an integer must be represented exactly, or it is
/// refused.
struct Real(InputNumber);

impl Real {
    /// Returns the nearest double.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "the nearest double is what is wanted")]
    fn nearest(&self) -> f64 {
        match self.0 {
            InputNumber::Unsigned(n) => n as f64,
            InputNumber::Negative(n) => n as f64,
            InputNumber::Long(_, x) | InputNumber::Float(x) => x,
        }
    }

    /// Checks that the float `x` represents the integer that was read: exactly, or because its shortest decimal, which
    /// `shortest` appends, has the same digits. The latter accepts programs that write floats without a point.
    ///
    /// # Errors
    /// Returns [`RANGE`].
    #[inline]
    fn check(&self, x: f64, shortest: impl FnOnce(&mut String)) -> Result<()> {
        /// Up to this number, all integers are exact doubles.
        const EXACT: u64 = 1 << 53;
        let is_same = match self.0 {
            InputNumber::Float(_) => return Ok(()),
            InputNumber::Unsigned(n) => n <= EXACT && self.nearest() == x,
            InputNumber::Negative(n) => n.unsigned_abs() <= EXACT && self.nearest() == x,
            InputNumber::Long(..) => false,
        };
        if is_same { Ok(()) } else { self.check_digits(x, shortest) }
    }

    #[cold]
    fn check_digits(&self, x: f64, shortest: impl FnOnce(&mut String)) -> Result<()> {
        let written = match &self.0 {
            InputNumber::Unsigned(n) => n.to_string(),
            InputNumber::Negative(n) => n.to_string(),
            InputNumber::Long(text, _) => text.to_string(),
            InputNumber::Float(_) => return Ok(()),
        };
        let mut short = String::new();
        shortest(&mut short);
        if written == short.trim_end_matches(".0") || written == format!("{x:.0}") {
            return Ok(());
        }
        let written = written.get(..40).unwrap_or(&written);
        let message = format!(
            "the integer {written} cannot be represented exactly: its kind would store {short}"
        );
        Err(RANGE.broken(message).with_hint(
            "use an integer kind for the member, or write the number with a point (`1.0`) to allow rounding",
        ))
    }
}

#[cold]
fn odd_float(input: &mut impl RecordInput, text: &mut String) -> Result<f64> {
    let wrong = || TYPE.broken("expected a number or `{\"$float\": …}`, found another object");
    input.begin_object()?;
    if input.next_key(text)? != Some("$float") || input.peek()? != Token::String {
        return Err(wrong());
    }
    let x = match input.string(text)? {
        "nan" => f64::NAN,
        "inf" => f64::INFINITY,
        "-inf" => f64::NEG_INFINITY,
        _ => return Err(wrong()),
    };
    if input.next_key(text)?.is_some() { Err(wrong()) } else { Ok(x) }
}

fn odd(x: f64, out: &mut String) {
    let name = if x.is_nan() {
        "nan"
    } else if x > 0.0 {
        "inf"
    } else {
        "-inf"
    };
    // Writing to a String cannot fail.
    let _ = write!(out, "{{\"$float\":\"{name}\"}}");
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "rounds to nearest, ties to even")]
fn single(x: f64) -> Result<f32> {
    if x.is_nan() {
        return Ok(f32::NAN);
    }
    let single = x as f32;
    if single.is_infinite() && x.is_finite() {
        return Err(out_of_range(x, "out of range for its kind"));
    }
    Ok(single)
}

fn small(kind: SmallFloat, real: &Real) -> Result<u32> {
    let x = real.nearest();
    let code = kind.code(x).ok_or_else(|| out_of_range(x, "out of range for its kind"))?;
    real.check(kind.number(code), |out| kind.shortest(code, out))?;
    Ok(code)
}

fn pair(
    input: &mut impl RecordInput,
    part: Num,
    len: usize,
    out: &mut [u8],
    text: &mut String,
) -> Result<()> {
    expect(input, Token::Array, "two numbers")?;
    input.begin_array()?;
    let (real, imaginary) = out.split_at_mut_checked(len).debug_unwrap();
    for (at, slot) in [real, imaginary].into_iter().enumerate() {
        if !input.next_item()? {
            return Err(COUNT.broken(format!("a complex number has 2 elements, found {at}")));
        }
        part.encode(input, slot, text)?;
    }
    if input.next_item()? {
        return Err(COUNT.broken("a complex number has 2 elements, found more"));
    }
    Ok(())
}

fn pair_text(part: Num, len: usize, bytes: &[u8], out: &mut String) -> std::fmt::Result {
    let (real, imaginary) = bytes.split_at_checked(len).debug_unwrap();
    out.push('[');
    part.decode(real, out);
    out.push(',');
    part.decode(imaginary, out);
    out.push(']');
    Ok(())
}

/// Checks the type of the next token.
#[inline]
pub(crate) fn expect(input: &mut impl RecordInput, wanted: Token, what: &str) -> Result<()> {
    let found = input.peek_as(wanted)?;
    if found == wanted { Ok(()) } else { Err(not(found, what)) }
}

#[cold]
pub(super) fn not(found: Token, what: &str) -> Error {
    TYPE.broken(format!("expected {what}, found {}", found.name()))
}

#[cold]
fn out_of_range(x: f64, why: &str) -> Error {
    RANGE.broken(format!("{x:?} is {why}"))
}

#[cold]
fn no_integer(number: InputInteger, why: &str) -> Error {
    RANGE.broken(match number {
        InputInteger::Unsigned(n) => format!("{n} is {why}"),
        InputInteger::Negative(n) => format!("{n} is {why}"),
        InputInteger::Other(text) => format!("{text} is {why}"),
    })
}
