//! Functions of systems that lack what they are for: the caller takes the way that works everywhere.
#![allow(dead_code, unreachable_pub)] // A system takes those that it lacks.

use super::CachedRead;
use memmap2::{Mmap, MmapMut};
use std::fs::File;
use std::io::{self, ErrorKind::Unsupported};
use std::ops::Range;
use std::path::Path;

/// Returns `None`: there are no reads that bypass the system's page cache.
pub fn open_direct(_: &Path) -> Option<File> {
    None
}

/// Returns `false`: there are no writes that bypass the page cache.
pub fn set_direct(_: &File, _: bool) -> bool {
    false
}

/// Does nothing: there are no hints about reads.
pub fn fetch_ahead(_: &File, _: Range<u64>) {}

/// Returns [`CachedRead::Unsupported`]: nothing tells whether a read waits for the disk.
pub fn read_cached(_: &File, _: &mut [u8], _: u64) -> CachedRead {
    CachedRead::Unsupported
}

/// Succeeds: nothing reserves space.
pub fn reserve(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

/// Returns `None`: there are no unnamed files.
pub fn nameless(_: &Path) -> Option<File> {
    None
}

/// Returns an error: there are no unnamed files.
pub fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(Unsupported.into())
}

/// Returns `false`: nothing exchanges two folders.
pub fn exchange(_: &Path, _: &Path) -> bool {
    false
}

/// Returns an error: nothing is inserted into a file.
pub fn insert_range(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(Unsupported.into())
}

/// Returns an error: nothing was inserted.
pub fn collapse_range(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(Unsupported.into())
}

/// Returns an error: zeros must be written.
pub fn punch_hole(_: &File, _: Range<u64>) -> io::Result<()> {
    Err(Unsupported.into())
}

/// Does nothing: pages are mapped as they are touched.
pub fn populate(_: &Mmap, _: Range<usize>) {}

/// Does nothing: the system chooses the pages.
pub fn use_huge_pages(_: &MmapMut, _: usize) {}
