//! Finds the manifest of a file whose end, which says where the manifest is, was lost or damaged.

use super::footer::{ARRAY, Footer, Generation, MAGIC_0, MAGIC_1, MAP, WORD, head_len};
use holdall_core::error::Result;
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::cbor::Reader;

/// Bytes at the end that are searched: few first, which mostly are enough.
const SEARCHED: [u64; 2] = [1 << 20, 64 << 20];
/// Places that are tried.
const MOST_TRIED: usize = 256;
/// Keys that the root of a manifest of 1.x may begin with, as they are stored.
const KEYS_OF_ROOT: [&[u8]; 4] =
    [b"\x67version", b"\x67objects", b"\x67tensors", b"\x6aattributes"];
/// Keys that a tensor of 0.1 may begin with, as they are stored.
const KEYS_OF_TENSOR: [&[u8]; 9] = [
    b"\x64name",
    b"\x66offset",
    b"\x64size",
    b"\x65dtype",
    b"\x65shape",
    b"\x68encoding",
    b"\x66layout",
    b"\x6fdata_endianness",
    b"\x68checksum",
];

/// The manifest after which there are no more bytes than an end may have, where there is one.
///
/// # Errors
/// None but [`Stop::Need`].
pub(super) fn find(window: &Window, limits: &Limits) -> Result<Option<Footer>, Stop> {
    let is_v0 = match &*window.head(WORD)? {
        head if head == MAGIC_0 => true,
        head if head == MAGIC_1 => false,
        _ => return Ok(None),
    };
    let room = window.len().saturating_sub(WORD).min(limits.manifest_len);
    for most in SEARCHED {
        let bytes = window.tail(most.min(room))?;
        let base = window.len().saturating_sub(bytes.len() as u64);
        // The outermost begins first.
        let places = (0..bytes.len())
            .filter_map(|at| Some((at, bytes.get(at..).filter(|rest| may_begin(rest, is_v0))?)));
        for (at, rest) in places.take(MOST_TRIED) {
            let start = base.saturating_add(at as u64);
            let reader = Reader::new(rest, start, limits);
            let Ok(Some((generation, end))) = read(reader, is_v0) else { continue };
            let longest = if generation == Generation::V1Objects { 2 * WORD } else { WORD };
            if window.len().saturating_sub(end) <= longest {
                return Ok(Some(Footer { generation, manifest: start..end }));
            }
        }
        if room <= most {
            break;
        }
    }
    Ok(None)
}

/// Whether a manifest may begin so.
fn may_begin(bytes: &[u8], is_v0: bool) -> bool {
    let (bytes, keys) = if is_v0 {
        match after_head(bytes, ARRAY) {
            Some(tensor) => (tensor, &KEYS_OF_TENSOR[..]),
            None => return false,
        }
    } else {
        (bytes, &KEYS_OF_ROOT[..])
    };
    after_head(bytes, MAP).is_some_and(|rest| keys.iter().any(|key| rest.starts_with(key)))
}

/// What follows the head of an array or a map, whichever `of` is, that is not empty.
fn after_head(bytes: &[u8], of: u8) -> Option<&[u8]> {
    bytes.get(head_len(*bytes.first()?, of)?..)
}

/// Which generation's manifest the item is that `reader` stands at, and where it ends.
fn read(mut reader: Reader<'_>, is_v0: bool) -> Result<Option<(Generation, u64)>> {
    if is_v0 {
        reader.skip()?;
        return Ok(Some((Generation::V0, reader.offset())));
    }
    let mut generation = None;
    let mut root = reader.map("the root")?;
    while reader.more(&mut root)? {
        match reader.key("the root")? {
            b"objects" => generation = Some(Generation::V1Objects),
            b"tensors" if generation.is_none() => generation = Some(Generation::V1Tensors),
            _ => {}
        }
        reader.skip()?;
    }
    Ok(generation.map(|generation| (generation, reader.offset())))
}
