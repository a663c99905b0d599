//! Sorted tables of LevelDB: sorted keys, each with a value.
//!
//! ```text
//! block    entries; u32 per restart; u32: number of restarts; a byte: compression; u32: masked CRC-32C of everything
//! before
//! entry    varint: bytes shared with the previous key; varint: bytes of the rest of the key; varint: bytes of the
//! value; the rest of the key; the value
//! location    varint: offset of a block; varint: its length, without the last five bytes
//! footer   the locations of the metadata block and of the index block, zeros, the magic number: 48 bytes
//! ```
//! The index is a block too: its values are the locations of blocks, in order.

use super::cursor::Cursor;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::model::crc32c;
use crate::window::{Stop, Window};
use bytes::Bytes;
use std::ops::Range;

crate::error::rules! {
    /// Rules of sorted tables.
    pub static RULES;

    /// A block or an entry is malformed.
    pub BROKEN: Malformed "sstable/broken"
        "The blocks of a sorted table lie inside it, one after the other, and end with the index of their parts; entries are complete.";
    /// The digest of a block differs.
    pub DIGEST: Integrity "sstable/digest" "A block of a sorted table has the CRC-32C that follows it."
        hint "the bytes changed since they were written: fetch or restore the file again";
    /// A block is compressed.
    pub COMPRESSED: Unsupported "sstable/compressed" "The blocks of a sorted table are not compressed."
        hint "write the table without compression, as TensorFlow does for checkpoints";
    /// The keys are not in ascending order.
    pub ORDER: Malformed "sstable/order" "The keys of a sorted table are in ascending order.";
    /// The blocks or the keys are too long.
    pub TOO_LONG: Limit "sstable/too-long"
        "The blocks of a sorted table have at most `Limits::manifest_len` bytes together, and so do its keys."
        remedies [RaiseLimit { limit: "manifest_len", at_least: None }];
}

/// Bytes of the footer.
const FOOTER: u64 = 48;
/// Bytes after a block's contents: its compression and its digest.
const TRAILER: u64 = 5;
const MARK: [u8; 8] = 0xdb47_7524_8b80_fb57_u64.to_le_bytes();

/// Returns `true` if the file ends like a sorted table.
///
/// # Errors
/// Returns [`Stop::Need`] if bytes are missing.
pub fn is_sstable(window: &Window) -> Result<bool, Stop> {
    Ok(window.len() >= FOOTER && window.tail(MARK.len() as u64)?.as_ref() == MARK)
}

/// Returns a CRC-32C without LevelDB's mask, which avoids digests of bytes that contain digests.
pub fn unmasked(crc: u32) -> u32 {
    crc.wrapping_sub(0xa282_ead8).rotate_left(15)
}

/// A key and its value.
pub type Entry = (Vec<u8>, Bytes);

/// Reads all entries of the table in `window`, in order. `look` is called with the entries of the first block before
/// further blocks are requested.
///
/// # Errors
/// Returns an error of [`RULES`] if the table is malformed, [`Stop::Need`] if bytes are missing, and the errors of
/// `look`.
pub fn read(
    window: &Window,
    limits: &Limits,
    look: impl Fn(&[Entry]) -> Result<()>,
) -> Result<Vec<Entry>, Stop> {
    let footer = window.len().saturating_sub(FOOTER)..window.len();
    let bytes = window.bytes(footer.clone())?;
    let mut cursor = Cursor::new(&bytes);
    let found = block_range(&mut cursor).and_then(|_| block_range(&mut cursor));
    let index = found.ok_or_else(|| {
        BROKEN
            .broken("the footer does not contain the places of the index and the metadata")
            .at(footer.clone())
    })?;
    let mut budget = Budget { left: limits.manifest_len };
    let mut blocks = Vec::new();
    let mut end = 0;
    let index = whole(&index, footer.start, &mut budget)?;
    for (_, value) in entries(&block(window, &index)?, &mut budget)? {
        let found = block_range(&mut Cursor::new(&value)).filter(|range| range.start >= end);
        let Some(range) = found else {
            let message = "the blocks are not in ascending order";
            return Err(BROKEN.broken(message).at(index).into());
        };
        let range = whole(&range, footer.start, &mut budget)?;
        if blocks.is_empty() {
            let mut budget = Budget { left: limits.manifest_len };
            look(&entries(&block(window, &range)?, &mut budget).map_err(|e| e.at(range.clone()))?)?;
        }
        end = range.end;
        blocks.push(range);
    }
    window.all(blocks.iter().cloned())?;
    let mut all: Vec<Entry> = Vec::new();
    for range in blocks {
        let found = entries(&block(window, &range)?, &mut budget);
        let found = found.map_err(|e| e.at(range.clone()))?;
        let rises = |all: &[Entry]| all.is_sorted_by(|(a, _), (b, _)| a < b);
        let follows = match (all.last(), found.first()) {
            (Some((last, _)), Some((first, _))) => last < first,
            _ => true,
        };
        if !rises(&found) || !follows {
            return Err(ORDER
                .broken("a key is not greater than the previous one")
                .at(range)
                .into());
        }
        all.extend(found);
    }
    Ok(all)
}

/// The number of bytes that may still be read.
struct Budget {
    left: u64,
}

impl Budget {
    fn take(&mut self, len: u64) -> Result<()> {
        let left = self.left.checked_sub(len);
        self.left = left.ok_or_else(|| TOO_LONG.broken("the table is too long"))?;
        Ok(())
    }
}

/// Returns the range of a block including its trailer, which must end before `end`.
fn whole(range: &Range<u64>, end: u64, budget: &mut Budget) -> Result<Range<u64>> {
    let whole = range.start..range.end.saturating_add(TRAILER);
    if whole.end > end {
        let message =
            format!("a block ends at byte {}, after its table, which ends at {end}", whole.end);
        return Err(BROKEN.broken(message));
    }
    budget.take(whole.end.saturating_sub(whole.start))?;
    Ok(whole)
}

/// Returns the contents of the block whose range, including its trailer, is `whole`.
fn block(window: &Window, whole: &Range<u64>) -> Result<Bytes, Stop> {
    let bytes = window.bytes(whole.clone())?;
    let (body, crc) = bytes.split_last_chunk::<4>().unwrap_or((&[], &[0; 4]));
    let expected = unmasked(u32::from_le_bytes(*crc));
    let found = crc32c(body);
    if found != expected {
        let message = format!("the CRC-32C of a block is {found:08x}, expected {expected:08x}");
        return Err(DIGEST.broken(message).at(whole.clone()).into());
    }
    match body.last() {
        Some(0) => Ok(bytes.slice(..bytes.len().saturating_sub(5))),
        Some(1) => {
            Err(COMPRESSED.broken("a block is compressed with snappy").at(whole.clone()).into())
        }
        kind => {
            let kind = kind.copied().unwrap_or(0);
            let message = format!("a block is compressed with method {kind}");
            Err(COMPRESSED.broken(message).at(whole.clone()).into())
        }
    }
}

/// Returns the entries of a block.
fn entries(block: &Bytes, budget: &mut Budget) -> Result<Vec<Entry>> {
    let wrong = |what: &'static str| -> Error { BROKEN.broken(what) };
    let restarts = block.last_chunk::<4>().map(|count| u64::from(u32::from_le_bytes(*count)));
    let behind = restarts.and_then(|count| count.checked_mul(4)?.checked_add(4));
    let len = behind.and_then(|behind| (block.len() as u64).checked_sub(behind));
    let len = len.and_then(|len| usize::try_from(len).ok());
    let body = len.map(|len| block.slice(..len));
    let body = body.ok_or_else(|| wrong("a block ends before its restarts"))?;
    let mut cursor = Cursor::new(&body);
    let mut out: Vec<Entry> = Vec::new();
    while cursor.remaining() > 0 {
        let lens = (|| Some((varint(&mut cursor)?, varint(&mut cursor)?, varint(&mut cursor)?)))();
        let (shared, rest, value) = lens.ok_or_else(|| wrong("an entry is incomplete"))?;
        let before = out.last().map(|(key, _)| key.as_slice()).unwrap_or_default();
        let shared = usize::try_from(shared).ok().and_then(|len| before.get(..len));
        let shared =
            shared.ok_or_else(|| wrong("a key shares more bytes than the previous key has"))?;
        let rest = cursor.take(rest).ok_or_else(|| wrong("a key is incomplete"))?;
        budget.take((shared.len() as u64).saturating_add(rest.len() as u64))?;
        let key = [shared, rest].concat();
        let start = cursor.position();
        let value = cursor.take(value).ok_or_else(|| wrong("a value is incomplete"))?;
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        out.push((key, body.slice(start..start.saturating_add(value.len()))));
    }
    Ok(out)
}

fn block_range(cursor: &mut Cursor<'_>) -> Option<Range<u64>> {
    let (start, len) = (varint(cursor)?, varint(cursor)?);
    Some(start..start.checked_add(len)?)
}

fn varint(cursor: &mut Cursor<'_>) -> Option<u64> {
    super::cursor::varint(|| cursor.u8().ok_or(())).ok().flatten()
}
