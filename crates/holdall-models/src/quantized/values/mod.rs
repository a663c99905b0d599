//! The values of a quantized weight.

mod codes;
mod grid;

use super::decoding::Decoding;
use super::{Decoded, SHAPE};
use codes::CodeReader;
use grid::CellValues;
use holdall_core::error::Result;
use holdall_core::layout::{Computed, LENGTH, ROWS};
use std::ops::Range;

/// The maximum number of elements that are decoded before their scales are applied, so that they stay in the cache.
const RUN: usize = 1024;
/// Rows and columns of a stored matrix that are transposed at a time.
const TILE_ROWS: usize = 16;
const TILE_COLUMNS: usize = 128;

/// The values of a quantized weight, computed from its decoded components.
#[derive(Debug)]
pub struct WeightValues {
    shape: Vec<u64>,
    count: u64,
    rows: usize,
    columns: usize,
    is_transposed: bool,
    codes: CodeReader,
    cells: CellValues,
}

impl WeightValues {
    /// Creates the view. `component` returns the component in a role.
    pub(super) fn new(
        decoding: &Decoding,
        shape: &[u64],
        component: impl Fn(&str) -> Result<Decoded>,
    ) -> Result<WeightValues> {
        let too_large = || SHAPE.broken(format!("shape {shape:?} exceeds the address space"));
        let size = |n: u64| usize::try_from(n).map_err(|_| too_large());
        let codes = CodeReader::new(
            &decoding.codes,
            [decoding.matrices, decoding.rows, decoding.columns],
            component(decoding.data)?.bytes,
            |role| component(role),
        )?;
        let cells = CellValues::new(decoding, &component)?;
        Ok(WeightValues {
            shape: shape.to_vec(),
            count: decoding.count(),
            rows: size(decoding.rows)?,
            columns: size(decoding.columns)?,
            is_transposed: decoding.is_transposed,
            codes,
            cells,
        })
    }

    /// Computes values of the stored matrices: those of row `row`, from column `start` on.
    #[inline]
    fn stored_run(&self, row: usize, start: usize, out: &mut [f32]) {
        // Bytes are looked up and scaled in one pass.
        let is_done = self.codes.table_row(row, start).is_some_and(|(table, codes)| {
            self.cells.for_products(row, start, out, |done, run, scale| {
                for (x, code) in run.iter_mut().zip(codes.get(done..).unwrap_or(&[])) {
                    *x = codes::lookup(table, *code) * scale;
                }
            })
        });
        if !is_done {
            self.codes.read(row, start, out);
            self.cells.apply(row, start, out);
        }
    }

    fn rows_in_order(&self, first: usize, mut out: &mut [f32]) {
        let columns = self.columns.max(1);
        let mut row = first.checked_div(columns).unwrap_or(0);
        let mut column = first.checked_rem(columns).unwrap_or(0);
        while !out.is_empty() {
            let len = columns.saturating_sub(column).min(out.len()).min(RUN);
            let Some((run, rest)) = out.split_at_mut_checked(len) else { return };
            self.stored_run(row, column, run);
            column = column.saturating_add(len);
            if column >= columns {
                (row, column) = (row.saturating_add(1), 0);
            }
            out = rest;
        }
    }

    /// Computes elements of the transposed matrices. A row of the weight is a column of a stored matrix.
    fn rows_transposed(&self, first: usize, mut out: &mut [f32]) {
        let len = self.rows.max(1);
        let mut row = first.checked_div(len).unwrap_or(0);
        let mut at = first.checked_rem(len).unwrap_or(0);
        while !out.is_empty() {
            let columns = self.columns.max(1);
            let matrix = row.checked_div(columns).unwrap_or(0);
            let column = row.checked_rem(columns).unwrap_or(0);
            // Whole rows of the weight in one matrix, or a part of one row.
            let whole = out.len().checked_div(len).unwrap_or(0);
            let count = match at {
                0 if whole > 0 => whole.min(columns.saturating_sub(column)).min(TILE_COLUMNS),
                _ => 1,
            };
            let end =
                if at == 0 && whole > 0 { len } else { len.min(at.saturating_add(out.len())) };
            let taken = count.saturating_mul(end.saturating_sub(at));
            let Some((band, rest)) = out.split_at_mut_checked(taken) else { return };
            self.band(matrix.saturating_mul(self.rows), column, count, at..end, band);
            if end == len {
                (row, at) = (row.saturating_add(count), 0);
            } else {
                at = end;
            }
            out = rest;
        }
    }

    /// Computes `count` columns of a stored matrix, each from row `rows.start` to `rows.end`, as rows of `out`. `base`
    /// is the number of the matrix's first row.
    fn band(&self, base: usize, column: usize, count: usize, rows: Range<usize>, out: &mut [f32]) {
        let len = rows.len().max(1);
        let mut tile = [[0f32; TILE_COLUMNS]; TILE_ROWS];
        for top in rows.clone().step_by(TILE_ROWS) {
            let height = rows.end.saturating_sub(top).min(TILE_ROWS);
            for (row, line) in (base.saturating_add(top)..).zip(tile.iter_mut().take(height)) {
                if let Some(line) = line.get_mut(..count) {
                    self.stored_run(row, column, line);
                }
            }
            let left = top.saturating_sub(rows.start);
            for (at, target) in out.chunks_exact_mut(len).enumerate() {
                let target = target.get_mut(left..).unwrap_or_default();
                if height == TILE_ROWS
                    && let Some((target, _)) = target.split_first_chunk_mut::<TILE_ROWS>()
                {
                    for (x, line) in target.iter_mut().zip(&tile) {
                        *x = line.get(at).copied().unwrap_or(f32::NAN);
                    }
                } else {
                    for (x, line) in target.iter_mut().zip(tile.iter().take(height)) {
                        *x = line.get(at).copied().unwrap_or(f32::NAN);
                    }
                }
            }
        }
    }
}

impl Computed for WeightValues {
    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn dequantize_range(&self, elements: Range<u64>, out: &mut [f32]) -> Result<()> {
        let Range { start, end } = elements;
        if start > end || end > self.count {
            let message = format!("elements {start}..{end} are outside 0..{}", self.count);
            return Err(ROWS.broken(message));
        }
        let len = end.saturating_sub(start);
        if out.len() as u64 != len {
            let message = format!("expected a slice of {len} elements, found {}", out.len());
            return Err(LENGTH.broken(message));
        }
        let first = usize::try_from(start)
            .map_err(|_| ROWS.broken(format!("element {start} exceeds the address space")))?;
        match self.is_transposed {
            true => self.rows_transposed(first, out),
            false => self.rows_in_order(first, out),
        }
        Ok(())
    }
}
