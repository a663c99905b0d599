//! Tensors of any layout as dense ones, piece by piece.

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
use holdall_core::layout::planes::Planes;
use holdall_core::layout::quantized::Quantized;
use holdall_core::layout::sparse::{Coo, Csr, Tiles};
use holdall_core::layout::strided::Strided;
use holdall_core::layout::{Computed, DENSE_LIMIT};
use holdall_core::{DType, Error, Layout, Result, Role};
use std::ops::Range;

/// The length of a piece in bytes.
const PIECE: u64 = 16 << 20;
/// Each piece except the last has a multiple of this many elements.
const RUN: u64 = 1 << 16;

/// The elements of a tensor in row-major order, in pieces of at most 16 MiB: the bytes that [`Tensor::to_dense`]
/// returns at once.
pub struct DensePieces {
    tensor: Tensor,
    view: View,
    element_type: ElementType,
    /// The index of the next element, and the index after the last one.
    at: u64,
    end: u64,
}

enum View {
    Dense(Bytes),
    Computed(Box<dyn Computed>),
    Strided(Strided),
    Planes(Planes),
    Csr(Csr),
    Coo(Coo),
    Tiles(Tiles),
    Described(Box<Described>),
}

impl Tensor {
    /// Returns the tensor as a dense one, as [`Tensor::to_dense`] does, piece by piece. Mapped components are read in
    /// place; other components of more than 8 MiB are written to a temporary file, to save memory. The total number of
    /// bytes is not limited; use [`Tensor::check_dense`] for that. The digests of all components that are read are
    /// checked first, as `check` says.
    ///
    /// # Errors
    /// Returns the same errors as [`Tensor::to_dense`]; an `Io` error.
    pub fn dense_pieces(&self, check: Check) -> Result<DensePieces> {
        self.sound()?;
        if let Some(weight) = self.as_weight() {
            return weight?.dense_pieces(check);
        }
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
            Layout::Planes(_) => Planes::from_tensor(info, get).map(View::Planes),
            Layout::Blocks(_) => {
                Blocks::from_tensor(info, get).map(|view| View::Computed(Box::new(view)))
            }
            Layout::QuantizedGroup => {
                Quantized::from_tensor(info, get).map(|view| View::Computed(Box::new(view)))
            }
            Layout::QuantizedWeight => {
                let values = self.weight_values(|role| held(&checked, role));
                values.map(|view| View::Computed(Box::new(view)))
            }
            _ if self.description().is_some() => {
                let view = Described::from_tensor(info, self.file().layouts(), limits, get);
                view.map(|view| View::Described(Box::new(view)))
            }
            _ => self.to_dense().map(|dense| View::Dense(dense.into_bytes())),
        };
        let view = view.map_err(|e| e.in_tensor(self.name()).in_source(self.file().name()))?;
        let element_type = self.dense_type().unwrap_or(ElementType::new(DType::U8, None));
        Ok(DensePieces { tensor: self.clone(), view, element_type, at: 0, end: self.count() })
    }

    /// Checks that a dense copy would not have more bytes than `Limits::decoded_len`.
    ///
    /// # Errors
    /// Returns [`DENSE_LIMIT`] if it would.
    pub fn check_dense(&self) -> Result<()> {
        let most = self.file().limits().decoded_len;
        let len = self.dense_type().map_or(0, |element_type| element_type.len_of(self.count()));
        if *self.layout() == Layout::Dense || len <= most {
            return Ok(());
        }
        let message =
            format!("a dense copy of shape {:?} exceeds the limit of {most} bytes", self.shape());
        Err(DENSE_LIMIT.broken(message).in_tensor(self.name()).in_source(self.file().name()))
    }
}

impl DensePieces {
    /// Limits the pieces to the rows `rows` of the first dimension.
    ///
    /// # Errors
    /// Returns the same errors as [`row_range`].
    pub fn with_rows(mut self, rows: Range<u64>) -> Result<DensePieces> {
        let (shape, element_type) = (self.tensor.shape(), &self.element_type);
        let in_context =
            |e: Error| e.in_tensor(self.tensor.name()).in_source(self.tensor.file().name());
        row_range(shape, element_type.dtype, element_type.logical_type.as_ref(), rows.clone())
            .map_err(in_context)?;
        // Cannot overflow if the tensor has such rows, since they fit the shape.
        let row = shape.iter().skip(1).fold(1u64, |n, size| n.saturating_mul(*size));
        (self.at, self.end) = (rows.start.saturating_mul(row), rows.end.saturating_mul(row));
        Ok(self)
    }

    /// Returns the element type.
    pub fn element_type(&self) -> &ElementType {
        &self.element_type
    }

    /// Returns the elements in the range `elements` of the row-major order.
    ///
    /// # Errors
    /// Returns the same errors as the iterator.
    pub fn piece(&self, elements: Range<u64>) -> Result<Bytes> {
        let len = self.element_type.len_of(elements.end - elements.start) as usize;
        let mut out = Vec::new();
        match &self.view {
            View::Dense(bytes) => {
                let at = |n: u64| self.element_type.len_of(n) as usize;
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
            View::Planes(view) => {
                let mut out = Buffer::mapped(len)?;
                view.read(elements, out.as_mut())?;
                return Ok(out.freeze());
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
        let bits = self.element_type.bits().max(1);
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
