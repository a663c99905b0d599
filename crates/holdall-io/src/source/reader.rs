//! A source as a stream.

use super::ByteSource;
use bytes::Bytes;
use std::io::{self, Read};
use std::sync::Arc;

/// The number of bytes fetched at a time.
const PIECE: u64 = 1 << 20;

/// A reader of the bytes of a source, in order.
pub struct SourceReader {
    source: Arc<dyn ByteSource>,
    /// The offset after the fetched bytes.
    offset: u64,
    /// Bytes that were fetched and not read yet.
    piece: Bytes,
}

impl SourceReader {
    /// Creates a reader that begins at the start of `source`.
    pub fn new(source: Arc<dyn ByteSource>) -> SourceReader {
        SourceReader { source, offset: 0, piece: Bytes::new() }
    }
}

impl Read for SourceReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let end = self.source.len().min(self.offset.saturating_add(PIECE));
        if self.piece.is_empty() && !out.is_empty() && self.offset < end {
            let piece = self.source.read_range(self.offset..end);
            (self.piece, self.offset) = (piece.map_err(io::Error::other)?, end);
        }
        let count = self.piece.len().min(out.len());
        out[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}
