//! Gathers a member of a block of consecutive records: loops without a branch or early exit for each value.

use super::plan::{Content, Job, OFFSET_32, Slot};
use super::views::{Long, view};
use holdall_json::parse;
use holdall_schema::{Accessor, Entry};
use serde_json::Value;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Consecutive records.
#[derive(Clone, Copy)]
pub(super) struct Block<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) count: usize,
    /// Distance from one record to the next in bytes, at least 1.
    pub(super) stride: usize,
}

/// The heap that the records' entries refer to.
pub(super) struct Heap<'h> {
    pub(super) len: u64,
    /// All of it, for views.
    pub(super) bytes: &'h [u8],
    /// Number of heap bytes that may still be checked for views.
    pub(super) left: AtomicU64,
    /// Largest nesting depth of JSON.
    pub(super) depth: usize,
}

/// The destination of a gathered member.
pub(super) struct Out<'o> {
    /// A bit for each record, set if it has the member.
    pub(super) presence: Option<&'o mut [u8]>,
    pub(super) values: &'o mut [u8],
    /// The heap offset from which views count.
    pub(super) base: u64,
}

/// The findings about a member in a block.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Whether any value is invalid.
    pub(super) is_wrong: bool,
    pub(super) absent: usize,
    /// Number of heap bytes that the entries refer to.
    pub(super) len: u64,
    /// The ranges of the heap with these bytes, in the order of the entries. `None` if there are too many ranges.
    pub(super) ranges: Option<Vec<Range<u64>>>,
    /// The heap bytes that views refer to.
    pub(super) long: Long,
}

/// Reused memory of a thread.
#[derive(Default)]
pub(super) struct Scratch {
    presence: Vec<u8>,
    parts: Vec<u8>,
}

/// Number of records whose numbers are copied together: they stay in the cache that is nearest to the processor.
const TILE: usize = 128;

/// Copies the members that are numbers and that every record has. [`Scratch::gather`] only checks them.
pub(super) fn copy_numbers(slots: &[Slot], block: Block<'_>, outs: &mut [Out<'_>]) {
    for first in (0..block.count).step_by(TILE) {
        let count = TILE.min(block.count - first);
        let bytes = block.bytes.get(first * block.stride..).unwrap_or_default();
        let tile = Block { bytes, count, stride: block.stride };
        for (slot, out) in slots.iter().zip(outs.iter_mut()) {
            let Some(width) = slot.plain_width() else { continue };
            let out = out.values.get_mut(first * width..(first + count) * width);
            copy(tile, slot.part.offset(), width, width, out.unwrap_or_default());
        }
    }
}

impl Scratch {
    /// Gathers a member of each record, unless [`copy_numbers`] copied it.
    pub(super) fn gather(
        &mut self,
        slot: &Slot,
        block: Block<'_>,
        heap: &Heap<'_>,
        out: &mut Out<'_>,
    ) -> Seen {
        let Scratch { presence, parts } = self;
        let mut seen = Seen::default();
        let mut presence = presence_of(&slot.part, block, presence, &mut seen.is_wrong);
        if let (Some(bits), Some(presence)) = (&mut out.presence, presence) {
            pack(presence, bits);
            seen.absent = presence.iter().filter(|presence| **presence == 0).count();
        }
        presence = presence.filter(|_| seen.absent > 0);
        match &slot.job {
            Job::Presence => {}
            Job::Numbers { size, width, most } => {
                if slot.plain_width().is_none() {
                    copy(block, slot.part.offset(), *size, *width, out.values);
                    clear(out.values, *width, presence);
                }
                seen.is_wrong |= most.is_some_and(|most| !is_below(out.values, *width, most));
            }
            Job::Bits => {
                resized(parts, block.count);
                copy(block, slot.part.offset(), 1, 1, parts);
                clear(parts, 1, presence);
                seen.is_wrong |= !is_below(parts, 1, 2);
                pack(parts, out.values);
            }
            Job::Offsets { stride, align, width, .. } => {
                let all = stored(slot, block);
                let heap_bounds = (heap.len, *width);
                match presence {
                    None => write_offsets(all, heap_bounds, out.values, &mut seen),
                    Some(presence) => {
                        let all = all.zip(presence).map(|(entry, presence)| match presence {
                            0 => Entry { offset: 0, len: 0 },
                            _ => entry,
                        });
                        write_offsets(all, heap_bounds, out.values, &mut seen);
                    }
                }
                if (*stride, *align) != (1, 1) {
                    entries(slot, block, presence, parts);
                    for entry in parts.as_chunks().0 {
                        let Entry { offset, len } = Entry::from_bytes(*entry);
                        seen.is_wrong |= (len % stride != 0) | (offset % align != 0);
                    }
                }
            }
            Job::Views(content) => {
                entries(slot, block, presence, parts);
                let mut slots = out.values.as_chunks_mut().0.iter_mut();
                let (base, mut long) = (out.base, Long::default());
                let each = parts.as_chunks().0.iter().map(|entry| Entry::from_bytes(*entry));
                check_entries(each, heap.len, &mut seen, |entry, _| {
                    if let Some(slot) = slots.next() {
                        let text = heap.bytes.get(entry.offset as usize..).unwrap_or_default();
                        let at = entry.offset.wrapping_sub(base);
                        *slot = view(text, entry.len, at).to_le_bytes();
                        long.add(entry);
                    }
                });
                seen.long = long;
                seen.is_wrong = seen.is_wrong || !heap.has(*content, parts, presence, &seen);
            }
        }
        seen
    }

    /// Returns the entries of a member. Entries of absent members are empty.
    pub(super) fn entries(
        &mut self,
        slot: &Slot,
        block: Block<'_>,
    ) -> impl Iterator<Item = Entry> + '_ {
        let presence = presence_of(&slot.part, block, &mut self.presence, &mut false);
        entries(slot, block, presence, &mut self.parts);
        self.parts.as_chunks().0.iter().map(|entry| Entry::from_bytes(*entry))
    }
}

impl Heap<'_> {
    /// Returns `true` if the heap bytes of all entries have valid content. Does not check more bytes than may be
    /// gathered.
    fn has(&self, content: Content, entries: &[u8], presence: Option<&[u8]>, seen: &Seen) -> bool {
        let rest = |left: u64| left.checked_sub(seen.len);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).is_err() {
            return true;
        }
        let get = |Entry { offset, len }| {
            self.bytes.get(offset as usize..(offset + len) as usize).unwrap_or_default()
        };
        let whole = match seen.ranges.as_deref() {
            Some([]) => Some(&[][..]),
            Some([range]) => Some(get(Entry { offset: range.start, len: seen.len })),
            _ => None,
        };
        let values = entries.as_chunks().0.iter().map(|entry| get(Entry::from_bytes(*entry)));
        has_content(
            content,
            whole,
            values,
            |at| presence.is_none_or(|presence| presence[at] == 1),
            self.depth,
        )
    }
}

/// Returns `true` if all values have valid content. Empty values of absent members are skipped. `whole` is the bytes of
/// all values, if they are consecutive.
pub(super) fn has_content<'r>(
    content: Content,
    whole: Option<&[u8]>,
    mut values: impl Iterator<Item = &'r [u8]>,
    is_present: impl Fn(usize) -> bool,
    depth: usize,
) -> bool {
    // True for a string that starts inside of a UTF-8 character.
    let is_cut = |value: &[u8]| value.first().is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    match (content, whole) {
        (Content::Any, _) => true,
        (Content::Text, Some(whole)) if whole.is_ascii() => true,
        (Content::Text, Some(whole)) => std::str::from_utf8(whole).is_ok() && !values.any(is_cut),
        (Content::Text, None) => values.all(|value| std::str::from_utf8(value).is_ok()),
        (Content::Json, _) => values.enumerate().all(|(at, text)| {
            !is_present(at) || matches!(parse(text, depth), Ok(Value::Object(_)))
        }),
    }
}

/// Returns a byte for each record, 1 if it has the member. Returns `None` if all records have it.
fn presence_of<'s>(
    part: &Accessor,
    block: Block<'_>,
    presence: &'s mut Vec<u8>,
    is_wrong: &mut bool,
) -> Option<&'s [u8]> {
    if part.is_always_present() {
        return None;
    }
    resized(presence, block.count);
    *is_wrong |= part.fill_presence(block.bytes, presence).is_err();
    Some(presence)
}

fn entries(slot: &Slot, block: Block<'_>, presence: Option<&[u8]>, out: &mut Vec<u8>) {
    resized(out, block.count * Entry::LEN);
    copy(block, slot.part.offset(), Entry::LEN, Entry::LEN, out);
    clear(out, Entry::LEN, presence);
}

/// Returns the entries of a member as they are stored, also those of absent members.
fn stored<'b>(slot: &Slot, block: Block<'b>) -> impl Iterator<Item = Entry> + use<'b> {
    let records = block.bytes.get(slot.part.offset()..).unwrap_or_default().chunks(block.stride);
    records.take(block.count).map(|record| match record.first_chunk() {
        Some(entry) => Entry::from_bytes(*entry),
        None => Entry { offset: 0, len: 0 },
    })
}

/// Checks entries, and writes the number of heap bytes up to and including each of them, as offsets of `width` bytes.
fn write_offsets(
    entries: impl Iterator<Item = Entry>,
    (heap, width): (u64, usize),
    out: &mut [u8],
    seen: &mut Seen,
) {
    if width == OFFSET_32 {
        let mut slots = out.as_chunks_mut().0.iter_mut();
        check_entries(entries, heap, seen, |_, end| {
            if let Some(slot) = slots.next() {
                // If the number does not fit, the bytes of all blocks are found to be too many.
                *slot = (end as u32).to_le_bytes();
            }
        });
    } else {
        let mut slots = out.as_chunks_mut().0.iter_mut();
        check_entries(entries, heap, seen, |_, end| {
            if let Some(slot) = slots.next() {
                *slot = end.to_le_bytes();
            }
        });
    }
}

/// Checks that entries are inside the heap, and collects the ranges that they refer to. Calls `with` for each entry,
/// with the number of heap bytes up to and including it.
#[inline]
fn check_entries(
    entries: impl Iterator<Item = Entry>,
    heap: u64,
    seen: &mut Seen,
    mut with: impl FnMut(Entry, u64),
) {
    let (mut ranges, mut range, mut total, mut is_wrong) = (Vec::new(), 0..0, 0u64, false);
    for entry in entries {
        let Entry { offset, len } = entry;
        let end = offset.wrapping_add(len);
        is_wrong |= (end < offset) | (end > heap);
        if len > 0 && offset != range.end {
            if range.start < range.end && ranges.len() <= MAX_RANGES {
                ranges.push(range);
            }
            range = offset..end;
        } else if len > 0 {
            range.end = end;
        }
        total = total.saturating_add(len);
        with(entry, total);
    }
    if range.start < range.end {
        ranges.push(range);
    }
    seen.len = total;
    seen.is_wrong |= is_wrong;
    seen.ranges = (ranges.len() <= MAX_RANGES).then_some(ranges);
}

/// Largest number of ranges of the heap that are remembered for a block. Text by text, copying takes as long as finding
/// the entries again.
const MAX_RANGES: usize = 64;

fn resized(bytes: &mut Vec<u8>, len: usize) {
    bytes.clear();
    bytes.resize(len, 0);
}

/// Copies `size` bytes of each record, from byte `start` on, to slots of `width` bytes.
fn copy(block: Block<'_>, start: usize, size: usize, width: usize, out: &mut [u8]) {
    let records = block.bytes.get(start..).unwrap_or_default();
    match (size, width) {
        (1, 1) => whole::<1>(records, block.stride, out),
        (2, 2) => whole::<2>(records, block.stride, out),
        (4, 4) => whole::<4>(records, block.stride, out),
        (8, 8) => whole::<8>(records, block.stride, out),
        (16, 16) => whole::<16>(records, block.stride, out),
        _ => {
            let records = records.chunks(block.stride);
            for (slot, record) in out.chunks_exact_mut(width.max(1)).zip(records) {
                if let (Some(slot), Some(part)) = (slot.get_mut(..size), record.get(..size)) {
                    slot.copy_from_slice(part);
                }
            }
        }
    }
}

#[inline]
fn whole<const N: usize>(records: &[u8], stride: usize, out: &mut [u8]) {
    let mut at = 0usize;
    for slot in out.as_chunks_mut::<N>().0 {
        *slot = records.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N]);
        // Past the end, nothing is found.
        at = at.saturating_add(stride);
    }
}

/// Sets absent values to zero.
fn clear(out: &mut [u8], width: usize, presence: Option<&[u8]>) {
    let Some(presence) = presence else { return };
    for (slot, presence) in out.chunks_exact_mut(width.max(1)).zip(presence) {
        if *presence == 0 {
            slot.fill(0);
        }
    }
}

/// Returns `true` if all of these numbers are less than `most`.
pub(super) fn is_below(numbers: &[u8], width: usize, most: u32) -> bool {
    let greatest = match width {
        1 => numbers.iter().copied().max().map(u32::from),
        2 => numbers.as_chunks().0.iter().map(|n| u32::from(u16::from_le_bytes(*n))).max(),
        _ => numbers.as_chunks().0.iter().map(|n| u32::from_le_bytes(*n)).max(),
    };
    greatest.is_none_or(|greatest| greatest < most)
}

/// Packs bytes, each 0 or 1, into bits, lowest bit first.
pub(super) fn pack(bytes: &[u8], out: &mut [u8]) {
    let (eights, rest) = bytes.as_chunks::<8>();
    for (slot, eight) in out.iter_mut().zip(eights) {
        *slot = packed(*eight);
    }
    if let (Some(slot), false) = (out.get_mut(eights.len()), rest.is_empty()) {
        let mut eight = [0; 8];
        eight[..rest.len()].copy_from_slice(rest);
        *slot = packed(eight);
    }
}

fn packed(eight: [u8; 8]) -> u8 {
    // The multiplication moves the lowest bit of each byte to its own bit of the highest byte.
    (u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}
