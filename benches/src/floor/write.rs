//! Writing bytes that are in memory to a new file.

use super::memory::HugeMemory;
use anyhow::{Result, ensure};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

const PIECE: usize = 8 << 20;

/// `fallocate`, then `write` in 8 MB pieces through the page cache.
pub fn buffered(path: &Path, bytes: &[u8]) -> Result<File> {
    let mut file = File::create_new(path)?;
    allocate(&file, bytes.len())?;
    for piece in bytes.chunks(PIECE) {
        file.write_all(piece)?;
    }
    Ok(file)
}

/// [`buffered`], then `fsync`.
pub fn buffered_synced(path: &Path, bytes: &[u8]) -> Result<File> {
    let file = buffered(path, bytes)?;
    file.sync_all()?;
    Ok(file)
}

/// `fallocate`, `pwrite` with `O_DIRECT` of 8 MB pieces on `threads` threads, then `fsync`.
pub fn direct_synced(path: &Path, bytes: &HugeMemory, threads: usize) -> Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).custom_flags(libc::O_DIRECT).open(path)?;
    allocate(&file, bytes.len())?;
    super::in_pieces(bytes.len() as u64, PIECE as u64, threads, |range| {
        let len = (range.end - range.start).next_multiple_of(4096) as usize;
        // SAFETY: the memory has room up to the next multiple of 2 MB.
        let piece = unsafe { std::slice::from_raw_parts(bytes.at(range.start), len) };
        file.write_all_at(piece, range.start)
    })?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()?;
    Ok(file)
}

fn allocate(file: &File, len: usize) -> Result<()> {
    // SAFETY: plain system call on a descriptor that is open.
    let status = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len as i64) };
    ensure!(status == 0, "fallocate: {}", io::Error::last_os_error());
    Ok(())
}
