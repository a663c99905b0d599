//! Whether a file is a MessagePack map, as Flax writes it.

use holdall_core::window::{Stop, Window};
use holdall_core::wire::msgpack::{Item, Scan};

/// Bytes of a key at the start of a file that is taken for one.
const MOST_FIRST: u64 = 1024;

/// Whether the file is a map whose first key is a text. Nothing else marks one.
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
    // What is cut short behind its first key is one, too.
    Ok(is_text && window.len() > scan.position())
}
