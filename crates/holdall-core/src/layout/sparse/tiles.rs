//! Sparse tensors whose entries are arrays: blocks of matrices, and coordinates of some of the dimensions.

use super::coords::Coords;
use super::matrices::Matrices;
use super::{
    ATTRIBUTE, COUNTS, Indices, component, more, scatter_into, value_width, values_of,
    wrong_layout, zeros,
};
use crate::error::Result;
use crate::layout::Decoded;
use crate::layout::dense::Dense;
use crate::limits::Limits;
use crate::model::{Attributes, Layout, Role, TensorInfo, Value, element_count};
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use std::ops::Range;

/// Attribute: whether rows or columns are compressed.
pub(super) const COMPRESSED: &str = "compressed";
/// Attribute: the two dimensions of a block.
pub(super) const BLOCK: &str = "block";
/// Attribute: the number of dimensions before those of a matrix.
pub(super) const BATCH: &str = "batch";
/// Attribute: the number of dimensions that have coordinates.
const COORDINATES: &str = "coordinates";

/// A sparse tensor whose entries are arrays of the same shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Tiles {
    shape: Vec<u64>,
    tile: Tile,
    entries: Entries,
    values: Dense,
}

/// The locations of the entries.
#[derive(Debug, Clone, PartialEq)]
enum Entries {
    /// At coordinates of the first dimensions.
    Coords(Coords),
    Blocks(Matrices),
}

/// The elements of a tensor that an entry covers: runs of neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) runs: u64,
    /// Elements of a run.
    pub(super) run: u64,
    /// The distance between the starts of runs, in elements.
    pub(super) step: u64,
}

/// The compressed dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressed {
    /// Rows of blocks: each entry has a column.
    Rows,
    /// Columns of blocks: each entry has a row.
    Columns,
}

/// Returns the attributes of a tensor of layout `sparse_blocks`.
pub fn blocks(compressed: Compressed, block: [u64; 2], batch: u64) -> Attributes {
    let side = match compressed {
        Compressed::Rows => "rows",
        Compressed::Columns => "columns",
    };
    let block = block.map(|n| Value::Integer(n.into()));
    Attributes::from_iter([
        (COMPRESSED.to_owned(), Value::Text(side.into())),
        (BLOCK.to_owned(), Value::Array(block.into())),
        (BATCH.to_owned(), Value::Integer(batch.into())),
    ])
}

/// Returns the attributes of a tensor of layout `sparse_hybrid`.
pub fn hybrid(coordinates: u64) -> Attributes {
    Attributes::from_iter([(COORDINATES.to_owned(), Value::Integer(coordinates.into()))])
}

/// The attributes of these two layouts.
pub const PARAMETERS: [&str; 4] = [COMPRESSED, BLOCK, BATCH, COORDINATES];

impl Tiles {
    /// Creates the view of a tensor of layout `sparse_blocks` or `sparse_hybrid`. `get` returns decoded components.
    ///
    /// # Errors
    /// Returns [`WRONG_LAYOUT`](crate::layout::WRONG_LAYOUT) if the tensor has another layout, the errors of `get`, and
    /// those of [`Tiles::in_blocks`] and [`Tiles::at_coords`].
    pub fn from_tensor(
        info: &TensorInfo,
        get: impl Fn(&Role) -> Result<Bytes>,
        limits: &Limits,
    ) -> Result<Tiles> {
        let get_component = |role: Role| component(info, &get, role);
        let (shape, attributes) = (info.shape(), info.attributes());
        match info.layout() {
            Layout::SparseBlocks => {
                let (indptr, indices) =
                    (get_component(Role::Indptr)?, get_component(Role::Indices)?);
                let values = get_component(Role::Values)?;
                Tiles::in_blocks(shape, attributes, indptr, indices, values, limits)
            }
            Layout::SparseHybrid => {
                let (coords, values) = (get_component(Role::Coords)?, get_component(Role::Values)?);
                Tiles::at_coords(shape, attributes, coords, values, limits)
            }
            _ => Err(wrong_layout(info, "blocks or arrays at coordinates")),
        }
    }

    /// Creates a view of matrices of blocks by compressed rows or columns, with the attributes of [`blocks`].
    ///
    /// # Errors
    /// Returns [`ATTRIBUTE`], [`COUNTS`], [`INDEX_BOUNDS`](super::INDEX_BOUNDS) or a rule about pointers if the
    /// components are inconsistent, and the errors of [`Indices::new`].
    pub fn in_blocks(
        shape: &[u64],
        attributes: &Attributes,
        indptr: Decoded,
        indices: Decoded,
        values: Decoded,
        limits: &Limits,
    ) -> Result<Tiles> {
        let indices_of = |role: Role, decoded: Decoded| {
            Indices::new(decoded, limits).map_err(|e| e.in_component(role))
        };
        let indptr = indices_of(Role::Indptr, indptr)?;
        let indices = indices_of(Role::Indices, indices)?;
        let matrices = Matrices::new(shape, attributes, indptr, indices)?;
        Tiles::checked(shape, matrices.tile(), Entries::Blocks(matrices), values)
    }

    /// Creates a view of arrays at coordinates of the first dimensions, with the attributes of [`hybrid`].
    ///
    /// # Errors
    /// Returns [`ATTRIBUTE`], [`COUNTS`] or [`INDEX_BOUNDS`](super::INDEX_BOUNDS) if the components are inconsistent,
    /// and the errors of [`Indices::new`].
    pub fn at_coords(
        shape: &[u64],
        attributes: &Attributes,
        coords: Decoded,
        values: Decoded,
        limits: &Limits,
    ) -> Result<Tiles> {
        let number = integer(attributes, COORDINATES)?;
        let dims = usize::try_from(number).unwrap_or(usize::MAX);
        let Some((sizes, inner)) = shape.split_at_checked(dims).filter(|_| dims > 0) else {
            let message = format!(
                "`{COORDINATES}` is {number}, but the tensor has {} dimensions",
                shape.len()
            );
            return Err(ATTRIBUTE.broken(message));
        };
        let run = count_of(inner)?;
        let coords = Indices::new(coords, limits).and_then(|coords| {
            let count = coords.len() / dims;
            Coords::new(sizes, coords, count)
        });
        let coords = coords.map_err(|e| e.in_component(Role::Coords))?;
        Tiles::checked(shape, Tile { runs: 1, run, step: run }, Entries::Coords(coords), values)
    }

    fn checked(shape: &[u64], tile: Tile, entries: Entries, values: Decoded) -> Result<Tiles> {
        count_of(shape)?;
        let (values, found) = values_of(values)?;
        let tiles = Tiles { shape: shape.to_vec(), tile, entries, values };
        let (count, Tile { runs, run, .. }) = (tiles.count(), tile);
        let wanted = runs.checked_mul(run).and_then(|own| own.checked_mul(count as u64));
        if wanted != Some(found as u64) {
            let message = format!("{found} values do not match {count} entries of {runs} × {run}");
            return Err(COUNTS.broken(message).in_component(Role::Values));
        }
        Ok(tiles)
    }

    /// Returns the dimensions, in elements.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the number of entries.
    pub fn count(&self) -> usize {
        match &self.entries {
            Entries::Coords(coords) => coords.count(),
            Entries::Blocks(matrices) => matrices.entries(),
        }
    }

    /// Returns the values of all entries, as a tensor of one dimension.
    pub fn values(&self) -> &Dense {
        &self.values
    }

    /// Converts the tensor to a dense one. Values at the same coordinates are added.
    ///
    /// # Errors
    /// Returns [`DENSE_LIMIT`](crate::layout::DENSE_LIMIT) if the result exceeds the limit, and [`SUM`](super::SUM) if
    /// values of the type cannot be added.
    pub fn to_dense(&self, limits: &Limits) -> Result<Dense> {
        let (dtype, logical) = (self.values.dtype(), self.values.logical_type());
        let width = value_width(dtype, logical)?;
        let mut out = zeros(&self.shape, width, limits)?;
        self.put(0..(out.len() / width) as u64, width, &mut out)?;
        Ok(Dense::new(dtype, logical.cloned(), self.shape.clone(), out))
    }

    /// Appends the elements in the range `elements` of the row-major order to `out`, including zeros. Values at the
    /// same place are added. Iterates over all entries if they have coordinates, over all entries of the affected
    /// matrices if columns are compressed, and otherwise over the entries of the affected rows.
    ///
    /// # Errors
    /// Returns [`LENGTH`](crate::layout::LENGTH) if the elements do not fit in memory, and [`SUM`](super::SUM) if
    /// values of the type cannot be added.
    pub fn elements(&self, elements: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let (out, width) = more(&self.values, &elements, out)?;
        self.put(elements, width, out)
    }

    /// Stores the values that entries have in `elements` into `out`, which contains zeros for exactly these elements.
    fn put(&self, elements: Range<u64>, width: usize, out: &mut [u8]) -> Result<()> {
        let Tile { runs, run, step } = self.tile;
        // Entries without elements may have any number of runs.
        if run == 0 || elements.is_empty() {
            return Ok(());
        }
        let bytes = self.values.bytes();
        let put = |(entry, flat_index): (u64, u64)| {
            // Earlier runs end before the elements.
            let first = elements.start.saturating_sub(flat_index) / step.max(1);
            for number in first..runs {
                // Does not wrap if the number of elements was found to fit.
                let start = flat_index.wrapping_add(number.wrapping_mul(step));
                if start >= elements.end {
                    break;
                }
                let own = start.max(elements.start)..start.saturating_add(run).min(elements.end);
                if own.is_empty() {
                    continue;
                }
                // All values are in memory, so nothing overflows.
                let at = (entry * runs + number) * run + (own.start - start);
                let len = (own.end - own.start) as usize * width;
                let values = bytes.get(at as usize * width..).debug_unwrap();
                let values = values.get(..len).debug_unwrap().chunks_exact(width);
                scatter_into(&self.values, width, elements.start, out, values.zip(own))?;
            }
            Ok(())
        };
        match &self.entries {
            Entries::Coords(coords) => {
                let flat_indices =
                    coords.flat_indices().map(|flat_index| flat_index.wrapping_mul(run));
                (0..).zip(flat_indices).try_for_each(put)
            }
            Entries::Blocks(matrices) => matrices.flat_indices(&elements).try_for_each(put),
        }
    }
}

/// Returns the number of elements of these dimensions.
pub(super) fn count_of(shape: &[u64]) -> Result<u64> {
    element_count(shape)
        .ok_or_else(|| COUNTS.broken(format!("shape {shape:?} exceeds 2^64 elements")))
}

/// Returns the attribute as a whole number, or 0 if it is missing.
pub(super) fn integer(attributes: &Attributes, key: &str) -> Result<u64> {
    let Some(value) = attributes.get(key) else { return Ok(0) };
    let number = value.as_integer().and_then(|n| u64::try_from(n).ok());
    number.ok_or_else(|| ATTRIBUTE.broken(format!("`{key}` must be a non-negative whole number")))
}
