//! Writing zip files: the records around stored bytes. The output does not depend on time or machine.
//!
//! ```text
//! for each entry:  local header, extra field up to a multiple of 64 bytes | stored bytes
//! at the end:      central directory | zip64 records where a number needs them | end record
//! ```
//!
//! An entry's length and checksum are in its local header, before its bytes. If they are not known yet, write the
//! header twice: [`local_header`] has the same length whatever they are.

use super::{EntryKind, Method};

/// The alignment of stored bytes, so that they can be mapped.
pub const ALIGN: u64 = 64;

/// Lengths from this value on take 64 bits.
const LONG: u64 = 0xffff_ffff;
/// Numbers of entries from this value on take 64 bits.
const MANY: u64 = 0xffff;
/// The divisor for the maximum growth of compressed bytes, 1/64 of their length. Every method stays far below it.
const GROWTH: u64 = 64;
/// Bytes of a local header without its name and extra field.
const LOCAL_LEN: u64 = 30;
/// Bytes of an extra field with two 64-bit lengths.
const ZIP64_LEN: u64 = 20;
/// Bytes of the shortest padding field: id, length, the alignment.
const PAD_MIN: u64 = 6;
/// The identifier of zip64's extra field.
const ZIP64_ID: u16 = 0x0001;
/// The identifier of the padding field: its first two bytes are the alignment, zeros follow.
const PAD_ID: u16 = 0xd935;
/// 1 January 1980, the first date that zips can represent.
const DATE: u16 = 0x0021;
/// The CRC-32 follows the bytes, in a descriptor.
const DEFERRED: u16 = 1 << 3;
/// The name is UTF-8.
const UTF8: u16 = 1 << 11;
/// Unix, and the version of the specification that added zstd.
const MADE_BY: u16 = 3 << 8 | 63;

/// An entry to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path, with `/` as separator. At most 65 535 bytes.
    pub name: String,
    /// The kind of file.
    pub kind: EntryKind,
    /// Whether the file is executable: its mode is then 755, and otherwise 644.
    pub is_executable: bool,
    /// How the bytes are stored.
    pub method: Method,
    /// The CRC-32 (of zip) of the bytes before compression.
    pub crc: u32,
    /// The number of bytes in the zip.
    pub stored_len: u64,
    /// The number of bytes before compression.
    pub len: u64,
    /// The offset of the local header.
    pub offset: u64,
    /// The flags of the local header, if it was already written.
    pub flags: Option<u16>,
}

impl Entry {
    /// Creates an entry for a stored file whose CRC-32 is only known after its bytes were written; a [`descriptor`]
    /// must follow the bytes.
    pub fn deferred(name: String, len: u64, offset: u64) -> Entry {
        let utf8 = if name.is_ascii() { 0 } else { UTF8 };
        let (kind, method, flags) = (EntryKind::File, Method::Stored, Some(DEFERRED | utf8));
        let is_executable = false;
        Entry { name, kind, is_executable, method, crc: 0, stored_len: len, len, offset, flags }
    }

    /// Returns `true` if the lengths in the local header have 64 bits. This depends only on `len`, which is known
    /// before the first byte.
    fn is_long(&self) -> bool {
        self.len.saturating_add(self.len / GROWTH).saturating_add(1024) >= LONG
    }

    fn flags(&self) -> u16 {
        self.flags.unwrap_or(if self.name.is_ascii() { 0 } else { UTF8 })
    }

    fn version(&self) -> u16 {
        match self.method {
            Method::Zstd => 63,
            _ if self.is_long() || self.offset >= LONG => 45,
            _ => 20,
        }
    }

    fn mode(&self) -> u32 {
        let mode: u32 = match self.kind {
            EntryKind::File if self.is_executable => 0o100_755,
            EntryKind::File => 0o100_644,
            EntryKind::Folder => 0o040_755,
            EntryKind::Symlink => 0o120_777,
        };
        mode << 16
    }

    fn name_len(&self) -> u16 {
        u16::try_from(self.name.len()).unwrap_or(u16::MAX)
    }

    /// Appends the fields that both headers share: version to checksum.
    fn common(&self, out: &mut Vec<u8>) {
        put16(out, self.version());
        put16(out, self.flags());
        put16(out, self.method.number());
        put16(out, 0);
        put16(out, DATE);
        put32(out, self.crc);
    }
}

/// Returns the local header of an entry, up to the start of its stored bytes, which is a multiple of [`ALIGN`].
pub fn local_header(entry: &Entry) -> Vec<u8> {
    let long = entry.is_long();
    let mut out = Vec::new();
    put32(&mut out, 0x0403_4b50);
    entry.common(&mut out);
    put32(&mut out, if long { u32::MAX } else { low(entry.stored_len) });
    put32(&mut out, if long { u32::MAX } else { low(entry.len) });
    put16(&mut out, entry.name_len());
    let zip64 = if long { ZIP64_LEN } else { 0 };
    let bare = entry.offset.saturating_add(LOCAL_LEN).saturating_add(zip64);
    let pad = padding(bare.saturating_add(entry.name.len() as u64));
    put16(&mut out, low16(zip64.saturating_add(pad)));
    out.extend_from_slice(entry.name.as_bytes());
    if long {
        put16(&mut out, ZIP64_ID);
        put16(&mut out, 16);
        put64(&mut out, entry.len);
        put64(&mut out, entry.stored_len);
    }
    if let Some(zeros) = pad.checked_sub(PAD_MIN) {
        put16(&mut out, PAD_ID);
        put16(&mut out, low16(zeros.saturating_add(2)));
        put16(&mut out, low16(ALIGN));
        out.extend(std::iter::repeat_n(0, usize::from(low16(zeros))));
    }
    out
}

/// Returns the descriptor that follows the bytes of an entry whose CRC-32 was not known before them.
pub fn descriptor(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::new();
    put32(&mut out, 0x0807_4b50);
    put32(&mut out, entry.crc);
    for len in [entry.stored_len, entry.len] {
        match entry.is_long() {
            true => put64(&mut out, len),
            false => put32(&mut out, low(len)),
        }
    }
    out
}

/// Returns the length of an extra field that starts at `at` and ends at a multiple of [`ALIGN`].
fn padding(at: u64) -> u64 {
    let missing = at.next_multiple_of(ALIGN).saturating_sub(at);
    if missing == 0 || missing >= PAD_MIN { missing } else { missing.saturating_add(ALIGN) }
}

/// Returns the end of a zip: the central directory and the end records. `entries` are listed in the given order.
/// `offset` is the start of the directory.
pub fn directory(entries: &[Entry], offset: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        central_header(entry, &mut out);
    }
    let (count, len) = (entries.len() as u64, out.len() as u64);
    if count >= MANY || len >= LONG || offset >= LONG {
        let at = offset.saturating_add(len);
        put32(&mut out, 0x0606_4b50);
        put64(&mut out, 44);
        put16(&mut out, MADE_BY);
        put16(&mut out, 45);
        put32(&mut out, 0);
        put32(&mut out, 0);
        put64(&mut out, count);
        put64(&mut out, count);
        put64(&mut out, len);
        put64(&mut out, offset);
        put32(&mut out, 0x0706_4b50);
        put32(&mut out, 0);
        put64(&mut out, at);
        put32(&mut out, 1);
    }
    put32(&mut out, 0x0605_4b50);
    put16(&mut out, 0);
    put16(&mut out, 0);
    put16(&mut out, low16(count));
    put16(&mut out, low16(count));
    put32(&mut out, low(len));
    put32(&mut out, low(offset));
    put16(&mut out, 0);
    out
}

fn central_header(entry: &Entry, out: &mut Vec<u8>) {
    // Numbers that do not fit are stored in the extra field, in this order.
    let mut long = Vec::new();
    let mut short = |n: u64| {
        if n >= LONG {
            put64(&mut long, n);
        }
        low(n)
    };
    let (len, stored_len, offset) =
        (short(entry.len), short(entry.stored_len), short(entry.offset));
    let extra = if long.is_empty() { 0 } else { long.len().saturating_add(4) as u64 };
    put32(out, 0x0201_4b50);
    put16(out, MADE_BY);
    entry.common(out);
    put32(out, stored_len);
    put32(out, len);
    put16(out, entry.name_len());
    put16(out, low16(extra));
    put16(out, 0);
    put16(out, 0);
    put16(out, 0);
    put32(out, entry.mode());
    put32(out, offset);
    out.extend_from_slice(entry.name.as_bytes());
    if !long.is_empty() {
        put16(out, ZIP64_ID);
        put16(out, low16(long.len() as u64));
        out.extend_from_slice(&long);
    }
}

/// Returns the number, or all ones if it does not fit.
fn low(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn low16(n: u64) -> u16 {
    u16::try_from(n).unwrap_or(u16::MAX)
}

fn put16(out: &mut Vec<u8>, n: u16) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put32(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put64(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}
