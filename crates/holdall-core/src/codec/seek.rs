//! Seek tables: components that consist of frames, and the tables of the frames' locations.

use crate::error::Result;
use std::ops::Range;

/// Decoded bytes per frame, in a component with several frames: reading a slice of a tensor decodes the frames that it
/// overlaps.
pub const FRAME_LEN: u64 = 1 << 20;
/// Components of at most this many decoded bytes are one frame without a table.
pub const SINGLE_FRAME_MAX: u64 = 4 << 20;

/// Decoded bytes per frame of a component that is a [byte plane](crate::layout::planes).
pub const PLANE_FRAME_LEN: u64 = 128 << 10;

/// The format in which a codec stores the locations of frames: a table at the end of a component, whose last bytes give
/// its length. Decoders of the whole component skip it.
pub trait SeekFormat: Send + Sync {
    /// Returns the number of bytes at the end of a table that give its length.
    fn footer_len(&self) -> u64;

    /// Returns the length in bytes of the table that `end` ends with. `end` are the last bytes of a component of
    /// `stored_len` bytes, at least [`SeekFormat::footer_len`] of them. Returns `None` if they do not end with a table,
    /// or if it would be longer than the component.
    fn table_len(&self, end: &[u8], stored_len: u64) -> Option<u64>;

    /// Parses a table. Returns `None` if it does not describe exactly these stored and decoded lengths; the component
    /// is then decoded from its start.
    fn read_table(&self, table: &[u8], stored_len: u64, decoded_len: u64) -> Option<SeekTable>;

    /// Returns the table of frames with these stored and decoded lengths, in order.
    ///
    /// # Errors
    /// Returns an error if the table cannot represent that many or such long frames.
    fn write_table(&self, frames: &[(u64, u64)]) -> Result<Vec<u8>>;
}

/// One frame of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The frame's bytes, relative to the start of the component's stored bytes.
    pub stored: Range<u64>,
    /// The frame's decoded bytes, relative to the start of the component's decoded bytes.
    pub decoded: Range<u64>,
}

/// The locations of a component's frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeekTable {
    frames: Vec<Frame>,
}

impl SeekTable {
    /// Creates a table of frames with these stored and decoded lengths, in order. Returns `None` if they do not add up
    /// to exactly `stored_len` and `decoded_len` bytes.
    pub fn new(
        lens: impl Iterator<Item = (u64, u64)>,
        stored_len: u64,
        decoded_len: u64,
    ) -> Option<SeekTable> {
        let (mut stored, mut decoded) = (0u64, 0u64);
        let mut frames = Vec::new();
        for (stored_len, decoded_len) in lens {
            let stored_end = stored.checked_add(stored_len)?;
            let decoded_end = decoded.checked_add(decoded_len)?;
            frames.push(Frame { stored: stored..stored_end, decoded: decoded..decoded_end });
            (stored, decoded) = (stored_end, decoded_end);
        }
        ((stored, decoded) == (stored_len, decoded_len)).then_some(SeekTable { frames })
    }

    /// Returns all frames, in order. They cover both the stored and the decoded bytes without gaps.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Returns the frames that contain the decoded bytes `range`.
    pub fn covering(&self, range: Range<u64>) -> &[Frame] {
        if range.is_empty() {
            return &[];
        }
        let from = self.frames.partition_point(|f| f.decoded.end <= range.start);
        let to = self.frames.partition_point(|f| f.decoded.start < range.end);
        self.frames.get(from..to).unwrap_or(&[])
    }
}

/// Returns the lengths of the frames into which a component of `decoded_len` bytes is divided, if its codec has frames,
/// and whether a table follows.
pub fn frame_lens(decoded_len: u64) -> (impl Iterator<Item = u64>, bool) {
    let seekable = decoded_len > SINGLE_FRAME_MAX;
    let step = if seekable { FRAME_LEN } else { decoded_len.max(1) };
    let count = decoded_len.div_ceil(step).max(1);
    let lens = (0..count).map(move |i| step.min(decoded_len - i * step));
    (lens, seekable)
}
