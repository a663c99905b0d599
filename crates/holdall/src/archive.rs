//! What tar archives and zips contain.

pub use holdall_io::archive::{ArchiveContents, ArchiveEntry, contents};
