//! Linux.

use super::CachedRead;
use super::remote::is_remote_number;
use memmap2::{Advice, Mmap, MmapMut};
use rustix::fs::{
    Advice as FileAdvice, AtFlags, CWD, FallocateFlags, OFlags, RenameFlags, fadvise, fallocate,
    fcntl_getfl, fcntl_setfl, fstatfs, linkat, renameat_with,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

pub use super::unix::*;

/// Returns `true` if the file is on a network file system, or one in user space (FUSE).
pub fn is_remote(file: &File, _: &Path) -> bool {
    // The field's width and sign differ between targets; its low 32 bits are the number.
    fstatfs(file).is_ok_and(|found| is_remote_number(found.f_type as u32))
}

/// Opens the file at `path` a second time, for reads that bypass the system's page cache.
pub fn open_direct(path: &Path) -> Option<File> {
    File::options().read(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path).ok()
}

/// Turns writes that bypass the page cache on or off. Returns `true` on success.
pub fn set_direct(file: &File, on: bool) -> bool {
    let Ok(flags) = fcntl_getfl(file) else { return false };
    let wanted = if on { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
    wanted == flags || fcntl_setfl(file, wanted).is_ok()
}

/// Tells the system that the range will be read soon. Only a hint.
pub fn fetch_ahead(file: &File, range: Range<u64>) {
    if let Some(len) = NonZero::new(range.end.saturating_sub(range.start)) {
        let _ = fadvise(file, range.start, Some(len), FileAdvice::WillNeed);
    }
}

/// Reads bytes at `offset` if that does not have to wait for the disk.
pub fn read_cached(file: &File, out: &mut [u8], offset: u64) -> CachedRead {
    match preadv2(file, &mut [IoSliceMut::new(out)], offset, ReadWriteFlags::NOWAIT) {
        Ok(read) => CachedRead::Read(read),
        Err(Errno::AGAIN) => CachedRead::Waits,
        Err(_) => CachedRead::Unsupported,
    }
}

/// Reserves space for a file of this length. File systems that cannot reserve still write.
///
/// # Errors
/// Returns an error if there is not enough space.
pub fn reserve(file: &File, len: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, len) {
        Err(e @ (Errno::NOSPC | Errno::FBIG | Errno::DQUOT)) => Err(e.into()),
        _ => Ok(()),
    }
}

/// Creates an unnamed file, if the file system has them.
pub fn nameless(folder: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE.bits().cast_signed();
    File::options().read(true).write(true).custom_flags(flags).mode(0o666).open(folder).ok()
}

/// Gives an unnamed file a name, at which there must be no file.
pub fn link(file: &File, name: &Path) -> io::Result<()> {
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, &source, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// Exchanges two files or folders in one step. Returns `false` if the file system cannot.
pub fn exchange(one: &Path, other: &Path) -> bool {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

/// Inserts `len` bytes into a file at `offset`, both multiples of a block, without moving bytes on the disk.
pub fn insert_range(file: &File, offset: u64, len: u64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::INSERT_RANGE, offset, len)?)
}

/// Removes what [`insert_range`] inserted.
pub fn collapse_range(file: &File, offset: u64, len: u64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::COLLAPSE_RANGE, offset, len)?)
}

/// Replaces a range of a file by zeros that take no space.
pub fn punch_hole(file: &File, range: Range<u64>) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, flags, range.start, range.end - range.start)?)
}

/// Maps the pages of a range in one step. Without support for that, they are mapped as they are touched.
pub fn populate(map: &Mmap, range: Range<usize>) {
    let _ = map.advise_range(Advice::PopulateRead, range.start, range.end - range.start);
}

/// Asks for huge pages in the first `len` bytes. Only advice: a kernel without them refuses it.
pub fn use_huge_pages(map: &MmapMut, len: usize) {
    let _ = map.advise_range(Advice::HugePage, 0, len);
}

/// Returns the system's folder for caches. `env` looks up environment variables, of which those that are not absolute
/// paths are to be ignored.
pub fn cache_folder(env: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .map(|caches| caches.join("holdall"))
}
