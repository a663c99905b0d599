//! Detects the generation of a file, and finds its manifest.

use super::rules::*;
use crate::OldEnd;
use holdall_collections::DebugUnwrap;
use holdall_core::error::{Error, Rule};
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use std::ops::Range;

/// The first bytes of a 0.1 file.
pub(super) const MAGIC_0: &[u8; 8] = b"ZTEN0001";
/// The first bytes of a 1.x file, and the last bytes from 1.1 on.
pub(super) const MAGIC_1: &[u8; 8] = b"ZTEN1000";
/// The first and last bytes of a 2.x file.
pub(super) const MAGIC_2: &[u8; 8] = b"\x89ZT2\r\n\x1a\n";
/// The length of a magic number, and of the manifest's length in the footer, in bytes.
pub(super) const WORD: u64 = 8;

/// The generation of a file, according to its first and last bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Generation {
    /// 0.1: the manifest is an array.
    V0,
    /// 1.0: no magic number at the end; the manifest lists `tensors`.
    V1Tensors,
    /// 1.1 and later: a magic number at the end; the manifest lists `objects`.
    V1Objects,
}

/// The location of the manifest.
#[derive(Debug)]
pub(super) struct Footer {
    pub(super) generation: Generation,
    /// The byte range in the file, which is not empty.
    pub(super) manifest: Range<u64>,
}

/// Finds the manifest. Requests the last 16 bytes, then the first 8.
///
/// # Errors
/// Returns [`UNSUPPORTED_CONTAINER`], [`TOO_SHORT`], [`EMPTY_MANIFEST`], [`MANIFEST_BOUNDS`] or [`MANIFEST_LEN`] if
/// the footer is invalid.
pub(super) fn find(window: &Window, limits: &Limits) -> Result<Footer, Stop> {
    let tail = window.tail(2 * WORD)?;
    let head = window.head(WORD)?;
    // 17 bytes: the magic number, a manifest of one byte, its length.
    let (generation, footer_len) = match &*head {
        h if h == MAGIC_0 => (Generation::V0, WORD),
        h if h == MAGIC_1 && tail.ends_with(MAGIC_1) && window.len() >= 3 * WORD => {
            (Generation::V1Objects, 2 * WORD)
        }
        h if h == MAGIC_1 => (Generation::V1Tensors, WORD),
        _ => return Err(unsupported(&head).into()),
    };
    let room = window.len().checked_sub(footer_len.saturating_add(WORD));
    let Some(room) = room.filter(|&room| room > 0) else {
        return Err(fail(&TOO_SHORT, format!("the file has {} bytes", window.len()), window));
    };
    // The length is directly before the magic number, or at the very end.
    let end = room.saturating_add(WORD);
    let footer = window.bytes(end..end.saturating_add(WORD))?;
    let len = footer.first_chunk().map_or(0, |&word| u64::from_le_bytes(word));
    if len == 0 {
        let message = "the footer gives a length of 0 for the manifest";
        return Err(fail(&EMPTY_MANIFEST, message.into(), window));
    }
    let Some(start) = end.checked_sub(len).filter(|&start| start >= WORD) else {
        let message = format!(
            "the footer gives a manifest of {len} bytes, but the file of {} bytes has space for \
             {room}",
            window.len()
        );
        return Err(fail(&MANIFEST_BOUNDS, message, window));
    };
    if len > limits.manifest_len {
        let message =
            format!("the manifest has {len} bytes, at most {} are allowed", limits.manifest_len);
        return Err(fail(&MANIFEST_LEN, message, window));
    }
    Ok(Footer { generation, manifest: start..end })
}

/// Returns the offsets at which an earlier version of the file may have ended: after the length of a manifest, and
/// after a magic number that follows such a length.
pub(super) fn old_ends(bytes: &[u8]) -> Vec<OldEnd> {
    let mut out = Vec::new();
    let longest = Limits::default().manifest_len;
    for (start, word) in bytes.windows(8).enumerate().rev() {
        // Most words cannot be a length, because they are above 2^32.
        let Some((low, [0, 0, 0, 0])) = word.split_first_chunk::<4>() else { continue };
        let len = u64::from(u32::from_le_bytes(*low));
        if len == 0 || len > longest {
            continue;
        }
        let at = start.saturating_add(8);
        let rest = bytes.get(at..).debug_unwrap();
        if rest.starts_with(MAGIC_1) {
            let (at, back) = (at.saturating_add(8), len.saturating_add(16));
            out.push(OldEnd { offset: at, back, begins: begins_manifest });
        }
        out.push(OldEnd { offset: at, back: len.saturating_add(8), begins: begins_manifest });
    }
    out
}

/// Returns `true` if a manifest may begin with these bytes: a map whose first key is a text, or a non-empty array of
/// maps.
fn begins_manifest(bytes: &[u8]) -> bool {
    let map = |bytes: &[u8]| {
        let key = bytes.first().and_then(|head| bytes.get(cbor_head_len(*head, CBOR_MAP)?));
        key.is_some_and(|key| matches!(key, 0x60..=0x7b))
    };
    let Some(&head) = bytes.first() else { return false };
    match cbor_head_len(head, CBOR_ARRAY) {
        Some(len) => bytes.get(len).is_some_and(|head| cbor_head_len(*head, CBOR_MAP).is_some()),
        None => map(bytes),
    }
}

/// The first byte of an empty array in CBOR. For a short array, the number of items is added to it.
pub(super) const CBOR_ARRAY: u8 = 0x80;
/// The first byte of an empty map in CBOR. For a short map, the number of pairs is added to it.
pub(super) const CBOR_MAP: u8 = 0xa0;

/// Returns the length of the CBOR head of a non-empty array or map in bytes, according to its first byte. `major_type`
/// is [`CBOR_ARRAY`] or [`CBOR_MAP`].
pub(super) fn cbor_head_len(head: u8, major_type: u8) -> Option<usize> {
    match head.checked_sub(major_type) {
        Some(1..=23 | 31) => Some(1),
        Some(size @ 24..=27) => Some(1usize.saturating_add(1 << size.saturating_sub(24))),
        _ => None,
    }
}

/// Returns the error for a container of an unknown generation.
fn unsupported(head: &[u8]) -> Error {
    let message = format!("unknown version in the magic number `{}`", head.escape_ascii());
    let e = UNSUPPORTED_CONTAINER.broken(message).at(0..head.len() as u64);
    e.with_hint("if the file could be read before, its first bytes are damaged")
}

/// Returns the error for an invalid end of the file.
fn fail(rule: &'static Rule, message: String, window: &Window) -> Stop {
    let end = window.len();
    rule.broken(message).at(end.saturating_sub(2 * WORD)..end).into()
}
