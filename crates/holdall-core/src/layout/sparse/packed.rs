//! Lengths of zTensor 0.1's sparse tensors, which have one component.

use crate::model::{DType, Layout};

/// Returns the bytes before the records of a packed tensor, and the bytes per value. By rows, these are rows + 1
/// pointers, and a column and a value; by coordinates 0, and the coordinates and a value.
fn packed_parts(layout: &Layout, shape: &[u64], dtype: DType) -> Option<(u64, u64)> {
    const INDEX: u64 = 8;
    match layout {
        Layout::PackedCsr => {
            let indptr = shape.first()?.checked_add(1)?.checked_mul(INDEX)?;
            Some((indptr, dtype.width().checked_add(INDEX)?))
        }
        _ => {
            let coords = u64::try_from(shape.len()).ok()?.checked_mul(INDEX)?;
            Some((0, coords.checked_add(dtype.width())?))
        }
    }
}

/// Returns the bytes of a packed tensor of `count` values.
pub fn packed_len(layout: &Layout, shape: &[u64], dtype: DType, count: u64) -> Option<u64> {
    let (before, each) = packed_parts(layout, shape, dtype)?;
    count.checked_mul(each)?.checked_add(before)
}

/// Returns the number of values of a packed tensor of `len` bytes, or `None` if that is not a whole number.
pub fn packed_count(layout: &Layout, shape: &[u64], dtype: DType, len: u64) -> Option<u64> {
    let (before, each) = packed_parts(layout, shape, dtype)?;
    let records = len.checked_sub(before)?;
    records.is_multiple_of(each).then(|| records.checked_div(each)).flatten()
}
