//! Local headers, which precede the bytes of entries.

use super::Entry;
use super::central::flags;
use super::extra::Extra;
use super::rules::*;
use crate::error::Escape as _;
use crate::window::{Stop, Window};
use crate::wire::cursor::Cursor;
use std::ops::Range;

const SIGNATURE: &[u8; 4] = b"PK\x03\x04";
/// Bytes of a header without name and extra fields.
pub(super) const LEN: u64 = 30;
/// Bytes of extra fields that are fetched together with a header: more than alignment to 64 needs.
const LIKELY_EXTRA: u64 = 128;
/// The flags of a header that must match the directory.
const SAME_FLAGS: u16 = flags::ENCRYPTED
    | flags::DEFERRED
    | flags::PATCH
    | flags::STRONGLY
    | flags::UTF8
    | flags::MASKED;

/// Returns the range of the header of `entry` and some bytes after it.
pub(super) fn likely_ranges(entry: Entry<'_>) -> Range<u64> {
    let start = entry.row.header;
    let len = LEN.saturating_add(entry.name().len() as u64).saturating_add(LIKELY_EXTRA);
    start..start.saturating_add(len).min(entry.row.room_end)
}

/// Returns the range of the header of `entry`, its bytes, and some bytes after them.
pub(super) fn likely_whole(entry: Entry<'_>) -> Range<u64> {
    let Range { start, end } = likely_ranges(entry);
    start..end.saturating_add(entry.row.stored_len).min(entry.row.room_end)
}

/// Returns the range of the stored bytes of `entry`.
pub(super) fn data(entry: Entry<'_>, window: &Window) -> Result<Range<u64>, Stop> {
    let row = entry.row;
    let bytes = window.bytes(likely_ranges(entry))?;
    let range = row.header..row.header.saturating_add(LEN);
    let name = entry.name();
    let differs = |what: String| -> Stop {
        let message = format!("entry `{}`: {what}", name.escaped());
        LOCAL_HEADER.broken(message).at(range.clone()).into()
    };
    let Some(header) = Header::read(&bytes) else {
        return Err(differs("no local header at its offset".into()));
    };
    if header.flags & SAME_FLAGS != row.flags & SAME_FLAGS {
        let (a, b) = (header.flags, row.flags);
        return Err(differs(format!(
            "flags {a:#06x} in its header, but {b:#06x} in the directory"
        )));
    }
    if header.method != row.method.number() {
        let (a, b) = (header.method, row.method.number());
        return Err(differs(format!("method {a} in its header, but {b} in the directory")));
    }
    let names_end = LEN.saturating_add(header.name_len.into());
    let data_at = row.header.saturating_add(names_end).saturating_add(header.extra_len.into());
    let data = data_at..data_at.saturating_add(row.stored_len);
    if data.end > row.room_end {
        let message = format!(
            "entry `{}`: its bytes are {}..{}, but the next entry or the directory starts at {}",
            name.escaped(),
            data.start,
            data.end,
            row.room_end
        );
        return Err(OVERLAP.broken(message).at(range).into());
    }
    // All of it is inside the room of the entry, and so inside the file.
    let bytes = window.bytes(row.header..data_at)?;
    let mut rest = Cursor::new(&bytes);
    let parts = rest.take(LEN).and_then(|_| {
        Some((rest.take(header.name_len.into())?, rest.take(header.extra_len.into())?))
    });
    let Some((found, extra)) = parts else {
        return Err(differs("its header is incomplete".into()));
    };
    if found != name.as_bytes() {
        let found = String::from_utf8_lossy(found);
        return Err(differs(format!("the name in its header is `{}`", found.escaped())));
    }
    let (decoded_len, stored_len) = header.lens(extra)?;
    let deferred = row.flags & flags::DEFERRED != 0;
    let agrees = |found: u64, listed: u64| found == listed || (deferred && found == 0);
    let pairs = [
        ("stored length", stored_len, row.stored_len),
        ("decoded length", decoded_len, row.decoded_len),
        ("CRC-32", header.crc32.into(), row.crc32.into()),
    ];
    for (what, found, listed) in pairs {
        if !agrees(found, listed) {
            return Err(differs(format!(
                "{what} {found} in its header, but {listed} in the directory"
            )));
        }
    }
    Ok(data)
}

/// The fixed fields of a header.
pub(super) struct Header {
    pub(super) flags: u16,
    pub(super) method: u16,
    pub(super) crc32: u32,
    stored_len: u32,
    decoded_len: u32,
    pub(super) name_len: u16,
    pub(super) extra_len: u16,
}

impl Header {
    pub(super) fn read(bytes: &[u8]) -> Option<Header> {
        let mut c = Cursor::new(bytes);
        if c.array::<4>()? != *SIGNATURE {
            return None;
        }
        c.take(2)?;
        let (flags, method) = (c.u16_le()?, c.u16_le()?);
        c.take(4)?;
        Some(Header {
            flags,
            method,
            crc32: c.u32_le()?,
            stored_len: c.u32_le()?,
            decoded_len: c.u32_le()?,
            name_len: c.u16_le()?,
            extra_len: c.u16_le()?,
        })
    }

    /// Returns the decoded and the stored length. Extra fields are only parsed if necessary, because tools that align
    /// entries may add padding that is not a valid field.
    pub(super) fn lens(&self, extra: &[u8]) -> Result<(u64, u64), Stop> {
        let is_full = |len: u32| u64::from(len) == super::extra::FULL;
        if !is_full(self.decoded_len) && !is_full(self.stored_len) {
            return Ok((self.decoded_len.into(), self.stored_len.into()));
        }
        let mut extra = Extra::read(extra)?;
        Ok((extra.wide(self.decoded_len)?, extra.wide(self.stored_len)?))
    }
}
