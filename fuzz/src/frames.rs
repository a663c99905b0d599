//! Differences between zstd decoding at once and as a stream. The decoded bytes never differ, but one of them may
//! refuse the frame.

use holdall::Error;

/// Returns `true` if `e`, from a stream, may be about a block that is longer than the frame's window. No valid frame
/// has one, but only a stream refuses it.
pub(crate) fn is_wide_block(e: &Error, stored: &[u8]) -> bool {
    // Magic; a descriptor with a window; a window below the longest block, 128 KiB.
    let is_small = |head: &[u8]| head[4] & 0x20 == 0 && head[5] < 7 << 3;
    let mut frames = stored.windows(6).filter(|head| head.starts_with(b"\x28\xb5\x2f\xfd"));
    e.code() == "zstd/broken" && frames.any(is_small)
}

/// Returns `true` if there may be a compressed block without bytes, which a stream treats as empty.
pub(crate) fn may_have_empty_block(stored: &[u8]) -> bool {
    stored.windows(3).any(|head| matches!(head, [4 | 5, 0, 0]))
}
