//! Byte planes: a float tensor whose elements are cut into bytes, and the bytes of equal significance stored together.
//!
//! A tensor of layout `planes.T` has a component `p0`, `p1`, … for each byte of an element of type T. Each has the dtype `u8`
//! and one byte per element: byte `i` of plane `k` has the bits `8k..8k+8` of element `i`, after its top 16 bits were rotated to
//! the left by 1 (except in `planes.f64`). The rotation moves the sign below the exponent, so that the exponent has a plane
//! to itself, which compresses well; the others hardly compress, and are stored raw.

use super::dense::Dense;
use super::{DENSE_LIMIT, LENGTH, ROWS, WRONG_LAYOUT};
use crate::error::{Escape as _, Result};
use crate::limits::Limits;
use crate::model::plane::PlaneType;
use crate::model::{Component, DType, Layout, Role, TensorInfo, element_count};
use bytes::Bytes;
use std::ops::Range;

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The components of a tensor in planes are not those of its layout.
    pub COMPONENTS: Malformed "planes/components"
        "A tensor of layout `planes.T` has one component of dtype `u8` for each byte of T, named `p0`, `p1`, and so on, and no others."
        hint "its components can be read one by one, as bytes";
    /// A plane has the wrong length.
    pub PLANE_LENGTH: Malformed "planes/length" "A plane has one byte for each element of its tensor.";
}

impl PlaneType {
    /// Appends the bytes of plane `plane` of little-endian elements to `out`. A partial element at the end is left out.
    pub fn split(&self, plane: usize, dense: &[u8], out: &mut Vec<u8>) {
        match self.count {
            2 => split::<2>(dense, out, |b| {
                let bits = u16::from_le_bytes(b).rotate_left(1);
                byte(u64::from(bits), plane)
            }),
            4 => split::<4>(dense, out, |b| byte(u64::from(rotated(u32::from_le_bytes(b))), plane)),
            _ => split::<8>(dense, out, |b| byte(u64::from_le_bytes(b), plane)),
        }
    }

    /// Puts planes together: stores the little-endian elements in `out`.
    ///
    /// # Errors
    /// Returns [`PLANE_LENGTH`] if `planes` are not as many as the type has, or do not have one byte for each element of `out`.
    pub fn join(&self, planes: &[&[u8]], out: &mut [u8]) -> Result<()> {
        let elements = out.len() / self.count;
        if planes.len() != self.count
            || planes.iter().any(|plane| plane.len() != elements)
            || !out.len().is_multiple_of(self.count)
        {
            let found: Vec<usize> = planes.iter().map(|plane| plane.len()).collect();
            let count = self.count;
            let message = format!("expected {count} planes of {elements} bytes, found {found:?}");
            return Err(PLANE_LENGTH.broken(message));
        }
        match *planes {
            [low, high] => {
                let (out, _) = out.as_chunks_mut::<2>();
                for ((out, low), high) in out.iter_mut().zip(low).zip(high) {
                    let bits = u16::from_le_bytes([*low, *high]).rotate_right(1);
                    *out = bits.to_le_bytes();
                }
            }
            [p0, p1, p2, p3] => {
                let (out, _) = out.as_chunks_mut::<4>();
                for ((((out, p0), p1), p2), p3) in out.iter_mut().zip(p0).zip(p1).zip(p2).zip(p3) {
                    let top = u16::from_le_bytes([*p2, *p3]).rotate_right(1);
                    let bits = u32::from(u16::from_le_bytes([*p0, *p1])) | u32::from(top) << 16;
                    *out = bits.to_le_bytes();
                }
            }
            _ => {
                let (out, _) = out.as_chunks_mut::<8>();
                // Two planes at a time: a loop over eight is not vectorised.
                for (at, plane) in planes.iter().enumerate() {
                    for (out, byte) in out.iter_mut().zip(*plane) {
                        if let Some(out) = out.get_mut(at) {
                            *out = *byte;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns byte `at` of `bits`.
fn byte(bits: u64, at: usize) -> u8 {
    bits.to_le_bytes().get(at).copied().unwrap_or_default()
}

/// Returns the bits with the top 16 rotated to the left by 1.
fn rotated(bits: u32) -> u32 {
    let [a, b, c, d] = bits.to_le_bytes();
    let [c, d] = u16::from_le_bytes([c, d]).rotate_left(1).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn split<const N: usize>(dense: &[u8], out: &mut Vec<u8>, plane_type: impl Fn([u8; N]) -> u8) {
    let (elements, _) = dense.as_chunks::<N>();
    out.extend(elements.iter().map(|bytes| plane_type(*bytes)));
}

/// A tensor in planes, whose components were checked.
#[derive(Debug, Clone)]
pub struct Planes {
    plane_type: &'static PlaneType,
    shape: Vec<u64>,
    count: u64,
    planes: Vec<Bytes>,
}

impl Planes {
    /// Creates the view of a tensor of a layout in [`PLANE_TYPES`](crate::model::plane::PLANE_TYPES). `get` returns decoded components.
    ///
    /// # Errors
    /// Returns [`WRONG_LAYOUT`] if the tensor has another layout, the errors of `get`, [`COMPONENTS`] if a component is missing, has
    /// another dtype or is unknown, and [`PLANE_LENGTH`] if one has the wrong length.
    pub fn from_tensor(info: &TensorInfo, get: impl Fn(&Role) -> Result<Bytes>) -> Result<Planes> {
        let plane_type = check(info)?;
        let planes = plane_type.roles().map(|role| get(&role)).collect::<Result<Vec<Bytes>>>()?;
        let count = element_count(info.shape()).unwrap_or(u64::MAX);
        if let Some(plane) = planes.iter().find(|plane| plane.len() as u64 != count) {
            return Err(wrong_length(count, plane.len() as u64));
        }
        Ok(Planes { plane_type, shape: info.shape().to_vec(), count, planes })
    }

    /// Returns the type of the elements.
    pub fn plane_type(&self) -> &'static PlaneType {
        self.plane_type
    }

    /// Stores the elements in the range `elements` of the row-major order in `out`.
    ///
    /// # Errors
    /// Returns [`ROWS`] if the range is outside the tensor, and [`LENGTH`] if `out` does not have its length.
    pub fn read(&self, elements: Range<u64>, out: &mut [u8]) -> Result<()> {
        let Range { start, end } = elements;
        if start > end || end > self.count {
            let message = format!("elements {start}..{end} are outside 0..{}", self.count);
            return Err(ROWS.broken(message));
        }
        // The planes are in memory and have `count` bytes.
        let range = start as usize..end as usize;
        let parts: Vec<&[u8]> =
            self.planes.iter().filter_map(|plane| plane.get(range.clone())).collect();
        if out.len() / self.plane_type.count != range.len() {
            let expected = range.len() * self.plane_type.count;
            let message = format!("expected a slice of {expected} bytes, found {}", out.len());
            return Err(LENGTH.broken(message));
        }
        self.plane_type.join(&parts, out)
    }

    /// Converts the tensor to a dense one.
    ///
    /// # Errors
    /// Returns [`DENSE_LIMIT`] if it would have more bytes than `Limits::decoded_len`, or if there is not enough memory.
    pub fn to_dense(&self, limits: &Limits) -> Result<Dense> {
        let count = self.count;
        let len = count.checked_mul(self.plane_type.count as u64);
        let len =
            len.filter(|len| *len <= limits.decoded_len).and_then(|n| usize::try_from(n).ok());
        let mut out = Vec::new();
        match len {
            Some(len) if out.try_reserve_exact(len).is_ok() => out.resize(len, 0),
            _ => {
                let dtype = self.plane_type.dtype;
                let message =
                    format!("{count} elements of {dtype} exceed the limit, or the memory");
                return Err(DENSE_LIMIT.broken(message));
            }
        }
        self.read(0..count, &mut out)?;
        Ok(Dense::new(self.plane_type.dtype, None, self.shape.clone(), Bytes::from(out)))
    }
}

/// Checks a tensor like [`Planes::from_tensor`], without the bytes of its components, and returns the type of its elements.
///
/// # Errors
/// Returns the same errors as [`Planes::from_tensor`].
pub fn check(info: &TensorInfo) -> Result<&'static PlaneType> {
    let Layout::Planes(plane_type) = info.layout() else {
        let layout = info.layout().as_str().escaped();
        return Err(WRONG_LAYOUT.broken(format!("expected a layout of planes, found `{layout}`")));
    };
    let count = element_count(info.shape()).unwrap_or(u64::MAX);
    for role in plane_type.roles() {
        let Some(c) = info.component(&role) else {
            return Err(COMPONENTS.broken(format!("missing component `{role}`")));
        };
        if c.dtype != DType::U8 || c.logical_type.is_some() {
            let message = format!("component `{role}` has the dtype {}, not u8", c.dtype);
            return Err(COMPONENTS.broken(message).in_component(&role));
        }
        if let Some(found) = c.decoded_len.filter(|len| *len != count) {
            return Err(wrong_length(count, found).in_component(&role));
        }
    }
    let is_known = |c: &Component| plane_type.roles().any(|role| role == c.role);
    match info.components().find(|c| !is_known(c)) {
        Some(c) => {
            let role = c.role.as_str().escaped();
            Err(COMPONENTS.broken(format!("{} has no component `{role}`", plane_type.layout)))
        }
        None => Ok(plane_type),
    }
}

fn wrong_length(expected: u64, found: u64) -> crate::Error {
    PLANE_LENGTH.broken(format!("expected {expected} bytes, found {found}"))
}
