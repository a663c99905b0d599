//! A source as a stream.

use super::ByteSource;
use bytes::Bytes;
use std::io::{self, Read};
use std::sync::Arc;

/// Bytes that are fetched at a time.
const PIECE: u64 = 1 << 20;

/// The bytes of a source, in order.
pub struct SourceReader {
    source: Arc<dyn ByteSource>,
    /// The position behind what was fetched.
    offset: u64,
    /// What was fetched and not taken.
    piece: Bytes,
}

impl SourceReader {
    /// Returns a reader that begins at the start of `source`.
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
