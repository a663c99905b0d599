//! Comparing a file of a package with its checksums.

use super::origin::{on_disk, pieces_of};
use super::{FileBytes, PackageFile, PackageReader};
use crate::executor::Pieces;
use crate::work::Work;
use holdall_core::{Component, Encoding, Result};
use holdall_package::FileHasher;

impl PackageReader {
    /// Reads all bytes of a file, compares them with its SHA-256 and its CRC-32, and returns the number of stored
    /// bytes.
    ///
    /// # Errors
    /// Returns an `Integrity` error if they differ; an `Io` error.
    pub fn check_file(&self, file: &PackageFile, work: &Work) -> Result<u64> {
        let mut hasher = FileHasher::default();
        self.check_descriptor(file)?;
        let (read, crc) = match self.locate(file)? {
            FileBytes::Zip(stored) => {
                let limits = self.limits();
                add_all(stored.pieces(limits)?, &mut hasher, work)?;
                (stored.component.stored_len(), Some(stored.crc))
            }
            FileBytes::Disk(path) => {
                let source = self.source_of(&path)?;
                let len = on_disk(&path)?.0.min(source.len());
                let all = Component::for_bytes((0..len).into(), Encoding::Raw, len);
                add_all(pieces_of(source, all, self.limits())?, &mut hasher, work)?;
                (len, None)
            }
        };
        hasher.check(&file.path, file.sha256, crc).map(|()| read)
    }
}

/// Adds all pieces to the hashes.
fn add_all(pieces: Pieces, hasher: &mut FileHasher, work: &Work) -> Result<()> {
    for piece in pieces {
        let piece = piece?;
        hasher.update(&piece);
        work.advance(piece.len() as u64)?;
    }
    Ok(())
}
