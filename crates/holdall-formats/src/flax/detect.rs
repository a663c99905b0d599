//! Recognises a MessagePack map as Flax writes it.

use holdall_core::window::{Stop, Window};
use holdall_core::wire::msgpack::{Item, Scan};

/// The maximum length of the first key, in bytes.
const MOST_FIRST: u64 = 1024;

/// Returns `true` if the file is a map whose first key is a string. The format has no other mark.
pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    match window.head(1)?.first() {
        Some(0x81..=0x8f | 0xde | 0xdf) => {}
        _ => return Ok(false),
    }
    match is_map(window) {
        Err(Stop::Fail(_)) => Ok(false),
        found => found,
    }
}

fn is_map(window: &Window) -> Result<bool, Stop> {
    let mut scan = Scan::new(window, 0..window.len());
    let (Item::Map(1..), Item::Text(key)) = (scan.next()?, scan.next()?) else {
        return Ok(false);
    };
    if key.end.saturating_sub(key.start) > MOST_FIRST {
        return Ok(false);
    }
    let key = window.bytes(key)?;
    let is_text = std::str::from_utf8(&key).is_ok_and(|key| !key.contains(char::is_control));
    // A file that is cut short after its first key is also claimed.
    Ok(is_text && window.len() > scan.position())
}
