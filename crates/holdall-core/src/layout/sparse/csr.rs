//! Sparse matrices by compressed rows (CSR).

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
use holdall_collections::DebugUnwrap;
use std::ops::Range;

/// A sparse matrix by compressed rows: row `r` has the values `indptr[r]..indptr[r + 1]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Csr {
    shape: [u64; 2],
    indptr: Indices,
    indices: Indices,
    values: Dense,
}

/// One value of a [`Csr`], with its row and column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsrEntry<'a> {
    /// The row.
    pub row: u64,
    /// The column.
    pub column: u64,
    /// The bytes of the value, little-endian.
    pub value: &'a [u8],
}

impl Csr {
    /// Creates the view of a tensor of layout `sparse_csr` or `sparsecsr`. `get` returns decoded components.
    ///
    /// # Errors
    /// Returns [`WRONG_LAYOUT`](crate::layout::WRONG_LAYOUT) if the tensor has another layout, the errors of `get`, and
    /// those of [`Csr::new`] and [`Csr::from_packed`].
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

    /// Creates a view of the components of a matrix.
    ///
    /// # Errors
    /// Returns [`RANK`], [`COUNTS`], [`INDPTR_START`], [`INDPTR_ORDER`], [`INDPTR_END`] or [`INDEX_BOUNDS`] if the
    /// components are inconsistent, and the errors of [`Indices::new`].
    pub fn new(
        shape: &[u64],
        indptr: Decoded,
        indices: Decoded,
        values: Decoded,
        limits: &Limits,
    ) -> Result<Csr> {
        let &[rows, columns] = shape else {
            return Err(RANK.broken(format!("expected 2 dimensions, found {}", shape.len())));
        };
        let indptr = Indices::new(indptr, limits).map_err(|e| e.in_component(Role::Indptr))?;
        let indices = Indices::new(indices, limits).map_err(|e| e.in_component(Role::Indices))?;
        let (values, count) = values_of(values)?;
        if indices.len() != count {
            let found = indices.len();
            let message = format!("expected {count} column indices, one per value, found {found}");
            return Err(COUNTS.broken(message).in_component(Role::Indices));
        }
        check_indptr(&indptr, 0..indptr.len(), rows, count)
            .map_err(|e| e.in_component(Role::Indptr))?;
        if let Some((at, index)) = indices.outside(0..count, columns) {
            let message = format!("column index {index} (number {at}) is outside 0..{columns}");
            return Err(INDEX_BOUNDS.broken(message).in_component(Role::Indices));
        }
        Ok(Csr { shape: [rows, columns], indptr, indices, values })
    }

    /// Creates a view of zTensor 0.1's single component: rows + 1 pointers and the column of each value, all u64,
    /// followed by the values, whose type is that of `data`.
    ///
    /// # Errors
    /// Returns [`PACKED`] if the bytes have an impossible length, and the errors of [`Csr::new`].
    pub fn from_packed(shape: &[u64], data: Decoded, limits: &Limits) -> Result<Csr> {
        let &[rows, _] = shape else {
            return Err(RANK.broken(format!("expected 2 dimensions, found {}", shape.len())));
        };
        let width = value_width(data.dtype, data.logical_type.as_ref())?;
        let pointers = rows.checked_add(1).and_then(|n| n.checked_mul(8));
        let (indptr, rest) = split_packed(&data.bytes, pointers)?;
        if !rest.len().is_multiple_of(8 + width) {
            let message = format!(
                "{} bytes after the row pointers are not a multiple of {}, the bytes of an entry",
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

    /// Creates a sparse matrix from the elements of a dense matrix that are not zero. All bits count, so a negative
    /// zero is kept.
    ///
    /// # Errors
    /// Returns [`RANK`] if the tensor is not a matrix, [`ELEMENT_SIZE`](crate::layout::ELEMENT_SIZE) for elements below
    /// 8 bits, [`LENGTH`](crate::layout::LENGTH) if the bytes do not match the shape, and [`DENSE_LIMIT`] if the row
    /// pointers exceed the limit.
    pub fn from_dense(dense: &Dense, limits: &Limits) -> Result<Csr> {
        let &[rows, columns] = dense.shape() else {
            return Err(
                RANK.broken(format!("expected 2 dimensions, found {}", dense.shape().len()))
            );
        };
        let (mut indices, values) = stored_of(dense)?;
        // Each row needs a pointer; the number of rows without columns is not limited by the bytes.
        let most = limits.decoded_len;
        if rows.checked_mul(8).is_none_or(|len| len >= most) {
            return Err(
                DENSE_LIMIT.broken(format!("{rows} row pointers exceed the limit of {most} bytes"))
            );
        }
        let mut indptr = vec![0];
        let mut upto = 0;
        for row in 1..=rows {
            let rest = indices.get(upto..).debug_unwrap();
            upto += rest.iter().take_while(|flat_index| **flat_index < row * columns).count();
            indptr.push(upto as u64);
        }
        indices.iter_mut().for_each(|flat_index| *flat_index %= columns.max(1));
        let (indptr, indices) = (Indices::owned(indptr), Indices::owned(indices));
        Ok(Csr { shape: [rows, columns], indptr, indices, values })
    }

    /// Returns the numbers of rows and columns.
    pub fn shape(&self) -> [u64; 2] {
        self.shape
    }

    /// Returns the number of values.
    pub fn count(&self) -> usize {
        self.indices.len()
    }

    /// Returns the stored row pointers and column indices.
    pub fn stored(&self) -> (&Indices, &Indices) {
        (&self.indptr, &self.indices)
    }

    /// Returns where the values of each row start, and where those of the last row end: rows + 1 numbers,
    /// [widened](Indices::as_slice).
    pub fn indptr(&self) -> &[u64] {
        self.indptr.as_slice()
    }

    /// Returns the column of each value, [widened](Indices::as_slice).
    pub fn indices(&self) -> &[u64] {
        self.indices.as_slice()
    }

    /// Returns the values, as a tensor of one dimension.
    pub fn values(&self) -> &Dense {
        &self.values
    }

    /// Returns all values with their rows and columns, in row-major order.
    pub fn entries(&self) -> impl Iterator<Item = CsrEntry<'_>> {
        let width = self.values.bytes().len().checked_div(self.count()).unwrap_or(1).max(1);
        let columns = self.indices.range(0..self.count());
        let values = self.values.bytes().chunks_exact(width);
        let all = self.rows().zip(columns).zip(values);
        all.map(|((row, column), value)| CsrEntry { row, column, value })
    }

    /// Returns the row of each value.
    fn rows(&self) -> impl Iterator<Item = u64> {
        let ends = self.indptr.range(1..self.indptr.len());
        let starts = self.indptr.range(0..self.indptr.len());
        let lens = starts.zip(ends).map(|(start, end)| end.saturating_sub(start));
        (0u64..).zip(lens).flat_map(|(row, len)| (0..len).map(move |_| row))
    }

    /// Returns the row-major index of each value.
    pub fn flat_indices(&self) -> impl Iterator<Item = u64> {
        let columns = self.shape()[1];
        self.entries().map(move |e| e.row.wrapping_mul(columns).wrapping_add(e.column))
    }

    /// Converts the matrix to a dense one. Values at the same coordinates are added.
    ///
    /// # Errors
    /// Returns [`DENSE_LIMIT`](crate::layout::DENSE_LIMIT) if the result exceeds the limit, and [`SUM`](super::SUM) if
    /// values of the type cannot be added.
    pub fn to_dense(&self, limits: &Limits) -> Result<Dense> {
        let columns = self.shape[1];
        let flat_indices = self.rows().zip(self.indices.range(0..self.count()));
        // Does not wrap if the number of elements was found to fit.
        let flat_indices = flat_indices.map(|(row, c)| row.wrapping_mul(columns).wrapping_add(c));
        scatter(&self.shape, &self.values, limits, flat_indices)
    }

    /// Appends the elements in the range `elements` of the row-major order to `out`, including zeros. Values at the
    /// same place are added.
    ///
    /// # Errors
    /// Returns [`LENGTH`](crate::layout::LENGTH) if the elements do not fit in memory.
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
            // Does not wrap if the number of elements was found to fit.
            let flat_index = row.wrapping_mul(self.shape[1]).wrapping_add(column);
            let at = entry.saturating_mul(width);
            let value = self.values.bytes().get(at..at.saturating_add(width))?;
            elements.contains(&flat_index).then_some((value, flat_index))
        });
        scatter_into(&self.values, width, elements.start, out, all)
    }
}

/// Checks the pointers of `all` in the range `own`, for `rows` rows with `count` values.
pub(super) fn check_indptr(
    all: &Indices,
    own: Range<usize>,
    rows: u64,
    count: usize,
) -> Result<()> {
    let found = own.len();
    if Some(found as u64) != rows.checked_add(1) {
        return Err(
            COUNTS.broken(format!("expected one row pointer more than {rows} rows, found {found}"))
        );
    }
    let first = all.get(own.start).unwrap_or(0);
    if first != 0 {
        return Err(INDPTR_START.broken(format!("the first row pointer is {first}, expected 0")));
    }
    let mut last = 0;
    all.runs(own.clone(), |start, run| {
        let starts = std::iter::once(&last).chain(run);
        if let Some(at) = starts.zip(run).position(|(start, end)| start > end) {
            let row = start + at - own.start - 1;
            let before = at.checked_sub(1).and_then(|at| run.get(at)).unwrap_or(&last);
            let message = format!("row {row} ends before it starts: {before} to {}", run[at]);
            return Err(INDPTR_ORDER.broken(message));
        }
        last = run.last().copied().unwrap_or(last);
        Ok(())
    })?;
    if last != count as u64 {
        return Err(INDPTR_END.broken(format!(
            "the last row pointer is {last}, expected {count}, the number of values"
        )));
    }
    Ok(())
}
