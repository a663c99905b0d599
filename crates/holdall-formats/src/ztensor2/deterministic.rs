//! Checks that CBOR is in the deterministic form of RFC 8949, section 4.2.1.

use super::DETERMINISTIC;
use half::f16;
use holdall_core::error::{Error, Result};
use holdall_core::wire::cursor::Cursor;

/// The maximum number of levels of arrays and maps.
const DEPTH: usize = 32;

/// An open array or map: the number of further items, and the last key of a map.
struct Open<'a> {
    left: u64,
    /// The last key, if there is one; the outer `None` for an array.
    keys: Option<Option<&'a [u8]>>,
    /// Whether the next item of a map is a key.
    is_key: bool,
}

/// Checks that `bytes`, which start at offset `base` of the file, are one item in this form.
pub(super) fn check(bytes: &[u8], base: u64) -> Result<()> {
    let broken = |at: u64, what: &str| -> Error {
        let at = base.saturating_add(at);
        DETERMINISTIC.broken(what.to_owned()).at(at..at)
    };
    let mut cursor = Cursor::new(bytes);
    let mut open: Vec<Open<'_>> = Vec::new();
    loop {
        let at = cursor.position();
        let cut = || broken(at, "an item is cut short");
        let first = cursor.u8().ok_or_else(cut)?;
        let (major, info) = (first >> 5, first & 31);
        let arg = match info {
            0..=23 => u64::from(info),
            24 => u64::from(cursor.u8().ok_or_else(cut)?),
            25 => u64::from(u16::from_be_bytes(cursor.array().ok_or_else(cut)?)),
            26 => u64::from(u32::from_be_bytes(cursor.array().ok_or_else(cut)?)),
            27 => u64::from_be_bytes(cursor.array().ok_or_else(cut)?),
            _ => return Err(broken(at, "an item of indefinite length")),
        };
        let shortest = match arg {
            0..=23 => 0,
            24..=0xff => 24,
            0x100..=0xffff => 25,
            0x1_0000..=0xffff_ffff => 26,
            _ => 27,
        };
        if major < 7 && info.max(23) != shortest.max(23) {
            return Err(broken(at, "a number that has a shorter form"));
        }
        let mut opened = None;
        match major {
            0 | 1 => {}
            2 | 3 => {
                cursor.take(arg).ok_or_else(cut)?;
            }
            4 | 5 => {
                let of_map = major == 5;
                let left = if of_map { arg.checked_mul(2) } else { Some(arg) };
                let left = left.filter(|left| *left <= cursor.remaining()).ok_or_else(cut)?;
                opened = Some(Open { left, keys: of_map.then_some(None), is_key: of_map });
            }
            6 => return Err(broken(at, "a tag")),
            _ => match info {
                20..=22 => {}
                25..=27 if is_shortest(info, arg) => {}
                25..=27 => return Err(broken(at, "a float that has a shorter form")),
                _ => return Err(broken(at, "a simple value without a meaning")),
            },
        }
        if let Some(container) = open.last_mut()
            && let Some(last) = &mut container.keys
        {
            if container.is_key {
                if opened.is_some() {
                    return Err(broken(at, "a key that is an array or a map"));
                }
                let span = usize::try_from(at).ok().zip(usize::try_from(cursor.position()).ok());
                let key = span.and_then(|(from, to)| bytes.get(from..to)).unwrap_or_default();
                if last.is_some_and(|last| last >= key) {
                    return Err(broken(at, "keys that are duplicates or out of order"));
                }
                *last = Some(key);
            }
            container.is_key = !container.is_key;
        }
        if let Some(container) = open.last_mut() {
            container.left = container.left.saturating_sub(1);
        }
        if let Some(opened) = opened {
            if open.len() >= DEPTH {
                return Err(broken(at, "more than 32 levels"));
            }
            open.push(opened);
        }
        while open.last().is_some_and(|container| container.left == 0) {
            open.pop();
        }
        if open.is_empty() {
            break;
        }
    }
    match cursor.remaining() {
        0 => Ok(()),
        left => Err(broken(cursor.position(), &format!("{left} bytes after the item"))),
    }
}

/// Returns `true` if no shorter float has the same value. Of the NaNs, only one form is valid.
fn is_shortest(info: u8, bits: u64) -> bool {
    let [.., a, b, c, d] = bits.to_be_bytes();
    let single = f32::from_be_bytes([a, b, c, d]);
    let fits_half = |x: f32| f16::from_f32(x).to_f32().to_bits() == x.to_bits();
    match info {
        25 => !f16::from_be_bytes([c, d]).is_nan() || [c, d] == [0x7e, 0],
        26 => !single.is_nan() && !fits_half(single),
        _ => {
            let double = f64::from_bits(bits);
            // The cast rounds to nearest. If converting back gives the same value, it was exact.
            #[allow(clippy::cast_possible_truncation)]
            let single = double as f32;
            !double.is_nan() && f64::from(single).to_bits() != bits
        }
    }
}
