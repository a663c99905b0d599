//! What reading from a source costs.

/// What a source says of itself, so that reads are cut to fit it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadHints {
    /// Whether reading copies.
    pub access: Access,
    /// Bytes that it is good to read at a time: longer runs are cut into reads of so many, and neighbours
    /// are put together into reads of up to so many.
    pub piece: u64,
    /// Two ranges so many bytes apart, or fewer, are read as one: the bytes between them cost less than
    /// another read.
    pub gap: u64,
    /// Reads that are under way at the same time, where more than one is good for one thread that waits.
    pub at_once: usize,
}

/// Whether reading copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Ranges are handed out as they lie in memory; nothing is read until they are touched.
    Borrowed,
    /// Every read copies.
    Copied,
}

impl ReadHints {
    /// Bytes that lie in memory or are mapped: nothing is copied.
    pub const MEMORY: ReadHints =
        ReadHints { access: Access::Borrowed, piece: 2 << 20, gap: 16 << 10, at_once: 1 };
    /// A file of a local disk, read by position.
    pub const DISK: ReadHints =
        ReadHints { access: Access::Copied, piece: 2 << 20, gap: 16 << 10, at_once: 1 };
    /// Something far away, where a read waits for a round trip: few large reads, several at once.
    pub const REMOTE: ReadHints =
        ReadHints { access: Access::Copied, piece: 8 << 20, gap: 64 << 10, at_once: 4 };

    /// Reads that are under way at the same time where what has come waits in memory for what comes before it.
    pub fn in_order(&self) -> usize {
        self.at_once.clamp(1, ReadHints::REMOTE.at_once)
    }

    /// Whether a read waits so long that fewer of them are worth decoding on fewer threads.
    pub fn is_remote(&self) -> bool {
        self.at_once > 1
    }
}
