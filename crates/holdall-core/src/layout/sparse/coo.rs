//! Sparse tensors by coordinates (COO).

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

/// Records of a packed tensor that are split in one step.
const AT_A_TIME: usize = 1 << 15;

/// A sparse tensor by coordinates: all coordinates of the first dimension, then all of the second, and so on.
#[derive(Debug, Clone, PartialEq)]
pub struct Coo {
    coords: Coords,
    values: Dense,
}

/// One value of a [`Coo`], with its coordinates.
#[derive(Debug, Clone, Copy)]
pub struct CooEntry<'a> {
    tensor: &'a Coo,
    /// The index of the value.
    index: usize,
    /// The bytes of the value, little-endian.
    pub value: &'a [u8],
}

impl CooEntry<'_> {
    /// Returns the value's coordinates, one per dimension.
    pub fn coords(&self) -> impl ExactSizeIterator<Item = u64> {
        let index = self.index;
        (0..self.tensor.shape().len()).map(move |d| self.tensor.coords.at(d, index))
    }
}

impl Coo {
    /// Creates the view of a tensor of layout `sparse_coo` or `sparsecoo`. `get` returns decoded components.
    ///
    /// # Errors
    /// Returns [`WRONG_LAYOUT`](crate::layout::WRONG_LAYOUT) if the tensor has another layout, the errors of `get`, and
    /// those of [`Coo::new`] and [`Coo::from_packed`].
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

    /// Creates a view of the components of a tensor of any rank; a scalar has no coordinates.
    ///
    /// # Errors
    /// Returns [`COUNTS`](super::COUNTS) if the numbers of coordinates and values do not match,
    /// [`INDEX_BOUNDS`](super::INDEX_BOUNDS) if a coordinate is outside the shape, and the errors of [`Indices::new`].
    pub fn new(shape: &[u64], coords: Decoded, values: Decoded, limits: &Limits) -> Result<Coo> {
        let coords = Indices::new(coords, limits).map_err(|e| e.in_component(Role::Coords))?;
        Coo::checked(shape, coords, values).map_err(|e| e.in_component(Role::Coords))
    }

    fn checked(shape: &[u64], coords: Indices, values: Decoded) -> Result<Coo> {
        let (values, count) = values_of(values)?;
        Ok(Coo { coords: Coords::new(shape, coords, count)?, values })
    }

    /// Creates a view of zTensor 0.1's single component: one record per value, with its coordinates (u64) followed by
    /// the value, whose type is that of `data`. Coordinates and values are copied into separate memory.
    ///
    /// # Errors
    /// Returns [`PACKED`] if the bytes are not whole records, and the errors of [`Coo::new`].
    pub fn from_packed(shape: &[u64], data: Decoded) -> Result<Coo> {
        Coo::from_packed_in(shape, data, |pieces| {
            let mut all = Vec::new();
            pieces.for_each(|piece| all.extend_from_slice(&piece));
            Ok(all.into())
        })
    }

    /// Creates a view like [`Coo::from_packed`]. `hold` stores the concatenation of the pieces that it receives: all
    /// coordinates, then all values.
    ///
    /// # Errors
    /// Returns the errors of [`Coo::from_packed`] and of `hold`.
    pub fn from_packed_in(
        shape: &[u64],
        data: Decoded,
        hold: impl FnOnce(&mut dyn Iterator<Item = Vec<u8>>) -> Result<Bytes>,
    ) -> Result<Coo> {
        let width = value_width(data.dtype, data.logical_type.as_ref())?;
        // The rank is limited, because `shape` is in memory.
        let at = shape.len() * 8;
        let record = at + width;
        let len = data.bytes.len();
        if !len.is_multiple_of(record) {
            let message =
                format!("{len} bytes are not a multiple of {record}, the bytes of a record");
            return Err(PACKED.broken(message).in_component(Role::Data));
        }
        // The offset of the field in a record, and the records from which it is copied next.
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

    /// Creates a sparse tensor from the elements of a dense tensor that are not zero. All bits count, so a negative
    /// zero is kept.
    ///
    /// # Errors
    /// Returns [`ELEMENT_SIZE`](crate::layout::ELEMENT_SIZE) for elements below 8 bits, and
    /// [`LENGTH`](crate::layout::LENGTH) if the bytes do not match the shape.
    pub fn from_dense(dense: &Dense) -> Result<Coo> {
        let (flat_indices, values) = stored_of(dense)?;
        Ok(Coo { coords: Coords::from_flat_indices(dense.shape(), &flat_indices), values })
    }

    /// Returns the dimensions, in elements.
    pub fn shape(&self) -> &[u64] {
        self.coords.sizes()
    }

    /// Returns the number of values.
    pub fn count(&self) -> usize {
        self.coords.count()
    }

    /// Returns the coordinates of all values in `dimension`, or an empty slice if `dimension` is outside the shape.
    /// [Widens](Indices::as_slice) all coordinates.
    pub fn coords(&self, dimension: usize) -> &[u64] {
        self.coords.along(dimension)
    }

    /// Returns the stored coordinates: rank × count.
    pub fn indices(&self) -> &Indices {
        self.coords.indices()
    }

    /// Returns the values, as a tensor of one dimension.
    pub fn values(&self) -> &Dense {
        &self.values
    }

    /// Returns all values with their coordinates.
    pub fn entries(&self) -> impl Iterator<Item = CooEntry<'_>> {
        let width = self.values.bytes().len().checked_div(self.count()).unwrap_or(1).max(1);
        let values = self.values.bytes().chunks_exact(width);
        values.enumerate().map(|(index, value)| CooEntry { tensor: self, index, value })
    }

    /// Returns the row-major index of each value.
    pub fn flat_indices(&self) -> impl Iterator<Item = u64> {
        self.coords.flat_indices()
    }

    /// Converts the tensor to a dense one. Values at the same coordinates are added.
    ///
    /// # Errors
    /// Returns [`DENSE_LIMIT`](crate::layout::DENSE_LIMIT) if the result exceeds the limit, and [`SUM`](super::SUM) if
    /// values of the type cannot be added.
    pub fn to_dense(&self, limits: &Limits) -> Result<Dense> {
        scatter(self.shape(), &self.values, limits, self.flat_indices())
    }

    /// Appends the elements in the range `elements` of the row-major order to `out`, including zeros. Values at the
    /// same place are added. Iterates over all values.
    ///
    /// # Errors
    /// Returns [`LENGTH`](crate::layout::LENGTH) if the elements do not fit in memory.
    pub fn elements(&self, elements: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let (out, width) = more(&self.values, &elements, out)?;
        let all = self.values.bytes().chunks_exact(width).zip(self.flat_indices());
        let all = all.filter(|(_, flat_index)| elements.contains(flat_index));
        scatter_into(&self.values, width, elements.start, out, all)
    }
}
