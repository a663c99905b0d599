//! Temporary folders, which go however the program ends.

pub use holdall_io::temporary::remove_all;
