//! Blocks of files on web servers and in object stores, kept on the disk.

pub use holdall_io::cache::BlockCache;
