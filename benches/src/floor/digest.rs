//! Reading all mapped bytes, and hashing them.

use super::read::map;
use super::{cores, in_pieces};
use crate::workload::sum_words;
use anyhow::Result;
use sha2::Digest;
use std::convert::Infallible;
use std::hint::black_box;
use std::path::Path;

const PIECE: u64 = 4 << 20;

/// Maps the file and sums its bytes on all cores: an upper bound for the speed of any check.
pub fn sum_on_all_cores(path: &Path) -> Result<()> {
    let map = map(path)?;
    let done = in_pieces(map.len() as u64, PIECE, cores(), |range| {
        black_box(sum_words(&map[range.start as usize..range.end as usize]));
        Ok::<(), Infallible>(())
    });
    match done {
        Ok(()) => Ok(()),
    }
}

/// Returns the CRC-32C of `bytes`, computed by the crate that Holdall uses.
pub fn crc32c(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes)
}

/// Returns the SHA-256 of `bytes`, computed by the `sha2` crate on one thread.
pub fn sha2_stream(bytes: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(bytes).into()
}

/// Returns the SHA-256 of `bytes`, computed by the `ring` crate on one thread.
pub fn ring_stream(bytes: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().try_into().unwrap_or_default()
}
