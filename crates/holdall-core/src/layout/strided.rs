//! Views of bytes that are not row by row: how many elements it is from one to the next, for each dimension.

use super::dense::Dense;
use super::{DENSE_LIMIT, LENGTH, ROWS, WRONG_LAYOUT};
use crate::error::{Result, Shown as _};
use crate::limits::Limits;
use crate::model::{
    Attributes, Component, DType, Layout, LogicalType, Role, TensorInfo, Value, element_count,
    stored_size,
};
use bytes::Bytes;
use std::ops::Range;

/// The attribute that has the strides.
pub(super) const STRIDES_KEY: &str = "strides";

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// Invalid strides.
    pub STRIDES: Malformed "strided/strides"
        "A strided tensor has an attribute `strides` with one non-negative integer per dimension, and its elements lie inside its component.";
}

/// How elements lie whose first dimension varies fastest: the attributes of such a tensor, or `None` where that is row
/// by row too. Where each is made of some, those are one more dimension, the last, and lie together.
pub fn column_major(shape: &[u64], inner: Option<u64>) -> Option<Attributes> {
    let axes: Vec<usize> = (0..shape.len()).rev().collect();
    stored_by(shape, &axes, inner)
}

/// The same for elements of which the dimension varies fastest that is the last of `axes`, all dimensions in the order in which they vary.
pub fn stored_by(shape: &[u64], axes: &[usize], inner: Option<u64>) -> Option<Attributes> {
    let mut strides = vec![Value::Null; shape.len()];
    let mut step = inner.unwrap_or(1);
    for axis in axes.iter().rev() {
        *strides.get_mut(*axis)? = Value::Integer(step.into());
        step = step.saturating_mul(*shape.get(*axis)?);
    }
    strides.extend(inner.map(|_| Value::Integer(1)));
    // Dimensions of one element, or none, lie anyhow.
    let large = axes.iter().filter(|axis| shape.get(**axis).is_some_and(|n| *n > 1));
    let is_turned = !large.is_sorted();
    is_turned.then(|| Attributes::from_iter([(STRIDES_KEY.to_owned(), Value::Array(strides))]))
}

/// A tensor whose elements lie otherwise than row by row.
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
    /// The view of a tensor of the layout `strided`, whose decoded component `get` hands out.
    ///
    /// # Errors
    /// [`WRONG_LAYOUT`]; what `get` fails with; [`STRIDES`].
    pub fn from_tensor(info: &TensorInfo, get: impl Fn(&Role) -> Result<Bytes>) -> Result<Strided> {
        let (component, strides, width) = parts(info)?;
        let (dtype, logical_type, shape) =
            (component.dtype, component.logical_type, info.shape().to_vec());
        let bytes = get(&Role::Data)?;
        check(&shape, &strides, width, bytes.len() as u64)?;
        let count = element_count(&shape).unwrap_or(u64::MAX);
        Ok(Strided { dtype, logical_type, shape, strides, width, count, bytes })
    }

    /// Checks what [`Strided::from_tensor`] checks, without the bytes, if the component says how many it decodes to.
    ///
    /// # Errors
    /// [`WRONG_LAYOUT`], [`STRIDES`].
    pub fn check(info: &TensorInfo) -> Result<()> {
        let (component, strides, width) = parts(info)?;
        match component.decoded_len {
            Some(len) => check(info.shape(), &strides, width, len),
            None => Ok(()),
        }
    }

    /// Bytes of an element.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Appends elements `elements` of the row-major order to `out`.
    ///
    /// # Errors
    /// [`ROWS`] for elements outside the tensor.
    pub fn elements(&self, elements: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let Range { mut start, end } = elements;
        if start > end || end > self.count {
            return Err(ROWS.broken(format!("elements {start}..{end} of {}", self.count)));
        }
        // All of these are places in memory: the last element lies in the component.
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

    /// So many elements from one on, which are a step apart.
    fn run(&self, at: u64, step: u64, count: u64, out: &mut Vec<u8>) {
        let width = self.width as usize;
        let from = self.bytes.get((at * self.width) as usize..).unwrap_or_default();
        if step == 1 {
            let len = (count * self.width) as usize;
            return out.extend_from_slice(from.get(..len).unwrap_or_default());
        }
        let step = step as usize * width;
        match width {
            1 => apart::<1>(from, step, count, out),
            2 => apart::<2>(from, step, count, out),
            4 => apart::<4>(from, step, count, out),
            8 => apart::<8>(from, step, count, out),
            _ => (0..count as usize).for_each(|n| {
                out.extend_from_slice(from.get(n * step..n * step + width).unwrap_or_default());
            }),
        }
    }

    /// The tensor as a dense one: its elements row by row.
    ///
    /// # Errors
    /// [`DENSE_LIMIT`].
    pub fn to_dense(&self, limits: &Limits) -> Result<Dense> {
        let len = self.count.checked_mul(self.width).filter(|len| *len <= limits.decoded_len);
        let Some(len) = len else {
            let message = format!(
                "{} elements of {} bytes, at most {} bytes",
                self.count, self.width, limits.decoded_len
            );
            return Err(DENSE_LIMIT.broken(message));
        };
        let mut out = Vec::with_capacity(len as usize);
        self.elements(0..self.count, &mut out)?;
        Ok(Dense::new(self.dtype, self.logical_type.clone(), self.shape.clone(), out))
    }
}

/// The component of a strided tensor, its strides, and the bytes of an element.
fn parts(info: &TensorInfo) -> Result<(Component, Vec<u64>, u64)> {
    if *info.layout() != Layout::Strided {
        let layout = info.layout().as_str().shown();
        return Err(WRONG_LAYOUT.broken(format!("the layout is `{layout}`, not strided")));
    }
    let strides = strides(info.attributes(), info.shape().len())?;
    let component = info.component(&Role::Data);
    let component = component.ok_or_else(|| STRIDES.broken("there is no component `data`"))?;
    let width = stored_size(1, component.dtype, component.logical_type.as_ref()).ok().flatten();
    match width {
        Some(width) => Ok((component, strides, width)),
        None => Err(LENGTH.broken("elements are not whole bytes")),
    }
}

fn apart<const N: usize>(from: &[u8], step: usize, count: u64, out: &mut Vec<u8>) {
    out.extend((0..count as usize).flat_map(|n| {
        let element = from.get(n * step..).and_then(|rest| rest.first_chunk::<N>());
        element.copied().unwrap_or([0; N])
    }));
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
