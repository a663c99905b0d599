//! Converts records according to a resolution.

use super::convert::{ConversionInput, Convert, Converters};
use super::keep::HeapDefaults;
use super::number::widen;
use super::plan::{Items, MemberPlan, Plan, PlanId, Run, Step, VariantPlan};
use super::resolve::Resolution;
use super::rules::NO_CONVERTER;
use crate::error::{Error, Escape as _, Result};
use crate::kinds::IndexWidth;
use crate::path::Segment;
use crate::record::fail::{Fail, Outcome};
use crate::record::number::le;
use crate::record::rules::{ENUM_INDEX, LENGTH, TOO_LARGE, UNION_TAG};
use crate::record::walk::read_index;
use crate::record::{Elements, Entry, Heap};
use std::ops::Range;

/// Converts records of the writer to records of the reader, one after the other. Reuses its memory, so that converting
/// many records allocates almost nothing.
pub struct Migrator<'r> {
    resolution: &'r Resolution,
    converters: Vec<&'r dyn Convert>,
    spare: Vec<Vec<u8>>,
    /// Set if entries are kept unchanged.
    pub(super) kept: Option<&'r HeapDefaults>,
}

impl std::fmt::Debug for Migrator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Migrator").field("resolution", self.resolution).finish_non_exhaustive()
    }
}

impl Resolution {
    /// Returns a migrator that uses these converters.
    ///
    /// # Errors
    /// Returns `evolve/no-converter` if a converter that the resolution needs is not among them.
    pub fn migrator<'r>(&'r self, converters: &'r Converters<'_>) -> Result<Migrator<'r>> {
        let find = |name: &std::sync::Arc<str>| {
            converters.find(name).ok_or_else(|| {
                NO_CONVERTER.broken(format!("missing converter `{}`", name.escaped()))
            })
        };
        let converters = self.converters.iter().map(find).collect::<Result<_>>()?;
        Ok(Migrator { resolution: self, converters, spare: Vec::new(), kept: None })
    }
}

impl Migrator<'_> {
    /// Writes a record of the reader into `out`, which has [`Resolution::to_size`] bytes, and the data of its entries
    /// into `out_heap`.
    ///
    /// A valid record becomes a valid record. Of an invalid record, only the parts that are read are checked: see
    /// [`Schema::check_record`](crate::Schema::check_record).
    ///
    /// # Errors
    /// Returns `record/length` if one of the records does not have the size of its type; `record/enum-index`,
    /// `record/union-tag`, `record/entry-…` or `record/too-large` if the record is invalid; and the errors of
    /// converters and of the heap.
    pub fn record(
        &mut self,
        record: &[u8],
        heap: &[u8],
        out: &mut [u8],
        out_heap: &mut dyn Heap,
    ) -> Result<()> {
        let plan = self.resolution;
        for (found, wanted) in [(record.len(), plan.from_size), (out.len(), plan.to_size)] {
            if found != wanted {
                let message = format!("found {found} bytes for a record of {wanted} bytes");
                return Err(LENGTH.broken(message));
            }
        }
        out.fill(0);
        let most = plan.decoded_len;
        let mut run = Work {
            resolution: plan,
            converters: &self.converters,
            spare: &mut self.spare,
            heap,
            out_heap,
            left: most,
            kept: self.kept,
        };
        run.value(plan.top, record, out).map_err(Fail::into_error)
    }

    /// Returns the bytes of a default, whose entries refer to `out_heap`.
    pub(super) fn filling(&mut self, index: usize, out_heap: &mut dyn Heap) -> Result<Vec<u8>> {
        let resolution = self.resolution;
        let len = resolution.fillings.get(index).map_or(0, |filling| filling.bytes.len());
        let mut out = vec![0; len];
        let mut run = Work {
            resolution,
            converters: &self.converters,
            spare: &mut self.spare,
            heap: &[],
            out_heap,
            left: resolution.decoded_len,
            kept: None,
        };
        run.fill(index, &mut out).map_err(Fail::into_error)?;
        Ok(out)
    }
}

struct Work<'w> {
    resolution: &'w Resolution,
    converters: &'w [&'w dyn Convert],
    /// Memory for elements that are not yet in the heap.
    spare: &'w mut Vec<Vec<u8>>,
    heap: &'w [u8],
    out_heap: &'w mut dyn Heap,
    /// Number of heap bytes that may still be visited.
    left: u64,
    kept: Option<&'w HeapDefaults>,
}

impl Work<'_> {
    /// Converts one value. `out` is all zero, and both have the size of their types.
    fn value(&mut self, plan: PlanId, bytes: &[u8], out: &mut [u8]) -> Outcome<()> {
        let resolution = self.resolution;
        let Some(plan) = resolution.plans.get(plan.0) else { return Ok(()) };
        if let (Some(kept), Plan::Entry | Plan::Variable { .. }) = (self.kept, plan) {
            return Ok(kept.entry(bytes, out)?);
        }
        match plan {
            Plan::Copy => copy(bytes, out),
            Plan::Widen(from, to) => widen(*from, bytes, *to, out),
            Plan::Enum { from, to, indices } => {
                let index = read_index(*from, bytes);
                let found = usize::try_from(index).ok().and_then(|p| indices.get(p));
                let Some(index) = found else {
                    let message = format!(
                        "index {index} is out of range for an enum with {} values",
                        indices.len()
                    );
                    return Err(ENUM_INDEX.broken(message).into());
                };
                put_index(*to, *index, out);
            }
            Plan::Entry => {
                let found = Entry::from_bytes(le(bytes)).bytes(self.heap)?;
                self.touch(found.len() as u64)?;
                self.append(found, 1, out)?;
            }
            Plan::Struct(steps) => {
                for step in steps {
                    self.step(step, bytes, out)?;
                }
            }
            Plan::Union { from, to, variants } => self.union(*from, *to, variants, bytes, out)?,
            Plan::Fixed { items } => {
                self.elements(items, bytes, out)?;
            }
            Plan::IntoHeap { items } => self.append_elements(items, bytes, out)?,
            Plan::Variable { items } => {
                let entry = Entry::from_bytes(le(bytes));
                let elements = entry.elements(self.heap, items.from)?;
                self.append_elements(items, elements.bytes(), out)?;
            }
            Plan::Convert { converter, from, to } => {
                let part = ConversionInput { from: *from, to: *to, bytes, heap: self.heap };
                if let Some(converter) = self.converters.get(*converter) {
                    converter.convert(part, out, self.out_heap)?;
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, bytes: &[u8], out: &mut [u8]) -> Outcome<()> {
        match step {
            Step::Copy { from, to } => {
                copy(part(bytes, from)?, part_mut(out, to)?);
                Ok(())
            }
            Step::Member(member) => self
                .member(member, bytes, out)
                .map_err(|f| f.inside(Segment::Name(member.name.clone()))),
            Step::Fill { name, to, bit, default } => {
                set_bit(out, *bit);
                self.fill(*default, part_mut(out, to)?)
                    .map_err(|f| f.inside(Segment::Name(name.clone())))
            }
        }
    }

    fn member(&mut self, member: &MemberPlan, bytes: &[u8], out: &mut [u8]) -> Outcome<()> {
        if member.from_bit.is_some_and(|bit| !has_bit(bytes, bit)) {
            return match member.missing {
                Some(default) => self.fill(default, part_mut(out, &member.to)?),
                None => Ok(()),
            };
        }
        set_bit(out, member.to_bit);
        self.value(member.plan, part(bytes, &member.from)?, part_mut(out, &member.to)?)
    }

    /// Writes a default, whose entries refer to a separate heap.
    fn fill(&mut self, default: usize, out: &mut [u8]) -> Outcome<()> {
        let resolution = self.resolution;
        let Some(filling) = resolution.fillings.get(default) else { return Ok(()) };
        if let Some(bytes) = self.kept.and_then(|kept| kept.fillings.get(default)) {
            copy(bytes, out);
            return Ok(());
        }
        let heap = std::mem::replace(&mut self.heap, &filling.heap);
        let result = self.value(filling.plan, &filling.bytes, out);
        self.heap = heap;
        result
    }

    fn union(
        &mut self,
        from: IndexWidth,
        to: IndexWidth,
        variants: &[VariantPlan],
        bytes: &[u8],
        out: &mut [u8],
    ) -> Outcome<()> {
        let tag = read_index(from, bytes);
        let Some(variant) = usize::try_from(tag).ok().and_then(|t| variants.get(t)) else {
            let message =
                format!("tag {tag} is out of range for a union with {} variants", variants.len());
            return Err(UNION_TAG.broken(message).into());
        };
        put_index(to, variant.tag, out);
        self.value(variant.plan, part(bytes, &variant.from)?, part_mut(out, &variant.to)?)
            .map_err(|f| f.inside(Segment::Name(variant.key.clone())))
    }

    /// Converts elements, each at its stride.
    fn elements(&mut self, items: &Items, bytes: &[u8], out: &mut [u8]) -> Outcome<()> {
        let (stride, size) = (memory(items.from.stride), memory(items.from.size));
        let to_size = memory(items.to.size);
        let slots = out.chunks_exact_mut(memory(items.to.stride).max(1));
        for (at, (element, slot)) in
            Elements::new(bytes, stride, size).iter().zip(slots).enumerate()
        {
            let slot = slot.get_mut(..to_size).unwrap_or_default();
            self.value(items.plan, element, slot)
                .map_err(|f| f.inside(Segment::Index(at as u64)))?;
        }
        Ok(())
    }

    /// Converts elements into the heap, and writes their entry.
    fn append_elements(&mut self, items: &Items, bytes: &[u8], out: &mut [u8]) -> Outcome<()> {
        if items.run == Run::Whole {
            self.touch(bytes.len() as u64)?;
            return Ok(self.append(bytes, items.to.align, out)?);
        }
        let count = bytes.len().checked_div(memory(items.from.stride)).unwrap_or(0);
        let len = (count as u64).saturating_mul(items.to.stride);
        // Counts the bytes before memory is allocated for them.
        self.touch(len.max(bytes.len() as u64))?;
        let mut made = self.spare.pop().unwrap_or_default();
        made.clear();
        made.resize(memory(len), 0);
        let result = self.elements(items, bytes, &mut made);
        let result = result.and_then(|()| Ok(self.append(&made, items.to.align, out)?));
        self.spare.push(made);
        result
    }

    /// Appends bytes to the heap, and writes their entry.
    fn append(&mut self, bytes: &[u8], align: u32, out: &mut [u8]) -> Result<()> {
        if !bytes.is_empty() {
            let offset = self.out_heap.append(bytes, align)?;
            copy(&Entry { offset, len: bytes.len() as u64 }.to_bytes(), out);
        }
        Ok(())
    }

    fn touch(&mut self, len: u64) -> Result<()> {
        match self.left.checked_sub(len) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let most = self.resolution.decoded_len;
                Err(TOO_LARGE.broken(format!("a record refers to more than {most} bytes")))
            }
        }
    }
}

fn has_bit(bytes: &[u8], bit: u32) -> bool {
    let byte = usize::try_from(bit / 8).ok().and_then(|at| bytes.get(at)).copied().unwrap_or(0);
    byte & (1 << (bit % 8)) != 0
}

fn set_bit(out: &mut [u8], bit: Option<u32>) {
    let byte = bit.and_then(|bit| Some((out.get_mut(usize::try_from(bit / 8).ok()?)?, bit % 8)));
    if let Some((byte, index)) = byte {
        *byte |= 1 << index;
    }
}

fn put_index(width: IndexWidth, index: u32, out: &mut [u8]) {
    let len = memory(u64::from(width.bytes()));
    for (slot, byte) in out.iter_mut().zip(index.to_le_bytes()).take(len) {
        *slot = byte;
    }
}

/// Copies bytes if the lengths are equal.
#[inline]
fn copy(bytes: &[u8], out: &mut [u8]) {
    if bytes.len() == out.len() {
        out.copy_from_slice(bytes);
    }
}

#[inline]
fn part<'b>(bytes: &'b [u8], range: &Range<usize>) -> Result<&'b [u8]> {
    bytes.get(range.clone()).ok_or_else(|| outside(range, bytes.len()))
}

#[inline]
fn part_mut<'b>(bytes: &'b mut [u8], range: &Range<usize>) -> Result<&'b mut [u8]> {
    let len = bytes.len();
    bytes.get_mut(range.clone()).ok_or_else(|| outside(range, len))
}

#[cold]
fn outside(range: &Range<usize>, len: usize) -> Error {
    LENGTH.broken(format!(
        "bytes {}..{} are outside of a value of {len} bytes",
        range.start, range.end
    ))
}

/// Converts a size in memory; resolving checked that it fits.
fn memory(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
