//! Seek tables in a skippable frame at the end.

use super::ENCODE;
use crate::codec::{SeekFormat, SeekTable};
use crate::error::Result;

const SKIPPABLE_MAGIC: u32 = 0x184D_2A5E;
const SEEK_MAGIC: u32 = 0x8F92_EAB1;
/// Bytes at the end of a table that give its length.
pub const FOOTER_LEN: u64 = 9;

/// The format of these tables.
pub(super) struct SkippableTable;

impl SeekFormat for SkippableTable {
    fn footer_len(&self) -> u64 {
        FOOTER_LEN
    }

    fn table_len(&self, end: &[u8], stored_len: u64) -> Option<u64> {
        table_len(end, stored_len)
    }

    fn read_table(&self, table: &[u8], stored_len: u64, decoded_len: u64) -> Option<SeekTable> {
        read_table(table, stored_len, decoded_len)
    }

    fn write_table(&self, frames: &[(u64, u64)]) -> Result<Vec<u8>> {
        seek_table(frames)
    }
}

/// Returns the length of the whole table in bytes, given at least the last [`FOOTER_LEN`] bytes of a component. Returns
/// `None` if they do not end a table, or if it would be longer than the component.
pub fn table_len(end: &[u8], stored_len: u64) -> Option<u64> {
    let (count, descriptor) = read_footer(end)?;
    let entry: u64 = if descriptor & 0x80 == 0 { 8 } else { 12 };
    let len = count.checked_mul(entry)?.checked_add(8 + FOOTER_LEN)?;
    (len <= stored_len).then_some(len)
}

/// Parses a table of the length that [`table_len`] returns. Returns `None` if it does not describe exactly these stored
/// and decoded lengths; the component is then decoded from its start.
pub fn read_table(table: &[u8], stored_len: u64, decoded_len: u64) -> Option<SeekTable> {
    let (count, descriptor) = read_footer(table)?;
    let width: usize = if descriptor & 0x80 == 0 { 8 } else { 12 };
    let (head, rest) = table.split_at_checked(8)?;
    let (entries, _) = rest.split_at_checked(rest.len().checked_sub(FOOTER_LEN as usize)?)?;
    let magic_fits = read_u32(head, 0)? == SKIPPABLE_MAGIC;
    let len_fits = u64::from(read_u32(head, 4)?) == rest.len() as u64;
    let count_fits = (entries.len() / width) as u64 == count && entries.len() % width == 0;
    if !(magic_fits && len_fits && count_fits) {
        return None;
    }
    let entries = entries.chunks_exact(width);
    let lens = entries
        .filter_map(|entry| Some((u64::from(read_u32(entry, 0)?), u64::from(read_u32(entry, 4)?))));
    SeekTable::new(lens, stored_len.checked_sub(table.len() as u64)?, decoded_len)
}

/// Returns the table of frames with these (stored, decoded) lengths, in order.
///
/// # Errors
/// Returns [`ENCODE`] if a length does not fit the table's 32 bits.
pub fn seek_table(frames: &[(u64, u64)]) -> Result<Vec<u8>> {
    let too_long = || ENCODE.broken("a frame or the seek table exceeds 2^32 bytes");
    let fit = |n: u64| u32::try_from(n).map_err(|_| too_long());
    let rest = frames.len() as u64 * 8 + FOOTER_LEN;
    let mut out = Vec::new();
    out.extend(SKIPPABLE_MAGIC.to_le_bytes());
    out.extend(fit(rest)?.to_le_bytes());
    for &(stored, decoded) in frames {
        out.extend(fit(stored)?.to_le_bytes());
        out.extend(fit(decoded)?.to_le_bytes());
    }
    out.extend(fit(frames.len() as u64)?.to_le_bytes());
    out.push(0);
    out.extend(SEEK_MAGIC.to_le_bytes());
    Ok(out)
}

fn read_footer(bytes: &[u8]) -> Option<(u64, u8)> {
    let footer = bytes.get(bytes.len().checked_sub(FOOTER_LEN as usize)?..)?;
    let descriptor = *footer.get(4)?;
    // Bits 2 to 6 are reserved and must be zero.
    let known = read_u32(footer, 5)? == SEEK_MAGIC && descriptor & 0x7c == 0;
    known.then_some((read_u32(footer, 0)?.into(), descriptor))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}
