//! The contents of tar and zip archives.

pub use holdall_io::archive::{ArchiveContents, ArchiveEntry, contents};
