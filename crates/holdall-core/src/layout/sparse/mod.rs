//! Sparse matrices by compressed rows, and sparse tensors by coordinates.
//!
//! Creating a view checks its indices: there is one per value of each kind, they are in range, and row pointers ascend
//! from 0 to the number of values. Entries may come in any order, and several may have the same coordinates: their values are
//! added (as in PyTorch and SciPy), or joined by "or" for bool.
//!
//! The layouts `sparse_csr` and `sparse_coo` store each kind of index in its own component. zTensor 0.1 packs
//! everything into one component: for rows the pointers, the columns, then the values; for coordinates one record after
//! the other, each with its coordinates (u64) and its value.
//!
//! In the layouts `sparse_blocks` and `sparse_hybrid`, entries are arrays: see [`tiles`].

mod coo;
mod coords;
mod csr;
mod indices;
mod matrices;
mod packed;
mod sum;
pub mod tiles;

pub use coo::{Coo, CooEntry};
pub use csr::{Csr, CsrEntry};
pub use indices::Indices;
pub use packed::{packed_count, packed_len};
pub use tiles::Tiles;

use super::dense::Dense;
use super::{DENSE_LIMIT, Decoded, ELEMENT_SIZE, LENGTH, WRONG_LAYOUT};
use crate::error::{Error, Escape as _, Result};
use crate::limits::Limits;
use crate::model::{DType, LogicalType, Role, TensorInfo, element_count};
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use std::ops::Range;

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The shape is not possible for the layout.
    pub RANK: Malformed "sparse/rank" "A tensor in compressed rows has two dimensions.";
    /// The attributes are missing or invalid.
    pub ATTRIBUTE: Malformed "sparse/attribute"
        "The attributes of a tensor whose entries are arrays describe these: `compressed`, `block` and `batch`, or `coordinates`.";
    /// Indices are not integers.
    pub INDEX_DTYPE: Malformed "sparse/index-dtype" "Indices are integers of 8 to 64 bits.";
    /// An index is negative.
    pub NEGATIVE_INDEX: Malformed "sparse/negative-index" "No index is negative.";
    /// The numbers of indices and values do not match.
    pub COUNTS: Malformed "sparse/counts"
        "There is one index (or one per dimension) for each value, and one row pointer more than \
         rows.";
    /// The first row pointer is not 0.
    pub INDPTR_START: Malformed "sparse/indptr-start" "The first row pointer is 0.";
    /// A row ends before it starts.
    pub INDPTR_ORDER: Malformed "sparse/indptr-order" "Row pointers never decrease.";
    /// The last row pointer is wrong.
    pub INDPTR_END: Malformed "sparse/indptr-end" "The last row pointer is the number of values.";
    /// An index is outside the shape.
    pub INDEX_BOUNDS: Malformed "sparse/index-bounds" "Every index lies inside the shape.";
    /// The length of a packed component is impossible.
    pub PACKED: Malformed "sparse/packed"
        "A packed sparse component has exactly the size that its shape and number of entries require.";
    /// Two values at the same coordinates cannot be added.
    pub SUM: Unsupported "sparse/sum"
        "Values at the same position have a type that this version can add.";
}

/// Returns the decoded bytes of a component that the layout requires.
fn component(
    info: &TensorInfo,
    get: &impl Fn(&Role) -> Result<Bytes>,
    role: Role,
) -> Result<Decoded> {
    let Some(c) = info.component(&role) else {
        let message = format!("missing component `{role}`");
        return Err(crate::model::builder::MISSING_COMPONENT.broken(message));
    };
    let bytes = get(&role)?;
    Ok(Decoded { dtype: c.dtype, logical_type: c.logical_type, bytes })
}

#[cold]
fn wrong_layout(info: &TensorInfo, wanted: &str) -> Error {
    let layout = info.layout().as_str().escaped();
    WRONG_LAYOUT.broken(format!("expected {wanted}, found the layout `{layout}`"))
}

/// Returns the bytes of one value. Values of an unknown logical type are treated as storage elements.
fn value_width(dtype: DType, logical: Option<&LogicalType>) -> Result<usize> {
    let bits = logical.and_then(LogicalType::bits).unwrap_or(dtype.width() * 8);
    if bits < 8 {
        let message = format!("unsupported sparse values of {bits} bits: several share a byte");
        return Err(ELEMENT_SIZE.broken(message));
    }
    Ok((bits / 8) as usize)
}

/// Returns the values as a tensor of one dimension, and their number.
fn values_of(values: Decoded) -> Result<(Dense, usize)> {
    let width = value_width(values.dtype, values.logical_type.as_ref())?;
    let len = values.bytes.len();
    if !len.is_multiple_of(width) {
        let message = format!("{len} bytes are not a multiple of {width}, the bytes of a value");
        return Err(COUNTS.broken(message).in_component(Role::Values));
    }
    let count = len / width;
    let shape = vec![count as u64];
    Ok((Dense::new(values.dtype, values.logical_type, shape, values.bytes), count))
}

/// Returns the row-major indices of the elements of a dense tensor that are not all zero bits, and these elements.
fn stored_of(dense: &Dense) -> Result<(Vec<u64>, Dense)> {
    let width = value_width(dense.dtype(), dense.logical_type())?;
    let count = element_count(dense.shape());
    let bytes = dense.bytes();
    if count.and_then(|n| n.checked_mul(width as u64)) != Some(bytes.len() as u64) {
        let (shape, len) = (dense.shape(), bytes.len());
        return Err(LENGTH
            .broken(format!("{len} bytes do not match shape {shape:?} of {width}-byte values")));
    }
    let (mut flat_indices, mut values) = (Vec::new(), Vec::new());
    for (flat_index, value) in (0u64..).zip(bytes.chunks_exact(width)) {
        // A negative zero has its sign bit set.
        if value.iter().any(|b| *b != 0) {
            flat_indices.push(flat_index);
            values.extend_from_slice(value);
        }
    }
    let shape = vec![flat_indices.len() as u64];
    Ok((flat_indices, Dense::new(dense.dtype(), dense.logical_type().cloned(), shape, values)))
}

/// Returns zeros for every element of `shape`.
fn zeros(shape: &[u64], width: usize, limits: &Limits) -> Result<Vec<u8>> {
    let len = element_count(shape).and_then(|n| n.checked_mul(width as u64));
    let most = limits.decoded_len;
    let Some(len) = len.filter(|&len| len <= most).and_then(|len| usize::try_from(len).ok()) else {
        let message =
            format!("shape {shape:?} of {width}-byte values exceeds the limit of {most} bytes");
        return Err(DENSE_LIMIT.broken(message));
    };
    // Tries the allocation first in a way that can fail, and then allocates such that untouched pages stay unmapped.
    if Vec::<u8>::new().try_reserve_exact(len).is_err() {
        return Err(DENSE_LIMIT.broken(format!("not enough memory for {len} bytes")));
    }
    Ok(vec![0; len])
}

/// Splits packed bytes at `at`, or returns an error if they are too short.
fn split_packed(bytes: &Bytes, at: Option<u64>) -> Result<(Bytes, Bytes)> {
    let at = at.and_then(|at| usize::try_from(at).ok()).filter(|&at| at <= bytes.len());
    match at {
        Some(at) => Ok((bytes.slice(..at), bytes.slice(at..))),
        None => {
            let message = format!("{} bytes are too short for the indices", bytes.len());
            Err(PACKED.broken(message).in_component(Role::Data))
        }
    }
}

/// Returns the dense tensor of sparse values. `flat_indices` are the row-major indices of the values.
fn scatter(
    shape: &[u64],
    values: &Dense,
    limits: &Limits,
    flat_indices: impl Iterator<Item = u64>,
) -> Result<Dense> {
    let width = value_width(values.dtype(), values.logical_type())?;
    let mut out = zeros(shape, width, limits)?;
    let all = values.bytes().chunks_exact(width).zip(flat_indices);
    scatter_into(values, width, 0, &mut out, all)?;
    let logical = values.logical_type().cloned();
    Ok(Dense::new(values.dtype(), logical, shape, out))
}

/// Stores values of `width` bytes at their positions in `out`, which contains exactly the elements that start at index
/// `first`. Values at the same coordinates are added.
fn scatter_into<'v>(
    values: &Dense,
    width: usize,
    first: u64,
    out: &mut [u8],
    all: impl Iterator<Item = (&'v [u8], u64)>,
) -> Result<()> {
    for (value, flat_index) in all {
        // Places are inside the shape, because the indices were checked.
        let cell = flat_index
            .checked_sub(first)
            .and_then(|flat_index| usize::try_from(flat_index).ok()?.checked_mul(width))
            .and_then(|start| out.get_mut(start..start.checked_add(width)?))
            .ok_or_else(|| LENGTH.broken(format!("element {flat_index} is out of range")))?;
        if cell.iter().all(|b| *b == 0) {
            cell.copy_from_slice(value);
        } else {
            sum::add(cell, value, values.dtype(), values.logical_type())?;
        }
    }
    Ok(())
}

/// Appends zeros for a range of elements to `out`, and returns them and the bytes of a value.
fn more<'o>(
    values: &Dense,
    elements: &Range<u64>,
    out: &'o mut Vec<u8>,
) -> Result<(&'o mut [u8], usize)> {
    let width = value_width(values.dtype(), values.logical_type())?;
    let count = usize::try_from(elements.end.saturating_sub(elements.start)).ok();
    let at = out.len();
    let end = count.and_then(|count| count.checked_mul(width)?.checked_add(at));
    let end = end.ok_or_else(|| LENGTH.broken("the elements do not fit in memory"))?;
    out.resize(end, 0);
    Ok((out.get_mut(at..).debug_unwrap(), width))
}
