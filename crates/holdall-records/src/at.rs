//! Records by their places, read together.

use super::entries::{From, Mover};
use super::{Accessor, Record, Records, placed};
use holdall_core::{ErrorKind, Result};
use holdall_io::Tensor;
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
pub struct RecordsAt<'r> {
    records: &'r Records,
    places: Places,
    parts: Vec<Accessor>,
    /// How many are read together next, at most.
    most: usize,
}

/// Places that are handed out one by one, some of them together once what they need was read.
#[derive(Default)]
pub(super) struct Places {
    left: std::vec::IntoIter<u64>,
    /// Of how many of the next what is needed was read.
    near: usize,
}

impl Places {
    pub(super) fn new(places: Vec<u64>) -> Places {
        Places { left: places.into_iter(), near: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.left.len()
    }

    /// The next one. `bring` reads what those that are left need, or some of them, and says of how many; where that fails no other follows.
    pub(super) fn next(
        &mut self,
        bring: impl FnOnce(&[u64]) -> Result<usize>,
    ) -> Option<Result<u64>> {
        if self.near == 0 && self.len() > 0 {
            match bring(self.left.as_slice()) {
                Ok(count) => self.near = count,
                Err(e) => {
                    *self = Places::default();
                    return Some(Err(e));
                }
            }
        }
        self.near = self.near.saturating_sub(1);
        self.left.next().map(Ok)
    }
}

/// Whether bytes of a tensor came. What is wrong with single ones is told with the record, or the run, that they are of.
pub(super) fn ensure_arrived(done: Result<()>, tensor: &Tensor) -> Result<()> {
    match done {
        Err(e) if e.kind() == ErrorKind::Io => Err(placed(e, tensor)),
        _ => Ok(()),
    }
}

impl Records {
    /// The records at these places, in this order. Those that are not at hand are read together, in as few reads as their source likes:
    /// as many as are worth a read, at most 4,096.
    pub fn at(&self, places: Vec<u64>) -> RecordsAt<'_> {
        RecordsAt { records: self, places: Places::new(places), parts: Vec::new(), most: RECORDS }
    }
}

impl<'r> RecordsAt<'r> {
    /// What these parts of the records point at is read with them, up to 16 MiB at a time.
    pub fn with_parts(mut self, parts: impl IntoIterator<Item = Accessor>) -> RecordsAt<'r> {
        let schema = self.records.schema();
        let has_heap = |part: &Accessor| {
            // Those of another schema are found out where they are used.
            schema.extent(part.ty()).is_ok() && schema.ty(part.ty()).heap_align.is_some()
        };
        self.parts.extend(parts.into_iter().filter(has_heap));
        self
    }

    /// Few records are read together at first, then more: for who may not want all of them.
    pub(super) fn slowly(mut self) -> RecordsAt<'r> {
        self.most = FEW;
        self
    }

    /// Reads what the next records need: of how many.
    fn bring(&mut self, next: &[u64]) -> Result<usize> {
        let inner = &*self.records.0;
        let step = usize::try_from(self.records.step()).unwrap_or(usize::MAX);
        let next = &next[..next.len().min(step).min(self.most)];
        let there = next.iter().filter(|place| **place < inner.count);
        let range = |place: &u64| {
            let start = place * inner.stride as u64;
            start..start + inner.size as u64
        };
        ensure_arrived(inner.data.bring(there.map(range).collect()), self.records.tensor())?;
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
            ensure_arrived(inner.heap.bring(wanted), self.records.tensor())?;
        }
        self.most = (self.most * 4).min(RECORDS);
        Ok(count)
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

impl<'r> Iterator for RecordsAt<'r> {
    type Item = Result<Record<'r>>;

    fn next(&mut self) -> Option<Result<Record<'r>>> {
        let mut places = std::mem::take(&mut self.places);
        let next = places.next(|next| self.bring(next));
        self.places = places;
        next.map(|place| self.records.record(place?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.places.len(), Some(self.places.len()))
    }
}

impl std::fmt::Debug for RecordsAt<'_> {
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
