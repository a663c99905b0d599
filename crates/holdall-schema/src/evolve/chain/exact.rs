//! Converts numbers between kinds without going through decimals.

use super::{Chain, Exact, Step};
use crate::error::{Error, Result};
use crate::evolve::number::{double, float_of, single};
use crate::evolve::rules::VALUE;
use crate::kinds::Scalar;
use crate::record::float::{self, SmallFloat};
use crate::record::number::le;
use serde_json::{Number, Value, json};
use std::fmt;

impl Chain {
    /// Converts elements of one kind to another. `bytes` and `out` have the same number of elements.
    ///
    /// # Errors
    /// Returns `evolve/value` with the index of the element; the first element of `bytes` has the index `first`.
    pub fn elements(
        &self,
        first: u64,
        (from, bytes): (Scalar, &[u8]),
        (to, out): (Scalar, &mut [u8]),
    ) -> Result<()> {
        let width = |scalar: Scalar| usize::try_from(scalar.size()).unwrap_or(1);
        let slots = out.chunks_exact_mut(width(to));
        for (at, (element, slot)) in (first..).zip(bytes.chunks_exact(width(from)).zip(slots)) {
            let made = Exact::read(from, element)
                .and_then(|number| self.steps.iter().try_fold(number, |n, step| step.number(n)))
                .and_then(|number| number.write(to, self.saturates(), slot));
            made.map_err(|e| e.within(format!("element {at}")))?;
        }
        Ok(())
    }
}

impl Step {
    pub(super) fn takes_numbers(&self) -> bool {
        match self {
            Step::Parse | Step::Text | Step::Split(_) | Step::Join(..) | Step::Member(_) => false,
            Step::Const(value) => scalar(value).is_some(),
            Step::Map(pairs, rest) => {
                pairs.iter().map(|p| &p.1).chain(rest).all(|v| scalar(v).is_some())
            }
            _ => true,
        }
    }

    pub(super) fn number(&self, number: Exact) -> Result<Exact> {
        Ok(match self {
            Step::Cast(_) | Step::Reshape => number,
            Step::Round => match number {
                Exact::Float(x) => Exact::whole(x.round_ties_even()).unwrap_or(number),
                whole => whole,
            },
            Step::Scale(by) => number.with(*by, i128::checked_mul, |a, b| a * b)?,
            Step::Offset(by) => number.with(*by, i128::checked_add, |a, b| a + b)?,
            Step::Clamp(low, high) => match number.float() {
                x if x < low.float() => *low,
                x if x > high.float() => *high,
                _ => number,
            },
            Step::Map(pairs, rest) => {
                let found = pairs
                    .iter()
                    .find(|(old, _)| scalar(&old.value).is_some_and(|old| old.is_same(number)));
                let made = found.map(|(_, new)| new).or(rest.as_ref());
                let Some(made) = made else {
                    return Err(VALUE.broken(format!("`map` has no entry for {number}")));
                };
                scalar(made).ok_or_else(not_a_number)?
            }
            Step::Const(value) => scalar(value).ok_or_else(not_a_number)?,
            _ => {
                return Err(
                    VALUE.broken("this converter only applies to text, but the value is a number")
                );
            }
        })
    }
}

#[cold]
fn not_a_number() -> Error {
    VALUE.broken("expected a number, found another value")
}

/// Reads a number, or a boolean as 0 or 1.
fn scalar(value: &Value) -> Option<Exact> {
    match value {
        Value::Bool(is) => Some(Exact::Int((*is).into())),
        value => Exact::from_json(value),
    }
}

impl Exact {
    /// Reads a JSON number (5.2).
    pub(super) fn from_json(value: &Value) -> Option<Exact> {
        match value {
            Value::Number(n) => {
                let whole = n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from));
                whole.map(Exact::Int).or_else(|| n.as_f64().map(Exact::Float))
            }
            Value::Object(object) if object.len() == 1 => {
                Some(Exact::Float(match object.get("$float")?.as_str()? {
                    "nan" => f64::NAN,
                    "inf" => f64::INFINITY,
                    "-inf" => f64::NEG_INFINITY,
                    _ => return None,
                }))
            }
            _ => None,
        }
    }

    pub(super) fn value(self) -> Result<Value> {
        Ok(match self {
            Exact::Int(n) => match (i64::try_from(n), u64::try_from(n)) {
                (Ok(n), _) => n.into(),
                (_, Ok(n)) => n.into(),
                _ => return Err(VALUE.broken(format!("{n} has more than 64 bits"))),
            },
            Exact::Float(x) => match Number::from_f64(x) {
                Some(number) => number.into(),
                None if x.is_nan() => json!({"$float": "nan"}),
                None if x > 0.0 => json!({"$float": "inf"}),
                None => json!({"$float": "-inf"}),
            },
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "to nearest, as numbers of JSON are")]
    pub(super) fn float(self) -> f64 {
        match self {
            Exact::Int(n) => n as f64,
            Exact::Float(x) => x,
        }
    }

    pub(super) fn is_same(self, other: Exact) -> bool {
        match (self, other) {
            (Exact::Int(a), Exact::Int(b)) => a == b,
            (a, b) => a.float() == b.float() || (a.float().is_nan() && b.float().is_nan()),
        }
    }

    /// Combines two numbers: two integers to an integer, otherwise to a float.
    fn with(
        self,
        other: Exact,
        whole: fn(i128, i128) -> Option<i128>,
        float: fn(f64, f64) -> f64,
    ) -> Result<Exact> {
        match (self, other) {
            (Exact::Int(a), Exact::Int(b)) => whole(a, b)
                .map(Exact::Int)
                .ok_or_else(|| VALUE.broken("the result is an integer of more than 128 bits")),
            (a, b) => Ok(Exact::Float(float(a.float(), b.float()))),
        }
    }

    /// Returns the integer that a float represents, if it is whole.
    #[expect(clippy::cast_possible_truncation, reason = "found to be in reach, and whole")]
    fn whole(x: f64) -> Option<Exact> {
        (x.abs() < 2f64.powi(100) && x.trunc() == x).then_some(Exact::Int(x as i128))
    }

    /// Reads the number of one element.
    fn read(from: Scalar, bytes: &[u8]) -> Result<Exact> {
        Ok(match from {
            Scalar::Boolean => match bytes {
                [byte @ (0 | 1)] => Exact::Int((*byte).into()),
                _ => {
                    return Err(
                        crate::record::rules::BOOL_BYTE.broken("a boolean is neither 0 nor 1")
                    );
                }
            },
            Scalar::Int8 => Exact::Int(i8::from_le_bytes(le(bytes)).into()),
            Scalar::Int16 => Exact::Int(i16::from_le_bytes(le(bytes)).into()),
            Scalar::Int32 => Exact::Int(i32::from_le_bytes(le(bytes)).into()),
            Scalar::Int64 | Scalar::Timestamp => Exact::Int(i64::from_le_bytes(le(bytes)).into()),
            Scalar::Uint8 => Exact::Int(u8::from_le_bytes(le(bytes)).into()),
            Scalar::Uint16 => Exact::Int(u16::from_le_bytes(le(bytes)).into()),
            Scalar::Uint32 => Exact::Int(u32::from_le_bytes(le(bytes)).into()),
            Scalar::Uint64 => Exact::Int(u64::from_le_bytes(le(bytes)).into()),
            Scalar::Complex64 | Scalar::Complex128 => {
                return Err(VALUE.broken("converters do not support complex numbers"));
            }
            float => Exact::Float(float_of(float, bytes)),
        })
    }

    /// Writes the number as an element of the kind `to`.
    fn write(self, to: Scalar, saturates: bool, out: &mut [u8]) -> Result<()> {
        if let Some((low, high)) = ends(to) {
            let whole = match self {
                Exact::Int(n) => Some(n),
                Exact::Float(x) => match Exact::whole(x) {
                    Some(Exact::Int(n)) => Some(n),
                    _ if saturates && x > 2f64.powi(99) => Some(i128::MAX),
                    _ if saturates && x < -(2f64.powi(99)) => Some(i128::MIN),
                    _ => None,
                },
            };
            let Some(n) = whole else {
                let e = VALUE
                    .broken(format!("{self} is not a whole number, as {} requires", to.as_str()));
                return Err(e.with_hint("use `round` to round it"));
            };
            let n = if saturates { n.clamp(low, high) } else { n };
            if n < low || n > high {
                return Err(self.beyond(to));
            }
            for (slot, byte) in out.iter_mut().zip(n.to_le_bytes()) {
                *slot = byte;
            }
            return Ok(());
        }
        let x = self.float();
        let Some((kind, largest, has_infinities)) = float_kind(to) else {
            let what = to.as_str();
            return Err(VALUE.broken(format!("a number cannot be converted to a {what}")));
        };
        let is_kept = x.is_nan() || (x.is_infinite() && has_infinities);
        let x = if saturates && !is_kept { x.clamp(-largest, largest) } else { x };
        let bytes = match (kind, to) {
            (Some(kind), _) => {
                u64::from(kind.code(x).ok_or_else(|| self.beyond(to))?).to_le_bytes()
            }
            (None, Scalar::Float64) => double(x).to_le_bytes(),
            (None, _) => {
                let made = single(x);
                if made.is_infinite() && x.is_finite() {
                    return Err(self.beyond(to));
                }
                u64::from(made.to_bits()).to_le_bytes()
            }
        };
        for (slot, byte) in out.iter_mut().zip(bytes) {
            *slot = byte;
        }
        Ok(())
    }

    #[cold]
    fn beyond(self, to: Scalar) -> Error {
        let e = VALUE.broken(format!("{self} is out of range for {}", to.as_str()));
        e.with_hint("`cast(saturate)` converts it to the nearest number of the type")
    }
}

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exact::Int(n) => write!(f, "{n}"),
            Exact::Float(x) => write!(f, "{x}"),
        }
    }
}

/// Returns the lowest and the highest integer of a kind.
fn ends(scalar: Scalar) -> Option<(i128, i128)> {
    Some(match scalar {
        Scalar::Boolean => (0, 1),
        Scalar::Int8 => (i8::MIN.into(), i8::MAX.into()),
        Scalar::Int16 => (i16::MIN.into(), i16::MAX.into()),
        Scalar::Int32 => (i32::MIN.into(), i32::MAX.into()),
        Scalar::Int64 | Scalar::Timestamp => (i64::MIN.into(), i64::MAX.into()),
        Scalar::Uint8 => (0, u8::MAX.into()),
        Scalar::Uint16 => (0, u16::MAX.into()),
        Scalar::Uint32 => (0, u32::MAX.into()),
        Scalar::Uint64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// Returns, for a kind of float, its codec if it has up to 16 bits, its largest number, and whether it has infinities.
fn float_kind(scalar: Scalar) -> Option<(Option<SmallFloat>, f64, bool)> {
    let small = |kind: SmallFloat| Some((Some(kind), kind.largest(), kind.has_infinities()));
    match scalar {
        Scalar::Float16 => small(float::F16),
        Scalar::BFloat16 => small(float::BF16),
        Scalar::Float8E4M3 => small(float::F8_E4M3),
        Scalar::Float8E5M2 => small(float::F8_E5M2),
        Scalar::Float32 => Some((None, f32::MAX.into(), true)),
        Scalar::Float64 => Some((None, f64::MAX, true)),
        _ => None,
    }
}
