//! Coordinates.

use super::coords::Coords;
use super::{
    Indices, PACKED, component, more, scatter, scatter_into, stored_of, value_width, values_of,
    wrong_layout,
};
use crate::error::Result;
use crate::layout::Decoded;
use crate::layout::dense::Dense;
use crate::limits::Limits;
use crate::model::{Layout, Role, TensorInfo};
use bytes::Bytes;
use std::ops::Range;

/// Records of a packed tensor that are copied apart together.
const AT_A_TIME: usize = 1 << 15;

/// A sparse tensor by coordinates: all those of the first dimension, then all of the second, and so
/// on.
#[derive(Debug, Clone, PartialEq)]
pub struct Coo {
    coords: Coords,
    values: Dense,
}

/// One value of a [`Coo`] and its place.
#[derive(Debug, Clone, Copy)]
pub struct CooEntry<'a> {
    tensor: &'a Coo,
    number: usize,
    /// The bytes of the value, little-endian.
    pub value: &'a [u8],
}

impl CooEntry<'_> {
    /// Its coordinates, one for each dimension.
    pub fn coords(&self) -> impl ExactSizeIterator<Item = u64> {
        let number = self.number;
        (0..self.tensor.shape().len()).map(move |d| self.tensor.coords.at(d, number))
    }
}

impl Coo {
    /// The view of a tensor of layout `sparse_coo` or `sparsecoo`, whose decoded components `get`
    /// hands out.
    ///
    /// # Errors
    /// [`WRONG_LAYOUT`](crate::layout::WRONG_LAYOUT); what `get` fails with; as [`Coo::new`] and
    /// [`Coo::from_packed`].
    pub fn from_tensor(
        info: &TensorInfo,
        get: impl Fn(&Role) -> Result<Bytes>,
        limits: &Limits,
    ) -> Result<Coo> {
        match info.layout() {
            Layout::SparseCoo => Coo::new(
                info.shape(),
                component(info, &get, Role::Coords)?,
                component(info, &get, Role::Values)?,
                limits,
            ),
            Layout::PackedCoo => Coo::from_packed(info.shape(), component(info, &get, Role::Data)?),
            _ => Err(wrong_layout(info, "coordinates")),
        }
    }

    /// A view of these components of a tensor of any rank; a scalar has no coordinates.
    ///
    /// # Errors
    /// [`COUNTS`](super::COUNTS), [`INDEX_BOUNDS`](super::INDEX_BOUNDS), and those of [`Indices::new`].
    pub fn new(shape: &[u64], coords: Decoded, values: Decoded, limits: &Limits) -> Result<Coo> {
        let coords = Indices::new(coords, limits).map_err(|e| e.in_component(Role::Coords))?;
        Coo::checked(shape, coords, values).map_err(|e| e.in_component(Role::Coords))
    }

    fn checked(shape: &[u64], coords: Indices, values: Decoded) -> Result<Coo> {
        let (values, count) = values_of(values)?;
        Ok(Coo { coords: Coords::new(shape, coords, count)?, values })
    }

    /// A view of zTensor 0.1's one component: one record a value, its coordinates (u64) and then
    /// itself, of the type of `data`. Both are copied apart.
    ///
    /// # Errors
    /// [`PACKED`], and as [`Coo::new`].
    pub fn from_packed(shape: &[u64], data: Decoded) -> Result<Coo> {
        Coo::from_packed_in(shape, data, |pieces| {
            let mut all = Vec::new();
            pieces.for_each(|piece| all.extend_from_slice(&piece));
            Ok(all.into())
        })
    }

    /// The same, copied apart to where `hold` has the bytes of all pieces that it is given: coordinates, then values.
    ///
    /// # Errors
    /// Those of [`Coo::from_packed`] and of `hold`.
    pub fn from_packed_in(
        shape: &[u64],
        data: Decoded,
        hold: impl FnOnce(&mut dyn Iterator<Item = Vec<u8>>) -> Result<Bytes>,
    ) -> Result<Coo> {
        let width = value_width(data.dtype, data.logical_type.as_ref())?;
        // The rank is bounded by what is in memory: `shape` is.
        let at = shape.len() * 8;
        let record = at + width;
        let len = data.bytes.len();
        if !len.is_multiple_of(record) {
            let message = format!("{len} bytes are not a whole number of records of {record}");
            return Err(PACKED.broken(message).in_component(Role::Data));
        }
        // Where in a record the field begins, and records from which it is taken next.
        let (mut field, mut rest) = (0, &data.bytes[..]);
        let mut pieces = std::iter::from_fn(|| {
            if rest.is_empty() {
                (field, rest) = (field + 8, &data.bytes[..]);
            }
            if field > at || rest.is_empty() {
                return None;
            }
            let end = if field < at { field + 8 } else { record };
            let now = rest.len().min(record.saturating_mul(AT_A_TIME));
            let mut own = Vec::with_capacity(now / record * (end - field));
            for record in rest[..now].chunks_exact(record) {
                own.extend_from_slice(&record[field..end]);
            }
            rest = &rest[now..];
            Some(own)
        });
        let mut coords = hold(&mut pieces)?;
        let values = Decoded { bytes: coords.split_off(len / record * at), ..data };
        Coo::checked(shape, Indices::stored(coords, 8), values)
            .map_err(|e| e.in_component(Role::Data))
    }

    /// The elements of a dense tensor that are not zero: all bits count, so that a negative zero is kept.
    ///
    /// # Errors
    /// [`ELEMENT_SIZE`](crate::layout::ELEMENT_SIZE) for elements below 8 bits;
    /// [`LENGTH`](crate::layout::LENGTH).
    pub fn from_dense(dense: &Dense) -> Result<Coo> {
        let (places, values) = stored_of(dense)?;
        Ok(Coo { coords: Coords::of_places(dense.shape(), &places), values })
    }

    /// Dimensions, in elements.
    pub fn shape(&self) -> &[u64] {
        self.coords.sizes()
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.coords.count()
    }

    /// The coordinates of all values in dimension `dimension`; none outside the shape. All coordinates are
    /// [widened](Indices::as_slice) for it.
    pub fn coords(&self, dimension: usize) -> &[u64] {
        self.coords.along(dimension)
    }

    /// The coordinates as they are stored: rank × count.
    pub fn indices(&self) -> &Indices {
        self.coords.indices()
    }

    /// The values, in one dimension.
    pub fn values(&self) -> &Dense {
        &self.values
    }

    /// All values with their places.
    pub fn entries(&self) -> impl Iterator<Item = CooEntry<'_>> {
        let width = self.values.bytes().len().checked_div(self.count()).unwrap_or(1).max(1);
        let values = self.values.bytes().chunks_exact(width);
        values.enumerate().map(|(number, value)| CooEntry { tensor: self, number, value })
    }

    /// The number of each stored element among all of them, row by row.
    pub fn places(&self) -> impl Iterator<Item = u64> {
        self.coords.places()
    }

    /// The tensor with its zeros; values of one place are summed.
    ///
    /// # Errors
    /// [`DENSE_LIMIT`](crate::layout::DENSE_LIMIT), [`SUM`](super::SUM).
    pub fn to_dense(&self, limits: &Limits) -> Result<Dense> {
        scatter(self.shape(), &self.values, limits, self.places())
    }

    /// Appends elements `elements` of the row-major order of the tensor with its zeros to `out`; values of one place are summed. Goes
    /// through all values.
    ///
    /// # Errors
    /// [`LENGTH`](crate::layout::LENGTH), where they do not fit memory.
    pub fn elements(&self, elements: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let (out, width) = more(&self.values, &elements, out)?;
        let all = self.values.bytes().chunks_exact(width).zip(self.places());
        let all = all.filter(|(_, place)| elements.contains(place));
        scatter_into(&self.values, width, elements.start, out, all)
    }
}
