//! macOS. `File::sync_all` flushes the disk's own cache there (`F_FULLFSYNC`), and `std::fs::copy` clones files (`fclonefileat`).

use super::remote::is_remote_name;
use rustix::fs::{CWD, RenameFlags, fcntl_nocache, fcntl_rdadvise, fstatfs, renameat_with};
use std::ffi::OsString;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use super::unix::*;

pub use super::absent::{
    collapse_range, insert_range, link, nameless, populate, punch_hole, read_cached, reserve,
    use_huge_pages,
};

/// Returns `true` if the file is on a network file system, or one in user space (FUSE).
pub fn is_remote(file: &File, _: &Path) -> bool {
    const MNT_LOCAL: u32 = 0x1000;
    fstatfs(file).is_ok_and(|found| {
        let name: String = found
            .f_fstypename
            .iter()
            .map(|c| char::from(c.cast_unsigned()))
            .take_while(|c| *c != '\0')
            .collect();
        is_remote_name(&name, found.f_flags & MNT_LOCAL != 0)
    })
}

/// Opens the file at `path` a second time, for reads that bypass the system's page cache.
pub fn open_direct(path: &Path) -> Option<File> {
    File::open(path).ok().filter(|file| set_direct(file, true))
}

/// Turns reads and writes that bypass the page cache on or off. Returns `true` on success.
pub fn set_direct(file: &File, on: bool) -> bool {
    fcntl_nocache(file, on).is_ok()
}

/// Tells the system that the range will be read soon. Only a hint.
pub fn fetch_ahead(file: &File, range: Range<u64>) {
    let _ = fcntl_rdadvise(file, range.start, range.end.saturating_sub(range.start));
}

/// Exchanges two files or folders in one step. Returns `false` if the file system cannot.
pub fn exchange(one: &Path, other: &Path) -> bool {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

/// Returns the system's folder for caches. `env` looks up environment variables, of which those that are not absolute
/// paths are to be ignored.
pub fn cache_folder(env: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let home = env("HOME").map(PathBuf::from).filter(|path| path.is_absolute())?;
    Some(home.join("Library/Caches/holdall"))
}
