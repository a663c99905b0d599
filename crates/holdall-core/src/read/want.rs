//! What is wanted of a component.

use crate::codec::{SINGLE_FRAME_MAX, SeekTable};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::model::{Component, Encoding};
use crate::read::{ComponentDecoder, Digests, Extent};
use holdall_collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes at the end of a component in which its seek table is looked for first: most are shorter.
const TABLE_GUESS: u64 = 16 << 10;

/// What is wanted of one component: all of its decoded bytes, or a range of them.
#[derive(Debug, Clone)]
pub struct Want {
    /// The number of the tensor it is of, in its index.
    pub tensor: u32,
    /// The component.
    pub component: Component,
    /// The decoded bytes that are wanted; `None` for all.
    pub range: Option<Range<u64>>,
    /// The digests of the stored bytes that are to be computed, where all of them are read.
    pub digests: Digests,
    /// Wants of different groups are never fetched together.
    pub group: u32,
    /// Where the frames are, where that is known.
    pub table: Option<Arc<SeekTable>>,
}

impl Want {
    /// All of a component of tensor number `tensor`; no digest is computed.
    pub fn new(tensor: u32, component: Component) -> Want {
        Want { tensor, component, range: None, digests: Digests::NONE, group: 0, table: None }
    }

    /// Only the decoded bytes `range`.
    pub fn with_range(mut self, range: Range<u64>) -> Want {
        self.range = Some(range);
        self
    }

    /// Computes these digests.
    pub fn with_digests(mut self, digests: impl Into<Digests>) -> Want {
        self.digests = digests.into();
        self
    }

    /// Fetched together with no want of another group.
    pub fn in_group(mut self, group: u32) -> Want {
        self.group = group;
        self
    }

    /// Knows where the frames are.
    pub fn with_table(mut self, table: Option<Arc<SeekTable>>) -> Want {
        self.table = table;
        self
    }

    /// The decoded bytes that are wanted; to the end of all numbers where all are.
    pub fn wanted(&self) -> Range<u64> {
        self.range.clone().unwrap_or(0..u64::MAX)
    }

    /// What decodes its component in order, computing its digests where all of it is wanted.
    ///
    /// # Errors
    /// As [`ComponentDecoder::new`].
    pub fn decoder(&self, limits: &Limits) -> Result<ComponentDecoder> {
        let digests = if self.range.is_some() { Digests::NONE } else { self.digests };
        ComponentDecoder::new(&self.component, digests, limits)
    }

    /// Names the component and its bytes in an error.
    #[cold]
    pub fn in_context(&self, e: Error) -> Error {
        e.in_component(&self.component.role).at(self.component.stored.range())
    }

    /// Whether the parts of it can be decoded in any order, each alone. What is in one compressed run, and
    /// what has a digest that can only be computed from the start, cannot.
    pub(super) fn is_divisible(&self) -> bool {
        let raw = self.component.encoding == Encoding::Raw;
        let is_summed_decoded = self.range.is_none() && self.component.decoded_crc().is_some();
        (raw || self.table.is_some()) && !self.digests.is_sequential() && !is_summed_decoded
    }

    /// Whether a digest of its stored bytes vouches for them: then the codec's own checksums need not be compared.
    pub fn is_vouched(&self) -> bool {
        self.digests.any() && self.component.digest.is_some()
    }

    /// Whether its decoded bytes are its stored ones.
    pub fn is_plain(&self) -> bool {
        is_plain(&self.component)
    }
}

/// Whether the decoded bytes of a component are its stored ones.
fn is_plain(c: &Component) -> bool {
    c.encoding == Encoding::Raw && c.turned_len() == 1
}

impl Component {
    /// Whether this and another component of the same stored bytes decode to the same, under the same digest.
    pub fn reads_the_same(&self, other: &Component) -> bool {
        let way = |c: &Component| (c.encoding, c.byte_order, c.dtype.width(), c.decoded_len);
        way(self) == way(other) && self.digest == other.digest
    }

    /// The stored bytes in which its seek table is to be looked for; `None` for a component that has none, and for a
    /// big-endian one, whose frames may end inside elements that are to be turned round.
    pub fn table_extent(&self) -> Option<Extent> {
        let seek = self.encoding.seek_format()?;
        let is_cut = self.turned_len() > 1;
        let decoded_len = self.decoded_len.filter(|_| !is_cut)?;
        let len = self.stored_len();
        let has_one = decoded_len > SINGLE_FRAME_MAX && len >= seek.footer_len();
        has_one.then(|| self.stored.part(len.saturating_sub(TABLE_GUESS)..len))
    }

    /// The seek table in `end`, the last stored bytes of the component. `Ok(None)` where there is none that
    /// fits it: it is then decoded from its start.
    ///
    /// # Errors
    /// The longer run of bytes at the end that must be looked at instead.
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

/// Wants, each once, and where among them each that was given is: several names may have one component. What has no bytes is read by
/// nobody, and stays apart.
pub fn distinct(wants: Vec<Want>) -> (Vec<Want>, Vec<usize>) {
    let mut out: Vec<Want> = Vec::with_capacity(wants.len());
    let mut known: HashMap<Extent, Vec<usize>> = HashMap::default();
    let mut places = Vec::with_capacity(wants.len());
    for want in wants {
        let c = &want.component;
        let same = known.entry(c.stored).or_default();
        let is_same = |at: &&usize| out.get(**at).is_some_and(|o| o.component.reads_the_same(c));
        let found = same.iter().find(is_same).filter(|_| !c.stored.is_empty()).copied();
        places.push(found.unwrap_or(out.len()));
        if found.is_none() {
            same.push(out.len());
            out.push(want);
        }
    }
    (out, places)
}
