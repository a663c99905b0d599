//! Indices of any integer type as `u64`.

use super::{INDEX_DTYPE, NEGATIVE_INDEX};
use crate::error::{Error, Result, Shown as _};
use crate::layout::{DENSE_LIMIT, Decoded, LENGTH};
use crate::limits::Limits;
use crate::model::DType;
use bytes::Bytes;
use std::ops::Range;
use std::sync::OnceLock;

/// Indices that are looked at together where they are not stored as `u64`.
const RUN: usize = 1 << 10;

/// Indices as `u64`. They stay what is stored; those that are not stored as aligned `u64` are widened when they are asked
/// for: one by one, in runs, or all of them into a copy that is kept.
#[derive(Debug, Clone)]
pub struct Indices(Stored);

#[derive(Debug, Clone)]
enum Stored {
    Made(Vec<u64>),
    /// Little-endian u64 that can be borrowed as they lie.
    Borrowed(Bytes),
    /// Little-endian integers of so many bytes, none below 0, and the copy of them.
    Other(Bytes, usize, OnceLock<Vec<u64>>),
}

impl Indices {
    /// Indices that are in memory already.
    pub(super) fn owned(indices: Vec<u64>) -> Indices {
        Indices(Stored::Made(indices))
    }

    /// Little-endian integers of `width` bytes, none below 0.
    pub(super) fn stored(bytes: Bytes, width: usize) -> Indices {
        let is_native = cfg!(target_endian = "little") && width == 8;
        if is_native && bytemuck::try_cast_slice::<u8, u64>(&bytes).is_ok() {
            return Indices(Stored::Borrowed(bytes));
        }
        Indices(Stored::Other(bytes, width, OnceLock::new()))
    }

    /// Takes a component's elements as indices.
    ///
    /// # Errors
    /// [`INDEX_DTYPE`], [`NEGATIVE_INDEX`]; [`LENGTH`] for broken elements; [`DENSE_LIMIT`] when a
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
        let is_signed = match dtype {
            DType::I64 | DType::I32 | DType::I16 | DType::I8 => true,
            DType::U64 | DType::U32 | DType::U16 | DType::U8 => false,
            _ => return Err(not_an_index(dtype.as_str())),
        };
        // The sign is the top bit of the last byte.
        let is_negative = |index: &[u8]| index.last().is_some_and(|b| b & 0x80 != 0);
        if is_signed && let Some(at) = bytes.chunks_exact(width).position(is_negative) {
            return Err(NEGATIVE_INDEX.broken(format!("index number {at} is negative")));
        }
        let indices = Indices::stored(bytes, width);
        let count = indices.len();
        if !indices.is_borrowed() && (count as u64).saturating_mul(8) > limits.decoded_len {
            let most = limits.decoded_len;
            return Err(DENSE_LIMIT.broken(format!("{count} indices as u64, at most {most} bytes")));
        }
        Ok(indices)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Stored::Made(all) => all.len(),
            Stored::Borrowed(bytes) => bytes.len() / 8,
            Stored::Other(bytes, width, _) => bytes.len().checked_div(*width).unwrap_or(0),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number `at`.
    #[inline]
    pub fn get(&self, at: usize) -> Option<u64> {
        match &self.0 {
            Stored::Made(all) => all.get(at).copied(),
            Stored::Borrowed(bytes) => word(bytes, at).map(u64::from_le_bytes),
            Stored::Other(bytes, 1, _) => bytes.get(at).map(|index| u64::from(*index)),
            Stored::Other(bytes, 2, _) => word(bytes, at).map(|b| u16::from_le_bytes(b).into()),
            Stored::Other(bytes, 4, _) => word(bytes, at).map(|b| u32::from_le_bytes(b).into()),
            Stored::Other(bytes, _, _) => word(bytes, at).map(u64::from_le_bytes),
        }
    }

    /// Those of a range, as far as there are any.
    pub fn range(&self, range: Range<usize>) -> impl Iterator<Item = u64> {
        range.map_while(|at| self.get(at))
    }

    /// All of them in one slice: a copy, which is kept, where they are not borrowed.
    pub fn as_slice(&self) -> &[u64] {
        match &self.0 {
            Stored::Made(all) => all,
            // It could be cast when it was taken, and bytes do not move.
            Stored::Borrowed(bytes) => bytemuck::try_cast_slice(bytes).unwrap_or_default(),
            Stored::Other(_, _, copy) => copy.get_or_init(|| self.range(0..self.len()).collect()),
        }
    }

    /// Hands those of a range to `look`, in runs and with the number of the first of each, until that fails.
    ///
    /// # Errors
    /// Those of `look`.
    pub fn runs<E>(
        &self,
        range: Range<usize>,
        mut look: impl FnMut(usize, &[u64]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        if !matches!(self.0, Stored::Other(..)) {
            return look(range.start, self.as_slice().get(range).unwrap_or_default());
        }
        let mut run = Vec::with_capacity(RUN);
        for start in range.clone().step_by(RUN) {
            run.clear();
            run.extend(self.range(start..range.end.min(start.saturating_add(RUN))));
            look(start, &run)?;
        }
        Ok(())
    }

    /// The first that is not below `size`, with its number.
    pub(in crate::layout) fn outside(
        &self,
        range: Range<usize>,
        size: u64,
    ) -> Option<(usize, u64)> {
        let looked = self.runs(range, |start, run| {
            let found = run.iter().enumerate().find(|(_, index)| **index >= size);
            found.map_or(Ok(()), |(at, index)| Err((start + at, *index)))
        });
        looked.err()
    }

    /// Whether they are borrowed from the component's bytes.
    pub fn is_borrowed(&self) -> bool {
        matches!(self.0, Stored::Borrowed(_))
    }
}

impl PartialEq for Indices {
    fn eq(&self, other: &Indices) -> bool {
        let len = self.len();
        len == other.len() && self.range(0..len).eq(other.range(0..len))
    }
}

/// The bytes of element number `at`.
#[inline]
fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.as_chunks().0.get(at).copied()
}

#[cold]
fn not_an_index(name: &str) -> Error {
    INDEX_DTYPE.broken(format!("the indices are {}", name.shown()))
}
