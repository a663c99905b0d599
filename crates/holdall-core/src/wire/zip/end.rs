//! The end of a zip: the location of its directory, and the number of entries.

use super::rules::*;
use crate::error::{Error, Rule};
use crate::limits::Limits;
use crate::window::{Stop, Window};
use crate::wire::cursor::Cursor;
use holdall_collections::DebugUnwrap;
use std::ops::Range;

/// The contents of the end records.
pub(super) struct End {
    /// The range of the directory in the file.
    pub(super) directory: Range<u64>,
    /// The number of entries; the directory has enough bytes for them.
    pub(super) count: u64,
}

/// The numbers of an end record, or of the zip64 end record.
struct Counts {
    disk: u64,
    directory_disk: u64,
    here: u64,
    total: u64,
    len: u64,
    offset: u64,
}

const SIGNATURE: &[u8; 4] = b"PK\x05\x06";
const SIGNATURE_64: &[u8; 4] = b"PK\x06\x06";
const SIGNATURE_LOCATOR: &[u8; 4] = b"PK\x06\x07";
/// Bytes of the end record without its comment.
const RECORD: usize = 22;
const LEN: u64 = RECORD as u64;
/// The maximum length of the comment.
const COMMENT_MAX: u64 = 0xffff;
/// Bytes of the locator, which gives the location of the zip64 end record.
const LOCATOR_LEN: u64 = 20;
/// Bytes of the zip64 end record's fields, starting with its signature.
const LEN_64: u64 = 56;
/// Bytes of the zip64 end record that its length does not include.
const UNCOUNTED_64: u64 = 12;
/// The minimum number of bytes per entry in the directory.
const ENTRY_MIN: u64 = 46;

/// Finds the end records and the directory.
///
/// # Errors
/// Returns [`END`], [`TRAILING`], [`MULTI_DISK`], [`ZIP64`] or [`DIRECTORY`] if the records are malformed, and
/// [`DIRECTORY_LEN`] or [`TOO_MANY_ENTRIES`] if the directory exceeds a limit.
pub(super) fn find(window: &Window, limits: &Limits) -> Result<End, Stop> {
    let (at, record) = find_record(window)?;
    let range = at..at.saturating_add(LEN);
    let counts = read_counts(&record).ok_or_else(|| missing(window))?;
    let (counts, end) = match locator(window, at)? {
        Some(locator) => zip64(window, &counts, locator, at)?,
        None => (counts, at),
    };
    if counts.disk != 0 || counts.directory_disk != 0 || counts.here != counts.total {
        let message = format!(
            "the zip is disk {} of a set, with {} of {} entries",
            counts.disk, counts.here, counts.total
        );
        return Err(MULTI_DISK.broken(message).at(range).into());
    }
    if counts.offset.checked_add(counts.len) != Some(end) {
        let message = format!(
            "the end record states a directory of {} bytes at byte {}, but the end records start at {end}",
            counts.len, counts.offset
        );
        let e = DIRECTORY.broken(message).at(range);
        return Err(e
            .with_hint("if bytes were put before the zip, cut them off, or have a zip tool adjust its offsets")
            .into());
    }
    if counts.total > counts.len / ENTRY_MIN {
        let message = format!(
            "a directory of {} bytes is too short for {} entries",
            counts.len, counts.total
        );
        return Err(DIRECTORY.broken(message).at(range).into());
    }
    let over = |rule: &'static Rule, what: &str, found: u64, most: u64| -> Stop {
        rule.broken(format!("{found} {what} exceed the limit of {most}")).at(range.clone()).into()
    };
    if counts.len > limits.header_len {
        return Err(over(&DIRECTORY_LEN, "bytes of directory", counts.len, limits.header_len));
    }
    if counts.total > limits.files.min(u32::MAX.into()) {
        return Err(over(&TOO_MANY_ENTRIES, "entries", counts.total, limits.files));
    }
    Ok(End { directory: counts.offset..end, count: counts.total })
}

/// Finds the end record and its offset: the last one in the file, whose comment must end the file.
fn find_record(window: &Window) -> Result<(u64, bytes::Bytes), Stop> {
    let Some(last) = window.len().checked_sub(LEN) else {
        return Err(missing(window).into());
    };
    // Includes the locator, in case there is one.
    let tail = window.tail(LEN.saturating_add(LOCATOR_LEN))?;
    let record = tail.slice(tail.len().saturating_sub(RECORD)..);
    if record.starts_with(SIGNATURE) && record.ends_with(&[0, 0]) {
        return Ok((last, record));
    }
    let tail = window.tail(LEN.saturating_add(COMMENT_MAX))?;
    let start = window.len().saturating_sub(tail.len() as u64);
    let searched = tail.len().saturating_sub(RECORD).saturating_add(SIGNATURE.len());
    let windows = tail.get(..searched).debug_unwrap().windows(SIGNATURE.len());
    let Some(at) = { windows }.rposition(|four| four == SIGNATURE) else {
        return Err(missing(window).into());
    };
    let record = tail.slice(at..at.saturating_add(RECORD));
    let comment = record.last_chunk().map_or(0, |&two| u16::from_le_bytes(two));
    let at = start.saturating_add(at as u64);
    let end = at.saturating_add(LEN).saturating_add(comment.into());
    let (rule, has): (&'static Rule, _) = match end.cmp(&window.len()) {
        std::cmp::Ordering::Equal => return Ok((at, record)),
        std::cmp::Ordering::Less => (&TRAILING, "continues after that"),
        std::cmp::Ordering::Greater => (&END, "ends before that"),
    };
    let message = format!(
        "according to the last end record the file ends at byte {end}, but it {has}: it has {} bytes",
        window.len()
    );
    Err(rule.broken(message).at(at..window.len()).into())
}

#[cold]
fn missing(window: &Window) -> Error {
    let len = window.len();
    END.broken("no end record at the end of the file").at(len.saturating_sub(LEN)..len)
}

fn read_counts(record: &[u8]) -> Option<Counts> {
    let mut c = Cursor::new(record);
    c.take(4)?;
    Some(Counts {
        disk: c.u16_le()?.into(),
        directory_disk: c.u16_le()?.into(),
        here: c.u16_le()?.into(),
        total: c.u16_le()?.into(),
        len: c.u32_le()?.into(),
        offset: c.u32_le()?.into(),
    })
}

/// Returns the bytes right before the end record at `at`, if they are a locator of the zip64 end record.
fn locator(window: &Window, at: u64) -> Result<Option<bytes::Bytes>, Stop> {
    let Some(start) = at.checked_sub(LOCATOR_LEN) else { return Ok(None) };
    let bytes = window.bytes(start..at)?;
    Ok(bytes.starts_with(SIGNATURE_LOCATOR).then_some(bytes))
}

/// Returns the numbers and the offset of the zip64 end record, to which `locator` points. The end record is at `at`.
fn zip64(
    window: &Window,
    small: &Counts,
    locator: bytes::Bytes,
    at: u64,
) -> Result<(Counts, u64), Stop> {
    let locator_at = at.saturating_sub(LOCATOR_LEN);
    let wrong = |message: String| -> Stop { ZIP64.broken(message).at(locator_at..at).into() };
    let mut c = Cursor::new(locator.get(4..).debug_unwrap());
    let read = c.u32_le().zip(c.u64_le()).zip(c.u32_le());
    let Some(((disk, start), disks)) = read else {
        return Err(wrong("the locator of the zip64 end record is incomplete".into()));
    };
    if disk != 0 || disks > 1 {
        let message = format!("the zip64 end record is on disk {disk} of {disks}");
        return Err(MULTI_DISK.broken(message).at(locator_at..at).into());
    }
    let room = locator_at.checked_sub(start).filter(|&room| room >= LEN_64);
    let Some(room) = room else {
        return Err(wrong(format!(
            "the locator at byte {locator_at} points to a zip64 end record at byte {start}, which is not before it"
        )));
    };
    let record = window.bytes(start..start.saturating_add(LEN_64))?;
    let Some((len, large)) = read_64(&record) else {
        return Err(wrong(format!("no zip64 end record at byte {start}")));
    };
    if len.checked_add(UNCOUNTED_64) != Some(room) {
        return Err(wrong(format!(
            "the zip64 end record states {len} + {UNCOUNTED_64} bytes, but there are {room} before its locator"
        )));
    }
    let pairs = [
        ("disk", small.disk, 0xffff, large.disk),
        ("disk of the directory", small.directory_disk, 0xffff, large.directory_disk),
        ("entries on this disk", small.here, 0xffff, large.here),
        ("entries in total", small.total, 0xffff, large.total),
        ("bytes of directory", small.len, 0xffff_ffff, large.len),
        ("start of the directory", small.offset, 0xffff_ffff, large.offset),
    ];
    let differs = |&&(_, small, full, large): &&(_, u64, u64, u64)| small != full && small != large;
    if let Some((what, small, _, large)) = pairs.iter().find(differs) {
        return Err(wrong(format!(
            "{what}: {small} in the end record, but {large} in the zip64 end record"
        )));
    }
    Ok((large, start))
}

/// Returns the length that a zip64 end record states, and its numbers.
fn read_64(record: &[u8]) -> Option<(u64, Counts)> {
    let mut c = Cursor::new(record);
    if c.array::<4>()? != *SIGNATURE_64 {
        return None;
    }
    let len = c.u64_le()?;
    // The versions of the writer, and of the reader that it requires.
    c.take(4)?;
    let counts = Counts {
        disk: c.u32_le()?.into(),
        directory_disk: c.u32_le()?.into(),
        here: c.u64_le()?,
        total: c.u64_le()?,
        len: c.u64_le()?,
        offset: c.u64_le()?,
    };
    Some((len, counts))
}
