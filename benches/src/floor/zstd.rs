//! The zstd library alone.

use super::memory::HugeMemory;
use super::{cores, in_pieces};
use anyhow::{Result, ensure};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A component of a file: its stored bytes, and its decoded length.
#[derive(Debug, Clone, Copy)]
pub struct Stored {
    pub offset: usize,
    pub len: usize,
    pub decoded_len: usize,
}

/// Decodes all `parts` of `file`, which is in memory, one after the other on one thread, into the existing `memory`.
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

/// Returns the frames of a component that ends in a seek table, with offsets in the file.
pub fn frames(path: &Path, component: Stored) -> Result<Vec<Stored>> {
    let file = File::open(path)?;
    let end = (component.offset + component.len) as u64;
    let mut footer = [0; 9];
    file.read_exact_at(&mut footer, end - 9)?;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, b| n << 8 | *b as usize);
    ensure!(word(&footer[5..]) == 0x8f92_eab1, "no seek table");
    let width = if footer[4] & 0x80 == 0 { 8 } else { 12 };
    let mut rows = vec![0; width * word(&footer[..4])];
    let start = end - 9 - rows.len() as u64;
    file.read_exact_at(&mut rows, start)?;
    let mut offset = component.offset;
    let frame = |row: &[u8]| {
        let (len, decoded_len) = (word(&row[..4]), word(&row[4..8]));
        offset += len;
        Stored { offset: offset - len, len, decoded_len }
    };
    Ok(rows.chunks(width).map(frame).collect())
}

/// Decodes the bytes `wanted` of a component with these frames, and reads only the frames that contain them.
pub fn decode_range(path: &Path, frames: &[Stored], wanted: Range<usize>) -> Result<Vec<u8>> {
    let (mut at, mut first) = (0, None);
    let (mut stored, mut decoded) = (0..0, 0);
    for frame in frames {
        if at + frame.decoded_len > wanted.start && at < wanted.end {
            first.get_or_insert(at);
            stored = if stored.is_empty() { frame.offset } else { stored.start }
                ..frame.offset + frame.len;
            decoded += frame.decoded_len;
        }
        at += frame.decoded_len;
    }
    let bytes = super::read::range(path, stored.start as u64, stored.len())?;
    let decoded = zstd::bulk::decompress(&bytes, decoded)?;
    let start = wanted.start - first.unwrap_or(0);
    Ok(decoded[start..start + wanted.len()].to_vec())
}

/// Returns `len` bytes of memory with all pages allocated.
pub fn ready_memory(len: usize) -> HugeMemory {
    let mut memory = HugeMemory::new(len);
    memory.fill(1);
    memory
}

/// Compresses the whole file in independent pieces of 2 MB at `level` on all cores, and discards the output. Returns
/// its length.
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
