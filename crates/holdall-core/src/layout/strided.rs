//! Strided tensors, whose elements are not stored in row-major order: for each dimension, the distance between
//! neighbours in elements.

use super::dense::Dense;
use super::{DENSE_LIMIT, LENGTH, ROWS, WRONG_LAYOUT};
use crate::error::{Escape as _, Result};
use crate::limits::Limits;
use crate::model::{
    Attributes, Component, DType, Layout, LogicalType, Role, TensorInfo, Value, element_count,
    stored_size,
};
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use std::ops::Range;

/// The attribute with the strides.
pub(super) const STRIDES_KEY: &str = "strides";

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The strides are invalid.
    pub STRIDES: Malformed "strided/strides"
        "A strided tensor has an attribute `strides` with one non-negative integer per dimension, and its elements lie inside its component.";
}

/// Returns the attributes of a tensor whose first dimension varies fastest, or `None` if that is row-major order too.
/// `inner` is the number of elements that each array element consists of: they become an additional last dimension, and
/// are stored together.
pub fn column_major(shape: &[u64], inner: Option<u64>) -> Option<Attributes> {
    let axes: Vec<usize> = (0..shape.len()).rev().collect();
    strides_for_axes(shape, &axes, inner)
}

/// Returns the attributes of a tensor whose elements are stored in the order of `axes`, the last of which varies
/// fastest. `inner` is as in [`column_major`].
pub fn strides_for_axes(shape: &[u64], axes: &[usize], inner: Option<u64>) -> Option<Attributes> {
    let mut strides = vec![Value::Null; shape.len()];
    let mut step = inner.unwrap_or(1);
    for axis in axes.iter().rev() {
        *strides.get_mut(*axis)? = Value::Integer(step.into());
        step = step.saturating_mul(*shape.get(*axis)?);
    }
    strides.extend(inner.map(|_| Value::Integer(1)));
    // The order of dimensions with at most one element does not matter.
    let large = axes.iter().filter(|axis| shape.get(**axis).is_some_and(|n| *n > 1));
    let is_turned = !large.is_sorted();
    is_turned.then(|| Attributes::from_iter([(STRIDES_KEY.to_owned(), Value::Array(strides))]))
}

/// A tensor whose elements are not stored in row-major order.
#[derive(Debug, Clone)]
pub struct Strided {
    dtype: DType,
    logical_type: Option<LogicalType>,
    shape: Vec<u64>,
    strides: Vec<u64>,
    /// Bytes of an element.
    width: u64,
    count: u64,
    bytes: Bytes,
}

impl Strided {
    /// Creates the view of a tensor of layout `strided`. `get` returns the decoded component.
    ///
    /// # Errors
    /// Returns [`WRONG_LAYOUT`] if the tensor has another layout, the errors of `get`, and [`STRIDES`] if the strides
    /// are invalid.
    pub fn from_tensor(info: &TensorInfo, get: impl Fn(&Role) -> Result<Bytes>) -> Result<Strided> {
        let (component, strides, width) = parts(info)?;
        let (dtype, logical_type, shape) =
            (component.dtype, component.logical_type, info.shape().to_vec());
        let bytes = get(&Role::Data)?;
        check(&shape, &strides, width, bytes.len() as u64)?;
        let count = element_count(&shape).unwrap_or(u64::MAX);
        Ok(Strided { dtype, logical_type, shape, strides, width, count, bytes })
    }

    /// Checks a tensor like [`Strided::from_tensor`], without its bytes, if its decoded length is known.
    ///
    /// # Errors
    /// Returns [`WRONG_LAYOUT`] if the tensor has another layout, and [`STRIDES`] if the strides are invalid.
    pub fn check(info: &TensorInfo) -> Result<()> {
        let (component, strides, width) = parts(info)?;
        match component.decoded_len {
            Some(len) => check(info.shape(), &strides, width, len),
            None => Ok(()),
        }
    }

    /// Returns the bytes of an element.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Appends the elements in the range `elements` of the row-major order to `out`.
    ///
    /// # Errors
    /// Returns [`ROWS`] if the range is outside the tensor.
    pub fn elements(&self, elements: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let Range { mut start, end } = elements;
        if start > end || end > self.count {
            return Err(
                ROWS.broken(format!("elements {start}..{end} are outside 0..{}", self.count))
            );
        }
        // All offsets are in memory, because the last element is inside the component.
        let (last, step) = (self.shape.last().copied(), self.strides.last().copied());
        let (last, step) = (last.unwrap_or(1), step.unwrap_or(1));
        while start < end {
            let within = start % last;
            let run = (last - within).min(end - start);
            let mut row = start / last;
            let mut at = within * step;
            let outer = self.shape.len().saturating_sub(1);
            for (dim, stride) in self.shape.iter().zip(&self.strides).take(outer).rev() {
                at += row % dim * stride;
                row /= dim;
            }
            self.run(at, step, run, out);
            start += run;
        }
        Ok(())
    }

    /// Appends `count` elements, starting at `at`, with a distance of `step`.
    fn run(&self, at: u64, step: u64, count: u64, out: &mut Vec<u8>) {
        let width = self.width as usize;
        let from = self.bytes.get((at * self.width) as usize..).debug_unwrap();
        if step == 1 {
            let len = (count * self.width) as usize;
            return out.extend_from_slice(from.get(..len).debug_unwrap());
        }
        let step = step as usize * width;
        match width {
            1 => apart::<1>(from, step, count, out),
            2 => apart::<2>(from, step, count, out),
            4 => apart::<4>(from, step, count, out),
            8 => apart::<8>(from, step, count, out),
            _ => (0..count as usize).for_each(|n| {
                out.extend_from_slice(from.get(n * step..n * step + width).debug_unwrap());
            }),
        }
    }

    /// Converts the tensor to a dense one, with its elements in row-major order.
    ///
    /// # Errors
    /// Returns [`DENSE_LIMIT`] if the result exceeds the limit.
    pub fn to_dense(&self, limits: &Limits) -> Result<Dense> {
        let len = self.count.checked_mul(self.width).filter(|len| *len <= limits.decoded_len);
        let Some(len) = len else {
            let message = format!(
                "{} elements of {} bytes exceed the limit of {} bytes",
                self.count, self.width, limits.decoded_len
            );
            return Err(DENSE_LIMIT.broken(message));
        };
        let mut out = Vec::with_capacity(len as usize);
        self.elements(0..self.count, &mut out)?;
        Ok(Dense::new(self.dtype, self.logical_type.clone(), self.shape.clone(), out))
    }
}

/// Returns the component of a strided tensor, its strides, and the bytes of an element.
fn parts(info: &TensorInfo) -> Result<(Component, Vec<u64>, u64)> {
    if *info.layout() != Layout::Strided {
        let layout = info.layout().as_str().escaped();
        return Err(WRONG_LAYOUT.broken(format!("expected a strided layout, found `{layout}`")));
    }
    let strides = strides(info.attributes(), info.shape().len())?;
    let component = info.component(&Role::Data);
    let component = component.ok_or_else(|| STRIDES.broken("missing component `data`"))?;
    let width = stored_size(1, component.dtype, component.logical_type.as_ref()).ok().flatten();
    match width {
        Some(width) => Ok((component, strides, width)),
        None => Err(LENGTH.broken("elements do not have whole bytes")),
    }
}

fn apart<const N: usize>(from: &[u8], step: usize, count: u64, out: &mut Vec<u8>) {
    out.extend((0..count as usize).flat_map(|n| {
        let element = from.get(n * step..).and_then(|rest| rest.first_chunk::<N>());
        element.copied().unwrap_or([0; N])
    }));
}

/// Checks that elements of `width` bytes with these strides are inside `len` bytes.
fn check(shape: &[u64], strides: &[u64], width: u64, len: u64) -> Result<()> {
    let last = shape.iter().zip(strides).try_fold(0u64, |last, (n, stride)| {
        last.checked_add(n.saturating_sub(1).checked_mul(*stride)?)
    });
    let end = last.and_then(|last| last.checked_add(1)?.checked_mul(width));
    if !shape.contains(&0) && end.is_none_or(|end| end > len) {
        let message = format!(
            "strides {strides:?} of shape {shape:?} exceed the {len} bytes of the component"
        );
        return Err(STRIDES.broken(message));
    }
    Ok(())
}

/// Removes the strides from a tensor's attributes and returns them, and the remaining attributes. The elements have
/// `width` bytes, and must be inside `len` bytes.
///
/// # Errors
/// Returns [`STRIDES`] if the strides are invalid.
pub fn split_strides(
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
    strides.filter(|strides: &Vec<u64>| strides.len() == rank).ok_or_else(|| {
        STRIDES.broken(format!("the attribute `strides` must be {rank} non-negative integers"))
    })
}
