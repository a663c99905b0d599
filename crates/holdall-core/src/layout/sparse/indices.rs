//! Indices of any integer type as `u64`.

use super::{INDEX_DTYPE, NEGATIVE_INDEX};
use crate::error::{Error, Result, Shown as _};
use crate::layout::{DENSE_LIMIT, Decoded, LENGTH};
use crate::limits::Limits;
use crate::model::DType;
use bytes::Bytes;

/// Indices as `u64`: borrowed where they are stored so and aligned, else a widened copy.
#[derive(Debug, Clone)]
pub struct Indices(Stored);

#[derive(Debug, Clone)]
enum Stored {
    /// Little-endian u64 that can be borrowed as they lie.
    Borrowed(Bytes),
    Widened(Vec<u64>),
}

impl Indices {
    /// Indices that are in memory already.
    pub(super) fn owned(indices: Vec<u64>) -> Indices {
        Indices(Stored::Widened(indices))
    }

    /// Takes a component's elements as indices.
    ///
    /// # Errors
    /// [`INDEX_DTYPE`], [`NEGATIVE_INDEX`]; [`LENGTH`] for broken elements; [`DENSE_LIMIT`] when the
    /// widened copy would pass [`Limits::decoded_len`].
    pub fn new(component: Decoded, limits: &Limits) -> Result<Indices> {
        let Decoded { dtype, logical_type, bytes } = component;
        if let Some(t) = logical_type {
            return Err(not_an_index(t.as_str()));
        }
        let width = dtype.width() as usize;
        if !bytes.len().is_multiple_of(width) {
            return Err(LENGTH.broken(format!("{} bytes are not whole {dtype}", bytes.len())));
        }
        if dtype == DType::I64 {
            // The sign is the top bit of the last byte of eight.
            let negative = bytes.as_chunks::<8>().0.iter().position(|b| b[7] & 0x80 != 0);
            if let Some(at) = negative {
                return Err(below_zero(at));
            }
        }
        let is_native = cfg!(target_endian = "little") && matches!(dtype, DType::U64 | DType::I64);
        if is_native && bytemuck::try_cast_slice::<u8, u64>(&bytes).is_ok() {
            return Ok(Indices(Stored::Borrowed(bytes)));
        }
        let count = bytes.len() / width;
        if (count as u64).saturating_mul(8) > limits.decoded_len {
            let most = limits.decoded_len;
            return Err(DENSE_LIMIT.broken(format!("{count} indices as u64, at most {most} bytes")));
        }
        widen(dtype, &bytes).map(Indices::owned)
    }

    /// All of them.
    pub fn as_slice(&self) -> &[u64] {
        match &self.0 {
            // It could be cast when it was taken, and bytes do not move.
            Stored::Borrowed(bytes) => bytemuck::try_cast_slice(bytes).unwrap_or_default(),
            Stored::Widened(all) => all,
        }
    }

    /// Whether they are borrowed from the component's bytes.
    pub fn is_borrowed(&self) -> bool {
        matches!(self.0, Stored::Borrowed(_))
    }
}

impl PartialEq for Indices {
    fn eq(&self, other: &Indices) -> bool {
        self.as_slice() == other.as_slice()
    }
}

fn widen(dtype: DType, bytes: &[u8]) -> Result<Vec<u64>> {
    macro_rules! all {
        ($t:ty) => {
            bytes
                .as_chunks()
                .0
                .iter()
                .enumerate()
                .map(|(at, b)| u64::try_from(<$t>::from_le_bytes(*b)).map_err(|_| below_zero(at)))
                .collect()
        };
    }
    match dtype {
        DType::I64 => all!(i64),
        DType::I32 => all!(i32),
        DType::I16 => all!(i16),
        DType::I8 => all!(i8),
        DType::U64 => all!(u64),
        DType::U32 => all!(u32),
        DType::U16 => all!(u16),
        DType::U8 => all!(u8),
        DType::F64 | DType::F32 | DType::F16 | DType::Bf16 | DType::Bool => {
            Err(not_an_index(dtype.as_str()))
        }
    }
}

#[cold]
fn below_zero(at: usize) -> Error {
    NEGATIVE_INDEX.broken(format!("index number {at} is negative"))
}

#[cold]
fn not_an_index(name: &str) -> Error {
    INDEX_DTYPE.broken(format!("the indices are {}", name.shown()))
}
