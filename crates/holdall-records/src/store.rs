//! The bytes of a component: at hand, or read when asked for.

use crate::ahead::Ahead;
use bytes::Bytes;
use holdall_core::codec::{SINGLE_FRAME_MAX, check_decoded_len};
use holdall_core::{ByteOrder, Encoding, Result, Role};
use holdall_io::Tensor;
use holdall_io::source::Access;
use std::borrow::Cow;
use std::ops::Range;

/// One component's decoded bytes.
pub(super) enum Store {
    /// Mapped, or in memory.
    Whole(Bytes),
    /// To be read by ranges.
    Parts { tensor: Tensor, role: Role, len: u64, ahead: Ahead },
}

impl Store {
    /// No bytes.
    pub(super) fn empty() -> Store {
        Store::Whole(Bytes::new())
    }

    /// The component of that role. What is compressed in one frame has to be decoded whole, and so has
    /// what does not say its length.
    pub(super) fn open(tensor: &Tensor, role: &Role) -> Result<Store> {
        let c = tensor.require(role)?;
        let is_plain = c.encoding == Encoding::Raw && c.byte_order == ByteOrder::Little;
        let is_mapped = is_plain && {
            tensor.file().sources().at(c.stored.source).terms().access == Access::Borrowed
        };
        if let Some(len) = c.decoded_len.filter(|_| c.encoding != Encoding::Raw) {
            // Whoever copies a column takes memory by this.
            check_decoded_len(len, c.stored_len(), tensor.file().limits())?;
        }
        match c.decoded_len {
            Some(len) if !is_mapped && (c.encoding == Encoding::Raw || len > SINGLE_FRAME_MAX) => {
                let (tensor, role) = (tensor.clone(), role.clone());
                Ok(Store::Parts { tensor, role, len, ahead: Ahead::default() })
            }
            _ => Ok(Store::Whole(tensor.bytes(role)?)),
        }
    }

    pub(super) fn loaded(&self) -> Result<Store> {
        Ok(Store::Whole(match self {
            Store::Whole(bytes) => bytes.clone(),
            Store::Parts { tensor, role, .. } => tensor.checked().bytes(role)?,
        }))
    }

    /// Bytes in all.
    pub(super) fn len(&self) -> u64 {
        match self {
            Store::Whole(bytes) => bytes.len() as u64,
            Store::Parts { len, .. } => *len,
        }
    }

    /// All bytes, where they are at hand.
    #[inline]
    pub(super) fn whole(&self) -> Option<&[u8]> {
        match self {
            Store::Whole(bytes) => Some(bytes),
            Store::Parts { .. } => None,
        }
    }

    /// Reads these ranges together, which the caller has checked against [`Store::len`], and keeps them for a while; those that are at
    /// hand are not read.
    pub(super) fn bring(&self, ranges: Vec<Range<u64>>) -> Result<()> {
        match self {
            Store::Whole(_) => Ok(()),
            Store::Parts { tensor, role, ahead, .. } => {
                ahead.bring(ranges, |ranges| tensor.bytes_ranges(role, ranges))
            }
        }
    }

    /// A range that is in memory by [`Store::bring`], or always.
    pub(super) fn near(&self, range: &Range<u64>) -> Option<Bytes> {
        match self {
            Store::Whole(_) => self.shared(range.clone()).ok(),
            Store::Parts { ahead, .. } => ahead.near(range),
        }
    }

    /// As [`Store::get`], kept for as long as wanted.
    pub(super) fn shared(&self, range: Range<u64>) -> Result<Bytes> {
        match self {
            Store::Whole(bytes) => {
                // Found to be inside, so that the slice cannot fail.
                self.get(range.clone())?;
                Ok(bytes.slice(range.start as usize..range.end as usize))
            }
            Store::Parts { tensor, role, len, ahead } => {
                let piece = tensor.file().sources().terms().piece;
                ahead.get(range, *len, piece, |range| tensor.bytes_range(role, range))
            }
        }
    }

    /// A range, which the caller has checked against [`Store::len`].
    pub(super) fn get(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        match self {
            Store::Whole(bytes) => {
                let found = bytes.get(range.start as usize..range.end as usize);
                found.map(Cow::Borrowed).ok_or_else(|| {
                    let rule = &holdall_core::window::OUTSIDE;
                    rule.broken(format!("bytes {}..{} of {}", range.start, range.end, bytes.len()))
                })
            }
            Store::Parts { .. } => Ok(Cow::Owned(Vec::from(self.shared(range)?))),
        }
    }
}
