//! Recognises the general form: section 1.3.

use crate::header::{LEN_BYTES, MAX_HEADER_LEN};
use holdall_core::window::{Stop, Window};
use holdall_json::{Reader, Token};
use memchr::memmem;

/// The key that only the general form has. Its value is a string.
const KEY: &[u8] = b"\"metatensor\"";
/// The number of bytes of a header in which its first key is searched, if the header is incomplete.
const FIRST_KEY: u64 = 256;
/// Deeper headers are not searched: they are invalid in both forms.
const MAX_DEPTH: usize = 512;

/// Returns `true` if the header has the key `metatensor` with a string. If the header is incomplete, or longer than the
/// format allows, this must be its first key.
pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    let head = window.head(LEN_BYTES.saturating_add(1))?;
    let Some((len, start)) = head.split_first_chunk::<8>() else { return Ok(false) };
    if !matches!(start, [b'{' | b' ' | b'\t' | b'\r' | b'\n']) {
        return Ok(false);
    }
    let len = u64::from_le_bytes(*len);
    let room = window.len().saturating_sub(LEN_BYTES);
    if len > room || len > MAX_HEADER_LEN {
        let end = LEN_BYTES.saturating_add(room.min(FIRST_KEY));
        return Ok(first_key_is_ours(&window.bytes(LEN_BYTES..end)?));
    }
    let header = window.bytes(LEN_BYTES..LEN_BYTES.saturating_add(len))?;
    Ok(memmem::find(&header, KEY).is_some() && has_key(&header))
}

fn first_key_is_ours(start: &[u8]) -> bool {
    let rest = start.trim_ascii_start().strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    let rest = rest.and_then(|r| r.strip_prefix(KEY)).map(<[u8]>::trim_ascii_start);
    let rest = rest.and_then(|r| r.strip_prefix(b":")).map(<[u8]>::trim_ascii_start);
    rest.is_some_and(|r| r.first() == Some(&b'"'))
}

/// Returns `true` if the key is a member of the header object itself, not of a nested object.
fn has_key(header: &[u8]) -> bool {
    let scan = || -> holdall_core::error::Result<bool> {
        let mut reader = Reader::new(header, 0, MAX_DEPTH)?;
        let mut scratch = String::new();
        reader.begin_object()?;
        loop {
            let before = reader.offset();
            let Some(key) = reader.next_key(&mut scratch)? else { return Ok(false) };
            let is_ours = key == "metatensor";
            let between = usize::try_from(before).ok().zip(usize::try_from(reader.offset()).ok());
            let text = between.and_then(|(from, to)| header.get(from..to)).unwrap_or_default();
            if is_ours && !text.contains(&b'\\') && reader.peek()? == Token::String {
                return Ok(true);
            }
            reader.skip()?;
        }
    };
    // Errors in the text are reported when it is decoded.
    scan().unwrap_or(false)
}
