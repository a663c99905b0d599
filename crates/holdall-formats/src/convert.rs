//! Converts elements from one type to another with a chain of named converters.

use crate::element::stored_as;
use holdall_collections::DebugUnwrap;
use holdall_core::layout::cast::{Caster, FloatType, Overflow};
use holdall_core::{Error, Result};
use holdall_schema::evolve::rules::{NO_CONVERTER, VALUE};
use holdall_schema::{Chain, TensorDType};

/// Converts elements and appends them to `out`. `bytes` are whole elements; `first` is the index of the first one in
/// its tensor, for error messages.
///
/// # Errors
/// Returns `evolve/no-converter` if the chain cannot convert `from` to `to`, and `evolve/value` if it cannot convert a
/// value.
pub fn convert_elements(
    chain: &Chain,
    first: u64,
    (from, bytes): (TensorDType, &[u8]),
    (to, out): (TensorDType, &mut Vec<u8>),
) -> Result<()> {
    let can_convert = |(a, b): &(_, _)| chain.can_convert(*a, *b);
    let Some((old, new)) = from.scalar().zip(to.scalar()).filter(can_convert) else {
        let message = format!("`{chain}` cannot convert elements of {from} to {to}");
        return Err(NO_CONVERTER.broken(message));
    };
    let width = usize::try_from(old.size()).unwrap_or(usize::MAX).max(1);
    let count = bytes.len().checked_div(width).unwrap_or(0);
    let (dtype, logical) = stored_as(from);
    let (stored, stored_logical) = stored_as(to);
    let is_float = FloatType::from_dtype(dtype, logical.as_ref()).is_some();
    let float = FloatType::from_dtype(stored, stored_logical.as_ref());
    if let (true, true, Some(to)) = (chain.is_cast(), is_float, float) {
        let overflow = if chain.saturates() { Overflow::Saturate } else { Overflow::Infinite };
        let mut caster = Caster::new(dtype, logical, count as u64, to, overflow);
        caster.push(bytes, out)?;
        let lost = caster.finish(out)?;
        return match lost > 0 && !chain.saturates() {
            true => Err(out_of_float_range(lost, to)),
            false => Ok(()),
        };
    }
    let start = out.len();
    let len = usize::try_from(new.size()).ok().and_then(|size| size.checked_mul(count));
    let end = len.and_then(|len| start.checked_add(len));
    let end = end.ok_or_else(|| VALUE.broken(format!("{count} elements of {to}")))?;
    out.resize(end, 0);
    chain.elements(first, (old, bytes), (new, out.get_mut(start..).debug_unwrap()))
}

/// Returns the error for numbers that are out of range for a float type.
#[cold]
pub fn out_of_float_range(lost: u64, to: FloatType) -> Error {
    let e = VALUE.broken(format!("at least {lost} numbers are out of range for {to}"));
    e.with_hint("`cast(saturate)` converts them to the nearest finite number")
}
