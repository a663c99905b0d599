//! Sources of bytes.

#[cfg(feature = "http")]
pub use holdall_io::source::HttpSource;
#[cfg(feature = "quic")]
pub use holdall_io::source::QuicSource;
pub use holdall_io::source::{
    Access, ByteSource, FileSource, LocalFile, MapSource, Mapped, MemorySource, OUTSIDE, ReadHints,
    SliceSource, SourceReader, check_range, mapped_or_read,
};
