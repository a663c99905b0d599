//! The start of a file, and its superblock.

use super::reader::{Reader, little};
use super::{COMPRESSED, SUPERBLOCK, TRUNCATED, VERSION};
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{Attributes, Checksum, Digest, Value};
use holdall_core::window::{Stop, Window};
use holdall_core::wire::cursor::Cursor;
use holdall_core::wire::zip::{Directory, Entry, Method};
use std::cell::Cell;
use std::ops::Range;

pub(super) const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";
/// The magic number of a zip.
pub(super) const ZIP: &[u8] = b"PK\x03\x04";
/// The first offset after 0 at which a superblock may be. The bytes before it are the user block.
pub(super) const USER_BLOCK: u64 = 512;
/// The entry of a `.keras` file with the weights.
pub(super) const WEIGHTS: &str = "model.weights.h5";
/// The text entries of a `.keras` file.
const TEXTS: [&str; 2] = ["config.json", "metadata.json"];
/// The length up to which files are read whole, because their blocks may be anywhere.
const SMALL: u64 = 256 << 10;
/// The length of the longest superblock, in bytes.
const MAX_SUPERBLOCK_LEN: u64 = 128;

/// Returns the offset of the superblock of the file that is the part `whole` of a window.
pub(super) fn find(window: &Window, whole: Range<u64>) -> Result<Option<u64>, Stop> {
    let len = SIGNATURE.len() as u64;
    let first = whole.start..whole.start.saturating_add(len).min(whole.end);
    if window.bytes(first)?.as_ref() == SIGNATURE {
        return Ok(Some(whole.start));
    }
    if whole.end.saturating_sub(whole.start) <= SMALL {
        window.bytes(whole.clone())?;
    }
    let after = std::iter::successors(Some(USER_BLOCK), |at| at.checked_mul(2));
    let ranges: Vec<Range<u64>> = after
        .filter_map(|at| whole.start.checked_add(at))
        .map_while(|at| at.checked_add(len).filter(|end| *end <= whole.end).map(|end| at..end))
        .collect();
    window.all(ranges.iter().cloned())?;
    for range in ranges {
        if window.bytes(range.clone())?.as_ref() == SIGNATURE {
            return Ok(Some(range.start));
        }
    }
    Ok(None)
}

/// A file, as its superblock describes it.
pub(super) struct Start<'w> {
    pub(super) reader: Reader<'w>,
    /// The address of the root group's object header.
    pub(super) root: u64,
    /// Whether the writer did not close the file.
    pub(super) is_open: bool,
    /// Attributes from the other entries of the zip.
    pub(super) beside: Attributes,
    /// The checksum of the file in the zip.
    pub(super) checksum: Option<Checksum>,
}

/// Reads the superblock.
pub(super) fn start<'w>(window: &'w Window, limits: &'w Limits) -> Result<Start<'w>, Stop> {
    let (mut beside, mut checksum) = (Attributes::new(), None);
    let whole = match window.head(4)?.starts_with(ZIP) {
        true => {
            let (range, crc) = in_zip(window, limits, &mut beside)?;
            checksum = Some(Checksum::new(WEIGHTS, range.clone().into(), Digest::Crc32(crc)));
            range
        }
        false => 0..window.len(),
    };
    if whole.end.saturating_sub(whole.start) <= SMALL {
        window.bytes(whole.clone())?;
    }
    let Some(at) = find(window, whole.clone())? else {
        return Err(SUPERBLOCK.broken("the file has no superblock").at(whole).into());
    };
    let bytes = window.bytes(at..at.saturating_add(MAX_SUPERBLOCK_LEN).min(whole.end))?;
    let range = at..at.saturating_add(bytes.len() as u64);
    let mut cursor = Cursor::new(&bytes);
    let cut = || SUPERBLOCK.broken("the superblock is cut short").at(range.clone());
    cursor.take(SIGNATURE.len() as u64).ok_or_else(cut)?;
    let version = cursor.u8().ok_or_else(cut)?;
    let (offset, length, flags) = match version {
        0 | 1 => {
            let fields: [u8; 15] = cursor.array().ok_or_else(cut)?;
            let skipped = if version == 1 { 4 } else { 0 };
            cursor.take(skipped).ok_or_else(cut)?;
            let [_, _, _, _, offset, length, ..] = fields;
            (offset, length, 0)
        }
        2 | 3 => {
            let [offset, length, flags] = cursor.array().ok_or_else(cut)?;
            (offset, length, flags)
        }
        other => {
            let message = format!("unsupported superblock version {other}");
            return Err(VERSION.broken(message).at(range).into());
        }
    };
    if ![offset, length].iter().all(|len| matches!(len, 2 | 4 | 8)) {
        let message = format!("addresses have {offset} bytes, lengths have {length} bytes");
        return Err(SUPERBLOCK.broken(message).at(range).into());
    }
    let mut reader =
        Reader { window, limits, base: at, end: whole.end, offset, length, seen: Cell::new(0) };
    let mut number = || cursor.take(offset.into()).and_then(little).ok_or_else(cut);
    let (base, _, end, after) = (number()?, number()?, number()?, number()?);
    let root = match version {
        // A symbol table entry: the offset of the name, then the address of the header.
        0 | 1 => {
            cursor.take(length.into()).ok_or_else(cut)?;
            cursor.take(offset.into()).and_then(little).ok_or_else(cut)?
        }
        _ => {
            let len = usize::try_from(cursor.position().saturating_add(4)).unwrap_or(usize::MAX);
            reader.verified_len(0, bytes.get(..len).ok_or_else(cut)?)?;
            after
        }
    };
    // Addresses count from the superblock, even if bytes were inserted before it later.
    let stated_end = end.checked_sub(base).and_then(|len| len.checked_add(at));
    match stated_end.filter(|stated_end| *stated_end >= at) {
        Some(stated_end) if stated_end <= whole.end => reader.end = stated_end,
        _ if limits.salvage => {}
        _ => {
            let has = whole.end.saturating_sub(at);
            let message =
                format!("the superblock gives {end} bytes from {base} on, but the file has {has}");
            return Err(TRUNCATED.broken(message).at(range).into());
        }
    }
    Ok(Start { reader, root, is_open: version == 3 && flags & 1 == 1, beside, checksum })
}

/// Returns the range of the weights in a zip written by Keras, and their CRC-32. The texts become attributes.
fn in_zip(
    window: &Window,
    limits: &Limits,
    beside: &mut Attributes,
) -> Result<(Range<u64>, u32), Stop> {
    let directory = Directory::read(window, limits)?;
    let Some(weights) = directory.get(WEIGHTS) else {
        return Err(SUPERBLOCK.broken(format!("the zip has no `{WEIGHTS}`")).into());
    };
    if weights.method() != Method::Stored {
        let message =
            format!("`{}` is compressed by {}", weights.name().escaped(), weights.method());
        let e = COMPRESSED.broken(message);
        return Err(e.with_hint("unpack the zip, and open the file in it").into());
    }
    let texts: Vec<Entry<'_>> = TEXTS.iter().filter_map(|name| directory.get(name)).collect();
    let contents = directory.contents(&texts, window, limits)?;
    for (entry, text) in texts.iter().zip(contents) {
        let value = match String::from_utf8(text.to_vec()) {
            Ok(text) => Value::Text(text),
            Err(e) => Value::Bytes(e.into_bytes()),
        };
        beside.push(entry.name(), value);
    }
    Ok((directory.data(weights, window)?, weights.crc32()))
}
