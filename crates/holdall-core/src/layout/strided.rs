//! Views of bytes that are not row by row: how many elements it is from one to the next, for each dimension.

use super::dense::Dense;
use super::{DENSE_LIMIT, LENGTH, WRONG_LAYOUT};
use crate::error::{Result, Shown as _};
use crate::limits::Limits;
use crate::model::{Attributes, Layout, Role, TensorInfo, Value, element_count, stored_size};
use bytes::Bytes;

/// The attribute that has the strides.
const STRIDES_KEY: &str = "strides";

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// Strides that are none.
    pub STRIDES: Malformed "strided/strides"
        "A strided tensor has an attribute `strides`, one integer for each dimension, none negative, and its elements lie inside its \
         component.";
}

/// How elements lie whose first dimension varies fastest: the attributes of such a tensor, or `None` where that is row
/// by row too. Where each is made of some, those are one more dimension, the last, and lie together.
pub fn column_major(shape: &[u64], inner: Option<u64>) -> Option<Attributes> {
    let strides = shape.iter().scan(inner.unwrap_or(1), |step, n| {
        let own = *step;
        *step = step.saturating_mul(*n);
        Some(Value::Integer(own.into()))
    });
    let strides = strides.chain(inner.map(|_| Value::Integer(1)));
    let has_order = shape.iter().filter(|n| **n > 1).count() > 1;
    has_order
        .then(|| Attributes::from_iter([(STRIDES_KEY.to_owned(), Value::Array(strides.collect()))]))
}

/// The tensor as a dense one: its elements, gathered row by row from the decoded component that `get` hands out.
///
/// # Errors
/// [`WRONG_LAYOUT`]; what `get` fails with; [`STRIDES`]; [`DENSE_LIMIT`].
pub fn to_dense(
    info: &TensorInfo,
    get: impl Fn(&Role) -> Result<Bytes>,
    limits: &Limits,
) -> Result<Dense> {
    if *info.layout() != Layout::Strided {
        let layout = info.layout().as_str().shown();
        return Err(WRONG_LAYOUT.broken(format!("the layout is `{layout}`, not strided")));
    }
    let (shape, strides) = (info.shape(), strides(info.attributes(), info.shape().len())?);
    let component = info.component(&Role::Data);
    let component = component.ok_or_else(|| STRIDES.broken("there is no component `data`"))?;
    let count = element_count(shape).unwrap_or(u64::MAX);
    let logical = component.logical_type;
    let whole = stored_size(count, component.dtype, logical.as_ref()).ok().flatten();
    let width = stored_size(1, component.dtype, logical.as_ref()).ok().flatten();
    let Some(width) = width else {
        return Err(LENGTH.broken("elements are not whole bytes"));
    };
    let Some(len) = whole.filter(|len| *len <= limits.decoded_len) else {
        let message =
            format!("{count} elements of {width} bytes, at most {} bytes", limits.decoded_len);
        return Err(DENSE_LIMIT.broken(message));
    };
    let bytes = get(&Role::Data)?;
    check(shape, &strides, width, bytes.len() as u64)?;
    // All of these are places in memory now.
    let mut out = Vec::with_capacity(len as usize);
    let mut place = vec![0u64; shape.len()];
    let width = width as usize;
    for _ in 0..count {
        let at =
            place.iter().zip(&strides).fold(0, |at, (i, stride)| at + i * stride) as usize * width;
        out.extend_from_slice(bytes.get(at..at + width).unwrap_or_default());
        for (i, n) in place.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < *n {
                break;
            }
            *i = 0;
        }
    }
    Ok(Dense::new(component.dtype, logical, shape.to_vec(), out))
}

/// Whether elements of `width` bytes, so placed, lie inside of `len` bytes.
fn check(shape: &[u64], strides: &[u64], width: u64, len: u64) -> Result<()> {
    let last = shape.iter().zip(strides).try_fold(0u64, |last, (n, stride)| {
        last.checked_add(n.saturating_sub(1).checked_mul(*stride)?)
    });
    let end = last.and_then(|last| last.checked_add(1)?.checked_mul(width));
    if !shape.contains(&0) && end.is_none_or(|end| end > len) {
        let message = format!("strides {strides:?} of shape {shape:?} pass {len} bytes");
        return Err(STRIDES.broken(message));
    }
    Ok(())
}

/// The strides that the attributes of a tensor say, whose elements of `width` bytes lie inside of `len` bytes; and the attributes
/// without them.
///
/// # Errors
/// [`STRIDES`].
pub fn taken(
    mut attributes: Attributes,
    shape: &[u64],
    width: u64,
    len: u64,
) -> Result<(Vec<u64>, Attributes)> {
    let strides = strides(&attributes, shape.len())?;
    check(shape, &strides, width, len)?;
    attributes.remove(STRIDES_KEY);
    Ok((strides, attributes))
}

fn strides(attributes: &Attributes, rank: usize) -> Result<Vec<u64>> {
    let strides = match attributes.get(STRIDES_KEY) {
        Some(Value::Array(items)) => {
            items.iter().map(|n| n.as_integer().and_then(|n| u64::try_from(n).ok())).collect()
        }
        _ => None,
    };
    strides
        .filter(|strides: &Vec<u64>| strides.len() == rank)
        .ok_or_else(|| STRIDES.broken(format!("the attribute `strides` is not {rank} integers")))
}
