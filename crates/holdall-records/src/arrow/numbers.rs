//! Runs of numbers as arrays.

use super::element::Element;
use arrow_array::types::{self as t, ArrowPrimitiveType};
use arrow_array::{ArrayRef, BooleanArray, FixedSizeBinaryArray, PrimitiveArray};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::DataType;
use holdall_core::Error;
use holdall_schema::record::rules::BOOL_BYTE;
use std::sync::Arc;

/// Numbers that lie one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) element: Element,
    /// How many there are where their bytes are absent, or where there are less than eight bits of each.
    pub(super) count: usize,
    /// Bytes from one to the next, no fewer than one has.
    pub(super) stride: usize,
}

/// The run, by its place, and what is wrong with it.
type Outcome<T> = Result<T, (usize, Error)>;

impl Run {
    /// How many numbers these runs are.
    pub(super) fn total(self, bytes: &[Option<&[u8]>]) -> usize {
        let len = |bytes: &[u8]| match self.element.bits() < 8 {
            true => self.count,
            // The last one need not reach up to where a next one would be.
            false => bytes.len().div_ceil(self.stride.max(1)),
        };
        bytes.iter().map(|b| b.map_or(self.count, len)).sum()
    }

    /// The numbers of these runs, one after the other; of one that is absent zeros.
    ///
    /// # Errors
    /// `record/bool-byte`.
    pub(super) fn array(
        self,
        bytes: &[Option<&[u8]>],
        nulls: Option<NullBuffer>,
    ) -> Outcome<ArrayRef> {
        let values = Values { bytes, run: self, nulls };
        Ok(match self.element.own_type() {
            None => values.unknown()?,
            Some(DataType::Boolean) => values.booleans()?,
            Some(DataType::Int8) => values.of::<t::Int8Type, 1>(i8::from_le_bytes),
            Some(DataType::Int16) => values.of::<t::Int16Type, 2>(i16::from_le_bytes),
            Some(DataType::Int32) => values.of::<t::Int32Type, 4>(i32::from_le_bytes),
            Some(DataType::Int64) => values.of::<t::Int64Type, 8>(i64::from_le_bytes),
            Some(DataType::UInt8) => values.of::<t::UInt8Type, 1>(u8::from_le_bytes),
            Some(DataType::UInt16) => values.of::<t::UInt16Type, 2>(u16::from_le_bytes),
            Some(DataType::UInt32) => values.of::<t::UInt32Type, 4>(u32::from_le_bytes),
            Some(DataType::UInt64) => values.of::<t::UInt64Type, 8>(u64::from_le_bytes),
            Some(DataType::Float16) => values.of::<t::Float16Type, 2>(half::f16::from_le_bytes),
            Some(DataType::Float32) => values.of::<t::Float32Type, 4>(f32::from_le_bytes),
            Some(DataType::Float64) => values.of::<t::Float64Type, 8>(f64::from_le_bytes),
            Some(_) => {
                let times = values.numbers::<t::TimestampNanosecondType, 8>(i64::from_le_bytes);
                Arc::new(times.with_timezone("UTC"))
            }
        })
    }
}

struct Values<'v> {
    bytes: &'v [Option<&'v [u8]>],
    run: Run,
    nulls: Option<NullBuffer>,
}

impl Values<'_> {
    fn of<T: ArrowPrimitiveType, const N: usize>(
        self,
        from: impl Fn([u8; N]) -> T::Native,
    ) -> ArrayRef {
        Arc::new(self.numbers::<T, N>(from))
    }

    fn numbers<T: ArrowPrimitiveType, const N: usize>(
        self,
        from: impl Fn([u8; N]) -> T::Native,
    ) -> PrimitiveArray<T> {
        let mut out: Vec<T::Native> = Vec::with_capacity(self.run.total(self.bytes));
        for bytes in self.bytes {
            match bytes {
                Some(bytes) => out.extend(self.each::<N>(bytes).map(&from)),
                None => out.extend(std::iter::repeat_n(T::Native::default(), self.run.count)),
            }
        }
        PrimitiveArray::new(out.into(), self.nulls)
    }

    /// The bytes of each.
    fn each<'b, const N: usize>(
        &self,
        bytes: &'b [u8],
    ) -> impl Iterator<Item = [u8; N]> + use<'b, N> {
        bytes.chunks(self.run.stride.max(N)).map(|b| b.first_chunk().copied().unwrap_or([0; N]))
    }

    fn booleans(self) -> Outcome<ArrayRef> {
        let mut out = Vec::with_capacity(self.run.total(self.bytes));
        for (at, bytes) in self.bytes.iter().enumerate() {
            let Some(bytes) = bytes else {
                out.extend(std::iter::repeat_n(false, self.run.count));
                continue;
            };
            for [b] in self.each::<1>(bytes) {
                if b > 1 {
                    let message = format!("byte {b} of a boolean, not 0 or 1");
                    return Err((at, BOOL_BYTE.broken(message)));
                }
                out.push(b == 1);
            }
        }
        Ok(Arc::new(BooleanArray::new(out.into(), self.nulls)))
    }

    /// What Arrow has no type for, as its bytes; a byte for each of what takes less.
    fn unknown(self) -> Outcome<ArrayRef> {
        let (bits, width) = (self.run.element.bits(), self.run.element.width());
        let total = self.run.total(self.bytes);
        let mut out = Vec::with_capacity(total.saturating_mul(width));
        for bytes in self.bytes {
            match bytes {
                None => out.resize(out.len() + self.run.count * width, 0),
                Some(bytes) if bits < 8 => {
                    out.extend((0..self.run.count).map(|at| code(bytes, at * bits, bits)));
                }
                Some(bytes) => {
                    let each = bytes.chunks(self.run.stride.max(width));
                    each.for_each(|one| out.extend_from_slice(one.get(..width).unwrap_or(one)));
                }
            }
        }
        // 16 at most.
        let width = width as i32;
        let values = Buffer::from_vec(out);
        let made = FixedSizeBinaryArray::try_new_with_len(width, values, self.nulls, total);
        Ok(Arc::new(made.map_err(|e| (0, super::refused(e)))?))
    }
}

/// So many bits from a bit on.
fn code(bytes: &[u8], start: usize, bits: usize) -> u8 {
    let [low, high] = [0, 1].map(|next| bytes.get(start / 8 + next).copied().unwrap_or(0));
    (u16::from_le_bytes([low, high]) >> (start % 8)) as u8 & ((1 << bits) - 1)
}
