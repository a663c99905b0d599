//! Sizes of tensors, computed without overflow.

use super::{DType, LogicalType};

/// Returns the number of elements in a tensor of `shape`: the product of the dimensions, 1 for a scalar, or `None` if
/// it exceeds `u64`.
///
/// A zero dimension makes the count 0 whatever the others are, so `[0, 2^63, 2^63]` is valid.
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

/// Returns `a * b`, or `None` if it overflows. Small numbers, the common case, avoid the 128-bit multiplication, which
/// is slow on machines without an instruction for it.
#[inline(always)]
pub(super) fn product(a: u64, b: u64) -> Option<u64> {
    if (a | b) >> 32 == 0 { Some(a * b) } else { a.checked_mul(b) }
}

/// Returns the bytes that `count` logical elements take in dense storage.
///
/// Returns `Ok(None)` for an unknown logical type, and `Err(())` if the size exceeds `u64` or the elements do not fill
/// a whole number of bytes.
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
