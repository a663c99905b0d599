//! Records by their places, read together.

use super::entries::{From, Mover};
use super::{Accessor, Record, Records, placed};
use holdall_core::{ErrorKind, Result};
use holdall_schema::{Heap, Kind, Len, Schema, TypeId};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

/// Records that are read together, at most.
pub(super) const RECORDS: usize = 4096;
/// Records that are read together first, where not all may be wanted.
const FEW: usize = 32;
/// Bytes that are read together of what they point at, at most.
pub(super) const HEAP: u64 = 16 << 20;
/// How often entries are followed that lie in what others point at.
const ROUNDS: usize = 4;

/// Records at some places: see [`Records::at`].
pub struct At<'r> {
    records: &'r Records,
    places: std::vec::IntoIter<u64>,
    parts: Vec<Accessor>,
    /// Of how many of the next records what is needed was read.
    near: usize,
    /// How many are read together next, at most.
    most: usize,
}

impl Records {
    /// The records at these places, in this order. Those that are not at hand are read together, in as few reads as their source likes:
    /// as many as are worth a read, at most 4,096.
    pub fn at(&self, places: Vec<u64>) -> At<'_> {
        At { records: self, places: places.into_iter(), parts: Vec::new(), near: 0, most: RECORDS }
    }
}

impl<'r> At<'r> {
    /// What these parts of the records point at is read with them, up to 16 MiB at a time.
    pub fn with_parts(mut self, parts: impl IntoIterator<Item = Accessor>) -> At<'r> {
        let schema = self.records.schema();
        let has_heap = |part: &Accessor| {
            // Those of another schema are found out where they are used.
            schema.extent(part.ty()).is_ok() && schema.ty(part.ty()).heap_align.is_some()
        };
        self.parts.extend(parts.into_iter().filter(has_heap));
        self
    }

    /// Few records are read together at first, then more: for who may not want all of them.
    pub(super) fn slowly(mut self) -> At<'r> {
        self.most = FEW;
        self
    }

    /// Reads what the next records need: of how many.
    fn bring(&self) -> Result<usize> {
        let inner = &*self.records.0;
        let next = self.places.as_slice();
        let step = usize::try_from(self.records.step()).unwrap_or(usize::MAX);
        let next = &next[..next.len().min(step).min(self.most)];
        let there = next.iter().filter(|place| **place < inner.count);
        let range = |place: &u64| {
            let start = place * inner.stride as u64;
            start..start + inner.size as u64
        };
        self.came(inner.data.bring(there.map(range).collect()))?;
        let is_nested = |part: &Accessor| is_nested(self.records.schema(), part.ty());
        let rounds = if self.parts.iter().any(is_nested) { ROUNDS } else { 1 };
        let mut count = next.len();
        for _ in 0..rounds {
            let (mut wanted, mut len) = (Vec::new(), 0u64);
            for (at, place) in next[..count].iter().enumerate() {
                let before = wanted.len();
                self.missing(*place, &mut wanted);
                let own = wanted[before..].iter().map(|range| range.end - range.start);
                len = own.fold(len, u64::saturating_add);
                if len > HEAP {
                    // They come later; what is that much by itself, when it is asked for.
                    wanted.truncate(before);
                    count = at.max(1);
                    break;
                }
            }
            if wanted.is_empty() {
                break;
            }
            self.came(inner.heap.bring(wanted))?;
        }
        Ok(count)
    }

    /// What is wrong with single bytes is told with the record that they are of.
    fn came(&self, done: Result<()>) -> Result<()> {
        match done {
            Err(e) if e.kind() == ErrorKind::Io => Err(placed(e, self.records.tensor())),
            _ => Ok(()),
        }
    }

    /// Adds what a record points at and is not at hand. What is wrong with it is told when it is used.
    fn missing(&self, place: u64, out: &mut Vec<Range<u64>>) {
        if self.parts.is_empty() {
            return;
        }
        let Ok(record) = self.records.record(place) else { return };
        let inner = &*self.records.0;
        let out = RefCell::new(out);
        let get = |range: Range<u64>| match inner.heap.near(&range) {
            Some(bytes) => Ok(Cow::Owned(bytes.into())),
            None => {
                out.borrow_mut().push(range);
                Ok(Cow::Borrowed(&[][..]))
            }
        };
        let from = From { len: inner.heap.len(), get: &get };
        for part in &self.parts {
            let Ok(Some(bytes)) = part.raw(record.bytes()) else { continue };
            let (mut to, most) = (Nowhere, inner.limits.decoded_len);
            let mut mover = Mover::new(self.records.schema(), &from, &mut to, most);
            let _ = mover.record(part.ty(), &mut bytes.to_vec());
        }
    }
}

impl<'r> Iterator for At<'r> {
    type Item = Result<Record<'r>>;

    fn next(&mut self) -> Option<Result<Record<'r>>> {
        let records = self.records;
        if self.near == 0 && !self.places.as_slice().is_empty() {
            match self.bring() {
                Ok(count) => {
                    self.near = count;
                    self.most = (self.most * 4).min(RECORDS);
                }
                Err(e) => {
                    self.places = Vec::new().into_iter();
                    return Some(Err(e));
                }
            }
        }
        self.near = self.near.saturating_sub(1);
        self.places.next().map(|place| records.record(place))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl std::fmt::Debug for At<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("At").field("left", &self.places.len()).finish_non_exhaustive()
    }
}

/// A heap of which only the reading is looked at.
struct Nowhere;

impl Heap for Nowhere {
    fn append(&mut self, _: &[u8], _: u32) -> Result<u64> {
        Ok(0)
    }
}

/// Whether entries may point at what has entries in it.
fn is_nested(schema: &Schema, ty: TypeId) -> bool {
    let found = schema.ty(ty);
    let has_heap = |ty: TypeId| schema.ty(ty).heap_align.is_some();
    match &found.kind {
        Kind::Array(array) => match array.len {
            Len::Fixed(_) => is_nested(schema, array.items),
            Len::Variable { .. } => has_heap(array.items),
        },
        Kind::Struct(fields) => fields.members.iter().any(|member| is_nested(schema, member.ty)),
        Kind::Union(union) => union.variants.iter().any(|variant| is_nested(schema, variant.ty)),
        _ => false,
    }
}
