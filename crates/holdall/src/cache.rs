//! The on-disk cache of blocks of remote files (web servers and object stores).

pub use holdall_io::cache::BlockCache;
