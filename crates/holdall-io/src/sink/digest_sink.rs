//! A sink that computes a digest.

use super::Sink;
use crate::source::ByteSource;
use holdall_core::model::Hasher;
use holdall_core::{Algorithm, Digest, Result};
use std::sync::Arc;

/// A sink that computes the digest of everything appended to it, so that it need not be read again.
pub struct DigestSink<S> {
    sink: S,
    hasher: Hasher,
}

impl<S: Sink> DigestSink<S> {
    /// Creates a sink that passes everything to `sink`, which must be empty.
    pub fn new(sink: S, algorithm: Algorithm) -> DigestSink<S> {
        DigestSink { sink, hasher: Hasher::new(algorithm) }
    }
}

impl<S: Sink> Sink for DigestSink<S> {
    type Done = (S::Done, Digest);

    fn len(&self) -> u64 {
        self.sink.len()
    }

    fn expect(&mut self, bytes: u64) {
        self.sink.expect(bytes);
    }

    fn reserve(&mut self, bytes: u64) -> Result<()> {
        self.sink.reserve(bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.sink.append(bytes)
    }

    fn fill(&mut self, len: u64, read: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        let DigestSink { sink, hasher } = self;
        sink.fill(len, &mut |memory| {
            read(memory)?;
            hasher.update(memory);
            Ok(())
        })
    }

    fn read_back(&mut self) -> Result<Option<Arc<dyn ByteSource>>> {
        self.sink.read_back()
    }

    fn finish(self) -> Result<Self::Done> {
        Ok((self.sink.finish()?, self.hasher.finish()))
    }
}
