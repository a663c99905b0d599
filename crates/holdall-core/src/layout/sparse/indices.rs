//! Indices of any integer type, read as `u64`.

use super::{INDEX_DTYPE, NEGATIVE_INDEX};
use crate::error::{Error, Escape as _, Result};
use crate::layout::{DENSE_LIMIT, Decoded, LENGTH};
use crate::limits::Limits;
use crate::model::DType;
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use std::ops::Range;
use std::sync::OnceLock;

/// The number of indices that are converted at once, if they are not stored as `u64`.
const RUN: usize = 1 << 10;

/// Indices, read as `u64`. The stored bytes are kept. Indices that are not stored as aligned `u64` are widened on
/// access: one by one, in runs, or all of them into a copy that is kept.
#[derive(Debug, Clone)]
pub struct Indices(Stored);

#[derive(Debug, Clone)]
enum Stored {
    Made(Vec<u64>),
    /// Aligned little-endian u64, which can be borrowed.
    Borrowed(Bytes),
    /// Non-negative little-endian integers of this many bytes, and their widened copy.
    Other(Bytes, usize, OnceLock<Vec<u64>>),
}

impl Indices {
    /// Creates indices from a vector.
    pub(super) fn owned(indices: Vec<u64>) -> Indices {
        Indices(Stored::Made(indices))
    }

    /// Creates indices from non-negative little-endian integers of `width` bytes.
    pub(super) fn stored(bytes: Bytes, width: usize) -> Indices {
        let is_native = cfg!(target_endian = "little") && width == 8;
        if is_native && bytemuck::try_cast_slice::<u8, u64>(&bytes).is_ok() {
            return Indices(Stored::Borrowed(bytes));
        }
        Indices(Stored::Other(bytes, width, OnceLock::new()))
    }

    /// Creates indices from the elements of a component.
    ///
    /// # Errors
    /// Returns [`INDEX_DTYPE`] if the elements are not integers, [`NEGATIVE_INDEX`] if one is negative, [`LENGTH`] if
    /// the bytes are not whole elements, and [`DENSE_LIMIT`] if a widened copy would exceed [`Limits::decoded_len`].
    pub fn new(component: Decoded, limits: &Limits) -> Result<Indices> {
        let Decoded { dtype, logical_type, bytes } = component;
        if let Some(t) = logical_type {
            return Err(not_an_index(t.as_str()));
        }
        let width = dtype.width() as usize;
        if !bytes.len().is_multiple_of(width) {
            return Err(LENGTH.broken(format!(
                "{} bytes are not a multiple of the width of {dtype}",
                bytes.len()
            )));
        }
        let is_signed = match dtype {
            DType::I64 | DType::I32 | DType::I16 | DType::I8 => true,
            DType::U64 | DType::U32 | DType::U16 | DType::U8 => false,
            _ => return Err(not_an_index(dtype.as_str())),
        };
        // The sign is the top bit of the last byte.
        let is_negative = |index: &[u8]| index.last().is_some_and(|b| b & 0x80 != 0);
        if is_signed && let Some(at) = bytes.chunks_exact(width).position(is_negative) {
            return Err(NEGATIVE_INDEX.broken(format!("index {at} is negative")));
        }
        let indices = Indices::stored(bytes, width);
        let count = indices.len();
        if !indices.is_borrowed() && (count as u64).saturating_mul(8) > limits.decoded_len {
            let most = limits.decoded_len;
            return Err(DENSE_LIMIT
                .broken(format!("{count} indices as u64 exceed the limit of {most} bytes")));
        }
        Ok(indices)
    }

    /// Returns the number of indices.
    pub fn len(&self) -> usize {
        match &self.0 {
            Stored::Made(all) => all.len(),
            Stored::Borrowed(bytes) => bytes.len() / 8,
            Stored::Other(bytes, width, _) => bytes.len().checked_div(*width).unwrap_or(0),
        }
    }

    /// Returns `true` if there are no indices.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the index at position `at`.
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

    /// Returns the indices in a range, as far as they exist.
    pub fn range(&self, range: Range<usize>) -> impl Iterator<Item = u64> {
        range.map_while(|at| self.get(at))
    }

    /// Returns all indices as a slice: a copy, which is kept, if they cannot be borrowed.
    pub fn as_slice(&self) -> &[u64] {
        match &self.0 {
            Stored::Made(all) => all,
            // The alignment was checked on creation, and the bytes do not move.
            Stored::Borrowed(bytes) => bytemuck::try_cast_slice(bytes).unwrap_or_default(),
            Stored::Other(_, _, copy) => copy.get_or_init(|| self.range(0..self.len()).collect()),
        }
    }

    /// Calls `look` with runs of the indices in a range, and the position of the first index in each run, until `look`
    /// returns an error.
    ///
    /// # Errors
    /// Returns the first error of `look`.
    pub fn runs<E>(
        &self,
        range: Range<usize>,
        mut look: impl FnMut(usize, &[u64]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        if !matches!(self.0, Stored::Other(..)) {
            return look(range.start, self.as_slice().get(range).debug_unwrap());
        }
        let mut run = Vec::with_capacity(RUN);
        for start in range.clone().step_by(RUN) {
            run.clear();
            run.extend(self.range(start..range.end.min(start.saturating_add(RUN))));
            look(start, &run)?;
        }
        Ok(())
    }

    /// Returns the first index that is not below `size`, with its position.
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

    /// Returns `true` if the indices are borrowed from the component's bytes.
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

/// Returns the bytes of the element at index `at`.
#[inline]
fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.as_chunks().0.get(at).copied()
}

#[cold]
fn not_an_index(name: &str) -> Error {
    INDEX_DTYPE.broken(format!("expected integer indices, found {}", name.escaped()))
}
