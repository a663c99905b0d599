//! The costs of reading from a source.

/// Properties of a source that determine how reads are sized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadHints {
    /// The way in which a source returns bytes: borrowed or copied.
    pub access: Access,
    /// The preferred length of a read, in bytes: longer runs are split into reads of this length, and neighbours are
    /// merged into reads of up to this length.
    pub piece: u64,
    /// Ranges at most this many bytes apart are merged into one read, because reading the bytes between them costs less
    /// than another read.
    pub gap: u64,
    /// The preferred number of concurrent reads, if a single waiting thread benefits from more than one.
    pub at_once: usize,
}

/// The way in which a source returns bytes: borrowed or copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Ranges are borrowed from memory; nothing is read until they are accessed.
    Borrowed,
    /// Every read copies.
    Copied,
}

impl ReadHints {
    /// Bytes in memory, including memory maps: nothing is copied.
    pub const MEMORY: ReadHints =
        ReadHints { access: Access::Borrowed, piece: 2 << 20, gap: 16 << 10, at_once: 1 };
    /// A file on a local disk, read by position.
    pub const DISK: ReadHints =
        ReadHints { access: Access::Copied, piece: 2 << 20, gap: 16 << 10, at_once: 1 };
    /// A remote source, where each read takes a round trip: few large reads, several at once.
    pub const REMOTE: ReadHints =
        ReadHints { access: Access::Copied, piece: 8 << 20, gap: 64 << 10, at_once: 4 };

    /// Returns the number of concurrent reads when bytes must be used in order, and early ones wait in memory.
    pub fn in_order(&self) -> usize {
        self.at_once.clamp(1, ReadHints::REMOTE.at_once)
    }

    /// Returns `true` if a read takes so long that fewer reads are worth decoding on fewer threads.
    pub fn is_remote(&self) -> bool {
        self.at_once > 1
    }
}
