//! Targets of written bytes.

pub use holdall_io::sink::{Durability, FileSink, Sink, StreamSink};
