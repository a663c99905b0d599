//! The end of a zip: where its directory is, and how many entries it has.

use super::rules::*;
use crate::error::{Error, Rule};
use crate::limits::Limits;
use crate::window::{Stop, Window};
use crate::wire::cursor::Cursor;
use std::ops::Range;

/// What the end records say.
pub(super) struct End {
    /// Bytes of the file.
    pub(super) directory: Range<u64>,
    /// Entries; there are bytes enough in the directory for them.
    pub(super) count: u64,
}

/// Numbers of an end record, or of the zip64 one.
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
/// Bytes of the most comment there can be.
const COMMENT_MAX: u64 = 0xffff;
/// Bytes of the record that tells where the zip64 end record is.
const LOCATOR_LEN: u64 = 20;
/// Bytes of the zip64 end record's fields, from its signature on.
const LEN_64: u64 = 56;
/// Bytes of the zip64 end record that its length does not count.
const UNCOUNTED_64: u64 = 12;
/// Bytes that one entry of the directory takes at least.
const ENTRY_MIN: u64 = 46;

/// Finds the end records and the directory.
///
/// # Errors
/// [`END`], [`TRAILING`], [`MULTI_DISK`], [`ZIP64`], [`DIRECTORY`], [`DIRECTORY_LEN`],
/// [`TOO_MANY_ENTRIES`].
pub(super) fn find(window: &Window, limits: &Limits) -> Result<End, Stop> {
    let (at, record) = find_record(window)?;
    let place = at..at.saturating_add(LEN);
    let counts = read_counts(&record).ok_or_else(|| missing(window))?;
    let (counts, end) = match locator(window, at)? {
        Some(locator) => zip64(window, &counts, locator, at)?,
        None => (counts, at),
    };
    if counts.disk != 0 || counts.directory_disk != 0 || counts.here != counts.total {
        let message = format!(
            "it is disk {} of a set, with {} of {} entries",
            counts.disk, counts.here, counts.total
        );
        return Err(MULTI_DISK.broken(message).at(place).into());
    }
    if counts.offset.checked_add(counts.len) != Some(end) {
        let message = format!(
            "the directory is said to be {} bytes from byte {}, the end records start at {end}",
            counts.len, counts.offset
        );
        let e = DIRECTORY.broken(message).at(place);
        return Err(e
            .with_hint("if bytes were put before the zip, cut them off, or have a zip tool adjust its offsets")
            .into());
    }
    if counts.total > counts.len / ENTRY_MIN {
        let message =
            format!("{} bytes of directory are too few for {} entries", counts.len, counts.total);
        return Err(DIRECTORY.broken(message).at(place).into());
    }
    let over = |rule: &'static Rule, what: &str, found: u64, most: u64| -> Stop {
        rule.broken(format!("{found} {what}, at most {most}")).at(place.clone()).into()
    };
    if counts.len > limits.header_len {
        return Err(over(&DIRECTORY_LEN, "bytes of directory", counts.len, limits.header_len));
    }
    if counts.total > limits.files.min(u32::MAX.into()) {
        return Err(over(&TOO_MANY_ENTRIES, "entries", counts.total, limits.files));
    }
    Ok(End { directory: counts.offset..end, count: counts.total })
}

/// The end record and where it is: the last one of the file, which must end the file with its
/// comment.
fn find_record(window: &Window) -> Result<(u64, bytes::Bytes), Stop> {
    let Some(last) = window.len().checked_sub(LEN) else {
        return Err(missing(window).into());
    };
    // With the locator, in case there is one.
    let tail = window.tail(LEN.saturating_add(LOCATOR_LEN))?;
    let record = tail.slice(tail.len().saturating_sub(RECORD)..);
    if record.starts_with(SIGNATURE) && record.ends_with(&[0, 0]) {
        return Ok((last, record));
    }
    let tail = window.tail(LEN.saturating_add(COMMENT_MAX))?;
    let start = window.len().saturating_sub(tail.len() as u64);
    let searched = tail.len().saturating_sub(RECORD).saturating_add(SIGNATURE.len());
    let places = tail.get(..searched).unwrap_or_default().windows(SIGNATURE.len());
    let Some(at) = { places }.rposition(|four| four == SIGNATURE) else {
        return Err(missing(window).into());
    };
    let record = tail.slice(at..at.saturating_add(RECORD));
    let comment = record.last_chunk().map_or(0, |&two| u16::from_le_bytes(two));
    let at = start.saturating_add(at as u64);
    let end = at.saturating_add(LEN).saturating_add(comment.into());
    let (rule, has): (&'static Rule, _) = match end.cmp(&window.len()) {
        std::cmp::Ordering::Equal => return Ok((at, record)),
        std::cmp::Ordering::Less => (&TRAILING, "goes on"),
        std::cmp::Ordering::Greater => (&END, "ends before that"),
    };
    let message = format!(
        "the last end record says that the file ends at byte {end}; it {has}: it has {} bytes",
        window.len()
    );
    Err(rule.broken(message).at(at..window.len()).into())
}

#[cold]
fn missing(window: &Window) -> Error {
    let len = window.len();
    END.broken("no end record where the file ends").at(len.saturating_sub(LEN)..len)
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

/// The bytes right before the end record, at `at`, if they say where the zip64 end record is.
fn locator(window: &Window, at: u64) -> Result<Option<bytes::Bytes>, Stop> {
    let Some(start) = at.checked_sub(LOCATOR_LEN) else { return Ok(None) };
    let bytes = window.bytes(start..at)?;
    Ok(bytes.starts_with(SIGNATURE_LOCATOR).then_some(bytes))
}

/// The numbers of the zip64 end record that `locator`, before the end record at `at`, leads to, and where
/// it starts.
fn zip64(
    window: &Window,
    small: &Counts,
    locator: bytes::Bytes,
    at: u64,
) -> Result<(Counts, u64), Stop> {
    let locator_at = at.saturating_sub(LOCATOR_LEN);
    let wrong = |message: String| -> Stop { ZIP64.broken(message).at(locator_at..at).into() };
    let mut c = Cursor::new(locator.get(4..).unwrap_or_default());
    let read = c.u32_le().zip(c.u64_le()).zip(c.u32_le());
    let Some(((disk, start), disks)) = read else {
        return Err(wrong("the locator of the zip64 end record is cut short".into()));
    };
    if disk != 0 || disks > 1 {
        let message = format!("the zip64 end record is on disk {disk} of {disks}");
        return Err(MULTI_DISK.broken(message).at(locator_at..at).into());
    }
    let room = locator_at.checked_sub(start).filter(|&room| room >= LEN_64);
    let Some(room) = room else {
        return Err(wrong(format!(
            "the zip64 end record is said to start at byte {start}, its locator is at {locator_at}"
        )));
    };
    let record = window.bytes(start..start.saturating_add(LEN_64))?;
    let Some((len, large)) = read_64(&record) else {
        return Err(wrong(format!("there is no zip64 end record at byte {start}")));
    };
    if len.checked_add(UNCOUNTED_64) != Some(room) {
        return Err(wrong(format!(
            "the zip64 end record has {len} bytes and {UNCOUNTED_64}, there is room for {room}"
        )));
    }
    let pairs = [
        ("disk", small.disk, 0xffff, large.disk),
        ("disk of the directory", small.directory_disk, 0xffff, large.directory_disk),
        ("entries on this disk", small.here, 0xffff, large.here),
        ("entries in all", small.total, 0xffff, large.total),
        ("bytes of directory", small.len, 0xffff_ffff, large.len),
        ("start of the directory", small.offset, 0xffff_ffff, large.offset),
    ];
    let differs = |&&(_, small, full, large): &&(_, u64, u64, u64)| small != full && small != large;
    if let Some((what, small, _, large)) = pairs.iter().find(differs) {
        return Err(wrong(format!("{what}: the end record says {small}, the zip64 one {large}")));
    }
    Ok((large, start))
}

/// The length that a zip64 end record says it has, and its numbers.
fn read_64(record: &[u8]) -> Option<(u64, Counts)> {
    let mut c = Cursor::new(record);
    if c.array::<4>()? != *SIGNATURE_64 {
        return None;
    }
    let len = c.u64_le()?;
    // Versions of the writer and of the reader it wants.
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
