//! The elements of a tensor, made others: a range of them, or one after the other.

use super::tensors::slice;
use bytes::Bytes;
use holdall_core::layout::cast::FloatType;
use holdall_core::{Encoding, Result, Role};
use holdall_formats::{beyond_float, convert_elements, stored_as};
use holdall_io::items::ComponentSource;
use holdall_io::{Check, Tensor};
use holdall_schema::{Chain, TensorDType};
use std::io::Read;
use std::ops::Range;
use std::sync::OnceLock;

/// The elements of a tensor, made others.
#[derive(Clone)]
pub(super) struct Elements {
    tensor: Tensor,
    chain: Chain,
    from: TensorDType,
    to: TensorDType,
    /// Whether each becomes one of a wider type.
    pub(super) widens: bool,
    /// All bytes of the old one, where ranges of them cannot be had.
    whole: OnceLock<Bytes>,
}

impl Elements {
    /// Those that a chain makes of a tensor's, whose elements it takes.
    pub(super) fn new(
        tensor: &Tensor,
        chain: Chain,
        from: TensorDType,
        to: TensorDType,
    ) -> Elements {
        let widens = from.widens_to(to) && chain.is_cast();
        Elements { tensor: tensor.clone(), chain, from, to, widens, whole: OnceLock::new() }
    }

    /// The tensor that they are made of.
    pub(super) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The converter that makes them.
    pub(super) fn name(&self) -> &str {
        self.chain.as_str()
    }

    /// The same, told to a writer, where floats become floats and none may be beyond them.
    pub(super) fn cast(&self) -> Option<ComponentSource> {
        if !self.chain.is_cast() || self.chain.saturates() {
            return None;
        }
        let (dtype, logical) = stored_as(self.to);
        let to = FloatType::from_dtype(dtype, logical.as_ref())?;
        ComponentSource::cast(&self.tensor, self.tensor.component(&Role::Data)?, to, beyond_float)
    }

    /// All of them, as the old ones come.
    pub(super) fn all(self) -> Result<Next> {
        let width = size(self.from).max(1) as usize;
        let mut pieces = self.tensor.checked_with(Check::All).pieces(&Role::Data)?;
        // The start of an element whose end has not come, and elements so far.
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

    /// The bytes of a range of what they become.
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

    /// Appends what elements become; `bytes` are whole ones, of which the first has that number.
    fn convert(&self, first: u64, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        convert_elements(&self.chain, first, (self.from, bytes), (self.to, out))
    }
}

/// Bytes of an element of a type that a converter takes.
fn size(dtype: TensorDType) -> u64 {
    dtype.bits() / 8
}

/// What gives bytes piece by piece, and nothing at the end.
pub(super) type Next = Box<dyn FnMut() -> Result<Option<Bytes>> + Send>;

/// Bytes of a flat tensor, one after the other.
pub(super) struct Reader {
    next: Next,
    piece: Bytes,
    /// What errors are about.
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
