//! The decoded bytes of a component, in memory or read on request.

use crate::ahead::Ahead;
use bytes::Bytes;
use holdall_core::codec::{SINGLE_FRAME_MAX, check_decoded_len};
use holdall_core::{ByteOrder, Encoding, Result, Role};
use holdall_io::Tensor;
use holdall_io::source::Access;
use std::borrow::Cow;
use std::ops::Range;

/// The decoded bytes of one component.
pub(super) enum Store {
    /// Mapped or in memory.
    Whole(Bytes),
    /// Read in ranges.
    Parts { tensor: Tensor, role: Role, len: u64, ahead: Ahead },
}

impl Store {
    /// Returns a store without bytes.
    pub(super) fn empty() -> Store {
        Store::Whole(Bytes::new())
    }

    /// Opens the component with this role. A component that is compressed in one frame, or that does not state its
    /// decoded length, is decoded completely.
    pub(super) fn open(tensor: &Tensor, role: &Role) -> Result<Store> {
        let c = tensor.require(role)?;
        let is_plain = c.encoding == Encoding::Raw && c.byte_order == ByteOrder::Little;
        let is_mapped = is_plain && {
            tensor.file().sources().at(c.stored.source).read_hints().access == Access::Borrowed
        };
        if let Some(len) = c.decoded_len.filter(|_| c.encoding != Encoding::Raw) {
            // Callers that copy a column allocate memory according to this length.
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

    /// Returns the length in bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Store::Whole(bytes) => bytes.len() as u64,
            Store::Parts { len, .. } => *len,
        }
    }

    /// Returns all bytes if they are mapped or in memory.
    #[inline]
    pub(super) fn whole(&self) -> Option<&[u8]> {
        match self {
            Store::Whole(bytes) => Some(bytes),
            Store::Parts { .. } => None,
        }
    }

    /// Reads these ranges together and keeps them for a while. The caller has checked them against [`Store::len`].
    /// Ranges in memory are not read again.
    pub(super) fn prefetch(&self, ranges: Vec<Range<u64>>) -> Result<()> {
        match self {
            Store::Whole(_) => Ok(()),
            Store::Parts { tensor, role, ahead, .. } => {
                ahead.prefetch(ranges, |ranges| tensor.bytes_ranges(role, ranges))
            }
        }
    }

    /// Reads ranges together without keeping them. They must ascend without overlap; the caller has checked them against
    /// [`Store::len`].
    pub(super) fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self {
            Store::Whole(_) => ranges.iter().map(|range| self.shared(range.clone())).collect(),
            Store::Parts { tensor, role, .. } => tensor.bytes_ranges(role, ranges),
        }
    }

    /// Returns a range if it is in memory, always or because of [`Store::prefetch`].
    pub(super) fn cached(&self, range: &Range<u64>) -> Option<Bytes> {
        match self {
            Store::Whole(_) => self.shared(range.clone()).ok(),
            Store::Parts { ahead, .. } => ahead.cached(range),
        }
    }

    /// Returns a range as a reference-counted buffer: see [`Store::get`].
    pub(super) fn shared(&self, range: Range<u64>) -> Result<Bytes> {
        match self {
            Store::Whole(bytes) => {
                // `get` checks the bounds, so that the slice cannot panic.
                self.get(range.clone())?;
                Ok(bytes.slice(range.start as usize..range.end as usize))
            }
            Store::Parts { tensor, role, len, ahead } => {
                let piece = tensor.file().sources().read_hints().piece;
                ahead.get(range, *len, piece, |range| tensor.bytes_range(role, range))
            }
        }
    }

    /// Returns a range that the caller has checked against [`Store::len`].
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
