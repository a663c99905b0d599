//! Removing a file from the page cache, and checking that it is gone.

use anyhow::{Context, Result, ensure};
use memmap2::Mmap;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Makes `path` cold: removes its clean pages from the page cache.
///
/// # Errors
///
/// Returns an error if more than 1 % of the pages remain, because the file is mapped or has dirty pages.
pub fn drop_cache(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    // SAFETY: a plain system call on an open descriptor.
    unsafe {
        libc::fdatasync(file.as_raw_fd());
        libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
    }
    let share = resident(&file)?;
    ensure!(
        share < 0.01,
        "{:.0}% of {} are still in the page cache",
        share * 100.0,
        path.display()
    );
    Ok(())
}

/// Reads the file once, so that it is in the page cache.
pub fn warm_cache(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    if resident(&file)? < 1.0 {
        let mut piece = vec![0; 1 << 20];
        while (&file).read(&mut piece)? > 0 {}
    }
    Ok(())
}

/// Returns the share of the file's pages that are in the page cache.
fn resident(file: &File) -> Result<f64> {
    if file.metadata()?.len() == 0 {
        return Ok(1.0);
    }
    // SAFETY: the file belongs to the benchmark, and is not shortened while the map exists.
    let map = unsafe { Mmap::map(file)? };
    let pages = map.len().div_ceil(4096);
    let mut present = vec![0u8; pages];
    // SAFETY: the range is that of the map, and `present` has one byte per page.
    let status = unsafe { libc::mincore(map.as_ptr() as *mut _, map.len(), present.as_mut_ptr()) };
    ensure!(status == 0, "mincore: {}", std::io::Error::last_os_error());
    Ok(present.iter().filter(|p| **p & 1 == 1).count() as f64 / pages as f64)
}
