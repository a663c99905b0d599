//! Compares outputs with the expected ones, like numpy's `allclose`.
//!
//! Floats are close if `|found - expected| <= atol + rtol * |expected|`, both taken as 64-bit floats.
//! Infinities are close only to themselves; NaN is close to nothing, or to NaN if the tolerance says so.
//! Texts are compared exactly, and so are integers unless the caller of a test gives a tolerance: an index or
//! a label that is off by one is wrong, however large it is.

use crate::{TensorValue, Tolerance, ValueType};

/// The result of comparing two values.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Comparison {
    /// The reason why the values could not be compared: another type or another shape.
    pub mismatch: Option<String>,
    /// Number of elements compared.
    pub count: u64,
    /// Number of elements that are too far from the expected ones.
    pub differ: u64,
    /// The maximum of `|found - expected|`; infinite if one is infinite and the other is not the same; 0 for
    /// texts. Pairs with NaN do not count.
    pub max_abs: f64,
    /// The maximum of `|found - expected| / |expected|` over the same pairs; infinite if the difference is,
    /// and if an element that was expected to be zero is not.
    pub max_rel: f64,
    /// The first element that is too far from the expected one.
    pub first: Option<FirstMismatch>,
}

/// The first element that is too far from the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstMismatch {
    /// The index of the inner tensor in a nested one.
    pub part: Option<usize>,
    /// Index along each dimension; empty for a scalar.
    pub index: Vec<u64>,
    /// The element, as text.
    pub found: String,
    /// The expected element, as text.
    pub expected: String,
}

impl Comparison {
    /// Returns `true` if all elements are close enough.
    pub fn is_close(&self) -> bool {
        self.mismatch.is_none() && self.differ == 0
    }
}

/// Compares a model's output with the expected value.
pub fn compare(found: &TensorValue, expected: &TensorValue, tolerance: &Tolerance) -> Comparison {
    let mut out = Comparison::default();
    match (found, expected) {
        (TensorValue::Nested(found), TensorValue::Nested(expected)) => {
            if found.len() != expected.len() {
                let (found, expected) = (found.len(), expected.len());
                out.mismatch = Some(format!("{found} tensors, expected {expected}"));
                return out;
            }
            for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                one(found, expected, tolerance, Some(at), &mut out);
            }
        }
        (found, expected) => one(found, expected, tolerance, None, &mut out),
    }
    out
}

fn one(
    found: &TensorValue,
    expected: &TensorValue,
    tolerance: &Tolerance,
    part: Option<usize>,
    out: &mut Comparison,
) {
    let say = |v: &TensorValue| match (v.ty(), v.shape()) {
        (Some(ty), Some(shape)) => format!("{} of shape {shape:?}", ty.as_str()),
        _ => "a nested tensor".to_owned(),
    };
    if found.ty() != expected.ty() || found.shape() != expected.shape() || found.shape().is_none() {
        let prefix = part.map_or(String::new(), |at| format!("tensor {at}: "));
        out.mismatch.get_or_insert(format!("{prefix}{}, expected {}", say(found), say(expected)));
        return;
    }
    match (found, expected) {
        (TensorValue::Strings { data: a, shape }, TensorValue::Strings { data: b, .. }) => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                out.note(a == b, part, at, shape, || (format!("{a:?}"), format!("{b:?}")));
            }
        }
        (TensorValue::Numbers { ty, data: a, shape }, TensorValue::Numbers { data: b, .. }) => {
            let at = ElementLocation { part, shape };
            match ty {
                ValueType::Float32 => {
                    let text = |x| f32::from_le_bytes(x).to_string();
                    floats(a, b, tolerance, &at, out, |x| f32::from_le_bytes(x).into(), text);
                }
                ValueType::Float64 => {
                    let text = |x| f64::from_le_bytes(x).to_string();
                    floats(a, b, tolerance, &at, out, f64::from_le_bytes, text);
                }
                ValueType::Int8 => {
                    integers(a, b, tolerance, &at, out, |x| i8::from_le_bytes(x).into())
                }
                ValueType::Int16 => {
                    integers(a, b, tolerance, &at, out, |x| i16::from_le_bytes(x).into())
                }
                ValueType::Int32 => {
                    integers(a, b, tolerance, &at, out, |x| i32::from_le_bytes(x).into())
                }
                ValueType::Int64 => {
                    integers(a, b, tolerance, &at, out, |x| i64::from_le_bytes(x).into())
                }
                ValueType::Uint8 => {
                    integers(a, b, tolerance, &at, out, |x| u8::from_le_bytes(x).into())
                }
                ValueType::Uint16 => {
                    integers(a, b, tolerance, &at, out, |x| u16::from_le_bytes(x).into())
                }
                ValueType::Uint32 => {
                    integers(a, b, tolerance, &at, out, |x| u32::from_le_bytes(x).into())
                }
                ValueType::Uint64 => {
                    integers(a, b, tolerance, &at, out, |x| u64::from_le_bytes(x).into())
                }
                ValueType::String => {}
            }
        }
        _ => {}
    }
}

/// The tensor that the elements belong to.
struct ElementLocation<'a> {
    part: Option<usize>,
    shape: &'a [u64],
}

fn floats<const W: usize>(
    a: &[u8],
    b: &[u8],
    tolerance: &Tolerance,
    location: &ElementLocation<'_>,
    out: &mut Comparison,
    read: impl Fn([u8; W]) -> f64,
    text: impl Fn([u8; W]) -> String,
) {
    let (a, b) = (a.as_chunks::<W>().0, b.as_chunks::<W>().0);
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        let (x, y) = (read(*a), read(*b));
        if x.is_infinite() || y.is_infinite() {
            if x != y && !x.is_nan() && !y.is_nan() {
                // The expected number is finite, so the relative error is infinite too; infinity divided by
                // infinity would be NaN.
                out.error(f64::INFINITY, 1.0);
            }
        } else if !x.is_nan() && !y.is_nan() {
            out.error((x - y).abs(), y.abs());
        }
        let close = is_close(x, y, tolerance);
        out.note(close, location.part, at, location.shape, || (text(*a), text(*b)));
    }
}

/// Returns `true` if the numbers are close, like numpy's `isclose`; `rtol` is relative to `expected`.
fn is_close(found: f64, expected: f64, tolerance: &Tolerance) -> bool {
    if found.is_nan() || expected.is_nan() {
        return tolerance.equal_nan && found.is_nan() && expected.is_nan();
    }
    if found.is_infinite() || expected.is_infinite() {
        return found == expected;
    }
    found == expected
        || (found - expected).abs() <= tolerance.atol + tolerance.rtol * expected.abs()
}

fn integers<const W: usize>(
    a: &[u8],
    b: &[u8],
    tolerance: &Tolerance,
    location: &ElementLocation<'_>,
    out: &mut Comparison,
    read: impl Fn([u8; W]) -> i128,
) {
    let (a, b) = (a.as_chunks::<W>().0, b.as_chunks::<W>().0);
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        let (x, y) = (read(*a), read(*b));
        if x != y {
            out.error(x.abs_diff(y) as f64, y.unsigned_abs() as f64);
        }
        let off = x.abs_diff(y) as f64;
        let most = tolerance.atol + tolerance.rtol * y.unsigned_abs() as f64;
        let close = x == y || (tolerance.integers && off <= most);
        out.note(close, location.part, at, location.shape, || (x.to_string(), y.to_string()));
    }
}

impl Comparison {
    fn error(&mut self, abs: f64, magnitude: f64) {
        self.max_abs = self.max_abs.max(abs);
        if abs > 0.0 {
            self.max_rel = self.max_rel.max(abs / magnitude);
        }
    }

    fn note(
        &mut self,
        close: bool,
        part: Option<usize>,
        at: usize,
        shape: &[u64],
        texts: impl FnOnce() -> (String, String),
    ) {
        self.count = self.count.saturating_add(1);
        if close {
            return;
        }
        self.differ = self.differ.saturating_add(1);
        if self.first.is_none() {
            let (found, expected) = texts();
            let at = u64::try_from(at).unwrap_or(u64::MAX);
            self.first = Some(FirstMismatch { part, index: index_of(at, shape), found, expected });
        }
    }
}

/// Returns the index along each dimension of element `at` in C order.
fn index_of(mut at: u64, shape: &[u64]) -> Vec<u64> {
    let mut out = vec![0; shape.len()];
    for (coordinate, size) in out.iter_mut().zip(shape).rev() {
        *coordinate = at.checked_rem(*size).unwrap_or(0);
        at = at.checked_div(*size).unwrap_or(0);
    }
    out
}
