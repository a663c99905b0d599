//! Converts records without changing their heap: their entries refer to the same bytes as before.
//!
//! This allows reading a single record under another schema, without reading or writing its heap. The heap data of
//! defaults is placed after the old heap.

use super::convert::Converters;
use super::migrate::Migrator;
use super::plan::{Items, Plan, PlanId, Step};
use super::resolve::Resolution;
use crate::error::Result;
use crate::kinds::Kind;
use crate::record::number::le;
use crate::record::rules::ENTRY_BOUNDS;
use crate::record::{Entry, Heap};
use crate::schema::Schema;
use holdall_collections::DebugUnwrap;

/// Encoded defaults whose heap data is placed after an old heap.
#[derive(Debug, Clone, Default)]
pub struct HeapDefaults {
    /// The bytes of each default.
    pub(super) fillings: Vec<Vec<u8>>,
    /// The length of the old heap in bytes.
    before: u64,
    /// The bytes to append to the old heap.
    pub tail: Vec<u8>,
}

impl Resolution {
    /// Returns `true` if the heap can stay unchanged, because no heap data is converted. `reader` is the schema that
    /// the resolution was created with.
    pub fn keeps_heap(&self, reader: &Schema) -> bool {
        // Parts come before the plans that contain them.
        let (mut same, mut keeps) = (Vec::<bool>::new(), Vec::<bool>::new());
        for plan in &self.plans {
            let is = |all: &[bool], id: &PlanId| all.get(id.0).copied().unwrap_or(false);
            let is_same = match plan {
                Plan::Copy | Plan::Entry => true,
                Plan::Struct(steps) => steps.iter().all(|step| match step {
                    Step::Copy { from, to } => from == to,
                    Step::Member(m) => {
                        m.from == m.to
                            && m.from_bit == m.to_bit
                            && m.missing.is_none()
                            && is(&same, &m.plan)
                    }
                    Step::Fill { .. } => false,
                }),
                Plan::Fixed { items } | Plan::Variable { items } => stays(items, &same),
                _ => false,
            };
            let is_kept = match plan {
                Plan::Copy | Plan::Entry | Plan::Widen(..) | Plan::Enum { .. } => true,
                Plan::Struct(steps) => steps.iter().all(|step| match step {
                    Step::Member(m) => is(&keeps, &m.plan),
                    Step::Copy { .. } | Step::Fill { .. } => true,
                }),
                Plan::Union { variants, .. } => variants.iter().all(|v| is(&keeps, &v.plan)),
                Plan::Fixed { items } => is(&keeps, &items.plan),
                Plan::IntoHeap { .. } => false,
                Plan::Variable { items } => stays(items, &same),
                Plan::Convert { to, .. } => {
                    crate::extent::get(&reader.types, *to).is_ok_and(|ty| ty.heap_align.is_none())
                }
            };
            same.push(is_same);
            keeps.push(is_kept);
        }
        keeps.get(self.top.0).copied().unwrap_or(false)
    }

    /// Returns `true` if a converter receives a value whose bytes may be in the heap. `writer` is the schema that the
    /// resolution was created with.
    pub fn converts_heap(&self, writer: &Schema) -> bool {
        self.plans.iter().any(|plan| match plan {
            Plan::Convert { from, .. } => {
                let ty = crate::extent::get(&writer.types, *from);
                ty.is_ok_and(|ty| ty.heap_align.is_some() || matches!(ty.kind, Kind::Union(_)))
            }
            _ => false,
        })
    }

    /// Encodes the defaults for use after a heap of `len` bytes.
    ///
    /// # Errors
    /// Returns `record/too-large` if they take too much memory.
    pub fn kept(&self, len: u64, converters: &Converters<'_>) -> Result<HeapDefaults> {
        let mut migrator = self.migrator(converters)?;
        let mut tail = Tail { before: len, bytes: Vec::new() };
        let mut fillings = Vec::with_capacity(self.fillings.len());
        for place in 0..self.fillings.len() {
            fillings.push(migrator.filling(place, &mut tail)?);
        }
        Ok(HeapDefaults { fillings, before: len, tail: tail.bytes })
    }
}

impl HeapDefaults {
    /// Copies an entry, which must not refer to bytes after the old heap.
    pub(super) fn entry(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let Entry { offset, len } = Entry::from_bytes(le(bytes));
        if offset.checked_add(len).is_none_or(|end| end > self.before) {
            let before = self.before;
            let message = format!(
                "an entry of {len} bytes at offset {offset} ends after its heap of {before} bytes"
            );
            return Err(ENTRY_BOUNDS.broken(message));
        }
        for (slot, byte) in out.iter_mut().zip(bytes) {
            *slot = *byte;
        }
        Ok(())
    }
}

impl<'r> Migrator<'r> {
    /// Writes records whose entries refer to the same heap bytes as those of the old records. Only valid if
    /// [`Resolution::keeps_heap`] returns `true`.
    pub fn over(mut self, kept: &'r HeapDefaults) -> Migrator<'r> {
        self.kept = Some(kept);
        self
    }
}

fn stays(items: &Items, same: &[bool]) -> bool {
    items.from == items.to && same.get(items.plan.0).copied().unwrap_or(false)
}

/// A heap that starts after another one.
struct Tail {
    before: u64,
    bytes: Vec<u8>,
}

impl Heap for Tail {
    fn append(&mut self, bytes: &[u8], align: u32) -> Result<u64> {
        let align = u64::from(align.max(1));
        let end = self.before.saturating_add(self.bytes.len() as u64);
        let offset = end.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        let gap = usize::try_from(offset.saturating_sub(end)).debug_unwrap();
        self.bytes.resize(self.bytes.len().saturating_add(gap), 0);
        self.bytes.extend_from_slice(bytes);
        Ok(offset)
    }
}
