//! Descriptors, which follow an entry's bytes if the writer did not know the lengths beforehand.
//!
//! ```text
//! [50 4B 07 08]  crc32 u32  stored length  decoded length      lengths as u32, or as u64 in zip64
//! ```

use super::Entry;
use super::central::flags;
use super::rules::DESCRIPTOR;
use crate::error::Escape as _;
use crate::window::{Stop, Window};

const SIGNATURE: &[u8; 4] = b"PK\x07\x08";
/// Bytes of the longest form.
const LONGEST: u64 = 24;

/// Returns `true` if the flags of `entry` announce a descriptor.
pub(super) fn is_promised(entry: Entry<'_>) -> bool {
    entry.row.flags & flags::DEFERRED != 0
}

/// Compares the descriptor of `entry` with the directory. `at` is the end of the entry's stored bytes. Some writers
/// omit the signature, and they differ in when lengths are wide, so any matching form is accepted.
pub(super) fn check(entry: Entry<'_>, at: u64, window: &Window) -> Result<(), Stop> {
    if !is_promised(entry) {
        return Ok(());
    }
    let range = at..at.saturating_add(LONGEST).min(entry.row.room_end);
    let found = window.bytes(range.clone())?;
    let bare = found.strip_prefix(SIGNATURE).unwrap_or(&found);
    let row = entry.row;
    let wide = |lens: [u64; 2]| {
        let [stored, decoded] = lens.map(u64::to_le_bytes);
        [&row.crc32.to_le_bytes()[..], &stored, &decoded].concat()
    };
    let narrow = |lens: [u64; 2]| {
        let [stored, decoded] = lens.map(|len| u32::try_from(len).ok().map(u32::to_le_bytes));
        Some([row.crc32.to_le_bytes(), stored?, decoded?].concat())
    };
    let lens = [row.stored_len, row.decoded_len];
    let encodings = [Some(wide(lens)), narrow(lens)];
    // A CRC-32 may happen to equal the signature.
    let fits = |text: &Vec<u8>| bare.starts_with(text) || found.starts_with(text);
    if encodings.iter().flatten().any(fits) {
        return Ok(());
    }
    let (name, [stored, decoded], crc) = (entry.name().escaped(), lens, row.crc32);
    let message = format!(
        "entry `{name}`: the descriptor after its bytes does not match {crc:#010x}, {stored} and {decoded} bytes in the \
         directory"
    );
    Err(DESCRIPTOR.broken(message).at(range).into())
}
