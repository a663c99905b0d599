//! Recognises a file that begins with the length of a header, and a header.

use crate::header::LEN_BYTES;
use holdall_core::window::{Stop, Window};

/// Returns `true` if the ninth byte of the file opens a JSON object and the eight bytes before it are not text. They
/// are the length of the header. A file with a wrong length is recognised, too, so that decoding it reports that error;
/// but whitespace before the `{` is accepted only with a possible length.
pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    let head = window.head(LEN_BYTES.saturating_add(2))?;
    let Some((len, start)) = head.split_first_chunk::<8>() else {
        return Ok(false);
    };
    let is_inside = u64::from_le_bytes(*len) <= window.len().saturating_sub(LEN_BYTES);
    let is_text = len.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
    Ok(match start {
        [b'{'] => !is_text,
        [b'{', next, ..] => !is_text && matches!(next, b'"' | b'}' | b' ' | b'\t' | b'\r' | b'\n'),
        [b' ' | b'\t' | b'\r' | b'\n', ..] => is_inside && !is_text,
        _ => false,
    })
}
