//! Converts the elements of a tensor: a range of them, or all in order.

use super::tensors::slice;
use bytes::Bytes;
use holdall_core::layout::cast::{Caster, FloatType, Overflow};
use holdall_core::{Encoding, Error, Result, Role};
use holdall_formats::stored_as;
use holdall_io::items::ComponentSource;
use holdall_io::{Check, Tensor};
use holdall_schema::evolve::rules::VALUE;
use holdall_schema::{Chain, Scalar, TensorDType};
use std::io::Read;
use std::ops::Range;
use std::sync::OnceLock;

/// The converted elements of a tensor.
#[derive(Clone)]
pub(super) struct Elements {
    tensor: Tensor,
    chain: Chain,
    from: (TensorDType, Scalar),
    to: (TensorDType, Scalar),
    /// Whether the conversion is to a wider type of number.
    pub(super) widens: bool,
    /// All bytes of the old tensor, if ranges cannot be converted separately.
    whole: OnceLock<Bytes>,
}

impl Elements {
    /// Returns the converted elements, if `chain` accepts elements of type `from` and produces elements of type `to`.
    pub(super) fn new(
        tensor: &Tensor,
        chain: Chain,
        from: TensorDType,
        to: TensorDType,
    ) -> Option<Elements> {
        let widens = from.widens_to(to) && chain.is_cast();
        let (from, to) = ((from, from.scalar()?), (to, to.scalar()?));
        let is_taken = chain.takes(from.1, to.1);
        let (tensor, whole) = (tensor.clone(), OnceLock::new());
        is_taken.then_some(Elements { tensor, chain, from, to, widens, whole })
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
        let (dtype, logical) = stored_as(self.to.0);
        let to = FloatType::from_dtype(dtype, logical.as_ref())?;
        ComponentSource::cast(&self.tensor, self.tensor.component(&Role::Data)?, to, beyond)
    }

    /// Returns all converted elements piece by piece, as the old ones are read.
    pub(super) fn all(self) -> Result<Next> {
        let width = self.from.1.size().max(1) as usize;
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
        let (old, new) = (u64::from(self.from.1.size()), u64::from(self.to.1.size()));
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
        let count = bytes.len() / self.from.1.size().max(1) as usize;
        let stored = (stored_as(self.from.0), stored_as(self.to.0));
        let float =
            |(dtype, logical): &(_, Option<_>)| FloatType::from_dtype(*dtype, logical.as_ref());
        if let (true, Some(_), Some(to)) =
            (self.chain.is_cast(), float(&stored.0), float(&stored.1))
        {
            let overflow =
                if self.chain.saturates() { Overflow::Saturate } else { Overflow::Infinite };
            let (dtype, logical) = stored.0;
            let mut caster = Caster::new(dtype, logical, count as u64, to, overflow);
            caster.push(bytes, out)?;
            let lost = caster.finish(out)?;
            if lost > 0 && !self.chain.saturates() {
                return Err(beyond(lost, to));
            }
            return Ok(());
        }
        let start = out.len();
        out.resize(start + count * self.to.1.size() as usize, 0);
        self.chain.elements(first, (self.from.1, bytes), (self.to.1, &mut out[start..]))
    }
}

/// Returns the error for numbers that are out of range for a type.
#[cold]
fn beyond(lost: u64, to: FloatType) -> Error {
    let e = VALUE.broken(format!("{lost} or more numbers are out of range for {to}"));
    e.with_hint("`cast(saturate)` converts them to the nearest number of the type")
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
