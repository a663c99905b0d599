//! Directory records of zips.

use super::extra::Extra;
use super::rules::*;
use super::{Directory, EntryKind, Method, Row};
use crate::error::{Error, Escape as _, Result};
use crate::wire::cursor::Cursor;

const SIGNATURE: &[u8; 4] = b"PK\x01\x02";
/// Systems whose external attributes have a Unix mode in the upper half: Unix and macOS.
const UNIX: [u8; 2] = [3, 19];
/// The bits of a Unix mode that give the kind of file.
const MODE_KIND: u32 = 0o170_000;
const MODE_FILE: u32 = 0o100_000;
const MODE_FOLDER: u32 = 0o040_000;
const MODE_SYMLINK: u32 = 0o120_000;
const OWNER_EXECUTES: u32 = 0o100;

/// Bits of the flags.
pub(super) mod flags {
    /// The bytes are encrypted.
    pub(crate) const ENCRYPTED: u16 = 1;
    /// Lengths and CRC-32 follow the bytes; the local header has zeros.
    pub(crate) const DEFERRED: u16 = 1 << 3;
    /// The bytes are a patch of other bytes.
    pub(crate) const PATCH: u16 = 1 << 5;
    /// Strong encryption.
    pub(crate) const STRONGLY: u16 = 1 << 6;
    /// The name is UTF-8.
    pub(crate) const UTF8: u16 = 1 << 11;
    /// Local headers are masked, because the directory is encrypted.
    pub(crate) const MASKED: u16 = 1 << 13;
}

/// The fixed fields of a record.
struct Record<'a> {
    system: u8,
    flags: u16,
    method: u16,
    crc32: u32,
    stored_len: u32,
    decoded_len: u32,
    disk: u16,
    attributes: u32,
    offset: u32,
    name: &'a [u8],
    extra: &'a [u8],
}

/// Reads the next record and adds it to `directory`.
///
/// # Errors
/// Returns an error if the record is malformed.
pub(super) fn read(cursor: &mut Cursor<'_>, directory: &mut Directory) -> Result<()> {
    let start = directory.range.start.saturating_add(cursor.position());
    let at = |e: Error, cursor: &Cursor<'_>| {
        e.at(start..directory.range.start.saturating_add(cursor.position()))
    };
    let Some(record) = fields(cursor) else {
        let message =
            format!("entry {} is not a complete record of a directory", directory.rows.len());
        return Err(DIRECTORY.broken(message).at(start..directory.range.end));
    };
    match row(&record) {
        Ok((name, mut row)) => {
            directory.names.push_str(name);
            // The directory has less than 2^32 bytes, because of its limit or because it contains the names.
            row.name_end = u32::try_from(directory.names.len()).map_err(|_| {
                DIRECTORY_LEN
                    .broken("the names of the entries exceed 2^32 bytes")
                    .with_hint("this limit is fixed and cannot be raised")
            })?;
            directory.rows.push(row);
            Ok(())
        }
        Err(e) => Err(at(e, cursor)),
    }
}

fn fields<'a>(c: &mut Cursor<'a>) -> Option<Record<'a>> {
    if c.array::<4>()? != *SIGNATURE {
        return None;
    }
    // The format version of the writer and its system, and the version that the entry requires.
    let [_, system] = c.array::<2>()?;
    c.take(2)?;
    let (flags, method) = (c.u16_le()?, c.u16_le()?);
    // Time and date.
    c.take(4)?;
    let (crc32, stored_len, decoded_len) = (c.u32_le()?, c.u32_le()?, c.u32_le()?);
    let (name_len, extra_len, comment_len) = (c.u16_le()?, c.u16_le()?, c.u16_le()?);
    let disk = c.u16_le()?;
    // Internal attributes: whether the entry is probably text.
    c.take(2)?;
    let (attributes, offset) = (c.u32_le()?, c.u32_le()?);
    let (name, extra) = (c.take(name_len.into())?, c.take(extra_len.into())?);
    c.take(comment_len.into())?;
    Some(Record {
        system,
        flags,
        method,
        crc32,
        stored_len,
        decoded_len,
        disk,
        attributes,
        offset,
        name,
        extra,
    })
}

fn row<'a>(r: &Record<'a>) -> Result<(&'a str, Row)> {
    let mut extra = Extra::read(r.extra)?;
    let name = name(r, &extra)?;
    let in_entry = |e: Error| e.within(format!("entry `{}`", name.escaped()));
    if r.flags & (flags::ENCRYPTED | flags::STRONGLY | flags::MASKED) != 0 {
        return Err(in_entry(ENCRYPTED.broken("the entry is encrypted")));
    }
    if r.flags & flags::PATCH != 0 {
        return Err(in_entry(
            METHOD.broken("the bytes are a patch of other bytes (bit 5 of the flags)"),
        ));
    }
    let Some(method) = Method::from_number(r.method) else {
        let message = format!("unsupported method {}{}", r.method, method_name(r.method));
        return Err(in_entry(METHOD.broken(message)));
    };
    // In this order, as in the zip64 field.
    let decoded_len = extra.wide(r.decoded_len)?;
    let stored_len = extra.wide(r.stored_len)?;
    let header = extra.wide(r.offset)?;
    if extra.disk(r.disk)? != 0 {
        return Err(in_entry(MULTI_DISK.broken("the entry is on another disk")));
    }
    let is_short = method == Method::Stored && decoded_len != stored_len;
    if is_short || decoded_len > method.encoding().max_decoded_len(stored_len) {
        let message = format!("{stored_len} bytes ({method}) cannot decode to {decoded_len}");
        return Err(in_entry(LENGTH.broken(message)));
    }
    let kind = kind(r, name, decoded_len).map_err(|what| in_entry(KIND.broken(what)))?;
    let row = Row {
        header,
        room_end: 0,
        stored_len,
        decoded_len,
        crc32: r.crc32,
        name_end: 0,
        flags: r.flags,
        method,
        kind,
        is_executable: kind == EntryKind::File
            && UNIX.contains(&r.system)
            && (r.attributes >> 16) & OWNER_EXECUTES != 0,
    };
    Ok((name, row))
}

/// Returns the name, if every reader would decode it to the same text.
fn name<'a>(r: &Record<'a>, extra: &Extra<'_>) -> Result<&'a str> {
    let shown = r.name.escape_ascii();
    let broken = |what: &str| NAME.broken(format!("the name `{shown}` {what}"));
    let name = std::str::from_utf8(r.name).map_err(|_| broken("is not UTF-8"))?;
    if name.is_empty() || memchr::memchr(0, r.name).is_some() {
        return Err(broken("is empty or contains NUL"));
    }
    if r.flags & flags::UTF8 == 0 && !name.is_ascii() {
        return Err(broken("is not ASCII, but not marked as UTF-8"));
    }
    if extra.path.is_some_and(|path| path != r.name) {
        return Err(broken("differs from the one in an extra field"));
    }
    Ok(name)
}

fn kind(r: &Record<'_>, name: &str, decoded_len: u64) -> Result<EntryKind, String> {
    let mode = if UNIX.contains(&r.system) { (r.attributes >> 16) & MODE_KIND } else { 0 };
    let is_folder = name.ends_with('/');
    match mode {
        0 | MODE_FOLDER if is_folder && decoded_len == 0 => Ok(EntryKind::Folder),
        0 | MODE_FILE if !is_folder => Ok(EntryKind::File),
        MODE_SYMLINK if !is_folder => Ok(EntryKind::Symlink),
        0 | MODE_FOLDER if is_folder => Err(format!("a folder of {decoded_len} bytes")),
        MODE_FILE | MODE_SYMLINK | MODE_FOLDER => {
            Err(format!("its Unix mode {mode:o} contradicts its name"))
        }
        _ => Err(format!("its Unix mode {mode:o} is not that of a file, folder or symbolic link")),
    }
}

/// Returns the common names of unsupported methods.
fn method_name(number: u16) -> &'static str {
    match number {
        1 => " (shrink)",
        6 => " (implode)",
        9 => " (Deflate64)",
        12 => " (bzip2)",
        14 => " (LZMA)",
        95 => " (xz)",
        98 => " (PPMd)",
        99 => " (AES)",
        _ => "",
    }
}
