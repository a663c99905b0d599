//! Tensors of any layout as dense ones, a piece at a time.

use crate::buffer::Buffer;
use crate::checked::Check;
use crate::file::Tensor;
use crate::held::{self, held};
use crate::views::dequantize;
use bytes::Bytes;
use holdall_core::layout::blocks::Blocks;
use holdall_core::layout::dense::row_range;
use holdall_core::layout::described::Described;
use holdall_core::layout::number::ElementType;
use holdall_core::layout::quantized::Quantized;
use holdall_core::layout::sparse::{Coo, Csr, Tiles};
use holdall_core::layout::strided::Strided;
use holdall_core::layout::{Computed, DENSE_LIMIT};
use holdall_core::{DType, Error, Layout, Result, Role};
use std::ops::Range;

/// Bytes of a piece.
const PIECE: u64 = 16 << 20;
/// A piece has a multiple of so many elements, but the last.
const RUN: u64 = 1 << 16;

/// The elements of a tensor, row by row, in pieces of at most 16 MiB: what [`Tensor::to_dense`] gives at once.
pub struct DensePieces {
    tensor: Tensor,
    view: View,
    of: ElementType,
    /// The next element, and the one behind the last.
    at: u64,
    end: u64,
}

enum View {
    Dense(Bytes),
    Computed(Box<dyn Computed>),
    Strided(Strided),
    Csr(Csr),
    Coo(Coo),
    Tiles(Tiles),
    Described(Box<Described>),
}

impl Tensor {
    /// The tensor as a dense one, as [`Tensor::to_dense`] gives it, piece by piece. What is stored is read where it lies in
    /// a map; what does not, and has more than 8 MiB, is put into a temporary file, so that little of it is in memory.
    /// How many bytes come in all is for [`Tensor::check_dense`] to say. All components that it reads are compared with their digests
    /// first, under that policy.
    ///
    /// # Errors
    /// As [`Tensor::to_dense`]; Io.
    pub fn dense_pieces(&self, check: Check) -> Result<DensePieces> {
        self.sound()?;
        let checked = self.checked_with(check);
        let get = |role: &Role| held(&checked, role);
        let (info, limits) = (self.info(), self.file().limits());
        let view = match self.layout() {
            Layout::Dense => get(&Role::Data).map(View::Dense),
            Layout::SparseCsr | Layout::PackedCsr => held::csr(&checked).map(View::Csr),
            Layout::SparseCoo | Layout::PackedCoo => held::coo(&checked).map(View::Coo),
            Layout::SparseBlocks | Layout::SparseHybrid => {
                Tiles::from_tensor(info, get, limits).map(View::Tiles)
            }
            Layout::Strided => Strided::from_tensor(info, get).map(View::Strided),
            Layout::Blocks(_) => {
                Blocks::from_tensor(info, get).map(|view| View::Computed(Box::new(view)))
            }
            Layout::QuantizedGroup => {
                Quantized::from_tensor(info, get).map(|view| View::Computed(Box::new(view)))
            }
            _ if self.description().is_some() => {
                let view = Described::from_tensor(info, self.file().layouts(), limits, get);
                view.map(|view| View::Described(Box::new(view)))
            }
            _ => self.to_dense().map(|dense| View::Dense(dense.into_bytes())),
        };
        let view = view.map_err(|e| e.in_tensor(self.name()).in_source(self.file().name()))?;
        let of = self.dense_type().unwrap_or(ElementType::new(DType::U8, None));
        Ok(DensePieces { tensor: self.clone(), view, of, at: 0, end: self.count() })
    }

    /// Refuses a dense copy that would have more bytes than `Limits::decoded_len`.
    ///
    /// # Errors
    /// [`DENSE_LIMIT`].
    pub fn check_dense(&self) -> Result<()> {
        let most = self.file().limits().decoded_len;
        let len = self.dense_type().map_or(0, |of| of.len_of(self.count()));
        if *self.layout() == Layout::Dense || len <= most {
            return Ok(());
        }
        let message = format!("a dense copy of shape {:?} passes {most} bytes", self.shape());
        Err(DENSE_LIMIT.broken(message).in_tensor(self.name()).in_source(self.file().name()))
    }
}

impl DensePieces {
    /// Rows `rows` of the first dimension alone.
    ///
    /// # Errors
    /// As [`row_range`].
    pub fn with_rows(mut self, rows: Range<u64>) -> Result<DensePieces> {
        let (shape, of) = (self.tensor.shape(), &self.of);
        let placed =
            |e: Error| e.in_tensor(self.tensor.name()).in_source(self.tensor.file().name());
        row_range(shape, of.dtype, of.logical_type.as_ref(), rows.clone()).map_err(placed)?;
        // What fits when it is multiplied by a row that there is.
        let row = shape.iter().skip(1).fold(1u64, |n, size| n.saturating_mul(*size));
        (self.at, self.end) = (rows.start.saturating_mul(row), rows.end.saturating_mul(row));
        Ok(self)
    }

    /// What the elements are.
    pub fn element_type(&self) -> &ElementType {
        &self.of
    }

    fn piece(&self, elements: Range<u64>) -> Result<Bytes> {
        let len = self.of.len_of(elements.end - elements.start) as usize;
        let mut out = Vec::new();
        match &self.view {
            View::Dense(bytes) => {
                let at = |n: u64| self.of.len_of(n) as usize;
                let range = at(elements.start)..at(elements.end).min(bytes.len());
                return Ok(bytes.slice(range.start.min(range.end)..range.end));
            }
            View::Computed(view) => {
                let mut out = Buffer::mapped(len)?;
                let floats: &mut [f32] = bytemuck::cast_slice_mut(out.as_mut());
                dequantize(&**view, elements.start, floats)?;
                if cfg!(target_endian = "big") {
                    return Ok(floats.iter().flat_map(|x| x.to_le_bytes()).collect());
                }
                return Ok(out.freeze());
            }
            View::Strided(view) => {
                out.reserve_exact(len);
                view.elements(elements, &mut out)?;
            }
            View::Csr(view) => view.elements(elements, &mut out)?,
            View::Coo(view) => view.elements(elements, &mut out)?,
            View::Tiles(view) => view.elements(elements, &mut out)?,
            View::Described(view) => {
                out.reserve_exact(len);
                view.elements(elements, &mut out)?;
            }
        }
        Ok(out.into())
    }
}

impl Iterator for DensePieces {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        if self.at >= self.end {
            return None;
        }
        let bits = self.of.bits().max(1);
        let most = (PIECE * 8 / bits / RUN).max(1) * RUN;
        let elements = self.at..self.end.min(self.at.saturating_add(most));
        self.at = elements.end;
        let made = self.piece(elements).map_err(|e: Error| {
            self.at = self.end;
            e.in_tensor(self.tensor.name()).in_source(self.tensor.file().name())
        });
        Some(made)
    }
}
