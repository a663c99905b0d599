//! Operands: elements of a component or a table, accessed by index.

use super::FIT;
use super::compute::Column;
use crate::error::{Escape as _, Result};
use crate::layout::float::decode_f64;
use crate::model::{DType, LogicalType};
use bytes::Bytes;
use half::{bf16, f16};
use holdall_collections::DebugUnwrap;

/// A number of an attribute or a table, or the default of a missing component.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Whole(i64),
    Real(f64),
}

/// Numbers in memory, with as many dimensions as expressions give subscripts.
#[derive(Debug, Clone)]
pub(super) struct Operand {
    name: String,
    shape: Vec<i64>,
    numbers: OperandNumbers,
}

#[derive(Debug, Clone)]
enum OperandNumbers {
    /// Whole numbers of this many bits, one after the other.
    Bits {
        bytes: Bytes,
        bits: u32,
        signed: bool,
        first: BitOrder,
    },
    /// Floats of whole bytes.
    Floats {
        bytes: Bytes,
        dtype: DType,
    },
    /// Small floats: the value of each bit pattern.
    Coded {
        bytes: Bytes,
        bits: u32,
        values: Vec<f64>,
    },
    Table(Vec<Number>),
    /// All elements are equal.
    Same(Number),
}

/// The order of the elements in a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum BitOrder {
    /// Starts with the low bits.
    #[default]
    Low,
    /// Starts with the high bits.
    High,
}

/// How the elements of a component are stored in its bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stored {
    /// Elements of a type.
    Typed(DType, Option<LogicalType>),
    /// Whole numbers of this many bits.
    Bits { bits: u32, signed: bool, first: BitOrder },
}

impl Operand {
    /// Creates an operand from the bytes of a component.
    ///
    /// # Errors
    /// Returns [`FIT`] if the number of bytes does not match the shape, or if the type is not numeric.
    pub(super) fn new(
        name: &str,
        shape: Vec<i64>,
        stored: &Stored,
        unit: u64,
        bytes: Bytes,
    ) -> Result<Operand> {
        let bits = match stored {
            Stored::Bits { bits, .. } => u64::from(*bits),
            Stored::Typed(dtype, None) => dtype.width() * 8,
            Stored::Typed(_, Some(logical)) => logical.bits().unwrap_or(0),
        };
        let count = shape.iter().try_fold(1u64, |n, d| n.checked_mul(u64::try_from(*d).ok()?));
        let len = count.and_then(|n| n.checked_mul(bits)).map(|bits| bits.div_ceil(8));
        // The last word may have unused bits.
        let whole = len.and_then(|len| len.checked_next_multiple_of(unit.max(1)));
        let found = bytes.len() as u64;
        if len != Some(found) && whole != Some(found) {
            let len = len.map_or("more than 2^64".to_owned(), |len| len.to_string());
            return Err(FIT.broken(format!(
                "elements of {bits} bits in the shape {shape:?} require {len} bytes, found {found}"
            )));
        }
        let numbers = match stored {
            Stored::Bits { bits, signed, first } => {
                OperandNumbers::Bits { bytes, bits: *bits, signed: *signed, first: *first }
            }
            Stored::Typed(dtype @ (DType::F64 | DType::F32 | DType::F16 | DType::Bf16), None) => {
                OperandNumbers::Floats { bytes, dtype: *dtype }
            }
            Stored::Typed(dtype, None) => {
                let signed = matches!(dtype, DType::I64 | DType::I32 | DType::I16 | DType::I8);
                OperandNumbers::Bits { bytes, bits: bits as u32, signed, first: BitOrder::Low }
            }
            Stored::Typed(dtype, Some(logical)) => {
                let values = patterns(*dtype, logical)?;
                OperandNumbers::Coded { bytes, bits: bits as u32, values }
            }
        };
        Ok(Operand { name: name.to_owned(), shape, numbers })
    }

    /// Creates an operand from a table of a description.
    pub(super) fn table(name: &str, all: Vec<Number>) -> Operand {
        let len = i64::try_from(all.len()).unwrap_or(i64::MAX);
        Operand { name: name.to_owned(), shape: vec![len], numbers: OperandNumbers::Table(all) }
    }

    /// Creates an operand for a missing component, whose elements all have the same value.
    pub(super) fn same(name: &str, shape: Vec<i64>, number: Number) -> Operand {
        Operand { name: name.to_owned(), shape, numbers: OperandNumbers::Same(number) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Returns the elements at these indices, which must be in range, or the index and the reason of the first one
    /// without a value.
    pub(super) fn take(&self, indices: &[i64]) -> Result<Column, (usize, String)> {
        let to_usize = |at: &i64| usize::try_from(*at).debug_unwrap();
        match &self.numbers {
            OperandNumbers::Same(Number::Whole(n)) => Ok(Column::Whole(vec![*n; indices.len()])),
            OperandNumbers::Same(Number::Real(x)) => Ok(Column::Real(vec![*x; indices.len()])),
            OperandNumbers::Table(all) => {
                let number = |at: &i64| all.get(to_usize(at)).copied().unwrap_or(Number::Whole(0));
                if all.iter().all(|n| matches!(n, Number::Whole(_))) {
                    let whole = |n| if let Number::Whole(n) = n { n } else { 0 };
                    return Ok(Column::Whole(indices.iter().map(|at| whole(number(at))).collect()));
                }
                let real = |n| match n {
                    Number::Whole(n) => n as f64,
                    Number::Real(x) => x,
                };
                Ok(Column::Real(indices.iter().map(|at| real(number(at))).collect()))
            }
            OperandNumbers::Floats { bytes, dtype } => {
                let width = dtype.width() as usize;
                let mut out = Vec::with_capacity(indices.len());
                for at in indices {
                    let start = to_usize(at).saturating_mul(width);
                    let one = bytes.get(start..start.saturating_add(width)).debug_unwrap();
                    out.push(float(*dtype, one));
                }
                Ok(Column::Real(out))
            }
            OperandNumbers::Coded { bytes, bits, values } => {
                let pattern = |at: &i64| bits_at(bytes, to_usize(at), *bits);
                let value = |at| values.get(pattern(at) as usize).copied().unwrap_or(f64::NAN);
                Ok(Column::Real(indices.iter().map(value).collect()))
            }
            OperandNumbers::Bits { bytes, bits, signed, first } => {
                let mut out = Vec::with_capacity(indices.len());
                for (number, at) in indices.iter().enumerate() {
                    let at = match first {
                        BitOrder::Low => to_usize(at),
                        // Reversed within each byte.
                        BitOrder::High => to_usize(at) ^ (8 / *bits).saturating_sub(1) as usize,
                    };
                    let pattern = bits_at(bytes, at, *bits);
                    let unused = 64u32.saturating_sub(*bits);
                    let n = match signed {
                        true => ((pattern << unused) as i64) >> unused,
                        false => i64::try_from(pattern).map_err(|_| {
                            let message =
                                format!("`{}` is {pattern}, which exceeds 2^63 - 1", self.name);
                            (number, message)
                        })?,
                    };
                    out.push(n);
                }
                Ok(Column::Whole(out))
            }
        }
    }
}

/// Returns element `at` of elements of 1 to 32 bits, or 64 bits, low bits first. Bits outside `bytes` are 0.
fn bits_at(bytes: &[u8], at: usize, bits: u32) -> u64 {
    let bit = (at as u64).saturating_mul(u64::from(bits));
    let start = usize::try_from(bit / 8).unwrap_or(usize::MAX);
    let rest = bytes.get(start..).debug_unwrap();
    let word = match rest.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => {
            let mut word = [0; 8];
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            u64::from_le_bytes(word)
        }
    };
    let unused = 64u32.saturating_sub(bits);
    (word >> (bit % 8)) << unused >> unused
}

/// Returns a float of this type; 0 if there are too few bytes.
fn float(dtype: DType, bytes: &[u8]) -> f64 {
    let found = match dtype {
        DType::F64 => bytes.first_chunk().map(|b| f64::from_le_bytes(*b)),
        DType::F32 => bytes.first_chunk().map(|b| f64::from(f32::from_le_bytes(*b))),
        DType::F16 => bytes.first_chunk().map(|b| f16::from_le_bytes(*b).to_f64()),
        _ => bytes.first_chunk().map(|b| bf16::from_le_bytes(*b).to_f64()),
    };
    found.unwrap_or_default()
}

/// Returns the value of each bit pattern of a small float.
fn patterns(dtype: DType, logical: &LogicalType) -> Result<Vec<f64>> {
    let name = logical.as_str().escaped();
    let none = || FIT.broken(format!("elements of {name} are not single numbers"));
    let (bits, len) = match logical.bits() {
        Some(8) => (8, 1),
        Some(6) => (6, 3),
        Some(4) => (4, 1),
        _ => return Err(none()),
    };
    let mut out = Vec::new();
    for pattern in 0..=u8::MAX >> (8 - bits) {
        let mut bytes = vec![0u8; len];
        if let Some(first) = bytes.first_mut() {
            *first = pattern;
        }
        let mut value = None;
        decode_f64(dtype, Some(logical), &bytes, |all| value = value.or(all.first().copied()))?;
        out.push(value.ok_or_else(none)?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn taken(stored: Stored, count: i64, bytes: &'static [u8]) -> Column {
        let part = Operand::new("p", vec![count], &stored, 1, Bytes::from_static(bytes)).unwrap();
        part.take(&(0..count).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn bits_come_in_either_order_and_run_over_bytes() {
        let bits = |bits, signed, first| Stored::Bits { bits, signed, first };
        let four = &[0x21, 0x43, 0x0f];
        assert_eq!(
            taken(bits(4, false, BitOrder::Low), 5, four),
            Column::Whole(vec![1, 2, 3, 4, 15])
        );
        assert_eq!(
            taken(bits(4, false, BitOrder::High), 5, four),
            Column::Whole(vec![2, 1, 4, 3, 0])
        );
        assert_eq!(
            taken(bits(4, true, BitOrder::Low), 5, four),
            Column::Whole(vec![1, 2, 3, 4, -1])
        );
        // 1, 2, 3, 4 and 5 of three bits: 101 100 011 010 001.
        assert_eq!(
            taken(bits(3, false, BitOrder::Low), 5, &[0b1101_0001, 0b0101_1000]),
            Column::Whole(vec![1, 2, 3, 4, 5])
        );
        assert_eq!(taken(bits(32, true, BitOrder::Low), 1, &[0xff; 4]), Column::Whole(vec![-1]));
        assert_eq!(taken(Stored::Typed(DType::I64, None), 1, &[0xfe; 8]).into_reals().len(), 1);
    }

    #[test]
    fn types_are_read_as_elsewhere() {
        let typed = |dtype, logical: Option<LogicalType>| Stored::Typed(dtype, logical);
        assert_eq!(taken(typed(DType::Bf16, None), 1, &[0x80, 0x3f]), Column::Real(vec![1.0]));
        let f8 = Some(LogicalType::F8E4M3Fn);
        assert_eq!(taken(typed(DType::U8, f8), 2, &[0x38, 0xb8]), Column::Real(vec![1.0, -1.0]));
        let f4 = Some(LogicalType::F4E2M1);
        assert_eq!(
            taken(typed(DType::U8, f4), 3, &[0x21, 0x07]),
            Column::Real(vec![0.5, 1.0, 6.0])
        );
        let part = Operand::new("p", vec![1], &typed(DType::U64, None), 8, vec![0xff; 8].into());
        assert!(part.unwrap().take(&[0]).is_err());
        let part =
            |stored, bytes: usize| Operand::new("p", vec![3], &stored, 1, vec![0; bytes].into());
        assert_eq!(part(typed(DType::F32, None), 11).unwrap_err().code(), "layouts/fit");
        let complex = Some(LogicalType::Complex64);
        assert_eq!(part(typed(DType::F32, complex), 24).unwrap_err().code(), "layouts/fit");
    }
}
