//! Requests for components.

use crate::codec::{PLANE_FRAME_LEN, SINGLE_FRAME_MAX, SeekTable};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::model::plane::PlaneType;
use crate::model::{Component, Encoding};
use crate::read::{ComponentDecoder, Digests, Extent};
use holdall_collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The bytes at the end of a component in which its seek table is looked for first: most tables are shorter.
const TABLE_GUESS: u64 = 16 << 10;

/// A request for one component: all of its decoded bytes, or a range of them.
#[derive(Debug, Clone)]
pub struct Want {
    /// The index of the tensor.
    pub tensor: u32,
    /// The component.
    pub component: Component,
    /// The requested range of decoded bytes; `None` for all.
    pub range: Option<Range<u64>>,
    /// The digests to compute, if the whole component is read.
    pub digests: Digests,
    /// Wants of different groups are never fetched together.
    pub group: u32,
    /// The seek table with the locations of frames, if it is known.
    pub table: Option<Arc<SeekTable>>,
}

impl Want {
    /// Creates a want for all decoded bytes of a component of the tensor at index `tensor`, without digests.
    pub fn new(tensor: u32, component: Component) -> Want {
        Want { tensor, component, range: None, digests: Digests::NONE, group: 0, table: None }
    }

    /// Requests only the decoded bytes `range`.
    pub fn with_range(mut self, range: Range<u64>) -> Want {
        self.range = Some(range);
        self
    }

    /// Requests these digests.
    pub fn with_digests(mut self, digests: impl Into<Digests>) -> Want {
        self.digests = digests.into();
        self
    }

    /// Sets the group. Wants of different groups are never fetched together.
    pub fn in_group(mut self, group: u32) -> Want {
        self.group = group;
        self
    }

    /// Sets the seek table.
    pub fn with_table(mut self, table: Option<Arc<SeekTable>>) -> Want {
        self.table = table;
        self
    }

    /// Returns the requested range of decoded bytes: `0..u64::MAX` for all.
    pub fn wanted(&self) -> Range<u64> {
        self.range.clone().unwrap_or(0..u64::MAX)
    }

    /// Creates a decoder that decodes the component in order. It computes the digests if the whole component is
    /// requested.
    ///
    /// # Errors
    /// Returns the errors of [`ComponentDecoder::new`].
    pub fn decoder(&self, limits: &Limits) -> Result<ComponentDecoder> {
        let digests = if self.range.is_some() { Digests::NONE } else { self.digests };
        ComponentDecoder::new(&self.component, digests, limits)
    }

    /// Adds the component's role and byte range to an error.
    #[cold]
    pub fn in_context(&self, e: Error) -> Error {
        e.in_component(&self.component.role).at(self.component.stored.range())
    }

    /// Returns `true` if the component can be decoded in parts, in any order. This is impossible for a single
    /// compressed frame, and if a digest must be computed from the start.
    pub(super) fn is_divisible(&self) -> bool {
        let raw = self.component.encoding == Encoding::Raw;
        let has_decoded_crc = self.range.is_none() && self.component.decoded_crc().is_some();
        (raw || self.table.is_some()) && !self.digests.is_sequential() && !has_decoded_crc
    }

    /// Returns `true` if a digest covers the stored bytes, so that the codec's own checksums need not be compared.
    pub fn has_stored_digest(&self) -> bool {
        self.digests.any() && self.component.digest.is_some()
    }

    /// Returns `true` if the decoded bytes are the stored bytes.
    pub fn is_plain(&self) -> bool {
        is_plain(&self.component)
    }
}

/// Returns `true` if the decoded bytes of a component are its stored bytes.
fn is_plain(c: &Component) -> bool {
    c.encoding == Encoding::Raw && c.swap_unit_len() == 1
}

impl Component {
    /// Returns `true` if this and another component with the same stored bytes decode to the same bytes, with the same
    /// digest.
    pub fn decodes_equally(&self, other: &Component) -> bool {
        let way = |c: &Component| (c.encoding, c.byte_order, c.dtype.width(), c.decoded_len);
        way(self) == way(other) && self.digest == other.digest
    }

    /// Returns the stored bytes in which to look for the seek table. Returns `None` for a component without one, and
    /// for a big-endian component, whose frames may end inside elements.
    pub fn table_extent(&self) -> Option<Extent> {
        let seek = self.encoding.seek_format()?;
        let is_cut = self.swap_unit_len() > 1;
        let decoded_len = self.decoded_len.filter(|_| !is_cut)?;
        let len = self.stored_len();
        let single = match PlaneType::has_short_frames(&self.role) {
            true => PLANE_FRAME_LEN,
            false => SINGLE_FRAME_MAX,
        };
        let has_one = decoded_len > single && len >= seek.footer_len();
        has_one.then(|| self.stored.part(len.saturating_sub(TABLE_GUESS)..len))
    }

    /// Reads the seek table from `end`, the last stored bytes of the component. Returns `Ok(None)` if there is no table
    /// that fits the component, which is then decoded from its start.
    ///
    /// # Errors
    /// Returns the longer range at the end that must be read instead, if `end` is too short.
    pub fn seek_table(&self, end: &[u8]) -> std::result::Result<Option<SeekTable>, Extent> {
        let (Some(seek), Some(decoded_len)) = (self.encoding.seek_format(), self.decoded_len)
        else {
            return Ok(None);
        };
        let stored_len = self.stored_len();
        let Some(len) = seek.table_len(end, stored_len) else { return Ok(None) };
        let at = usize::try_from(len).ok().and_then(|len| end.len().checked_sub(len));
        match at.and_then(|at| end.get(at..)) {
            Some(table) => Ok(seek.read_table(table, stored_len, decoded_len)),
            None => Err(self.stored.part(stored_len.saturating_sub(len)..stored_len)),
        }
    }
}

/// Removes duplicates from `wants`, since several tensors may share a component. Returns the distinct wants, and for
/// each given want its index among them. Wants without stored bytes are never merged.
pub fn distinct(wants: Vec<Want>) -> (Vec<Want>, Vec<usize>) {
    let mut out: Vec<Want> = Vec::with_capacity(wants.len());
    let mut known: HashMap<Extent, Vec<usize>> = HashMap::default();
    let mut indices = Vec::with_capacity(wants.len());
    for want in wants {
        let c = &want.component;
        let same = known.entry(c.stored).or_default();
        let is_same = |at: &&usize| out.get(**at).is_some_and(|o| o.component.decodes_equally(c));
        let found = same.iter().find(is_same).filter(|_| !c.stored.is_empty()).copied();
        indices.push(found.unwrap_or(out.len()));
        if found.is_none() {
            same.push(out.len());
            out.push(want);
        }
    }
    (out, indices)
}
