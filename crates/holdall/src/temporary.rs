//! Temporary folders that are removed however the program ends.

pub use holdall_io::temporary::remove_all;
