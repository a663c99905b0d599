//! Recognises a MessagePack map or list as Flax writes it.

use holdall_core::window::{Stop, Window};
use holdall_core::wire::msgpack::{Item, Scan};

/// The maximum length of the first key, in bytes.
const MAX_FIRST: u64 = 1024;
/// The maximum number of items among which an array is looked for.
const MAX_ITEMS: u32 = 1024;

/// Returns `true` if the file is a map whose first key is a string, or a list or a map whose first key is an integer, in
/// which an array comes soon. The format has no other mark.
pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    match window.head(1)?.first() {
        Some(0x81..=0x8f | 0x91..=0x9f | 0xdc..=0xdf) => {}
        _ => return Ok(false),
    }
    match is_tree(window) {
        Err(Stop::Fail(_)) => Ok(false),
        found => found,
    }
}

fn is_tree(window: &Window) -> Result<bool, Stop> {
    let mut scan = Scan::new(window, 0..window.len());
    match scan.next()? {
        Item::Map(1..) => match scan.next()? {
            Item::Text(key) => {
                if key.end.saturating_sub(key.start) > MAX_FIRST {
                    return Ok(false);
                }
                let key = window.bytes(key)?;
                let is_text =
                    std::str::from_utf8(&key).is_ok_and(|key| !key.contains(char::is_control));
                // A file that is cut short after its first key is also claimed.
                Ok(is_text && window.len() > scan.position())
            }
            Item::Integer(_) => has_array(window, &mut scan),
            _ => Ok(false),
        },
        Item::Array(1..) => has_array(window, &mut scan),
        _ => Ok(false),
    }
}

/// Returns `true` if one of the next items is an array. Integers and lists alone are the start of many files of other
/// formats.
fn has_array(window: &Window, scan: &mut Scan<'_>) -> Result<bool, Stop> {
    for _ in 0..MAX_ITEMS {
        if scan.is_at_end() {
            break;
        }
        if let Item::Ext(super::decode::ARRAYS | super::decode::SCALARS, place) = scan.next()? {
            let mut array = Scan::new(window, place);
            return Ok(matches!((array.next()?, array.next()?), (Item::Array(3), Item::Array(_))));
        }
    }
    Ok(false)
}
