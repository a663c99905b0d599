//! Tells the generations apart and finds the manifest in each.

use super::rules::*;
use crate::OldEnd;
use holdall_core::error::{Error, Rule};
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use std::ops::Range;

/// First bytes of a 0.1 file.
pub(super) const MAGIC_0: &[u8; 8] = b"ZTEN0001";
/// First bytes of a 1.x file, and last bytes from 1.1 on.
pub(super) const MAGIC_1: &[u8; 8] = b"ZTEN1000";
/// First and last bytes of a 2.x file.
pub(super) const MAGIC_2: &[u8; 8] = b"\x89ZT2\r\n\x1a\n";
/// Bytes of a magic number, and of the manifest's length in the footer.
pub(super) const WORD: u64 = 8;

/// What can be told from a file's first and last bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Generation {
    /// 0.1: the manifest is an array.
    V0,
    /// 1.0: no magic number at the end; the manifest lists `tensors`.
    V1Tensors,
    /// 1.1 and later: a magic number at the end; the manifest lists `objects`.
    V1Objects,
}

/// Where the manifest is.
#[derive(Debug)]
pub(super) struct Footer {
    pub(super) generation: Generation,
    /// Bytes of the file, half-open; not empty.
    pub(super) manifest: Range<u64>,
}

/// Finds the manifest. Asks for the last 16 bytes, then for the first 8.
///
/// # Errors
/// [`UNSUPPORTED_CONTAINER`], [`TOO_SHORT`], [`EMPTY_MANIFEST`], [`MANIFEST_BOUNDS`],
/// [`MANIFEST_LEN`].
pub(super) fn find(window: &Window, limits: &Limits) -> Result<Footer, Stop> {
    let tail = window.tail(2 * WORD)?;
    let head = window.head(WORD)?;
    // 17 bytes: magic, a manifest of one byte, its length.
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
    // The length stands right before the magic number, or at the very end.
    let end = room.saturating_add(WORD);
    let footer = window.bytes(end..end.saturating_add(WORD))?;
    let len = footer.first_chunk().map_or(0, |&word| u64::from_le_bytes(word));
    if len == 0 {
        let message = "the footer says that the manifest has no bytes";
        return Err(fail(&EMPTY_MANIFEST, message.into(), window));
    }
    let Some(start) = end.checked_sub(len).filter(|&start| start >= WORD) else {
        let message = format!(
            "the footer says that the manifest has {len} bytes, the file of {} bytes has room for \
             {room}",
            window.len()
        );
        return Err(fail(&MANIFEST_BOUNDS, message, window));
    };
    if len > limits.manifest_len {
        let message = format!("the manifest has {len} bytes, at most {}", limits.manifest_len);
        return Err(fail(&MANIFEST_LEN, message, window));
    }
    Ok(Footer { generation, manifest: start..end })
}

/// Where a file may have ended: after the length of a manifest, and after a magic number behind such a length.
pub(super) fn old_ends(bytes: &[u8]) -> Vec<OldEnd> {
    let mut out = Vec::new();
    let longest = Limits::default().manifest_len;
    for (start, word) in bytes.windows(8).enumerate().rev() {
        // Most words cannot be such a length: half of a word tells those above 2^32.
        let Some((low, [0, 0, 0, 0])) = word.split_first_chunk::<4>() else { continue };
        let len = u64::from(u32::from_le_bytes(*low));
        if len == 0 || len > longest {
            continue;
        }
        let at = start.saturating_add(8);
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.starts_with(MAGIC_1) {
            let (at, back) = (at.saturating_add(8), len.saturating_add(16));
            out.push(OldEnd { at, back, begins: begins_manifest });
        }
        out.push(OldEnd { at, back: len.saturating_add(8), begins: begins_manifest });
    }
    out
}

/// Whether a manifest may begin so: a map with a text for its first key, or an array of maps, not empty.
fn begins_manifest(bytes: &[u8]) -> bool {
    let map = |bytes: &[u8]| {
        let key = bytes.first().and_then(|head| bytes.get(head_len(*head, MAP)?));
        key.is_some_and(|key| matches!(key, 0x60..=0x7b))
    };
    let Some(&head) = bytes.first() else { return false };
    match head_len(head, ARRAY) {
        Some(len) => bytes.get(len).is_some_and(|head| head_len(*head, MAP).is_some()),
        None => map(bytes),
    }
}

/// The first byte of an array, and of a map, without a count.
pub(super) const ARRAY: u8 = 0x80;
pub(super) const MAP: u8 = 0xa0;

/// Bytes of the head of an array or a map, whichever `of` is, that is not empty, by its first.
pub(super) fn head_len(head: u8, of: u8) -> Option<usize> {
    match head.checked_sub(of) {
        Some(1..=23 | 31) => Some(1),
        Some(size @ 24..=27) => Some(1usize.saturating_add(1 << size.saturating_sub(24))),
        _ => None,
    }
}

/// The error for a container of no generation that is known.
fn unsupported(head: &[u8]) -> Error {
    let message = format!("a zTensor magic number of no known version: `{}`", head.escape_ascii());
    let e = UNSUPPORTED_CONTAINER.broken(message).at(0..head.len() as u64);
    e.with_hint("if it once was readable, its first bytes are damaged")
}

/// A broken rule of the file's end.
fn fail(rule: &'static Rule, message: String, window: &Window) -> Stop {
    let end = window.len();
    rule.broken(message).at(end.saturating_sub(2 * WORD)..end).into()
}
