//! A sink for any `io::Write`: a pipe, a socket, a vector.

use super::Sink;
use crate::error::io;
use holdall_core::Result;
use std::io::Write;

/// A sink that writes to an [`io::Write`](std::io::Write). It cannot remove bytes again: those written before an error
/// stay written.
#[derive(Debug)]
pub struct StreamSink<W> {
    to: W,
    len: u64,
}

impl<W: Write> StreamSink<W> {
    /// Creates a sink that writes to `to`.
    pub fn new(to: W) -> StreamSink<W> {
        StreamSink { to, len: 0 }
    }
}

impl<W: Write> Sink for StreamSink<W> {
    type Done = W;

    fn len(&self) -> u64 {
        self.len
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.len += bytes.len() as u64;
        self.to.write_all(bytes).map_err(|e| io(e, "writing").in_source("the output"))
    }

    fn finish(mut self) -> Result<W> {
        self.to.flush().map_err(|e| io(e, "writing").in_source("the output"))?;
        Ok(self.to)
    }
}
