//! The cells of a grid: a scale, and a zero point or a bias, for a rectangle of elements.

use super::super::decoding::{
    Along, Arithmetic, Decoding, Factor, Grid, Order, ScaleType, Zeros, ZerosForm,
};
use super::super::{CONTENT, Decoded, SHAPE, TYPE};
use super::codes::CodeReader;
use holdall_core::error::Result;
use holdall_core::layout::float::decode_f32;
use holdall_core::{DType, LogicalType};

/// Scales and zero points as `f32`, and the operation that applies them to codes.
#[derive(Debug)]
pub(super) struct CellValues {
    /// Columns of the grid.
    columns: usize,
    scales: Vec<f32>,
    /// Zero points, biases or shifts. Empty without them.
    offsets: Vec<f32>,
    rows: RowCells,
    column_size: ColumnCells,
    arithmetic: Arithmetic,
}

/// The row of the grid that a row of the stacked matrices belongs to.
#[derive(Debug)]
enum RowCells {
    /// A row of a grid serves `size` consecutive rows of a matrix. Each matrix has `rows` rows. The grid of each matrix
    /// has `per_matrix` rows; 0 if all matrices share one grid.
    Size { rows: usize, size: usize, per_matrix: usize },
    /// For each row of a matrix, its row of the grid.
    Index(Vec<u32>),
}

/// The column of the grid that a column belongs to.
#[derive(Debug)]
enum ColumnCells {
    Size(usize),
    Index(Vec<u32>),
}

impl CellValues {
    /// Reads the components of the grid.
    ///
    /// # Errors
    /// Returns [`SHAPE`] if the number of scales or zero points does not fit, [`CONTENT`] if indices are out of range,
    /// and the errors of `component`.
    pub(super) fn new(
        decoding: &Decoding,
        component: &impl Fn(&str) -> Result<Decoded>,
    ) -> Result<CellValues> {
        let grid = &decoding.grid;
        let scales = scales(grid, component)?;
        let zeros = match &decoding.arithmetic {
            Arithmetic::Zeros(zeros)
            | Arithmetic::Bias(zeros)
            | Arithmetic::RoundedShift(zeros, _) => Some(zeros),
            _ => None,
        };
        let offsets = zeros.map(|zeros| offsets(grid, zeros, component)).transpose()?;
        let offsets = offsets.unwrap_or_default();
        let rows = match grid.row {
            Along::Size(size) => RowCells::Size {
                rows: size_of(decoding.rows)?.max(1),
                size: size_of(size)?.max(1),
                per_matrix: if grid.matrices == 1 { 0 } else { size_of(grid.rows)? },
            },
            Along::Index(role) => {
                RowCells::Index(indices(&component(role)?, decoding.rows, grid.rows)?)
            }
        };
        let column_size = match grid.column {
            Along::Size(size) => ColumnCells::Size(size_of(size)?.max(1)),
            Along::Index(role) => {
                ColumnCells::Index(indices(&component(role)?, decoding.columns, grid.columns)?)
            }
        };
        let arithmetic = decoding.arithmetic.clone();
        let columns = size_of(grid.columns)?;
        Ok(CellValues { columns, scales, offsets, rows, column_size, arithmetic })
    }

    /// Replaces codes of row `row`, from column `start` on, by values.
    #[inline]
    pub(super) fn apply(&self, row: usize, start: usize, out: &mut [f32]) {
        match &self.arithmetic {
            Arithmetic::Multiply => self.each(row, start, out, |x, s, _| x * s),
            Arithmetic::MultiplyBy(by) => self.each(row, start, out, |x, s, _| x * s * by),
            Arithmetic::DivideOffset(zero) => self.each(row, start, out, |x, s, _| (x - zero) / s),
            Arithmetic::Offset(zero) => self.each(row, start, out, |x, s, _| (x - zero) * s),
            Arithmetic::Zeros(_) => self.each(row, start, out, |x, s, z| (x - z) * s),
            Arithmetic::Bias(_) => self.each(row, start, out, |x, s, b| x * s + b),
            Arithmetic::RoundedShift(_, DType::Bf16) => {
                let round = |x: f32| half::bf16::from_f32(x).to_f32();
                self.each(row, start, out, |x, s, z| round(round(x * s) - z));
            }
            Arithmetic::RoundedShift(_, DType::F16) => {
                let round = |x: f32| half::f16::from_f32(x).to_f32();
                self.each(row, start, out, |x, s, z| round(round(x * s) - z));
            }
            Arithmetic::RoundedShift(..) => self.each(row, start, out, |x, s, z| x * s - z),
        }
    }

    /// Calls `fill` with the number of elements before each part of `out` that has one scale, the part, and the scale.
    /// Does nothing and returns `false` if values are not the products of codes and scales, if the column of the grid
    /// is looked up in a table of indices, or if a scale serves fewer than 32 columns.
    #[inline]
    pub(super) fn for_products(
        &self,
        row: usize,
        start: usize,
        out: &mut [f32],
        mut fill: impl FnMut(usize, &mut [f32], f32),
    ) -> bool {
        let (Arithmetic::Multiply, ColumnCells::Size(size)) = (&self.arithmetic, &self.column_size)
        else {
            return false;
        };
        if *size < 32 {
            return false;
        }
        let first = self.grid_row(row).saturating_mul(self.columns);
        let scales = self.scales.get(first..).unwrap_or(&[]);
        let mut cell = start.checked_div(*size).unwrap_or(0);
        let mut left = size.saturating_sub(start.checked_rem(*size).unwrap_or(0));
        let (mut done, mut out) = (0usize, out);
        while !out.is_empty() {
            let Some((run, rest)) = out.split_at_mut_checked(left.min(out.len())) else { break };
            let len = run.len();
            fill(done, run, scales.get(cell).copied().unwrap_or(f32::NAN));
            (done, out) = (done.saturating_add(len), rest);
            (cell, left) = (cell.saturating_add(1), *size);
        }
        true
    }

    /// Returns the row of the grid that a row of the stacked matrices belongs to.
    #[inline]
    fn grid_row(&self, row: usize) -> usize {
        match &self.rows {
            RowCells::Size { rows, size, per_matrix } => {
                let matrix = row.checked_div(*rows).unwrap_or(0);
                let within = row.checked_rem(*rows).unwrap_or(0);
                let cell = within.checked_div(*size).unwrap_or(0);
                matrix.saturating_mul(*per_matrix).saturating_add(cell)
            }
            RowCells::Index(cells) => cells.get(row).map_or(usize::MAX, |cell| *cell as usize),
        }
    }

    #[inline(always)]
    fn each(
        &self,
        row: usize,
        start: usize,
        out: &mut [f32],
        operation: impl Fn(f32, f32, f32) -> f32,
    ) {
        let first = self.grid_row(row).saturating_mul(self.columns);
        let line = |all| -> &[f32] { <[f32]>::get(all, first..).unwrap_or(&[]) };
        let (scales, offsets) = (line(&self.scales), line(&self.offsets));
        match &self.column_size {
            ColumnCells::Size(1) => {
                let scales = scales.get(start..).unwrap_or(&[]);
                if offsets.is_empty() {
                    for (x, s) in out.iter_mut().zip(scales) {
                        *x = operation(*x, *s, 0.0);
                    }
                } else {
                    let offsets = offsets.get(start..).unwrap_or(&[]);
                    for ((x, s), z) in out.iter_mut().zip(scales).zip(offsets) {
                        *x = operation(*x, *s, *z);
                    }
                }
            }
            ColumnCells::Size(size) => {
                let cell = start.checked_div(*size).unwrap_or(0);
                let within = start.checked_rem(*size).unwrap_or(0);
                let value = |all: &[f32], cell: usize| all.get(cell).copied().unwrap_or_default();
                let (head, tail) = out.split_at_mut(size.saturating_sub(within).min(out.len()));
                let run = |run: &mut [f32], cell: usize| {
                    // A tensor without a scale for each cell cannot exist: the number of scales was checked.
                    let (s, z) = (value(scales, cell), value(offsets, cell));
                    let (whole, rest) = run.as_chunks_mut::<16>();
                    for line in whole {
                        for x in line {
                            *x = operation(*x, s, z);
                        }
                    }
                    for x in rest {
                        *x = operation(*x, s, z);
                    }
                };
                run(head, cell);
                let cell = cell.saturating_add(1);
                if *size == 16 && offsets.is_empty() {
                    // The most frequent small size, without a loop of unknown length.
                    let (whole, rest) = tail.as_chunks_mut::<16>();
                    let count = whole.len();
                    for (line, s) in whole.iter_mut().zip(scales.get(cell..).unwrap_or(&[])) {
                        for x in line {
                            *x = operation(*x, *s, 0.0);
                        }
                    }
                    return run(rest, cell.saturating_add(count));
                }
                for (cell, x) in (cell..).zip(tail.chunks_mut(*size)) {
                    run(x, cell);
                }
            }
            ColumnCells::Index(cells) => {
                for (x, cell) in out.iter_mut().zip(cells.get(start..).unwrap_or(&[])) {
                    let value = |all: &[f32]| all.get(*cell as usize).copied().unwrap_or_default();
                    *x = operation(*x, value(scales), value(offsets));
                }
            }
        }
    }
}

fn size_of(n: u64) -> Result<usize> {
    usize::try_from(n).map_err(|_| SHAPE.broken(format!("{n} exceeds the address space")))
}

/// Returns the number of cells of all grids.
fn cell_count(grid: &Grid) -> Result<u64> {
    let count = grid.matrices.checked_mul(grid.rows).and_then(|n| n.checked_mul(grid.columns));
    count.ok_or_else(|| SHAPE.broken("the number of scales exceeds 2^64"))
}

/// Converts the numbers of a component to `f32`.
///
/// # Errors
/// Returns [`SHAPE`] unless there are `count` numbers.
fn numbers(
    decoded: &Decoded,
    logical: Option<&LogicalType>,
    count: u64,
    role: &str,
) -> Result<Vec<f32>> {
    let width = match logical {
        Some(_) => 1,
        None => decoded.dtype.width(),
    };
    let found = (decoded.bytes.len() as u64).checked_div(width).unwrap_or(0);
    if found != count {
        let message = format!("expected {count} numbers in `{role}`, found {found}");
        return Err(SHAPE.broken(message));
    }
    // Not more than the bytes in memory, which were just counted.
    let mut out = Vec::with_capacity(size_of(count)?);
    decode_f32(decoded.dtype, logical, &decoded.bytes, |values| out.extend_from_slice(values))?;
    Ok(out)
}

/// Returns the scales of all cells, in row-major order.
fn scales(grid: &Grid, component: &impl Fn(&str) -> Result<Decoded>) -> Result<Vec<f32>> {
    let count = cell_count(grid)?;
    let decoded = component(grid.scale)?;
    let logical = match &grid.scale_type {
        ScaleType::Stored => decoded.logical_type.clone(),
        ScaleType::E8m0 => Some(LogicalType::F8E8M0),
        ScaleType::E4m3 => Some(LogicalType::F8E4M3Fn),
        ScaleType::Nested { block, offset } => {
            return nested(&decoded, count, *block, *offset, component);
        }
    };
    let is_byte = |logical: &LogicalType| logical.bits() == Some(8);
    if !logical.as_ref().is_none_or(is_byte) {
        return Err(TYPE.broken(format!("scales cannot be {}", decoded.dtype)));
    }
    let read = |count| numbers(&decoded, logical.as_ref(), count, grid.scale);
    let lines = grid.matrices.saturating_mul(grid.rows);
    let mut out = match grid.order {
        Order::Rows(stride) if stride == grid.columns => read(count)?,
        Order::Rows(stride) => {
            let all = read(lines.saturating_mul(stride))?;
            let columns = size_of(grid.columns)?;
            let kept = |line: &[f32]| line.get(..columns).unwrap_or(line).to_vec();
            all.chunks(size_of(stride)?.max(1)).flat_map(kept).collect()
        }
        Order::Tiles { rows, columns } => {
            let padded = rows.saturating_mul(columns);
            let all = read(grid.matrices.saturating_mul(padded))?;
            untile(&all, grid, size_of(padded)?, size_of(columns)?)?
        }
    };
    if let Some(factor) = grid.factor {
        apply_factor(&mut out, grid, factor, component)?;
    }
    Ok(out)
}

/// Returns the scales of tiles of 128 rows and 4 columns in row-major order. Row `r` and column `c` of a tile are at
/// index `16 * (r mod 32) + 4 * (r / 32) + c`.
fn untile(all: &[f32], grid: &Grid, padded: usize, padded_columns: usize) -> Result<Vec<f32>> {
    let (rows, columns) = (size_of(grid.rows)?, size_of(grid.columns)?);
    let tiles = padded_columns / 4;
    let mut out = Vec::with_capacity(size_of(cell_count(grid)?)?);
    for matrix in all.chunks(padded.max(1)).take(size_of(grid.matrices)?) {
        for row in 0..rows {
            for column in 0..columns {
                let tile = (row / 128).saturating_mul(tiles).saturating_add(column / 4);
                // Bit fields of the index: none overlaps another.
                let within = (row % 32) << 4 | ((row % 128) / 32) << 2 | (column % 4);
                let at = tile.saturating_mul(512).saturating_add(within);
                let too_few = || {
                    let (least, found) = (at.saturating_add(1), matrix.len());
                    let message =
                        format!("expected at least {least} scales in tiles, found {found}");
                    SHAPE.broken(message)
                };
                out.push(matrix.get(at).copied().ok_or_else(too_few)?);
            }
        }
    }
    Ok(out)
}

fn apply_factor(
    scales: &mut [f32],
    grid: &Grid,
    factor: Factor,
    component: &impl Fn(&str) -> Result<Decoded>,
) -> Result<()> {
    let decoded = component(factor.role)?;
    let logical = decoded.logical_type.clone();
    let found = (decoded.bytes.len() as u64).checked_div(decoded.dtype.width()).unwrap_or(0);
    let count = if found == 1 { 1 } else { grid.matrices };
    let factors = numbers(&decoded, logical.as_ref(), count, factor.role)?;
    let each = size_of(grid.rows.saturating_mul(grid.columns))?;
    let each = if count == 1 { scales.len() } else { each };
    for (matrix, by) in scales.chunks_mut(each.max(1)).zip(factors) {
        for scale in matrix {
            *scale = if factor.is_divisor { *scale / by } else { *scale * by };
        }
    }
    Ok(())
}

/// Dequantizes scales that are themselves quantized, in blocks of `block` with one outer scale each.
fn nested(
    decoded: &Decoded,
    count: u64,
    block: u64,
    offset: f32,
    component: &impl Fn(&str) -> Result<Decoded>,
) -> Result<Vec<f32>> {
    if decoded.bytes.len() as u64 != count {
        let message = format!("expected {count} scales, found {}", decoded.bytes.len());
        return Err(SHAPE.broken(message));
    }
    let read = |role: &str, count: u64| -> Result<Vec<f32>> {
        let decoded = component(role)?;
        numbers(&decoded, decoded.logical_type.as_ref(), count, role)
    };
    let map = read("nested_map", 256)?;
    let block = block.max(1);
    let outer = read("nested_scale", count.div_ceil(block))?;
    let blocks = decoded.bytes.chunks(size_of(block)?).zip(outer);
    let value = |code: &u8, scale: f32| {
        map.get(usize::from(*code)).copied().unwrap_or(f32::NAN) * scale + offset
    };
    Ok(blocks
        .flat_map(|(codes, scale)| codes.iter().map(move |c| (c, scale)))
        .map(|(code, scale)| value(code, scale))
        .collect())
}

/// Returns the zero points, biases or shifts of all cells.
fn offsets(
    grid: &Grid,
    zeros: &Zeros,
    component: &impl Fn(&str) -> Result<Decoded>,
) -> Result<Vec<f32>> {
    let count = cell_count(grid)?;
    let decoded = component(zeros.role)?;
    match &zeros.form {
        ZerosForm::Numbers => numbers(&decoded, decoded.logical_type.as_ref(), count, zeros.role),
        ZerosForm::Packed { codes, bits, add } => {
            let dims = [grid.matrices, grid.rows, grid.columns];
            let reader = CodeReader::new(codes, dims, decoded.bytes, component)?;
            let columns = size_of(grid.columns)?;
            let mut out = vec![0f32; size_of(count)?];
            let modulus = 1u32.wrapping_shl(*bits) as f32;
            for (row, line) in out.chunks_mut(columns.max(1)).enumerate() {
                reader.read(row, 0, line);
                for zero in line.iter_mut().filter(|_| *add > 0) {
                    *zero += *add as f32;
                    *zero = if *zero >= modulus { *zero - modulus } else { *zero };
                }
            }
            Ok(out)
        }
    }
}

/// Reads `count` indices below `end`.
fn indices(decoded: &Decoded, count: u64, end: u64) -> Result<Vec<u32>> {
    let wrong = |n: i64| CONTENT.broken(format!("a group index is {n}, expected 0..{end}"));
    let check = |n: i64| -> Result<u32> {
        let index = u32::try_from(n).map_err(|_| wrong(n))?;
        if u64::from(index) < end { Ok(index) } else { Err(wrong(n)) }
    };
    let out: Result<Vec<u32>> = match decoded.dtype {
        DType::I32 => {
            let words = decoded.bytes.as_chunks::<4>().0;
            words.iter().map(|word| check(i64::from(i32::from_le_bytes(*word)))).collect()
        }
        DType::I64 => {
            let words = decoded.bytes.as_chunks::<8>().0;
            words.iter().map(|word| check(i64::from_le_bytes(*word))).collect()
        }
        other => return Err(TYPE.broken(format!("expected indices of i32 or i64, found {other}"))),
    };
    let out = out?;
    if out.len() as u64 != count {
        return Err(SHAPE.broken(format!("expected {count} group indices, found {}", out.len())));
    }
    Ok(out)
}
