//! Texts as Arrow views: sixteen bytes for each, which contain a short text and refer to a long one.

use super::block::{Block, Scratch, Seen};
use super::plan::{Job, OFFSET_64, Slot};
use super::{ColumnBytes, Found, Gatherer};
use crate::rules::ARROW;
use bytes::Bytes;
use holdall_core::{Error, Result};
use holdall_io::Work;
use holdall_io::buffer::Buffer;
use holdall_schema::Entry;
use std::sync::atomic::{AtomicBool, Ordering};

/// Size of a view in bytes.
pub(super) const VIEW: usize = 16;
/// Length of the longest text that is stored in its view.
const SHORT: u64 = 12;
/// Distance from the start of one buffer to that of the next, in bytes. Each buffer is twice as long, so that every
/// text is complete in one buffer.
const STEP: u64 = 1 << STEP_BITS;
const STEP_BITS: u32 = 30;
/// Number of texts that a thread takes at a time.
const EVERY: usize = 1 << 14;

/// The texts of a block that are too long for their views.
#[derive(Debug, Clone)]
pub(super) struct Long {
    /// The number of bytes of all of them.
    len: u64,
    longest: u64,
    /// The start of the first one and the end of the last one in the heap.
    start: u64,
    end: u64,
}

impl Default for Long {
    fn default() -> Long {
        Long { len: 0, longest: 0, start: u64::MAX, end: 0 }
    }
}

impl Long {
    #[inline]
    pub(super) fn add(&mut self, Entry { offset, len }: Entry) {
        if len > SHORT {
            self.len = self.len.saturating_add(len);
            self.longest = self.longest.max(len);
            self.start = self.start.min(offset);
            self.end = self.end.max(offset.saturating_add(len));
        }
    }

    fn and(self, other: &Long) -> Long {
        Long {
            len: self.len.saturating_add(other.len),
            longest: self.longest.max(other.longest),
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

/// Returns the heap offset from which the views of a slot count. Usually all long texts come after those of the first
/// block.
pub(super) fn base(slot: &Slot, first: Block<'_>) -> u64 {
    let Job::Views(_) = slot.job else { return 0 };
    let mut long = Long::default();
    Scratch::default().entries(slot, first).for_each(|entry| long.add(entry));
    if long.len == 0 { 0 } else { long.start }
}

impl Gatherer<'_> {
    /// Returns the bytes that views refer to, which count from `base` in the heap. If at least half of the heap from
    /// there on belongs to the texts, that is the heap itself; otherwise the texts are copied and the views changed.
    pub(super) fn view_data(
        &mut self,
        views: &mut [u8],
        seen: &[&Seen],
        (base, every): (u64, usize),
        work: &Work,
    ) -> Found<ColumnBytes> {
        let total = seen.iter().fold(0u64, |sum, seen| sum.saturating_add(seen.len));
        self.take(usize::try_from(total).unwrap_or(usize::MAX), 1)?;
        let long = seen.iter().fold(Long::default(), |all, seen| all.and(&seen.long));
        if long.longest > STEP {
            return Err(too_long().into());
        }
        if long.len == 0 {
            return Ok(ColumnBytes::default());
        }
        let heap = &self.records.0.heap;
        if long.start >= base && (long.end - base) / 2 <= long.len {
            return Ok(ColumnBytes::Shared(heap.shared(base..long.end)?));
        }
        let heap = heap.whole().unwrap_or_default();
        // The texts together are within the limit.
        let mut out = Buffer::new(long.len as usize)?;
        let (mut left, mut before, mut jobs) = (out.as_mut(), 0, Vec::with_capacity(seen.len()));
        for (views, seen) in views.chunks_mut(every * VIEW).zip(seen) {
            let (own, rest) = left.split_at_mut(seen.long.len as usize);
            left = rest;
            jobs.push((views, own, before));
            before += seen.long.len;
        }
        work.for_each(
            jobs,
            || (),
            |(), (views, mut out, mut at)| {
                for slot in views.as_chunks_mut().0 {
                    let Some(Entry { offset, len }) = pointed(u128::from_le_bytes(*slot), base)
                    else {
                        continue;
                    };
                    let text = heap.get(offset as usize..).unwrap_or_default();
                    *slot = view(text, len, at).to_le_bytes();
                    at += len;
                    if let Some(text) = text.get(..len as usize) {
                        let (own, rest) = out.split_at_mut(text.len());
                        own.copy_from_slice(text);
                        out = rest;
                    }
                }
                work.check()
            },
        )?;
        Ok(ColumnBytes::Own(out))
    }
}

/// Returns views of the texts with these offsets and data: see [`Values::Binary64`](super::Values::Binary64).
///
/// # Errors
/// Returns `records/arrow` for a text of more than 1 GiB.
pub(super) fn views(offsets: &Bytes, data: &Bytes, work: &Work) -> Result<Buffer> {
    let offsets = offsets.as_chunks::<OFFSET_64>().0;
    let mut out = Buffer::new(offsets.len().saturating_sub(1) * VIEW)?;
    let is_long = AtomicBool::new(false);
    let jobs = out.as_mut().chunks_mut(EVERY * VIEW).zip((0..).step_by(EVERY)).collect();
    work.for_each(
        jobs,
        || (),
        |(), (slots, first): (&mut [u8], usize)| {
            let mut start = offset_of(offsets.get(first));
            let mut longest = 0;
            for (slot, next) in slots.as_chunks_mut().0.iter_mut().zip(&offsets[first + 1..]) {
                let next = offset_of(Some(next));
                longest = longest.max(next - start);
                let text = data.get(start as usize..).unwrap_or_default();
                *slot = view(text, next - start, start).to_le_bytes();
                start = next;
            }
            if longest > STEP {
                is_long.store(true, Ordering::Relaxed);
            }
            work.check()
        },
    )?;
    if is_long.into_inner() { Err(too_long()) } else { Ok(out) }
}

/// Returns the buffers for views of texts in these bytes.
pub(super) fn buffers(bytes: Bytes) -> Vec<Bytes> {
    let step = STEP as usize;
    let each = (0..bytes.len()).step_by(step);
    each.map(|start| bytes.slice(start..bytes.len().min(start + 2 * step - 1))).collect()
}

fn offset_of(bytes: Option<&[u8; OFFSET_64]>) -> u64 {
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns the view of a text of `len` bytes at offset `at` from the start of the first buffer.
#[inline]
pub(super) fn view(text: &[u8], len: u64, at: u64) -> u128 {
    let first = match text.first_chunk() {
        Some(first) => u128::from_le_bytes(*first),
        None => {
            let mut first = [0; VIEW];
            first[..text.len()].copy_from_slice(text);
            u128::from_le_bytes(first)
        }
    };
    let head = match len <= SHORT {
        true => first & ((1 << (8 * len)) - 1),
        false => {
            let (index, offset) = ((at >> STEP_BITS) as u32, at % STEP);
            first & 0xffff_ffff | u128::from(index) << 32 | u128::from(offset) << 64
        }
    };
    head << 32 | u128::from(len as u32)
}

/// Returns the entry in the heap that a view refers to; the view counts from `base`. Returns `None` if the view
/// contains the text.
fn pointed(view: u128, base: u64) -> Option<Entry> {
    let [len, _, index, offset] = [0, 32, 64, 96].map(|bits| u64::from((view >> bits) as u32));
    // Offsets before the base wrapped around when they were counted.
    let offset = base.wrapping_add(index << STEP_BITS | offset) % (1 << (32 + STEP_BITS));
    (len > SHORT).then_some(Entry { offset, len })
}

#[cold]
fn too_long() -> Error {
    ARROW.broken("a text of more than 1 GiB cannot be a view")
}
