//! Converts the elements of a tensor: a range of them, or all in order.

use super::tensors::slice;
use bytes::Bytes;
use holdall_core::layout::cast::FloatType;
use holdall_core::{Encoding, Result, Role};
use holdall_formats::{convert_elements, out_of_float_range, stored_as};
use holdall_io::items::ComponentSource;
use holdall_io::{Check, Tensor};
use holdall_schema::{Chain, TensorDType};
use std::io::Read;
use std::ops::Range;
use std::sync::OnceLock;

/// The converted elements of a tensor.
#[derive(Clone)]
pub(super) struct Elements {
    tensor: Tensor,
    chain: Chain,
    from: TensorDType,
    to: TensorDType,
    /// Whether the conversion is to a wider type of number.
    pub(super) widens: bool,
    /// All bytes of the old tensor, if ranges cannot be converted separately.
    whole: OnceLock<Bytes>,
}

impl Elements {
    /// Creates the converted elements of a tensor. `chain` must accept elements of type `from`.
    pub(super) fn new(
        tensor: &Tensor,
        chain: Chain,
        from: TensorDType,
        to: TensorDType,
    ) -> Elements {
        let widens = from.widens_to(to) && chain.is_cast();
        Elements { tensor: tensor.clone(), chain, from, to, widens, whole: OnceLock::new() }
    }

    /// Returns the old tensor.
    pub(super) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Returns the name of the converter.
    pub(super) fn name(&self) -> &str {
        self.chain.as_str()
    }

    /// Returns this conversion as a cast between floats that a writer performs itself, if it is one and out-of-range
    /// numbers are an error.
    pub(super) fn cast(&self) -> Option<ComponentSource> {
        if !self.chain.is_cast() || self.chain.saturates() {
            return None;
        }
        let (dtype, logical) = stored_as(self.to);
        let to = FloatType::from_dtype(dtype, logical.as_ref())?;
        ComponentSource::cast(
            &self.tensor,
            self.tensor.component(&Role::Data)?,
            to,
            out_of_float_range,
        )
    }

    /// Returns all converted elements piece by piece, as the old ones are read.
    pub(super) fn all(self) -> Result<Next> {
        let width = size(self.from).max(1) as usize;
        let mut pieces = self.tensor.checked_with(Check::All).pieces(&Role::Data)?;
        // The first bytes of an element whose end has not been read, and the number of elements so far.
        let (mut begun, mut done) = (Vec::new(), 0);
        Ok(Box::new(move || {
            for piece in pieces.by_ref() {
                begun.extend_from_slice(&piece?);
                let whole = begun.len() - begun.len() % width;
                if whole == 0 {
                    continue;
                }
                let mut out = Vec::new();
                self.convert(done, &begun[..whole], &mut out)?;
                begun.drain(..whole);
                done += (whole / width) as u64;
                return Ok(Some(out.into()));
            }
            Ok(None)
        }))
    }

    /// Returns a range of the bytes after conversion.
    pub(super) fn range(&self, range: Range<u64>) -> Result<Bytes> {
        let (old, new) = (size(self.from), size(self.to).max(1));
        let (first, end) = (range.start / new, range.end.div_ceil(new));
        let bytes = self.old_bytes(first * old..end * old)?;
        let mut out = Vec::new();
        self.convert(first, &bytes, &mut out)?;
        let start = range.start - first * new;
        slice(&out.into(), start..start + (range.end - range.start))
    }

    fn old_bytes(&self, range: Range<u64>) -> Result<Bytes> {
        let is_raw = |c: holdall_core::Component| c.encoding == Encoding::Raw;
        if self.tensor.component(&Role::Data).is_some_and(is_raw) {
            return self.tensor.bytes_range(&Role::Data, range);
        }
        let whole = match self.whole.get() {
            Some(whole) => whole,
            None => {
                let whole = self.tensor.checked().bytes(&Role::Data)?;
                self.whole.get_or_init(|| whole)
            }
        };
        slice(whole, range)
    }

    /// Converts whole elements, the first of which has the index `first`, and appends the result to `out`.
    fn convert(&self, first: u64, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        convert_elements(&self.chain, first, (self.from, bytes), (self.to, out))
    }
}

/// Returns the bytes of an element of a type that converters support.
fn size(dtype: TensorDType) -> u64 {
    dtype.bits() / 8
}

/// Returns the next piece of bytes, or `None` at the end.
pub(super) type Next = Box<dyn FnMut() -> Result<Option<Bytes>> + Send>;

/// A reader of the bytes of a dense tensor.
pub(super) struct Reader {
    next: Next,
    piece: Bytes,
    /// The tensor to name in errors.
    tensor: Option<Tensor>,
}

impl Reader {
    pub(super) fn new(next: Next, tensor: Option<Tensor>) -> Reader {
        Reader { next, piece: Bytes::new(), tensor }
    }
}

impl Read for Reader {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        while self.piece.is_empty() {
            let next = (self.next)().map_err(|e| match &self.tensor {
                Some(tensor) => e.in_tensor(tensor.name()).in_source(tensor.file().name()),
                None => e,
            });
            match next.map_err(std::io::Error::other)? {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let count = out.len().min(self.piece.len());
        out[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}
