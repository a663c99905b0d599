//! Checksums of bytes that are not those of one component alone.

use super::{Component, Digest, Encoding};
use crate::read::{Chunked, Extent};
use std::ops::Range;
use std::sync::Arc;

/// A checksum that a file keeps of bytes that several components share, or of which a component is only a part: an entry of a zip, all of
/// a shard. A checksum of exactly one component's bytes is the [digest](Component::digest) of that component instead.
///
/// Loads and ranges do not compare it, because they do not read all bytes that it covers. Verifying does, and so does copying a component
/// that has no digest of its own.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Checksum {
    /// The file's name for these bytes.
    pub name: String,
    /// The bytes, and their digest.
    pub bytes: Component,
}

impl Checksum {
    /// A checksum of these bytes of a source, which are stored as they are.
    pub fn new(name: impl Into<String>, stored: Extent, digest: Digest) -> Checksum {
        let mut bytes = Component::of_bytes(stored, Encoding::Raw, stored.len());
        bytes.digest = Some(digest);
        Checksum { name: name.into(), bytes }
    }

    /// Where its bytes are.
    pub fn stored(&self) -> Extent {
        self.bytes.stored
    }

    /// Whether it covers stored bytes of this component, whose chunks, if it is put together of some, are among `chunked`.
    pub fn covers(&self, c: &Component, chunked: &[Arc<Chunked>]) -> bool {
        match c.stored.chunked() {
            None => self.overlaps(c.stored),
            Some(number) => chunked.get(number).is_some_and(|array| {
                array.chunks().iter().any(|chunk| self.overlaps(chunk.stored))
            }),
        }
    }

    fn overlaps(&self, stored: Extent) -> bool {
        let Range { start, end } = self.bytes.stored.range();
        stored.source == self.bytes.stored.source && stored.start < end && start < stored.end
    }
}
