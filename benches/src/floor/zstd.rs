//! The zstd library by itself.

use super::memory::HugeMemory;
use super::{cores, in_pieces};
use anyhow::{Result, ensure};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// One component of a file: its stored bytes, and how many they decode to.
#[derive(Debug, Clone, Copy)]
pub struct Stored {
    pub offset: usize,
    pub len: usize,
    pub decoded_len: usize,
}

/// Decodes all `parts` of `file`, which is in memory, on one thread, one after the other into `memory`,
/// which is there already.
pub fn decode_into(file: &[u8], parts: &[Stored], memory: &mut [u8]) -> Result<()> {
    let mut decoder = zstd::bulk::Decompressor::new()?;
    let mut at = 0;
    for part in parts {
        let room = &mut memory[at..at + part.decoded_len];
        let got = decoder.decompress_to_buffer(&file[part.offset..part.offset + part.len], room)?;
        ensure!(got == part.decoded_len, "decoded {got} of {} bytes", part.decoded_len);
        at += part.decoded_len;
    }
    Ok(())
}

/// Memory of `len` bytes with every page of it there.
pub fn ready_memory(len: usize) -> HugeMemory {
    let mut memory = HugeMemory::new(len);
    memory.fill(1);
    memory
}

/// Compresses the whole file in independent pieces of 2 MB at `level` on all cores; the result is
/// counted and thrown away.
pub fn compress_on_all_cores(path: &Path, level: i32) -> Result<u64> {
    let map = super::read::map(path)?;
    let total = AtomicU64::new(0);
    in_pieces(map.len() as u64, 2 << 20, cores(), |range| {
        let piece = &map[range.start as usize..range.end as usize];
        let stored = zstd::bulk::compress(piece, level)?;
        total.fetch_add(stored.len() as u64, Ordering::Relaxed);
        Ok::<(), io::Error>(())
    })?;
    Ok(total.into_inner())
}
