//! Gathers the values of members on several threads, in blocks of records, then the heap bytes that entries refer to.

use super::block::{self, Block, Heap, Out, Scratch, Seen, has_content};
use super::plan::{Job, OFFSET_32, Slot};
use super::views::{self, VIEW};
use super::{ColumnBytes, Found, Gatherer, Rows, Wrong, reuse};
use crate::rules::ARROW;
use crate::{Records, placed};
use bytes::Bytes;
use holdall_core::Result;
use holdall_io::Work;
use holdall_io::buffer::Buffer;
use std::ops::Range;
use std::slice::ChunksMut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of records in a block: small enough to stay in the cache while all members are gathered from it.
const BLOCK: usize = 128 << 10;
/// With fewer bytes of records than this, a second thread is not worth starting.
const FEW: usize = 1 << 20;
/// Number of heap bytes that are read together.
const TOGETHER: u64 = 16 << 20;

/// The gathered values of a slot.
#[derive(Default)]
pub(super) struct Filled {
    pub(super) presence: Option<Bytes>,
    pub(super) absent: usize,
    /// Numbers, bits, views, or offsets.
    pub(super) values: ColumnBytes,
    /// The bytes that views or offsets refer to.
    pub(super) data: ColumnBytes,
}

/// The heap bytes that the entries of a block refer to.
enum BlockData<'r> {
    /// They are consecutive in the heap, and used in place.
    InHeap(&'r [u8]),
    /// The memory that they are copied to.
    Copied(&'r mut [u8]),
}

impl Gatherer<'_> {
    /// Gathers the values of these slots, in order.
    pub(super) fn fill(&mut self, slots: &[Slot], rows: &Rows<'_>) -> Found<Vec<Filled>> {
        let (count, stride) = (rows.count, rows.stride.max(1));
        // A multiple of eight records, so that each block has whole bytes of bits.
        let every = (BLOCK / stride).clamp(8, 8192).next_multiple_of(8);
        let work = match rows.bytes.len() < FEW {
            true => self.work.clone().with_threads(1),
            false => self.work.clone(),
        };
        // Records without bytes can be any number, so the count is limited separately.
        self.take(count, 1)?;
        let mut out = Vec::with_capacity(slots.len());
        for slot in slots {
            let bits = if slot.part.is_always_present() { 0 } else { count.div_ceil(8) };
            let len = slot.job.len(count);
            self.take(len, 1)?;
            self.take(bits, 1)?;
            let mut values = reuse::take(len)?;
            // Zeroes the bytes that are not written below.
            match slot.job {
                Job::Offsets { width, .. } => values.as_mut()[..width].fill(0),
                Job::Numbers { size, width, .. } if size < width => values.as_mut().fill(0),
                _ => {}
            }
            out.push((Buffer::new(bits)?, values));
        }
        let blocks = (0..count).step_by(every).map(|at| {
            let end = count.min(at + every);
            let bytes = rows.bytes.get(at * rows.stride..end * rows.stride);
            Block { bytes: bytes.unwrap_or_default(), count: end - at, stride }
        });
        let blocks: Vec<Block<'_>> = blocks.collect();
        let heap = &self.records.0.heap;
        let (len, bytes) = (heap.len(), heap.whole().unwrap_or_default());
        let (left, depth) = (AtomicU64::new(self.left), self.records.limits().depth);
        let heap = Heap { len, bytes, left, depth };
        let first = blocks.first();
        let bases = slots.iter().map(|slot| first.map_or(0, |block| views::base(slot, *block)));
        let bases: Vec<u64> = bases.collect();
        let mut all = vec![Seen::default(); blocks.len() * slots.len()];
        let mut pieces: Vec<_> =
            slots.iter().zip(&mut out).map(|(s, o)| pieces(s, o, every)).collect();
        let mut seen = all.chunks_mut(slots.len().max(1));
        let jobs = blocks.iter().map(|block| {
            let outs = pieces.iter_mut().zip(&bases).map(|((presence, values), base)| Out {
                presence: presence.as_mut().and_then(Iterator::next),
                values: values.next().unwrap_or_default(),
                base: *base,
            });
            (*block, outs.collect::<Vec<_>>(), seen.next().unwrap_or_default())
        });
        work.for_each(jobs.collect(), Scratch::default, |scratch, (block, mut outs, seen)| {
            block::copy_numbers(slots, block, &mut outs);
            for ((slot, mut out), seen) in slots.iter().zip(outs).zip(seen) {
                *seen = scratch.gather(slot, block, &heap, &mut out);
            }
            work.check()
        })?;
        drop(pieces);
        if all.iter().any(|seen| seen.is_wrong) {
            return Err(Wrong::Bytes);
        }
        let mut filled = Vec::with_capacity(slots.len());
        for (at, (slot, (bits, mut values))) in slots.iter().zip(out).enumerate() {
            let seen: Vec<&Seen> = all.iter().skip(at).step_by(slots.len()).collect();
            let absent = seen.iter().map(|seen| seen.absent).sum();
            let presence = (absent > 0).then(|| bits.freeze());
            let data = match slot.job {
                Job::Offsets { width, .. } => {
                    let offsets = values.as_mut().get_mut(width..).unwrap_or_default();
                    self.gather_heap_bytes(
                        slot,
                        &blocks,
                        &seen,
                        (offsets, presence.as_deref(), every),
                        &work,
                    )?
                }
                Job::Views(_) => {
                    self.view_data(values.as_mut(), &seen, (bases[at], every), &work)?
                }
                _ => ColumnBytes::default(),
            };
            filled.push(Filled { presence, absent, values: ColumnBytes::Own(values), data });
        }
        Ok(filled)
    }

    /// Gathers the heap bytes that entries refer to, and completes `offsets`, which are without the first one: before
    /// the call they count from the start of each block, after it from the start of all blocks.
    fn gather_heap_bytes(
        &mut self,
        slot: &Slot,
        blocks: &[Block<'_>],
        seen: &[&Seen],
        (offsets, presence, every): (&mut [u8], Option<&[u8]>, usize),
        work: &Work,
    ) -> Found<ColumnBytes> {
        let Job::Offsets { stride, content, width, .. } = slot.job else {
            return Ok(ColumnBytes::default());
        };
        let total = seen.iter().fold(0u64, |sum, seen| sum.saturating_add(seen.len));
        if width == OFFSET_32 && i32::try_from(total).is_err() {
            let message =
                format!("{total} bytes of strings exceed a column with 32-bit offsets (2 GiB)");
            let hint = "take fewer records at a time";
            return Err(placed(ARROW.broken(message).with_hint(hint), self.records.tensor()).into());
        }
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        self.take(total, 1)?;
        let records = self.records;
        let mut data = match consecutive(seen) {
            Some(range) if total > 0 => ColumnBytes::Shared(records.0.heap.shared(range)?),
            Some(_) => ColumnBytes::default(),
            None => ColumnBytes::Own(Buffer::new(total)?),
        };
        let (mut in_heap, mut copied): (&[u8], &mut [u8]) = match &mut data {
            ColumnBytes::Shared(bytes) => (bytes, &mut []),
            ColumnBytes::Own(memory) => (&[], memory.as_mut()),
        };
        let (mut before, mut jobs) = (0, Vec::with_capacity(blocks.len()));
        let bits = (0..).map(|at| presence.and_then(|presence| presence.get(at * every / 8..)));
        let of_blocks = blocks.iter().zip(seen).zip(offsets.chunks_mut(every * width)).zip(bits);
        for (((block, seen), offsets), presence) in of_blocks {
            // At most the number of bytes of all blocks together, which are in memory.
            let len = seen.len as usize;
            let data = match in_heap.split_at_checked(len) {
                Some((own, rest)) => {
                    in_heap = rest;
                    BlockData::InHeap(own)
                }
                None => {
                    let (own, rest) = std::mem::take(&mut copied).split_at_mut(len);
                    copied = rest;
                    BlockData::Copied(own)
                }
            };
            jobs.push((*block, *seen, before, offsets, presence, data));
            before += seen.len;
        }
        let is_wrong = AtomicBool::new(false);
        work.for_each(
            jobs,
            Scratch::default,
            |scratch, (block, seen, before, offsets, presence, data)| {
                let data = match data {
                    BlockData::InHeap(data) => data,
                    BlockData::Copied(data) => {
                        match (&seen.ranges, records.0.heap.whole()) {
                            (Some(ranges), Some(heap)) => copy_ranges(heap, ranges, data),
                            _ => copy_heap(records, slot, block, scratch, data)?,
                        }
                        data
                    }
                };
                let is_present =
                    |at: usize| presence.is_none_or(|bits| bits[at / 8] >> (at % 8) & 1 == 1);
                let depth = records.limits().depth;
                let is_right = match width {
                    OFFSET_32 => has_content(
                        content,
                        Some(data),
                        split_at_offsets_32(data, offsets),
                        is_present,
                        depth,
                    ),
                    _ => has_content(
                        content,
                        Some(data),
                        split_at_offsets_64(data, offsets),
                        is_present,
                        depth,
                    ),
                };
                if !is_right {
                    is_wrong.store(true, Ordering::Relaxed);
                }
                if width == OFFSET_32 {
                    // All bytes together are fewer than 2 GiB.
                    let before = before as u32;
                    for end in offsets.as_chunks_mut().0 {
                        *end = before.wrapping_add(u32::from_le_bytes(*end)).to_le_bytes();
                    }
                    return work.check();
                }
                for end in offsets.as_chunks_mut().0 {
                    let end_of_all = before + u64::from_le_bytes(*end);
                    *end = if stride == 1 { end_of_all } else { end_of_all / stride }.to_le_bytes();
                }
                work.check()
            },
        )?;
        match is_wrong.into_inner() {
            true => Err(Wrong::Bytes),
            false => Ok(data),
        }
    }
}

/// Splits a slot's memory into the pieces of blocks of `every` records.
fn pieces<'p>(
    slot: &Slot,
    (presence, values): &'p mut (Buffer, Buffer),
    every: usize,
) -> (Option<ChunksMut<'p, u8>>, ChunksMut<'p, u8>) {
    let presence =
        (!slot.part.is_always_present()).then(|| presence.as_mut().chunks_mut(every / 8));
    let (start, len) = match slot.job {
        Job::Presence => (0, 1),
        Job::Bits => (0, every / 8),
        Job::Numbers { width, .. } => (0, every.saturating_mul(width).max(1)),
        Job::Offsets { width, .. } => (width, every * width),
        Job::Views(_) => (0, every * VIEW),
    };
    (presence, values.as_mut().get_mut(start..).unwrap_or_default().chunks_mut(len))
}

/// Returns the range of the heap that the entries refer to, if their bytes are consecutive.
fn consecutive(seen: &[&Seen]) -> Option<Range<u64>> {
    let mut all = None;
    for seen in seen {
        for range in seen.ranges.as_ref()? {
            let whole: &mut Range<u64> = all.get_or_insert(range.start..range.start);
            if whole.end != range.start {
                return None;
            }
            whole.end = range.end;
        }
    }
    Some(all.unwrap_or(0..0))
}

/// Copies ranges of the heap, one after the other.
fn copy_ranges(heap: &[u8], ranges: &[Range<u64>], mut out: &mut [u8]) {
    for range in ranges {
        // In bounds, or the records were found to be invalid.
        let bytes = heap.get(range.start as usize..range.end as usize).unwrap_or_default();
        if let Some((slot, rest)) = std::mem::take(&mut out).split_at_mut_checked(bytes.len()) {
            slot.copy_from_slice(bytes);
            out = rest;
        }
    }
}

/// Copies the heap bytes that the entries of a block refer to.
fn copy_heap(
    records: &Records,
    slot: &Slot,
    block: Block<'_>,
    scratch: &mut Scratch,
    mut out: &mut [u8],
) -> Result<()> {
    let mut put = |bytes: &[u8]| {
        if let Some((slot, rest)) = std::mem::take(&mut out).split_at_mut_checked(bytes.len()) {
            slot.copy_from_slice(bytes);
            out = rest;
        }
    };
    let entries = scratch.entries(slot, block).filter(|entry| entry.len > 0);
    let mut ranges = entries.map(|entry| entry.offset..entry.offset.saturating_add(entry.len));
    let heap = &records.0.heap;
    if let Some(heap) = heap.whole() {
        for range in ranges {
            put(heap.get(range.start as usize..range.end as usize).unwrap_or_default());
        }
        return Ok(());
    }
    loop {
        let (mut some, mut len) = (Vec::new(), 0);
        for range in ranges.by_ref() {
            len += range.end - range.start;
            some.push(range);
            if len >= TOGETHER {
                break;
            }
        }
        if some.is_empty() {
            return Ok(());
        }
        heap.prefetch(some.clone()).map_err(|e| placed(e, records.tensor()))?;
        for range in some {
            put(&heap.get(range).map_err(|e| placed(e, records.tensor()))?);
        }
    }
}

/// Returns an iterator over the values that 64-bit offsets divide `data` into. The first offset, 0, is not in
/// `offsets`.
pub(super) fn split_at_offsets_64<'r>(
    data: &'r [u8],
    offsets: &[u8],
) -> impl Iterator<Item = &'r [u8]> {
    let mut start = 0;
    offsets.as_chunks().0.iter().map(move |end| {
        let end = u64::from_le_bytes(*end) as usize;
        data.get(std::mem::replace(&mut start, end)..end).unwrap_or_default()
    })
}

/// Returns an iterator over the values that 32-bit offsets divide `data` into. The first offset, 0, is not in
/// `offsets`.
fn split_at_offsets_32<'r>(data: &'r [u8], offsets: &[u8]) -> impl Iterator<Item = &'r [u8]> {
    let mut start = 0;
    offsets.as_chunks().0.iter().map(move |end| {
        let end = u32::from_le_bytes(*end) as usize;
        data.get(std::mem::replace(&mut start, end)..end).unwrap_or_default()
    })
}
