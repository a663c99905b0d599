//! Writing bytes in memory to a new file.

use super::digest::crc32c;
use super::memory::HugeMemory;
use anyhow::{Result, ensure};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

const PIECE: usize = 8 << 20;
/// Small enough that the bytes are still in the caches when they are summed.
const COPIED: u64 = 1 << 20;

/// Writes by `fallocate`, then `write` in 8 MB pieces through the page cache.
pub fn buffered(path: &Path, bytes: &[u8]) -> Result<File> {
    let mut file = File::create_new(path)?;
    allocate(&file, bytes.len())?;
    for piece in bytes.chunks(PIECE) {
        file.write_all(piece)?;
    }
    Ok(file)
}

/// As [`buffered`], while another thread computes the CRC-32C of the same bytes.
pub fn buffered_summed(path: &Path, bytes: &[u8]) -> Result<File> {
    std::thread::scope(|scope| {
        let sum = scope.spawn(|| black_box(crc32c(bytes)));
        let file = buffered(path, bytes);
        ensure!(sum.join().is_ok(), "the thread that sums panicked");
        file
    })
}

/// As [`buffered`], followed by `fsync`.
pub fn buffered_synced(path: &Path, bytes: &[u8]) -> Result<File> {
    let file = buffered(path, bytes)?;
    file.sync_all()?;
    Ok(file)
}

/// Writes by `fallocate`, `pwrite` with `O_DIRECT` in 8 MB pieces on `threads` threads, then `fsync`.
pub fn direct_synced(path: &Path, bytes: &HugeMemory, threads: usize) -> Result<File> {
    direct(path, bytes, threads, |file, piece, at| file.write_all_at(piece, at))
}

/// As [`direct_synced`], but each piece is first copied into aligned memory and summed there (CRC-32C), as is necessary
/// for bytes at any address.
pub fn direct_copied_synced(path: &Path, bytes: &HugeMemory, threads: usize) -> Result<File> {
    direct(path, bytes, threads, |file, piece, at| {
        thread_local! {
            static COPY: RefCell<HugeMemory> = RefCell::new(HugeMemory::new(PIECE));
        }
        COPY.with_borrow_mut(|copy| {
            let copy = &mut copy[..piece.len()];
            copy.copy_from_slice(piece);
            black_box(crc32c(copy));
            file.write_all_at(copy, at)
        })
    })
}

fn direct(
    path: &Path,
    bytes: &HugeMemory,
    threads: usize,
    write: impl Fn(&File, &[u8], u64) -> io::Result<()> + Sync,
) -> Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).custom_flags(libc::O_DIRECT).open(path)?;
    allocate(&file, bytes.len())?;
    super::in_pieces(bytes.len() as u64, PIECE as u64, threads, |range| {
        let len = (range.end - range.start).next_multiple_of(4096) as usize;
        // SAFETY: the memory extends to the next multiple of 2 MB.
        let piece = unsafe { std::slice::from_raw_parts(bytes.at(range.start), len) };
        write(&file, piece, range.start)
    })?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()?;
    Ok(file)
}

/// Copies a file through memory in pieces of 1 MB on `threads` threads. Each piece is summed in memory (CRC-32C).
pub fn copy_summed(from: &Path, to: &Path, threads: usize) -> Result<File> {
    let source = File::open(from)?;
    let len = source.metadata()?.len();
    let file = File::create_new(to)?;
    allocate(&file, len as usize)?;
    super::in_pieces(len, COPIED, threads, |range| {
        thread_local! {
            static COPY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        COPY.with_borrow_mut(|copy| {
            copy.resize((range.end - range.start) as usize, 0);
            source.read_exact_at(copy, range.start)?;
            black_box(crc32c(copy));
            file.write_all_at(copy, range.start)
        })
    })?;
    Ok(file)
}

fn allocate(file: &File, len: usize) -> Result<()> {
    // SAFETY: a plain system call on an open descriptor.
    let status = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len as i64) };
    ensure!(status == 0, "fallocate: {}", io::Error::last_os_error());
    Ok(())
}
