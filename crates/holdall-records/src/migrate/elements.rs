//! The elements of a tensor, made others: a range of them, or one after the other.

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

/// The elements of a tensor, made others.
#[derive(Clone)]
pub(super) struct Elements {
    tensor: Tensor,
    chain: Chain,
    from: (TensorDType, Scalar),
    to: (TensorDType, Scalar),
    /// Whether each becomes one of a wider type.
    pub(super) widens: bool,
    /// All bytes of the old one, where ranges of them cannot be had.
    whole: OnceLock<Bytes>,
}

impl Elements {
    /// Those that a chain makes of a tensor's, if it takes such elements and gives those that are wanted.
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
        let (dtype, logical) = stored_as(self.to.0);
        let to = FloatType::from_dtype(dtype, logical.as_ref())?;
        ComponentSource::cast(&self.tensor, self.tensor.component(&Role::Data)?, to, beyond)
    }

    /// All of them, as the old ones come.
    pub(super) fn all(self) -> Result<Next> {
        let width = self.from.1.size().max(1) as usize;
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

    /// Appends what elements become; `bytes` are whole ones, of which the first has that number.
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

/// The error for numbers that are beyond those of a type.
#[cold]
fn beyond(lost: u64, to: FloatType) -> Error {
    let e = VALUE.broken(format!("{lost} or more numbers are beyond what {to} holds"));
    e.with_hint("`cast(saturate)` makes them the nearest there is")
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
