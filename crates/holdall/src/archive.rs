//! What tar archives and zips contain.

pub use holdall_io::archive::{Contained, Contents, contents};
