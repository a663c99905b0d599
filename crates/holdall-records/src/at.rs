//! Records by their indices, read in groups.

use super::entries::{From, Mover};
use super::{Accessor, Record, Records, placed};
use holdall_core::{ErrorKind, Result};
use holdall_io::Tensor;
use holdall_schema::{Heap, Kind, Len, Schema, TypeId};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

/// Largest number of records that are read together.
pub(super) const RECORDS: usize = 4096;
/// Number of records in the first group if the caller may not want all of them.
const FEW: usize = 32;
/// Largest number of heap bytes that are read together for these records.
pub(super) const HEAP: u64 = 16 << 20;
/// Largest depth to which entries inside of heap data are followed.
const ROUNDS: usize = 4;

/// The records at a list of indices: see [`Records::at`].
pub struct RecordsAt<'r> {
    records: &'r Records,
    indices: PendingIndices,
    parts: Vec<Accessor>,
    /// Largest number of records in the next group.
    most: usize,
}

/// Indices that are returned one by one. What they need is read for several of them at once.
#[derive(Default)]
pub(super) struct PendingIndices {
    left: std::vec::IntoIter<u64>,
    /// The number of next indices whose bytes were already read.
    near: usize,
}

impl PendingIndices {
    pub(super) fn new(indices: Vec<u64>) -> PendingIndices {
        PendingIndices { left: indices.into_iter(), near: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.left.len()
    }

    /// Returns the next index. `prefetch` reads the bytes for the remaining indices or the first few of them, and
    /// returns the number of indices whose bytes it read. If `prefetch` fails, no further index follows.
    pub(super) fn next(
        &mut self,
        prefetch: impl FnOnce(&[u64]) -> Result<usize>,
    ) -> Option<Result<u64>> {
        if self.near == 0 && self.len() > 0 {
            match prefetch(self.left.as_slice()) {
                Ok(count) => self.near = count,
                Err(e) => {
                    *self = PendingIndices::default();
                    return Some(Err(e));
                }
            }
        }
        self.near = self.near.saturating_sub(1);
        self.left.next().map(Ok)
    }
}

/// Returns the error of a read if it is an I/O error. Other errors are ignored here: they are returned later with the
/// record or run that they belong to.
pub(super) fn ensure_arrived(done: Result<()>, tensor: &Tensor) -> Result<()> {
    match done {
        Err(e) if e.kind() == ErrorKind::Io => Err(placed(e, tensor)),
        _ => Ok(()),
    }
}

impl Records {
    /// Returns the records at these indices, in this order. Records that are neither mapped nor in memory are read in
    /// groups of at most 4,096, with as few requests as possible.
    pub fn at(&self, indices: Vec<u64>) -> RecordsAt<'_> {
        RecordsAt {
            records: self,
            indices: PendingIndices::new(indices),
            parts: Vec::new(),
            most: RECORDS,
        }
    }
}

impl<'r> RecordsAt<'r> {
    /// Also reads the heap bytes that these members of the records refer to, up to 16 MiB at a time.
    pub fn with_parts(mut self, parts: impl IntoIterator<Item = Accessor>) -> RecordsAt<'r> {
        let schema = self.records.schema();
        let has_heap = |part: &Accessor| {
            // An accessor of another schema fails later, where it is used.
            schema.extent(part.ty()).is_ok() && schema.ty(part.ty()).heap_align.is_some()
        };
        self.parts.extend(parts.into_iter().filter(has_heap));
        self
    }

    /// Reads small groups first, then larger ones, for callers that may not want all records.
    pub(super) fn slowly(mut self) -> RecordsAt<'r> {
        self.most = FEW;
        self
    }

    /// Reads the bytes for the next records and returns for how many it did.
    fn prefetch(&mut self, next: &[u64]) -> Result<usize> {
        let inner = &*self.records.0;
        let step = usize::try_from(self.records.step()).unwrap_or(usize::MAX);
        let next = &next[..next.len().min(step).min(self.most)];
        let there = next.iter().filter(|index| **index < inner.count);
        let range = |index: &u64| {
            let start = index * inner.stride as u64;
            start..start + inner.size as u64
        };
        ensure_arrived(inner.data.prefetch(there.map(range).collect()), self.records.tensor())?;
        let is_nested = |part: &Accessor| is_nested(self.records.schema(), part.ty());
        let rounds = if self.parts.iter().any(is_nested) { ROUNDS } else { 1 };
        let mut count = next.len();
        for _ in 0..rounds {
            let (mut wanted, mut len) = (Vec::new(), 0u64);
            for (at, index) in next[..count].iter().enumerate() {
                let before = wanted.len();
                self.missing(*index, &mut wanted);
                let own = wanted[before..].iter().map(|range| range.end - range.start);
                len = own.fold(len, u64::saturating_add);
                if len > HEAP {
                    // The rest is read later. A single record that needs more than this is read when it is used.
                    wanted.truncate(before);
                    count = at.max(1);
                    break;
                }
            }
            if wanted.is_empty() {
                break;
            }
            ensure_arrived(inner.heap.prefetch(wanted), self.records.tensor())?;
        }
        self.most = (self.most * 4).min(RECORDS);
        Ok(count)
    }

    /// Adds the heap ranges that a record refers to and that are not in memory. Invalid entries are skipped: they fail
    /// when they are used.
    fn missing(&self, index: u64, out: &mut Vec<Range<u64>>) {
        if self.parts.is_empty() {
            return;
        }
        let Ok(record) = self.records.record(index) else { return };
        let inner = &*self.records.0;
        let out = RefCell::new(out);
        let get = |range: Range<u64>| match inner.heap.cached(&range) {
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
        let mut indices = std::mem::take(&mut self.indices);
        let next = indices.next(|next| self.prefetch(next));
        self.indices = indices;
        next.map(|index| self.records.record(index?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.indices.len(), Some(self.indices.len()))
    }
}

impl std::fmt::Debug for RecordsAt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("At").field("left", &self.indices.len()).finish_non_exhaustive()
    }
}

/// A heap that stores nothing: only the reads of the source heap matter.
struct Nowhere;

impl Heap for Nowhere {
    fn append(&mut self, _: &[u8], _: u32) -> Result<u64> {
        Ok(0)
    }
}

/// Returns `true` if entries of this type may refer to data that itself contains entries.
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
