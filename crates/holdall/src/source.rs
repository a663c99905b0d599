//! Where bytes come from.

#[cfg(feature = "http")]
pub use holdall_io::source::HttpSource;
#[cfg(feature = "quic")]
pub use holdall_io::source::QuicSource;
pub use holdall_io::source::{
    Access, ByteSource, FileSource, Local, MapSource, MemorySource, OUTSIDE, SliceSource,
    SourceReader, Terms, check_range,
};
