//! Compressed rows.

use super::{
    COUNTS, INDEX_BOUNDS, INDPTR_END, INDPTR_ORDER, INDPTR_START, Indices, PACKED, RANK, component,
    more, scatter, scatter_into, split_packed, stored_of, value_width, values_of, wrong_layout,
};
use crate::error::Result;
use crate::layout::dense::Dense;
use crate::layout::{DENSE_LIMIT, Decoded};
use crate::limits::Limits;
use crate::model::{DType, Layout, Role, TensorInfo};
use bytes::Bytes;
use std::ops::Range;

/// A sparse matrix by rows: the values of row `r` are those numbered `indptr[r]..indptr[r + 1]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Csr {
    shape: [u64; 2],
    indptr: Indices,
    indices: Indices,
    values: Dense,
}

/// One value of a [`Csr`] and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsrEntry<'a> {
    /// Row.
    pub row: u64,
    /// Column.
    pub column: u64,
    /// The bytes of the value, little-endian.
    pub value: &'a [u8],
}

impl Csr {
    /// The view of a tensor of layout `sparse_csr` or `sparsecsr`, whose decoded components `get`
    /// hands out.
    ///
    /// # Errors
    /// [`WRONG_LAYOUT`](crate::layout::WRONG_LAYOUT); what `get` fails with; as [`Csr::new`] and
    /// [`Csr::from_packed`].
    pub fn from_tensor(
        info: &TensorInfo,
        get: impl Fn(&Role) -> Result<Bytes>,
        limits: &Limits,
    ) -> Result<Csr> {
        match info.layout() {
            Layout::SparseCsr => Csr::new(
                info.shape(),
                component(info, &get, Role::Indptr)?,
                component(info, &get, Role::Indices)?,
                component(info, &get, Role::Values)?,
                limits,
            ),
            Layout::PackedCsr => {
                Csr::from_packed(info.shape(), component(info, &get, Role::Data)?, limits)
            }
            _ => Err(wrong_layout(info, "compressed rows")),
        }
    }

    /// A view of these components of a matrix.
    ///
    /// # Errors
    /// [`RANK`], [`COUNTS`], [`INDPTR_START`], [`INDPTR_ORDER`], [`INDPTR_END`], [`INDEX_BOUNDS`],
    /// and those of [`Indices::new`].
    pub fn new(
        shape: &[u64],
        indptr: Decoded,
        indices: Decoded,
        values: Decoded,
        limits: &Limits,
    ) -> Result<Csr> {
        let &[rows, columns] = shape else {
            return Err(RANK.broken(format!("{} dimensions", shape.len())));
        };
        let indptr = Indices::new(indptr, limits).map_err(|e| e.in_component(Role::Indptr))?;
        let indices = Indices::new(indices, limits).map_err(|e| e.in_component(Role::Indices))?;
        let (values, count) = values_of(values)?;
        if indices.len() != count {
            let found = indices.len();
            let message = format!("{found} column indices for {count} values");
            return Err(COUNTS.broken(message).in_component(Role::Indices));
        }
        check_indptr(&indptr, 0..indptr.len(), rows, count)
            .map_err(|e| e.in_component(Role::Indptr))?;
        if let Some((at, index)) = indices.outside(0..count, columns) {
            let message = format!("column index {index} (number {at}) of {columns} columns");
            return Err(INDEX_BOUNDS.broken(message).in_component(Role::Indices));
        }
        Ok(Csr { shape: [rows, columns], indptr, indices, values })
    }

    /// A view of zTensor 0.1's one component: rows + 1 pointers and the column of each value, all
    /// u64, then the values, whose type is that of `data`.
    ///
    /// # Errors
    /// [`PACKED`], and as [`Csr::new`].
    pub fn from_packed(shape: &[u64], data: Decoded, limits: &Limits) -> Result<Csr> {
        let &[rows, _] = shape else {
            return Err(RANK.broken(format!("{} dimensions", shape.len())));
        };
        let width = value_width(data.dtype, data.logical_type.as_ref())?;
        let pointers = rows.checked_add(1).and_then(|n| n.checked_mul(8));
        let (indptr, rest) = split_packed(&data.bytes, pointers)?;
        if !rest.len().is_multiple_of(8 + width) {
            let message = format!(
                "{} bytes after the row pointers are not a whole number of entries of {}",
                rest.len(),
                8 + width
            );
            return Err(PACKED.broken(message).in_component(Role::Data));
        }
        let (indices, values) = split_packed(&rest, Some((rest.len() / (8 + width) * 8) as u64))?;
        Csr::new(
            shape,
            Decoded::new(DType::U64, indptr),
            Decoded::new(DType::U64, indices),
            Decoded { bytes: values, ..data },
            limits,
        )
    }

    /// The elements of a dense matrix that are not zero: all bits count, so that a negative zero is kept.
    ///
    /// # Errors
    /// [`RANK`]; [`ELEMENT_SIZE`](crate::layout::ELEMENT_SIZE) for elements below 8 bits;
    /// [`LENGTH`](crate::layout::LENGTH); [`DENSE_LIMIT`] for more rows than there is room for pointers.
    pub fn from_dense(dense: &Dense, limits: &Limits) -> Result<Csr> {
        let &[rows, columns] = dense.shape() else {
            return Err(RANK.broken(format!("{} dimensions", dense.shape().len())));
        };
        let (mut indices, values) = stored_of(dense)?;
        // A pointer for each row takes room; rows without columns can be as many as they like.
        let most = limits.decoded_len;
        if rows.checked_mul(8).is_none_or(|len| len >= most) {
            return Err(DENSE_LIMIT.broken(format!("{rows} row pointers, at most {most} bytes")));
        }
        let mut indptr = vec![0];
        let mut upto = 0;
        for row in 1..=rows {
            let rest = indices.get(upto..).unwrap_or_default();
            upto += rest.iter().take_while(|place| **place < row * columns).count();
            indptr.push(upto as u64);
        }
        indices.iter_mut().for_each(|place| *place %= columns.max(1));
        let (indptr, indices) = (Indices::owned(indptr), Indices::owned(indices));
        Ok(Csr { shape: [rows, columns], indptr, indices, values })
    }

    /// Rows and columns.
    pub fn shape(&self) -> [u64; 2] {
        self.shape
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.indices.len()
    }

    /// Pointers and columns as they are stored.
    pub fn stored(&self) -> (&Indices, &Indices) {
        (&self.indptr, &self.indices)
    }

    /// Where the values of each row start, and where those of the last one end: rows + 1 numbers,
    /// [widened](Indices::as_slice).
    pub fn indptr(&self) -> &[u64] {
        self.indptr.as_slice()
    }

    /// The column of each value, [widened](Indices::as_slice).
    pub fn indices(&self) -> &[u64] {
        self.indices.as_slice()
    }

    /// The values, in one dimension.
    pub fn values(&self) -> &Dense {
        &self.values
    }

    /// All values with their places, row by row.
    pub fn entries(&self) -> impl Iterator<Item = CsrEntry<'_>> {
        let width = self.values.bytes().len().checked_div(self.count()).unwrap_or(1).max(1);
        let columns = self.indices.range(0..self.count());
        let values = self.values.bytes().chunks_exact(width);
        let all = self.rows().zip(columns).zip(values);
        all.map(|((row, column), value)| CsrEntry { row, column, value })
    }

    /// The row of each value.
    fn rows(&self) -> impl Iterator<Item = u64> {
        let ends = self.indptr.range(1..self.indptr.len());
        let starts = self.indptr.range(0..self.indptr.len());
        let lens = starts.zip(ends).map(|(start, end)| end.saturating_sub(start));
        (0u64..).zip(lens).flat_map(|(row, len)| (0..len).map(move |_| row))
    }

    /// The number of each stored element among all of them, row by row.
    pub fn places(&self) -> impl Iterator<Item = u64> {
        let columns = self.shape()[1];
        self.entries().map(move |e| e.row.wrapping_mul(columns).wrapping_add(e.column))
    }

    /// The matrix with its zeros; values of one place are summed.
    ///
    /// # Errors
    /// [`DENSE_LIMIT`](crate::layout::DENSE_LIMIT), [`SUM`](super::SUM).
    pub fn to_dense(&self, limits: &Limits) -> Result<Dense> {
        let columns = self.shape[1];
        let places = self.rows().zip(self.indices.range(0..self.count()));
        // It cannot wrap where the size of the whole was found to fit.
        let places = places.map(|(row, c)| row.wrapping_mul(columns).wrapping_add(c));
        scatter(&self.shape, &self.values, limits, places)
    }

    /// Appends elements `elements` of the row-major order of the matrix with its zeros to `out`; values of one place are summed.
    ///
    /// # Errors
    /// [`LENGTH`](crate::layout::LENGTH), where they do not fit memory.
    pub fn elements(&self, elements: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let (out, width) = more(&self.values, &elements, out)?;
        let columns = self.shape[1].max(1);
        let rows = elements.start / columns..elements.end.div_ceil(columns).min(self.shape[0]);
        let start = |row: u64| {
            let of_row = usize::try_from(row).ok().and_then(|row| self.indptr.get(row));
            of_row.map_or(0, |at| at as usize)
        };
        let entries = rows.flat_map(|row| {
            let entries = start(row)..start(row.saturating_add(1));
            let columns = self.indices.range(entries.clone());
            entries.zip(columns).map(move |(entry, column)| (row, entry, column))
        });
        let all = entries.filter_map(|(row, entry, column)| {
            // It cannot wrap where the size of the whole was found to fit.
            let place = row.wrapping_mul(self.shape[1]).wrapping_add(column);
            let at = entry.saturating_mul(width);
            let value = self.values.bytes().get(at..at.saturating_add(width))?;
            elements.contains(&place).then_some((value, place))
        });
        scatter_into(&self.values, width, elements.start, out, all)
    }
}

/// Checks those pointers of `all` that are in `own`: they are of so many rows, which have `count` values.
pub(super) fn check_indptr(
    all: &Indices,
    own: Range<usize>,
    rows: u64,
    count: usize,
) -> Result<()> {
    let found = own.len();
    if Some(found as u64) != rows.checked_add(1) {
        return Err(COUNTS.broken(format!("{found} row pointers for {rows} rows")));
    }
    let first = all.get(own.start).unwrap_or(0);
    if first != 0 {
        return Err(INDPTR_START.broken(format!("the first row pointer is {first}")));
    }
    let mut last = 0;
    all.runs(own.clone(), |start, run| {
        let starts = std::iter::once(&last).chain(run);
        if let Some(at) = starts.zip(run).position(|(start, end)| start > end) {
            let row = start + at - own.start - 1;
            let before = at.checked_sub(1).and_then(|at| run.get(at)).unwrap_or(&last);
            let message = format!("row {row} goes from {before} to {}", run[at]);
            return Err(INDPTR_ORDER.broken(message));
        }
        last = run.last().copied().unwrap_or(last);
        Ok(())
    })?;
    if last != count as u64 {
        return Err(INDPTR_END.broken(format!("the last row pointer is {last} of {count} values")));
    }
    Ok(())
}
