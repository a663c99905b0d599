//! Where bytes go.

pub use holdall_io::sink::{Durability, FileSink, Sink, StreamSink};
