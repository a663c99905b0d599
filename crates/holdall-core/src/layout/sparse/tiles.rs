//! Entries that are arrays themselves: blocks of matrices, and coordinates of some dimensions.

use super::{
    ATTRIBUTE, COUNTS, INDEX_BOUNDS, Indices, component, csr::check_indptr, scatter, values_of,
    wrong_layout,
};
use crate::error::Result;
use crate::layout::dense::Dense;
use crate::limits::Limits;
use crate::model::{Attributes, Layout, Role, TensorInfo, Value, element_count};
use bytes::Bytes;

/// Whether pointers are of rows or of columns.
const COMPRESSED: &str = "compressed";
/// The two dimensions of a block.
const BLOCK: &str = "block";
/// How many dimensions are before those of a matrix.
const BATCH: &str = "batch";
/// How many dimensions have coordinates.
const COORDINATES: &str = "coordinates";

/// A sparse tensor whose entries are arrays, each of as many elements.
#[derive(Debug, Clone, PartialEq)]
pub struct Tiles {
    shape: Vec<u64>,
    tile: Tile,
    /// Where the first element of each entry is, among all of the tensor, row by row.
    places: Vec<u64>,
    values: Dense,
}

/// What elements of a tensor an entry has: runs of neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tile {
    runs: u64,
    /// Elements of a run.
    run: u64,
    /// From the start of one to that of the next.
    step: u64,
}

/// What pointers are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressed {
    /// Rows of blocks: each entry has a column.
    Rows,
    /// Columns of blocks: each entry has a row.
    Columns,
}

/// The attributes of a tensor of the layout `sparse_blocks`.
pub fn blocks(of: Compressed, block: [u64; 2], batch: u64) -> Attributes {
    let side = match of {
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

/// Those of a tensor of the layout `sparse_hybrid`.
pub fn hybrid(coordinates: u64) -> Attributes {
    Attributes::from_iter([(COORDINATES.to_owned(), Value::Integer(coordinates.into()))])
}

/// The attributes without those two kinds.
pub fn without(mut attributes: Attributes) -> Attributes {
    for key in [COMPRESSED, BLOCK, BATCH, COORDINATES] {
        attributes.remove(key);
    }
    attributes
}

impl Tiles {
    /// The view of a tensor of layout `sparse_blocks` or `sparse_hybrid`, whose decoded components `get` hands out.
    ///
    /// # Errors
    /// [`WRONG_LAYOUT`](crate::layout::WRONG_LAYOUT); what `get` fails with; [`ATTRIBUTE`], [`COUNTS`], [`INDEX_BOUNDS`], and those of
    /// [`Indices::new`] and of pointers.
    pub fn of(
        info: &TensorInfo,
        get: impl Fn(&Role) -> Result<Bytes>,
        limits: &Limits,
    ) -> Result<Tiles> {
        let indices = |role: Role| {
            let decoded = component(info, &get, role.clone())?;
            Indices::new(decoded, limits).map_err(|e| e.in_component(role))
        };
        let shape = info.shape().to_vec();
        let (tile, places) = match info.layout() {
            Layout::SparseBlocks => {
                let matrices = Matrices::of(&shape, info.attributes())?;
                let places = matrices.places(&indices(Role::Indptr)?, &indices(Role::Indices)?)?;
                (matrices.tile(), places)
            }
            Layout::SparseHybrid => by_coordinates(info, &indices(Role::Coords)?)?,
            _ => return Err(wrong_layout(info, "blocks or arrays at coordinates")),
        };
        let (values, count) = values_of(component(info, &get, Role::Values)?)?;
        let wanted = tile.runs.checked_mul(tile.run);
        let wanted = wanted.and_then(|own| own.checked_mul(places.len() as u64));
        if wanted != Some(count as u64) {
            let (entries, Tile { runs, run, .. }) = (places.len(), tile);
            let message = format!("{count} values for {entries} entries of {runs} × {run}");
            return Err(COUNTS.broken(message).in_component(Role::Values));
        }
        Ok(Tiles { shape, tile, places, values })
    }

    /// Entries.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The values of all entries, in one dimension.
    pub fn values(&self) -> &Dense {
        &self.values
    }

    /// The tensor with its zeros; values of one place are summed.
    ///
    /// # Errors
    /// [`DENSE_LIMIT`](crate::layout::DENSE_LIMIT), [`SUM`](super::SUM).
    pub fn to_dense(&self, limits: &Limits) -> Result<Dense> {
        let Tile { runs, run, step } = self.tile;
        // They cannot wrap where the size of the whole was found to fit.
        let of_entry = move |place: u64| {
            (0..runs).flat_map(move |n| {
                let start = place.wrapping_add(n.wrapping_mul(step));
                (0..run).map(move |at| start.wrapping_add(at))
            })
        };
        let places = self.places.iter().flat_map(|place| of_entry(*place));
        scatter(&self.shape, &self.values, limits, places)
    }
}

/// Where entries by coordinates are, and what each has.
fn by_coordinates(info: &TensorInfo, coords: &Indices) -> Result<(Tile, Vec<u64>)> {
    let (shape, coords) = (info.shape(), coords.as_slice());
    let number = integer(info.attributes(), COORDINATES)?;
    let dims = usize::try_from(number).unwrap_or(usize::MAX);
    let Some((dims, inner)) = shape.split_at_checked(dims).filter(|(dims, _)| !dims.is_empty())
    else {
        let message = format!("`{COORDINATES}` is {number} of {} dimensions", shape.len());
        return Err(ATTRIBUTE.broken(message));
    };
    let run = count_of(inner)?;
    let count = coords.len() / dims.len();
    if !coords.len().is_multiple_of(dims.len()) {
        let message = format!("{} coordinates in {} dimensions", coords.len(), dims.len());
        return Err(COUNTS.broken(message).in_component(Role::Coords));
    }
    let mut places = vec![0u64; count];
    for (d, size) in dims.iter().enumerate() {
        let own = coords.iter().skip(d * count);
        for (number, (place, at)) in places.iter_mut().zip(own).enumerate() {
            if at >= size {
                let message =
                    format!("coordinate {at} of entry {number} in dimension {d}, of size {size}");
                return Err(INDEX_BOUNDS.broken(message).in_component(Role::Coords));
            }
            *place = place.wrapping_mul(*size).wrapping_add(*at);
        }
    }
    places.iter_mut().for_each(|place| *place = place.wrapping_mul(run));
    Ok((Tile { runs: 1, run, step: run }, places))
}

/// Matrices in a batch, each of whose elements may be an array.
struct Matrices {
    of: Compressed,
    block: [u64; 2],
    count: u64,
    rows: u64,
    columns: u64,
    /// Elements of an element of a matrix.
    inner: u64,
}

impl Matrices {
    fn of(shape: &[u64], attributes: &Attributes) -> Result<Matrices> {
        let of = match attributes.get(COMPRESSED) {
            Some(Value::Text(side)) if side == "rows" => Compressed::Rows,
            Some(Value::Text(side)) if side == "columns" => Compressed::Columns,
            _ => return Err(ATTRIBUTE.broken(format!("`{COMPRESSED}` is not `rows` or `columns`"))),
        };
        let block = match attributes.get(BLOCK) {
            None => Some([1, 1]),
            Some(Value::Array(sides)) => match sides.as_slice() {
                [height, width] => side(height).zip(side(width)).map(<[u64; 2]>::from),
                _ => None,
            },
            Some(_) => None,
        };
        let block =
            block.ok_or_else(|| ATTRIBUTE.broken(format!("`{BLOCK}` is not two whole numbers")))?;
        let number = integer(attributes, BATCH)?;
        let batch = usize::try_from(number).unwrap_or(usize::MAX);
        let Some((batch, [rows, columns, inner @ ..])) = shape.split_at_checked(batch) else {
            let message =
                format!("`{BATCH}` is {number}, and there are {} dimensions", shape.len());
            return Err(ATTRIBUTE.broken(message));
        };
        let [height, width] = block;
        if !rows.is_multiple_of(height) || !columns.is_multiple_of(width) {
            let message = format!("{rows} × {columns} are no whole blocks of {height} × {width}");
            return Err(ATTRIBUTE.broken(message));
        }
        let (count, inner) = (count_of(batch)?, count_of(inner)?);
        Ok(Matrices { of, block, count, rows: *rows, columns: *columns, inner })
    }

    fn tile(&self) -> Tile {
        let [runs, width] = self.block;
        // They fit where all elements do.
        let (run, step) = (width.wrapping_mul(self.inner), self.columns.wrapping_mul(self.inner));
        Tile { runs, run, step }
    }

    fn places(&self, indptr: &Indices, indices: &Indices) -> Result<Vec<u64>> {
        let (indptr, indices) = (indptr.as_slice(), indices.as_slice());
        let [height, width] = self.block;
        let (rows, columns) = (self.rows / height, self.columns / width);
        let (outer, inner) = match self.of {
            Compressed::Rows => (rows, columns),
            Compressed::Columns => (columns, rows),
        };
        let pointers = outer.checked_add(1).and_then(|n| n.checked_mul(self.count));
        if pointers != Some(indptr.len() as u64) {
            let (found, count) = (indptr.len(), self.count);
            let message = format!("{found} pointers for {count} matrices of {outer}");
            return Err(COUNTS.broken(message).in_component(Role::Indptr));
        }
        // No more than there are pointers.
        let count = self.count as usize;
        if !indices.len().is_multiple_of(count) {
            let message = format!("{} indices for {count} matrices", indices.len());
            return Err(COUNTS.broken(message).in_component(Role::Indices));
        }
        if let Some(at) = indices.iter().position(|at| *at >= inner) {
            let message = format!("index {} (number {at}) of {inner}", indices[at]);
            return Err(INDEX_BOUNDS.broken(message).in_component(Role::Indices));
        }
        let mut places = Vec::with_capacity(indices.len());
        let own = (indices.len() / count.max(1)).max(1);
        let none: &[u64] = &[];
        let all = indices.chunks(own).chain(std::iter::repeat(none));
        let pointers = indptr.chunks(outer as usize + 1).take(count);
        for (matrix, (indptr, indices)) in (0u64..).zip(pointers.zip(all)) {
            check_indptr(indptr, outer, indices.len()).map_err(|e| e.in_component(Role::Indptr))?;
            for (at, ends) in (0u64..).zip(indptr.windows(2)) {
                // They rise up to as many as there are indices.
                let own = indices.get(ends[0] as usize..ends[1] as usize).unwrap_or_default();
                for other in own {
                    let (row, column) = match self.of {
                        Compressed::Rows => (at, *other),
                        Compressed::Columns => (*other, at),
                    };
                    let row = matrix.wrapping_mul(self.rows).wrapping_add(row * height);
                    let place = row.wrapping_mul(self.columns).wrapping_add(column * width);
                    places.push(place.wrapping_mul(self.inner));
                }
            }
        }
        Ok(places)
    }
}

/// The elements of such dimensions.
fn count_of(shape: &[u64]) -> Result<u64> {
    element_count(shape)
        .ok_or_else(|| COUNTS.broken(format!("shape {shape:?} has more elements than 2^64")))
}

/// A side of a block.
fn side(value: &Value) -> Option<u64> {
    value.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0)
}

/// A whole number; 0 where there is none.
fn integer(attributes: &Attributes, key: &str) -> Result<u64> {
    let Some(value) = attributes.get(key) else { return Ok(0) };
    let number = value.as_integer().and_then(|n| u64::try_from(n).ok());
    number.ok_or_else(|| ATTRIBUTE.broken(format!("`{key}` is not a whole number")))
}
