//! Arrays that joblib writes in the middle of a pickle, behind the object that describes each:
//!
//! ```text
//! …          opcodes up to the BUILD of a `NumpyArrayWrapper`
//! [padding   one byte with how many follow, where the description has an alignment]
//! elements   or a pickle, where the elements are objects
//! …          the next opcodes
//! ```

use super::value::{TrackedContainers, Value};

/// What follows the description of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Array {
    /// Elements of `len` bytes in all.
    Numbers { is_aligned: bool, len: u64 },
    /// A pickle.
    Objects,
}

/// Whether the class describes an array whose bytes follow it.
pub(super) fn is_wrapper(module: &str, name: &str) -> bool {
    name == "NumpyArrayWrapper"
        && (module == "joblib.numpy_pickle" || module.ends_with(".joblib.numpy_pickle"))
}

/// What follows the description whose attributes are `state`; `None` where that is described in an unusual way.
pub(super) fn read(
    state: Value,
    kept: &TrackedContainers,
    text: &dyn Fn(Value) -> Option<String>,
) -> Option<Array> {
    let Value::Dict(state) = state else { return None };
    let state = kept.dicts.get(state as usize)?.as_ref()?;
    // Of a key that is there twice, the last counts.
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
        // Version, byte order, subarray, names, fields, size, alignment, flags: of texts and records the size is told there.
        'S' | 'U' | 'V' => match dtype_state {
            Some([_, _, Value::Plain, names, _, Value::Int(size), Value::Int(_), flags, ..])
                if *size >= 0 =>
            {
                // A record may have objects in it, which its flags tell.
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
