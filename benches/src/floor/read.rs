//! Reading a file into fresh memory, and touching a map of it.

use super::memory::HugeMemory;
use super::{cores, in_pieces};
use anyhow::{Result, ensure};
use memmap2::Mmap;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const BUFFERED_PIECE: u64 = 4 << 20;
const DIRECT_PIECE: u64 = 2 << 20;

/// Reads the whole file by `pread` in 4 MB pieces on all cores.
pub fn buffered(path: &Path) -> Result<HugeMemory> {
    read(File::open(path)?, BUFFERED_PIECE, cores())
}

/// Reads the whole file without the page cache, by `pread` in 2 MB pieces with `O_DIRECT` on `threads` threads.
pub fn direct(path: &Path, threads: usize) -> Result<HugeMemory> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)?;
    read(file, DIRECT_PIECE, threads)
}

fn read(file: File, piece: u64, threads: usize) -> Result<HugeMemory> {
    let len = file.metadata()?.len();
    let memory = HugeMemory::new(len as usize);
    in_pieces(len, piece, threads, |range| {
        let mut at = range.start;
        while at < range.end {
            // A direct read requests a multiple of the block size and returns the rest of the file.
            let want = (range.end - at).next_multiple_of(4096);
            // SAFETY: the memory extends to the next multiple of 2 MB, and pieces do not overlap.
            let got = unsafe {
                libc::pread(file.as_raw_fd(), memory.at(at).cast(), want as usize, at as i64)
            };
            match got {
                ..0 => return Err(io::Error::last_os_error()),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                got => at += got as u64,
            }
        }
        Ok(())
    })?;
    Ok(memory)
}

/// Reads `len` bytes from `offset` by one `pread`.
pub fn range(path: &Path, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    std::os::unix::fs::FileExt::read_exact_at(&File::open(path)?, &mut bytes, offset)?;
    Ok(bytes)
}

/// Maps the file and reads one byte of every page.
pub fn touch_map(path: &Path) -> Result<Mmap> {
    let map = map(path)?;
    black_box(touch(&map));
    Ok(map)
}

/// Maps the whole file for reading.
pub fn map(path: &Path) -> Result<Mmap> {
    let file = File::open(path)?;
    ensure!(file.metadata()?.len() > 0, "{} is empty", path.display());
    // SAFETY: the file belongs to the benchmark, and is not shortened while the map exists.
    Ok(unsafe { Mmap::map(&file)? })
}

/// Returns the sum of one byte of every 4 KB of `bytes`.
pub fn touch(bytes: &[u8]) -> u64 {
    bytes.iter().step_by(4096).map(|b| u64::from(*b)).sum()
}
