//! Reading entries by their local headers, for a zip whose directory was lost.
//!
//! The header of an entry contains its name and, if the writer knew them beforehand, its lengths; the next header
//! follows the entry's bytes. Otherwise a descriptor follows the bytes, and is only accepted if the length in it
//! matches the bytes before it. If no header follows an entry, the walk ends: headers are never searched for, because
//! files in a zip may be zips.

use super::central::flags;
use super::local::{Header, LEN};
use super::rules::*;
use super::write;
use super::{EntryKind, Method};
use crate::error::{Error, Escape as _};
use crate::window::{Stop, Window};
use crate::wire::cursor::Cursor;
use std::ops::Range;

/// The record at a position in a zip.
#[derive(Debug)]
pub enum Step {
    /// An entry.
    Entry {
        /// The contents of its header.
        entry: write::Entry,
        /// The range of its stored bytes; the next record starts at its end.
        data: Range<u64>,
    },
    /// An entry that cannot be recovered.
    Lost {
        /// Why it cannot be recovered.
        error: Error,
        /// The offset of the next header; `None` if it is unknown.
        next: Option<u64>,
    },
    /// An entry whose lengths and CRC-32 are in a descriptor after its bytes: see [`descriptors`].
    Deferred {
        /// The contents of its header; its lengths and its CRC-32 are 0.
        entry: write::Entry,
        /// The offset of its stored bytes.
        start: u64,
    },
    /// The directory, or its end.
    Directory,
}

/// Reads the record at byte `at` of the zip in `window`.
///
/// # Errors
/// Returns [`Stop::Need`] if bytes are missing.
pub fn step(window: &Window, at: u64) -> Result<Step, Stop> {
    let lost = |rule: &'static crate::error::Rule, what: String, next| Step::Lost {
        error: rule.broken(what).at(at..at.saturating_add(4)),
        next,
    };
    let left = window.len().saturating_sub(at);
    let head = window.bytes(at..at.saturating_add(left.min(LEN)))?;
    if [&b"PK\x01\x02"[..], b"PK\x05\x06", b"PK\x06\x06"].iter().any(|mark| head.starts_with(mark))
    {
        return Ok(Step::Directory);
    }
    let Some(header) = Header::read(&head) else {
        let what = if left < LEN { "the file ends" } else { "no header of an entry" };
        let what = format!("{what} at byte {at}, so the following entries cannot be located");
        return Ok(lost(&LOCAL_HEADER, what, None));
    };
    let name_at = at.saturating_add(LEN);
    let data_at =
        name_at.saturating_add(header.name_len.into()).saturating_add(header.extra_len.into());
    if data_at > window.len() {
        return Ok(lost(&LOCAL_HEADER, "the file ends inside the header of an entry".into(), None));
    }
    let bytes = window.bytes(name_at..data_at)?;
    let mut rest = Cursor::new(&bytes);
    let name = rest.take(header.name_len.into()).unwrap_or_default();
    let extra = rest.take(header.extra_len.into()).unwrap_or_default();
    let shown = name.escape_ascii().to_string();
    let label = |what: &str| format!("entry `{}`: {what}", shown.as_str().escaped());
    let is_deferred = header.flags & flags::DEFERRED != 0;
    let (len, stored_len) = match header.lens(extra) {
        _ if is_deferred => (0, 0),
        Ok(lens) => lens,
        Err(Stop::Fail(error)) => return Ok(Step::Lost { error, next: None }),
        Err(need) => return Err(need),
    };
    let data = data_at..data_at.saturating_add(stored_len);
    if data.end > window.len() {
        let missing = data.end.saturating_sub(window.len());
        return Ok(lost(&BOUNDS, label(&format!("its last {missing} bytes are missing")), None));
    }
    let next = (!is_deferred).then_some(data.end);
    let is_ascii = name.is_ascii() || header.flags & flags::UTF8 != 0;
    let name = match std::str::from_utf8(name) {
        Ok(name) if !name.is_empty() && !name.contains('\0') && is_ascii => name.to_owned(),
        _ => return Ok(lost(&NAME, label("its name is not text"), next)),
    };
    if header.flags & (flags::ENCRYPTED | flags::STRONGLY | flags::MASKED) != 0 {
        return Ok(lost(&ENCRYPTED, label("it is encrypted"), next));
    }
    let Some(method) = Method::from_number(header.method) else {
        let what = format!("unsupported method {}", header.method);
        return Ok(lost(&METHOD, label(&what), next));
    };
    let is_short = method == Method::Stored && len != stored_len;
    if is_short || len > method.encoding().max_decoded_len(stored_len) {
        let what = format!("{stored_len} bytes ({method}) cannot decode to {len}");
        return Ok(lost(&LENGTH, label(&what), next));
    }
    let kind = if name.ends_with('/') { EntryKind::Folder } else { EntryKind::File };
    let crc = header.crc32;
    let entry = write::Entry {
        name,
        kind,
        is_executable: false,
        method,
        crc,
        stored_len,
        len,
        offset: at,
        flags: Some(header.flags),
    };
    match is_deferred {
        true => Ok(Step::Deferred { entry, start: data.start }),
        false => Ok(Step::Entry { entry, data }),
    }
}

/// The descriptor after the bytes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// The CRC-32 of the decoded bytes.
    pub crc: u32,
    /// The number of stored bytes.
    pub stored_len: u64,
    /// The number of decoded bytes.
    pub len: u64,
    /// Bytes of the descriptor itself.
    pub size: u64,
}

/// The maximum length of a descriptor.
pub const DESCRIPTOR_LEN: u64 = 24;

/// Finds the descriptors in `bytes` whose length matches the bytes before them, with their offsets in `bytes`. The
/// entry's stored bytes start `before` bytes before `bytes`.
pub fn descriptors(bytes: &[u8], before: u64) -> impl Iterator<Item = (usize, Descriptor)> {
    memchr::memmem::find_iter(bytes, b"PK\x07\x08").filter_map(move |at| {
        let found = descriptor(bytes.get(at..)?)?;
        let stored_len = before.checked_add(at as u64)?;
        found.into_iter().find(|found| found.stored_len == stored_len).map(|found| (at, found))
    })
}

/// Parses a descriptor with wide lengths, and with narrow ones.
fn descriptor(bytes: &[u8]) -> Option<[Descriptor; 2]> {
    let mut cursor = Cursor::new(bytes);
    cursor.take(4)?;
    let crc = cursor.u32_le()?;
    let mut narrow = Cursor::new(bytes.get(8..)?);
    let (stored_len, len) = (narrow.u32_le()?.into(), narrow.u32_le()?.into());
    let narrow = Descriptor { crc, stored_len, len, size: 16 };
    let wide = cursor.u64_le().zip(cursor.u64_le());
    let wide =
        wide.map(|(stored_len, len)| Descriptor { crc, stored_len, len, size: DESCRIPTOR_LEN });
    Some([wide.unwrap_or(narrow), narrow])
}

/// The header of an entry, independent of the rest of the zip.
#[derive(Debug)]
pub struct LocalHeader {
    /// The name, with invalid text replaced.
    pub name: String,
    /// How the bytes are stored; `None` for an unsupported method.
    pub method: Option<Method>,
    /// The range of the entry's bytes in the searched bytes; up to the next header if the header does not state a
    /// length.
    pub data: Range<usize>,
}

/// Returns every position in `bytes` that looks like the header of an entry. These are guesses, for code that looks for
/// what some reader might take for an entry.
pub fn guesses(bytes: &[u8]) -> impl Iterator<Item = LocalHeader> {
    memchr::memmem::find_iter(bytes, b"PK\x03\x04").filter_map(move |at| {
        let rest = bytes.get(at..)?;
        let header = Header::read(rest)?;
        let mut cursor = Cursor::new(rest);
        cursor.take(LEN)?;
        let name = String::from_utf8_lossy(cursor.take(header.name_len.into())?).into_owned();
        let extra = cursor.take(header.extra_len.into())?;
        let start = at.checked_add(usize::try_from(cursor.position()).ok()?)?;
        let left = bytes.get(start..)?;
        let stated_len = header.lens(extra).ok().map(|(_, stored)| stored).filter(|len| *len > 0);
        let stated_len =
            stated_len.and_then(|len| usize::try_from(len).ok()).filter(|len| *len <= left.len());
        let next = || memchr::memmem::find(left, b"PK").unwrap_or(left.len());
        let method = Method::from_number(header.method);
        let len = match method {
            Some(Method::Stored) => stated_len.unwrap_or_default().max(next()),
            // A compressed stream marks its own end.
            _ => stated_len.unwrap_or(left.len()),
        };
        Some(LocalHeader { name, method, data: start..start.checked_add(len)? })
    })
}
