//! Views of a tensor's components together: dense, sparse and quantized.

use crate::buffer::Buffer;
use crate::error::{UNKNOWN_LAYOUT, WRONG_LAYOUT};
use crate::file::Tensor;
use crate::{planes, workers};
use holdall_core::error::Escape as _;
use holdall_core::layout::Computed;
use holdall_core::layout::blocks::Blocks;
use holdall_core::layout::dense::{Dense, row_range};
use holdall_core::layout::described::{Described, Description};
use holdall_core::layout::number::ElementType;
use holdall_core::layout::quantized::Quantized;
use holdall_core::layout::sparse::{Coo, Csr, Tiles};
use holdall_core::layout::strided::Strided;
use holdall_core::{DType, Error, Layout, Limits, Remedy, Result, Role, TensorInfo};
use std::ops::Range;
use std::sync::Arc;

/// The number of elements that a thread computes at a time: whole blocks of every type, whose f32 values fill one huge
/// page. If two threads were the first to write to the same page, both would clear one, and one would be thrown away.
const AT_A_TIME: usize = 1 << 19;

/// Computes the tensor as dense `f32`, on all cores if it is large.
fn on_all_cores(view: &dyn Computed, limits: &Limits) -> Result<Dense> {
    let len = view.dense_len(limits)? as usize;
    if len <= size_of::<f32>() * AT_A_TIME || cfg!(target_endian = "big") {
        return view.to_dense(limits);
    }
    // Aligned to a page.
    let mut out = Buffer::mapped(len)?;
    dequantize(view, 0, bytemuck::cast_slice_mut(out.as_mut()))?;
    Ok(Dense::new(DType::F32, None, view.shape().to_vec(), out.freeze()))
}

/// Computes the elements from `first` on into `out`, on all cores.
pub(crate) fn dequantize(view: &dyn Computed, first: u64, out: &mut [f32]) -> Result<()> {
    workers::for_each(
        workers::threads(None),
        out.chunks_mut(AT_A_TIME).enumerate().collect(),
        || (),
        |(), (at, floats)| {
            let start = first + (at * AT_A_TIME) as u64;
            view.dequantize_range(start..start + floats.len() as u64, floats)
        },
    )
}

impl Tensor {
    /// Returns the elements of a dense tensor: a view, like that of [`Tensor::bytes`]. Planes are joined into new memory.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the tensor has another layout; the errors of [`Tensor::bytes`].
    pub fn dense(&self) -> Result<Dense> {
        self.sound()?;
        if let Layout::Planes(_) = self.layout() {
            return self.to_dense();
        }
        if *self.layout() != Layout::Dense {
            return Err(self.wrong_layout("dense", "`to_dense` gives a dense copy of any layout"));
        }
        let c = self.require(&Role::Data)?;
        let bytes = self.bytes(&Role::Data)?;
        Ok(Dense::new(c.dtype, c.logical_type, self.shape().to_vec(), bytes))
    }

    /// Returns the rows `rows` of the first dimension of a dense tensor, or of one in planes, reading only their bytes (see
    /// [`Tensor::bytes_range`]).
    ///
    /// # Errors
    /// Returns the same errors as [`Tensor::dense`]; a `Misuse` error if the rows are outside the shape.
    pub fn rows(&self, rows: Range<u64>) -> Result<Dense> {
        self.sound()?;
        if let Layout::Planes(_) = self.layout() {
            return planes::rows(self, rows);
        }
        if *self.layout() != Layout::Dense {
            return Err(self.wrong_layout("dense", "`to_dense` gives a dense copy of any layout"));
        }
        let c = self.require(&Role::Data)?;
        let range = row_range(self.shape(), c.dtype, c.logical_type.as_ref(), rows.clone())
            .map_err(|e| self.in_context(e, &c))?;
        let bytes = self.bytes_range(&Role::Data, range)?;
        let mut shape = self.shape().to_vec();
        if let Some(first) = shape.first_mut() {
            *first = rows.end - rows.start;
        }
        Ok(Dense::new(c.dtype, c.logical_type, shape, bytes))
    }

    /// Returns a sparse tensor as compressed rows (CSR), with checked indices.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the tensor has another layout; a `Malformed` error if indices do not fit the shape; the errors of [`Tensor::bytes`].
    pub fn csr(&self) -> Result<Csr> {
        let checked = self.checked();
        self.view(|info| Csr::from_tensor(info, |role| checked.bytes(role), self.file().limits()))
    }

    /// Returns a sparse tensor as coordinates (COO), with checked indices.
    ///
    /// # Errors
    /// Returns the same errors as [`Tensor::csr`].
    pub fn coo(&self) -> Result<Coo> {
        let checked = self.checked();
        self.view(|info| Coo::from_tensor(info, |role| checked.bytes(role), self.file().limits()))
    }

    /// Returns a sparse tensor whose entries are arrays, with checked indices.
    ///
    /// # Errors
    /// Returns the same errors as [`Tensor::csr`].
    pub fn tiles(&self) -> Result<Tiles> {
        let checked = self.checked();
        self.view(|info| Tiles::from_tensor(info, |role| checked.bytes(role), self.file().limits()))
    }

    /// Returns the packed words, scales and zero points of a quantized tensor.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the tensor has another layout; a `Malformed` error if lengths do not fit; an `Unsupported` error if the packing is unknown;
    /// as [`Tensor::bytes`].
    pub fn quantized(&self) -> Result<Quantized> {
        let checked = self.checked();
        self.view(|info| Quantized::from_tensor(info, |role| checked.bytes(role)))
    }

    /// Returns a tensor in ggml's block types.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the tensor has another layout; the errors of [`Tensor::bytes`].
    pub fn blocks(&self) -> Result<Blocks> {
        let checked = self.checked();
        self.view(|info| Blocks::from_tensor(info, |role| checked.bytes(role)))
    }

    /// Returns the elements of a tensor whose layout [computes](Layout::is_computed) them.
    ///
    /// # Errors
    /// Returns the same errors as [`Tensor::quantized`] and [`Tensor::blocks`]; `quantized-weight/…` if the tensors of a quantized weight do not
    /// fit.
    pub fn computed(&self) -> Result<Box<dyn Computed>> {
        Ok(match self.layout() {
            Layout::Blocks(_) => Box::new(self.blocks()?),
            Layout::QuantizedWeight => {
                let checked = self.checked();
                let in_context = |e: Error| e.in_source(self.file().name());
                Box::new(self.weight_values(|role| checked.bytes(role)).map_err(in_context)?)
            }
            _ => Box::new(self.quantized()?),
        })
    }

    /// Returns the description of the tensor's layout that the file was opened with, if Holdall does not know the
    /// layout itself.
    pub fn description(&self) -> Option<&Arc<Description>> {
        match self.layout() {
            Layout::Other(name) => self.file().layouts().get(name),
            _ => None,
        }
    }

    /// Returns a tensor whose layout has a [description](Tensor::description).
    ///
    /// # Errors
    /// Returns a `Misuse` error if the tensor has another layout; a `Malformed` error if components do not fit the description; as
    /// [`Tensor::bytes`].
    pub fn described(&self) -> Result<Described> {
        let checked = self.checked();
        let (layouts, limits) = (self.file().layouts(), self.file().limits());
        self.view(|info| Described::from_tensor(info, layouts, limits, |role| checked.bytes(role)))
    }

    /// Creates a view of the components if the tensor has no fault. Errors name the tensor and the file.
    pub(crate) fn view<V>(&self, make: impl FnOnce(&TensorInfo) -> Result<V>) -> Result<V> {
        self.sound()?;
        make(self.info()).map_err(|e| e.in_tensor(self.name()).in_source(self.file().name()))
    }

    /// Returns the element type of the tensor's dense form. `None` for a layout without a dense form.
    pub fn dense_type(&self) -> Option<ElementType> {
        if let Some(described) = self.description() {
            let dtype = described.dtype();
            return Some(ElementType::new(dtype.dtype(), dtype.logical_type()));
        }
        match self.layout() {
            layout if layout.is_computed() => Some(ElementType::new(DType::F32, None)),
            _ if self.described_weight().is_some() => Some(ElementType::new(DType::F32, None)),
            Layout::Planes(of) => Some(ElementType::new(of.dtype, None)),
            Layout::Records | Layout::Blob | Layout::Other(_) => None,
            _ => Some(ElementType::new(self.dtype()?, self.logical_type())),
        }
    }

    /// Returns the tensor as a dense one, whatever its layout: sparse ones with their zeros, quantized ones as f32,
    /// described ones with the type in their description. The digests of all bytes that are read are checked, as the
    /// file's [`Check`] says, also for a mapped dense tensor.
    ///
    /// [`Check`]: crate::Check
    ///
    /// # Errors
    /// Returns the same errors as the view of the layout; an `Unsupported` error if the layout is unknown; a `Limit` error if the dense form has more bytes than
    /// `Limits::decoded_len`.
    pub fn to_dense(&self) -> Result<Dense> {
        self.sound()?;
        if let Some(weight) = self.as_weight() {
            return weight?.to_dense();
        }
        let limits = self.file().limits();
        let in_context = |e: Error| e.in_tensor(self.name()).in_source(self.file().name());
        match self.layout() {
            Layout::Dense => {
                let c = self.require(&Role::Data)?;
                let bytes = self.checked().bytes(&Role::Data)?;
                Ok(Dense::new(c.dtype, c.logical_type, self.shape().to_vec(), bytes))
            }
            Layout::SparseCsr | Layout::PackedCsr => {
                self.csr()?.to_dense(limits).map_err(in_context)
            }
            Layout::SparseCoo | Layout::PackedCoo => {
                self.coo()?.to_dense(limits).map_err(in_context)
            }
            Layout::SparseBlocks | Layout::SparseHybrid => {
                self.tiles()?.to_dense(limits).map_err(in_context)
            }
            layout if layout.is_computed() => {
                on_all_cores(&*self.computed()?, limits).map_err(in_context)
            }
            Layout::Planes(_) => planes::to_dense(self),
            Layout::Strided => {
                let checked = self.checked();
                let view = Strided::from_tensor(self.info(), |role| checked.bytes(role));
                view.and_then(|view| view.to_dense(limits)).map_err(in_context)
            }
            Layout::Records | Layout::Blob => {
                let layout = self.layout();
                Err(in_context(
                    UNKNOWN_LAYOUT.broken(format!("its layout `{layout}` has no elements")),
                ))
            }
            _ if self.description().is_some() => self.described()?.to_dense().map_err(in_context),
            other => Err(in_context(self.no_elements(other))),
        }
    }

    /// Returns the error for a layout without elements.
    #[cold]
    fn no_elements(&self, layout: &Layout) -> Error {
        match self.other_value() {
            Some(what) => UNKNOWN_LAYOUT
                .broken(format!("the tensor is {what}, which has no numeric elements"))
                .with_hint("read it as a value of the package"),
            None => {
                let layout = layout.as_str().escaped();
                UNKNOWN_LAYOUT
                    .broken(format!("its layout `{layout}` is not known"))
                    .with_hint("its components can be read one by one, as bytes")
                    .with_remedy(Remedy::DescribeLayout)
            }
        }
    }

    /// Returns a description in words if the tensor is not an array of numbers. In a package that is an array of texts,
    /// a list of other tensors, or a file that is only linked to.
    pub fn other_value(&self) -> Option<&'static str> {
        let layout = self.layout().as_str();
        let mut known = holdall_formats::by_name(self.file().format())?.other_values.iter();
        known.find(|(name, _)| *name == layout).map(|(_, what)| *what)
    }

    #[cold]
    fn wrong_layout(&self, wanted: &str, hint: &'static str) -> Error {
        WRONG_LAYOUT
            .broken(format!("its layout is {}, not {wanted}", self.layout()))
            .with_hint(hint)
            .in_tensor(self.name())
            .in_source(self.file().name())
    }
}
