//! Adding two values at the same coordinates.

use super::SUM;
use crate::error::{Error, Escape as _, Result};
use crate::model::{DType, LogicalType};
use half::{bf16, f16};

/// Adds `value` to `cell`, each one little-endian element: integers wrap, floats round to their own type, bools are
/// joined by "or".
pub(super) fn add(
    cell: &mut [u8],
    value: &[u8],
    dtype: DType,
    logical: Option<&LogicalType>,
) -> Result<()> {
    if let Some(t) = logical.filter(|t| !t.is_complex()) {
        return Err(no_sum(t.as_str()));
    }
    macro_rules! sum {
        ($t:ty, $add:expr) => {{
            let parts = cell.as_chunks_mut::<{ size_of::<$t>() }>().0;
            for (a, b) in parts.iter_mut().zip(value.as_chunks().0) {
                let add: fn($t, $t) -> $t = $add;
                *a = add(<$t>::from_le_bytes(*a), <$t>::from_le_bytes(*b)).to_le_bytes();
            }
        }};
    }
    match dtype {
        DType::F64 => sum!(f64, |a, b| a + b),
        DType::F32 => sum!(f32, |a, b| a + b),
        DType::F16 => sum!(f16, |a, b| f16::from_f32(a.to_f32() + b.to_f32())),
        DType::Bf16 => sum!(bf16, |a, b| bf16::from_f32(a.to_f32() + b.to_f32())),
        DType::I64 | DType::U64 => sum!(u64, u64::wrapping_add),
        DType::I32 | DType::U32 => sum!(u32, u32::wrapping_add),
        DType::I16 | DType::U16 => sum!(u16, u16::wrapping_add),
        DType::I8 | DType::U8 => sum!(u8, u8::wrapping_add),
        DType::Bool => sum!(u8, |a, b| a | b),
    }
    Ok(())
}

#[cold]
fn no_sum(name: &str) -> Error {
    SUM.broken(format!("two values of {} at the same coordinates cannot be added", name.escaped()))
}
