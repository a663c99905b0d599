//! Where bytes come from.

#[cfg(feature = "http")]
pub use holdall_io::source::HttpSource;
pub use holdall_io::source::{
    Access, ByteSource, FileSource, Local, MapSource, MemorySource, OUTSIDE, SliceSource, Terms,
};
