//! Where zstd itself takes other frames at once than in a stream. Neither way gives other bytes than the
//! other; one of them refuses the frame.

use holdall::Error;

/// Whether `e`, of a stream, may be about a block that is longer than the frame's window: no frame has one,
/// but only a stream refuses it.
pub(crate) fn is_wide_block(e: &Error, stored: &[u8]) -> bool {
    // Magic; a descriptor that says that a window follows; one below the longest block, 128 KiB.
    let is_small = |head: &[u8]| head[4] & 0x20 == 0 && head[5] < 7 << 3;
    let mut frames = stored.windows(6).filter(|head| head.starts_with(b"\x28\xb5\x2f\xfd"));
    e.code() == "zstd/broken" && frames.any(is_small)
}

/// Whether there may be a compressed block of no bytes: a stream takes it for an empty one.
pub(crate) fn may_have_empty_block(stored: &[u8]) -> bool {
    stored.windows(3).any(|head| matches!(head, [4 | 5, 0, 0]))
}
