//! zstd under a limit, and the seekable form: independent frames, then a seek table in a skippable
//! frame that any other decoder passes over.
//!
//! Seek table (all integers little-endian), the last bytes of a component:
//!
//! ```text
//! 0x184D2A5E u32 | length of the rest u32
//! per frame:       stored length u32 | decoded length u32 [| checksum u32]
//! frames u32     | descriptor u8 (bit 7: checksums are present) | 0x8F92EAB1 u32
//! ```
//!
//! [`SeekTable::read`] accepts a table only if its frames tile the stored bytes and the decoded length
//! exactly, and [`Decoder::decode_into`] accepts a frame only if it decodes to exactly its share. All
//! frames so decoded are the same bytes as decoding from the start; a range of them is, if the frames
//! before it are what the table says.

#[cfg(feature = "zstd")]
mod frames;
#[cfg(not(feature = "zstd"))]
mod unbuilt;

#[cfg(feature = "zstd")]
pub use frames::{Decoder, Encoder, Stream};
#[cfg(not(feature = "zstd"))]
pub use unbuilt::{Decoder, Encoder, Stream};

use crate::error::{Remedy, Result};
use crate::limits::Limits;
use std::ops::Range;

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The stored bytes are not zstd, or end inside a frame.
    pub BROKEN: Malformed "zstd/broken" "A zstd component consists of one or more complete frames.";
    /// More or fewer bytes than declared.
    pub LENGTH: Malformed "zstd/length"
        "A zstd component decodes to exactly the length that the file or the shape declares.";
    /// The frame wants more memory for its window than allowed.
    pub WINDOW: Limit "zstd/window"
        "A zstd frame needs a window of at most `Limits::zstd_window_log` bits."
        remedies [RaiseLimit { limit: "zstd_window_log", at_least: None }];
    /// The component decodes to more than the caller allows.
    pub DECODED_LEN: Limit "zstd/decoded-len"
        "Compressed components decode to at most `Limits::decoded_len` bytes, or `Limits::expansion` times their stored bytes if that is more. This holds for each of them, and for all that are loaded at once."
        remedies [RaiseLimit { limit: "decoded_len", at_least: None }];
    /// The library refused to compress.
    pub ENCODE: Misuse "zstd/encode" "The compression level is one that zstd has.";
}

/// Decoded bytes of one frame of a component that is stored as many: a slice of a tensor costs the
/// decoding of the frames it lies in.
pub const FRAME_LEN: u64 = 1 << 20;
/// Components up to this many decoded bytes are one frame without a seek table.
pub const SINGLE_FRAME_MAX: u64 = 4 << 20;

const SKIPPABLE_MAGIC: u32 = 0x184D_2A5E;
const SEEK_MAGIC: u32 = 0x8F92_EAB1;
/// Bytes at the end of a seek table that tell how long it is.
pub const SEEK_FOOTER_LEN: u64 = 9;

/// The most bytes that `stored_len` bytes may decode to: `Limits::decoded_len`, or
/// `Limits::expansion` times what is stored where that is more.
pub fn most_decoded(stored_len: u64, limits: &Limits) -> u64 {
    limits.decoded_len.max(stored_len.saturating_mul(limits.expansion))
}

/// Checks a length that `stored_len` bytes are about to be decoded to against the caller's limits.
///
/// # Errors
/// [`DECODED_LEN`].
pub fn check_decoded_len(len: u64, stored_len: u64, limits: &Limits) -> Result<()> {
    let most = most_decoded(stored_len, limits);
    if len > most {
        let message =
            format!("{stored_len} stored bytes decode to {len}, at most {most} are allowed");
        let raise = Remedy::RaiseLimit { limit: "decoded_len", at_least: Some(len) };
        return Err(DECODED_LEN.broken(message).with_remedy(raise));
    }
    Ok(())
}

/// What is done with the checksums in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// They are compared.
    Compare,
    /// They are passed over.
    Ignore,
}

/// One frame of a seekable component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its bytes, relative to the start of the component's stored bytes.
    pub stored: Range<u64>,
    /// What it decodes to, relative to the start of the component's decoded bytes.
    pub decoded: Range<u64>,
}

/// Where the frames of a seekable component are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeekTable {
    frames: Vec<Frame>,
}

impl SeekTable {
    /// Bytes of the whole table, from the last [`SEEK_FOOTER_LEN`] bytes of a component; `None` when
    /// they do not end one, or it would be longer than the component.
    pub fn len_from_footer(footer: &[u8], stored_len: u64) -> Option<u64> {
        let (count, descriptor) = read_footer(footer)?;
        let entry: u64 = if descriptor & 0x80 == 0 { 8 } else { 12 };
        let len = count.checked_mul(entry)?.checked_add(8 + SEEK_FOOTER_LEN)?;
        (len <= stored_len).then_some(len)
    }

    /// Reads the table from the bytes that [`SeekTable::len_from_footer`] told. `None` when it does
    /// not describe these stored and decoded lengths exactly; the component is then decoded from its
    /// start.
    pub fn read(table: &[u8], stored_len: u64, decoded_len: u64) -> Option<SeekTable> {
        let (count, descriptor) = read_footer(table)?;
        let width: usize = if descriptor & 0x80 == 0 { 8 } else { 12 };
        let (head, rest) = table.split_at_checked(8)?;
        let (entries, _) =
            rest.split_at_checked(rest.len().checked_sub(SEEK_FOOTER_LEN as usize)?)?;
        let magic_fits = read_u32(head, 0)? == SKIPPABLE_MAGIC;
        let len_fits = u64::from(read_u32(head, 4)?) == rest.len() as u64;
        let count_fits = (entries.len() / width) as u64 == count && entries.len() % width == 0;
        if !(magic_fits && len_fits && count_fits) {
            return None;
        }
        let (mut stored, mut decoded) = (0u64, 0u64);
        let mut frames = Vec::new();
        for entry in entries.chunks_exact(width) {
            let stored_end = stored.checked_add(read_u32(entry, 0)?.into())?;
            let decoded_end = decoded.checked_add(read_u32(entry, 4)?.into())?;
            frames.push(Frame { stored: stored..stored_end, decoded: decoded..decoded_end });
            (stored, decoded) = (stored_end, decoded_end);
        }
        let tiles = stored == stored_len.checked_sub(table.len() as u64)? && decoded == decoded_len;
        tiles.then_some(SeekTable { frames })
    }

    /// All frames, in order; they tile both the stored and the decoded bytes.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The frames that hold the decoded bytes `range`.
    pub fn covering(&self, range: Range<u64>) -> &[Frame] {
        if range.is_empty() {
            return &[];
        }
        let from = self.frames.partition_point(|f| f.decoded.end <= range.start);
        let to = self.frames.partition_point(|f| f.decoded.start < range.end);
        self.frames.get(from..to).unwrap_or(&[])
    }
}

fn read_footer(bytes: &[u8]) -> Option<(u64, u8)> {
    let footer = bytes.get(bytes.len().checked_sub(SEEK_FOOTER_LEN as usize)?..)?;
    let descriptor = *footer.get(4)?;
    // Bits 2 to 6 are reserved and must be zero.
    let known = read_u32(footer, 5)? == SEEK_MAGIC && descriptor & 0x7c == 0;
    known.then_some((read_u32(footer, 0)?.into(), descriptor))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

/// The lengths of the frames that a component of `decoded_len` bytes is cut into, and whether a seek
/// table follows.
pub fn frame_lens(decoded_len: u64) -> (impl Iterator<Item = u64>, bool) {
    let seekable = decoded_len > SINGLE_FRAME_MAX;
    let step = if seekable { FRAME_LEN } else { decoded_len.max(1) };
    let count = decoded_len.div_ceil(step).max(1);
    let lens = (0..count).map(move |i| step.min(decoded_len - i * step));
    (lens, seekable)
}

/// The seek table for frames of these (stored, decoded) lengths, in order.
///
/// # Errors
/// [`ENCODE`] when a length does not fit the table's 32 bits.
pub fn seek_table(frames: &[(u64, u64)]) -> Result<Vec<u8>> {
    let too_long = || ENCODE.broken("a frame or the seek table passes 2^32 bytes");
    let fit = |n: u64| u32::try_from(n).map_err(|_| too_long());
    let rest = frames.len() as u64 * 8 + SEEK_FOOTER_LEN;
    let mut out = Vec::new();
    out.extend(SKIPPABLE_MAGIC.to_le_bytes());
    out.extend(fit(rest)?.to_le_bytes());
    for &(stored, decoded) in frames {
        out.extend(fit(stored)?.to_le_bytes());
        out.extend(fit(decoded)?.to_le_bytes());
    }
    out.extend(fit(frames.len() as u64)?.to_le_bytes());
    out.push(0);
    out.extend(SEEK_MAGIC.to_le_bytes());
    Ok(out)
}
