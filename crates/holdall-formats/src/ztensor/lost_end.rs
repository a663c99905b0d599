//! Finds the manifest of a file whose end, which locates the manifest, was lost or damaged.

use super::footer::{
    CBOR_ARRAY, CBOR_MAP, Footer, Generation, MAGIC_0, MAGIC_1, WORD, cbor_head_len,
};
use holdall_core::error::Result;
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::cbor::Reader;

/// The numbers of bytes at the end that are searched: first few, which are usually enough.
const SEARCHED: [u64; 2] = [1 << 20, 64 << 20];
/// The maximum number of offsets that are tried.
const MAX_TRIED: usize = 256;
/// Encoded keys with which the root of a manifest of 1.x may begin.
const KEYS_OF_ROOT: [&[u8]; 4] =
    [b"\x67version", b"\x67objects", b"\x67tensors", b"\x6aattributes"];
/// Encoded keys with which a tensor of 0.1 may begin.
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

/// Returns the location of a manifest near the end of the file, if there is one: after it, there are at most as many
/// bytes as a complete footer has.
///
/// # Errors
/// Returns only [`Stop::Need`].
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
        // The outermost map begins first.
        let offsets = (0..bytes.len())
            .filter_map(|at| Some((at, bytes.get(at..).filter(|rest| may_begin(rest, is_v0))?)));
        for (at, rest) in offsets.take(MAX_TRIED) {
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

/// Returns `true` if a manifest may begin with these bytes.
fn may_begin(bytes: &[u8], is_v0: bool) -> bool {
    let (bytes, keys) = if is_v0 {
        match after_head(bytes, CBOR_ARRAY) {
            Some(tensor) => (tensor, &KEYS_OF_TENSOR[..]),
            None => return false,
        }
    } else {
        (bytes, &KEYS_OF_ROOT[..])
    };
    after_head(bytes, CBOR_MAP).is_some_and(|rest| keys.iter().any(|key| rest.starts_with(key)))
}

/// Returns the bytes after the CBOR head of a non-empty array or map. `major_type` is [`CBOR_ARRAY`] or [`CBOR_MAP`].
fn after_head(bytes: &[u8], major_type: u8) -> Option<&[u8]> {
    bytes.get(cbor_head_len(*bytes.first()?, major_type)?..)
}

/// Returns the generation and the end of the manifest that begins at the position of `reader`; `None` if it is not a
/// manifest.
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
