//! Computes SHA-256 and CRC-32 of a file of a package in one pass.

use crate::contents::wrong_hash;
use holdall_core::codec::crc::Crc32;
use holdall_core::error::{Escape as _, Result};
use holdall_core::model::{Algorithm, Digest, Hasher};
use holdall_core::wire::zip::CRC32;

/// Computes the sums that are compared with `MANIFEST` and the zip.
pub struct FileHasher {
    hasher: Hasher,
    crc: Crc32,
}

impl Default for FileHasher {
    fn default() -> FileHasher {
        FileHasher { hasher: Hasher::new(Algorithm::Sha256), crc: Crc32::zip() }
    }
}

impl FileHasher {
    /// Adds the next decoded bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        // In pieces that stay in the processor's cache for the second hash.
        for piece in bytes.chunks(64 << 10) {
            self.crc.update(piece);
            self.hasher.update(piece);
        }
    }

    /// Returns the SHA-256 and the CRC-32.
    pub fn finish(self) -> ([u8; 32], u32) {
        (hash_of(self.hasher), self.crc.value())
    }

    /// Compares the sums with those in `MANIFEST` and in the zip for the file at `path`, if they are given.
    ///
    /// # Errors
    /// Returns [`crate::rules::HASH`], [`CRC32`].
    pub fn check(self, path: &str, sha256: Option<[u8; 32]>, crc: Option<u32>) -> Result<()> {
        let (hash, found) = self.finish();
        if let Some(expected) = sha256.filter(|expected| *expected != hash) {
            return Err(wrong_hash(path, &expected, &hash));
        }
        match crc.filter(|expected| *expected != found) {
            Some(expected) => Err(CRC32.broken(format!(
                "the CRC-32 of `{}` is {found:#010x}, the zip says {expected:#010x}",
                path.escaped()
            ))),
            None => Ok(()),
        }
    }
}

/// Returns the result of a hasher for SHA-256.
pub fn hash_of(hasher: Hasher) -> [u8; 32] {
    match hasher.finish() {
        Digest::Sha256(hash) => hash,
        _ => [0; 32],
    }
}
