//! Sizes that follow from shapes, without overflow.

use super::{DType, LogicalType};

/// Elements in a tensor of `shape`: the product, 1 for a scalar; `None` when it passes `u64`.
///
/// A zero dimension makes the count 0 whatever the others are, so `[0, 2^63, 2^63]` is fine.
#[inline]
pub fn element_count(shape: &[u64]) -> Option<u64> {
    let mut count = Some(1u64);
    for &size in shape {
        if size == 0 {
            return Some(0);
        }
        count = count.and_then(|n| product(n, size));
    }
    count
}

/// `a * b`, where it fits. Small numbers, as most are, are not multiplied to 128 bits, which is slow where the machine has no such
/// multiplication.
#[inline(always)]
pub(super) fn product(a: u64, b: u64) -> Option<u64> {
    if (a | b) >> 32 == 0 { Some(a * b) } else { a.checked_mul(b) }
}

/// Bytes that `count` logical elements take when stored densely.
///
/// `Ok(None)` for an unknown logical type (nothing can be said), `Err(())` when the size passes
/// `u64` or sub-byte elements do not fill whole bytes.
#[allow(clippy::result_unit_err)]
pub fn stored_size(
    count: u64,
    dtype: DType,
    logical: Option<&LogicalType>,
) -> Result<Option<u64>, ()> {
    let bits = match logical {
        None => dtype.width() * 8,
        Some(t) => match t.bits() {
            Some(bits) => bits,
            None => return Ok(None),
        },
    };
    if bits.is_multiple_of(8) {
        return product(count, bits / 8).map(Some).ok_or(());
    }
    let total = product(count, bits).ok_or(())?;
    if total.is_multiple_of(8) { Ok(Some(total / 8)) } else { Err(()) }
}
