//! Matrices of blocks, by compressed rows or columns.

use super::csr::check_indptr;
use super::tiles::{BATCH, BLOCK, COMPRESSED, Compressed, Tile, count_of, integer};
use super::{ATTRIBUTE, COUNTS, INDEX_BOUNDS, Indices};
use crate::error::Result;
use crate::model::{Attributes, Role, Value};
use std::ops::Range;

/// Matrices of blocks, in a batch. Each element of a matrix may be an array.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matrices {
    compressed: Compressed,
    block: [u64; 2],
    count: u64,
    rows: u64,
    columns: u64,
    /// The number of elements in an element of a matrix.
    inner: u64,
    indptr: Indices,
    indices: Indices,
}

impl Matrices {
    pub(super) fn new(
        shape: &[u64],
        attributes: &Attributes,
        indptr: Indices,
        indices: Indices,
    ) -> Result<Matrices> {
        let compressed = match attributes.get(COMPRESSED) {
            Some(Value::Text(side)) if side == "rows" => Compressed::Rows,
            Some(Value::Text(side)) if side == "columns" => Compressed::Columns,
            _ => {
                return Err(ATTRIBUTE.broken(format!("`{COMPRESSED}` must be `rows` or `columns`")));
            }
        };
        let block = match attributes.get(BLOCK) {
            None => Some([1, 1]),
            Some(Value::Array(sides)) => match sides.as_slice() {
                [height, width] => side(height).zip(side(width)).map(<[u64; 2]>::from),
                _ => None,
            },
            Some(_) => None,
        };
        let block = block.ok_or_else(|| {
            ATTRIBUTE.broken(format!("`{BLOCK}` must be two positive whole numbers"))
        })?;
        let number = integer(attributes, BATCH)?;
        let batch = usize::try_from(number).unwrap_or(usize::MAX);
        let Some((batch, [rows, columns, inner @ ..])) = shape.split_at_checked(batch) else {
            let message = format!(
                "`{BATCH}` is {number}, which needs two more dimensions, found {} dimensions",
                shape.len()
            );
            return Err(ATTRIBUTE.broken(message));
        };
        let (&rows, &columns, [height, width]) = (rows, columns, block);
        if !rows.is_multiple_of(height) || !columns.is_multiple_of(width) {
            let message =
                format!("{rows} × {columns} is not a multiple of blocks of {height} × {width}");
            return Err(ATTRIBUTE.broken(message));
        }
        let (count, inner) = (count_of(batch)?, count_of(inner)?);
        let matrices = Matrices { compressed, block, count, rows, columns, inner, indptr, indices };
        matrices.check()?;
        Ok(matrices)
    }

    fn check(&self) -> Result<()> {
        let (indptr, indices) = (&self.indptr, &self.indices);
        let [outer, inner] = self.blocks();
        let pointers = outer.checked_add(1).and_then(|n| n.checked_mul(self.count));
        if pointers != Some(indptr.len() as u64) {
            let (found, count) = (indptr.len(), self.count);
            let message = format!("{found} pointers do not match {count} matrices of {outer}");
            return Err(COUNTS.broken(message).in_component(Role::Indptr));
        }
        // At most the number of pointers, which are in memory.
        let count = self.count as usize;
        if !indices.len().is_multiple_of(count) {
            let message =
                format!("{} indices are not a multiple of {count} matrices", indices.len());
            return Err(COUNTS.broken(message).in_component(Role::Indices));
        }
        if let Some((at, index)) = indices.outside(0..indices.len(), inner) {
            let message = format!("index {index} (number {at}) is outside 0..{inner}");
            return Err(INDEX_BOUNDS.broken(message).in_component(Role::Indices));
        }
        let own = indices.len() / count.max(1);
        let each = outer as usize + 1;
        for start in (0..indptr.len()).step_by(each).take(count) {
            check_indptr(indptr, start..start + each, outer, own)
                .map_err(|e| e.in_component(Role::Indptr))?;
        }
        Ok(())
    }

    /// Returns the number of blocks of a matrix in the compressed dimension, and in the other.
    fn blocks(&self) -> [u64; 2] {
        let [height, width] = self.block;
        let (rows, columns) = (self.rows / height, self.columns / width);
        match self.compressed {
            Compressed::Rows => [rows, columns],
            Compressed::Columns => [columns, rows],
        }
    }

    pub(super) fn tile(&self) -> Tile {
        let [runs, width] = self.block;
        // These fit if the number of all elements does.
        let (run, step) = (width.wrapping_mul(self.inner), self.columns.wrapping_mul(self.inner));
        Tile { runs, run, step }
    }

    /// Returns the number of entries.
    pub(super) fn entries(&self) -> usize {
        self.indices.len()
    }

    /// Returns the entries that may overlap with `elements`, each with the row-major index of its first element.
    pub(super) fn flat_indices(&self, elements: &Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        let [height, width] = self.block;
        let [outer, _] = self.blocks();
        let row = self.columns.wrapping_mul(self.inner);
        let matrix = self.rows.wrapping_mul(row);
        let Range { start, end } = elements.clone();
        let own = (self.entries() as u64).checked_div(self.count).unwrap_or(0);
        let those = move |size: u64, first: u64, count: u64| {
            let size = size.max(1);
            let upto = end.saturating_sub(first).div_ceil(size).min(count);
            start.saturating_sub(first) / size..upto
        };
        those(matrix, 0, self.count).flat_map(move |number| {
            let first = number.wrapping_mul(matrix);
            let lines = match self.compressed {
                Compressed::Rows => those(row.wrapping_mul(height), first, outer),
                Compressed::Columns => 0..outer,
            };
            let pointers = number.wrapping_mul(outer + 1);
            lines.flat_map(move |line| {
                // Ascending, up to the number of indices of the matrix.
                let pointer = |line: u64| {
                    let at = usize::try_from(pointers.wrapping_add(line)).unwrap_or(usize::MAX);
                    self.indptr.get(at).unwrap_or(0)
                };
                let entries = pointer(line)..pointer(line + 1);
                entries.map(move |entry| {
                    let entry = number.wrapping_mul(own).wrapping_add(entry);
                    let other = self.indices.get(entry as usize).unwrap_or(0);
                    let (down, across) = match self.compressed {
                        Compressed::Rows => (line, other),
                        Compressed::Columns => (other, line),
                    };
                    let down = (down * height).wrapping_mul(row);
                    let across = (across * width).wrapping_mul(self.inner);
                    (entry, first.wrapping_add(down).wrapping_add(across))
                })
            })
        })
    }
}

/// Returns a side of a block.
fn side(value: &Value) -> Option<u64> {
    value.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0)
}
