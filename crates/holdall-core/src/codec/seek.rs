//! Components of several frames, each of which decodes alone, and tables of where those are.

use crate::error::Result;
use std::ops::Range;

/// Decoded bytes of one frame of a component that is stored as many: a slice of a tensor costs the
/// decoding of the frames it lies in.
pub const FRAME_LEN: u64 = 1 << 20;
/// Components up to this many decoded bytes are one frame without a table.
pub const SINGLE_FRAME_MAX: u64 = 4 << 20;

/// The form in which a codec stores where frames are: a table at the end of a component, whose last bytes tell how long it is.
/// Decoders of the component as a whole pass over it.
pub trait SeekFormat: Send + Sync {
    /// How many bytes at the end of a table tell its length.
    fn footer_len(&self) -> u64;

    /// Returns the length of the table, in bytes, that `end` ends with, the last bytes of a component of `stored_len`, as many
    /// as [`SeekFormat::footer_len`] says or more. `None` if they end no table, or one longer than the component.
    fn table_len(&self, end: &[u8], stored_len: u64) -> Option<u64>;

    /// Reads a table. `None` if it does not describe exactly these stored and decoded lengths: the component is then decoded
    /// from its start.
    fn read_table(&self, table: &[u8], stored_len: u64, decoded_len: u64) -> Option<SeekTable>;

    /// Returns the table of frames of these stored and decoded lengths, in order.
    ///
    /// # Errors
    /// The table has no room for so many frames, or for such long ones.
    fn write_table(&self, frames: &[(u64, u64)]) -> Result<Vec<u8>>;
}

/// One frame of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its bytes, relative to the start of the component's stored bytes.
    pub stored: Range<u64>,
    /// What it decodes to, relative to the start of the component's decoded bytes.
    pub decoded: Range<u64>,
}

/// Where the frames of a component are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeekTable {
    frames: Vec<Frame>,
}

impl SeekTable {
    /// Frames of these stored and decoded lengths, in order. `None` if they are not exactly `stored_len` and `decoded_len`
    /// bytes together.
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

/// Returns the lengths of the frames that a component of `decoded_len` bytes is cut into, if its codec has frames, and whether
/// a table follows.
pub fn frame_lens(decoded_len: u64) -> (impl Iterator<Item = u64>, bool) {
    let seekable = decoded_len > SINGLE_FRAME_MAX;
    let step = if seekable { FRAME_LEN } else { decoded_len.max(1) };
    let count = decoded_len.div_ceil(step).max(1);
    let lens = (0..count).map(move |i| step.min(decoded_len - i * step));
    (lens, seekable)
}
