//! Arrays that joblib writes in the middle of a pickle, after the object that describes each:
//!
//! ```text
//! …          opcodes up to the BUILD of a `NumpyArrayWrapper`
//! [padding   one byte with its length, if the description has an alignment]
//! elements   or a pickle, if the elements are objects
//! …          the next opcodes
//! ```

use super::value::{TrackedContainers, Value};

/// The contents after the description of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Array {
    /// Elements with this total length in bytes.
    Numbers { is_aligned: bool, len: u64 },
    /// A pickle.
    Objects,
}

/// Returns `true` for the class that describes an array whose bytes follow it.
pub(super) fn is_wrapper(module: &str, name: &str) -> bool {
    name == "NumpyArrayWrapper"
        && (module == "joblib.numpy_pickle" || module.ends_with(".joblib.numpy_pickle"))
}

/// Returns what follows the description with the attributes `state`; `None` if the description is unusual.
pub(super) fn read(
    state: Value,
    kept: &TrackedContainers,
    text: &dyn Fn(Value) -> Option<String>,
) -> Option<Array> {
    let Value::Dict(state) = state else { return None };
    let state = kept.dicts.get(state as usize)?.as_ref()?;
    // If a key occurs twice, the last value counts.
    let get = |key: &str| state.iter().rev().find(|(k, _)| text(*k).as_deref() == Some(key));
    let value = |key: &str| get(key).map(|(_, value)| *value);
    let Value::Tuple { kept: shape, .. } = value("shape")? else { return None };
    let count = kept.tuples.get(shape as usize)?.iter().try_fold(1u64, |count, dim| match dim {
        Value::Int(n) => count.checked_mul(u64::try_from(*n).ok()?),
        _ => None,
    })?;
    let Value::Made { kept: dtype, .. } = value("dtype")? else { return None };
    let (arguments, dtype_state) = *kept.objects.get(dtype as usize)?;
    let Value::Tuple { kept: arguments, .. } = arguments else { return None };
    let code = text(*kept.tuples.get(arguments as usize)?.first()?)?;
    let dtype_state = match dtype_state {
        Value::Tuple { kept: state, .. } => kept.tuples.get(state as usize).map(|s| &**s),
        _ => None,
    };
    let mut parts = code.chars();
    let kind = parts.next()?;
    let digits: u64 = match parts.as_str() {
        "" if kind == '?' => 1,
        digits => digits.parse().ok()?,
    };
    let size = match kind {
        'O' => return Some(Array::Objects),
        'b' | 'i' | 'u' | 'f' | 'c' | 'M' | 'm' | '?' => digits,
        // Version, byte order, subarray, names, fields, size, alignment, flags. For strings and records, the size is
        // given there.
        'S' | 'U' | 'V' => match dtype_state {
            Some([_, _, Value::Plain, names, _, Value::Int(size), Value::Int(_), flags, ..])
                if *size >= 0 =>
            {
                // The flags of a record say whether it contains objects.
                if *names != Value::Plain && !matches!(flags, Value::Int(n) if n & 1 == 0) {
                    return None;
                }
                u64::try_from(*size).ok()?
            }
            _ => return None,
        },
        _ => return None,
    };
    let is_aligned = match value("numpy_array_alignment_bytes") {
        None | Some(Value::Plain) => false,
        Some(Value::Int(_)) => true,
        Some(_) => return None,
    };
    Some(Array::Numbers { is_aligned, len: count.checked_mul(size)? })
}
