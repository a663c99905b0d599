//! Windows. A file that is open is shared as its opener says: how a handle shares its file is the lock that shows other
//! processes that the file is in use. (Locks of ranges would make reads through other handles fail.)

use super::names::Names;
use super::remote::is_remote_path;
use super::{FileId, HeldFolder};
use std::ffi::OsString;
use std::fs::{DirBuilder, File, FileType, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::windows::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::{Builder, NamedTempFile};

pub use super::absent::{
    collapse_range, exchange, fetch_ahead, insert_range, link, nameless, populate, punch_hole,
    read_cached, reserve, set_direct, use_huge_pages,
};
pub use std::os::windows::fs::symlink_file as make_link;

/// The system's rules for the names of files.
pub const NAMES: Names = Names::Windows;

/// Whether a file can be replaced while it is open or mapped, by this process or another one. Windows has this only for
/// some file systems, and never for mapped files.
pub const REPLACES_OPEN_FILES: bool = false;

const FILE_SHARE_READ: u32 = 1;
const FILE_SHARE_WRITE: u32 = 2;
const FILE_SHARE_DELETE: u32 = 4;
const FILE_LIST_DIRECTORY: u32 = 1;
const FILE_ADD_FILE: u32 = 2;
const FILE_FLAG_NO_BUFFERING: u32 = 0x2000_0000;
const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
const ERROR_ACCESS_DENIED: i32 = 5;
const ERROR_SHARING_VIOLATION: i32 = 32;
const ERROR_LOCK_VIOLATION: i32 = 33;
const ERROR_USER_MAPPED_FILE: i32 = 1224;
const ERROR_PRIVILEGE_NOT_HELD: i32 = 1314;

/// How long to wait before each further attempt to replace a file that is in use: virus scanners and indexers open new
/// files for an instant.
const WAITS: [Duration; 6] = [
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// Returns the length of a page in bytes, which is the same on x86-64 and ARM: what mappings are made of, and to what
/// reads past the cache are aligned.
pub fn page_size() -> usize {
    4096
}

/// Returns `None`: metadata does not have it.
pub fn file_id(_: &Metadata) -> Option<FileId> {
    None
}

/// Returns `true` if there is a file at `path`. Which one is not known.
pub fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Fills `out` with the bytes at `offset`.
pub fn read_exact_at(file: &File, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !out.is_empty() {
        match file.seek_read(out, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => (out, offset) = (&mut out[n..], offset + n as u64),
        }
    }
    Ok(())
}

/// Reads bytes at `offset`. Returns their number.
pub fn read_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(out, offset)
}

/// Writes all bytes at `offset`.
pub fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_write(bytes, offset)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => (bytes, offset) = (&bytes[n..], offset + n as u64),
        }
    }
    Ok(())
}

/// Opens a file for reading and writing by this process alone; others can read it. Returns `None` if another process has it open
/// for writing.
pub fn open_alone(path: &Path) -> io::Result<Option<File>> {
    let opened = File::options().read(true).write(true).share_mode(FILE_SHARE_READ).open(path);
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.raw_os_error() == Some(ERROR_SHARING_VIOLATION) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Creates a file with a temporary name in `folder` that no other process can write to.
pub fn temporary_file(
    builder: &mut Builder<'_, '_>,
    folder: &Path,
) -> io::Result<Option<NamedTempFile>> {
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    options.share_mode(FILE_SHARE_READ | FILE_SHARE_DELETE);
    builder.make_in(folder, |path| options.open(path)).map(Some)
}

/// Opens a folder that will be filled, so that others see that it is in use.
pub fn hold_folder(path: &Path) -> HeldFolder {
    let mut options = File::options();
    options.access_mode(FILE_LIST_DIRECTORY).share_mode(FILE_SHARE_READ | FILE_SHARE_DELETE);
    HeldFolder::Held(options.custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path).ok())
}

/// Opens a temporary file or folder that no process holds. Returns `None` for all others.
pub fn hold_stale(path: &Path, kind: FileType) -> Option<File> {
    let mut options = File::options();
    options.share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE);
    match kind.is_dir() {
        true => options
            .access_mode(FILE_LIST_DIRECTORY | FILE_ADD_FILE)
            .custom_flags(FILE_FLAG_BACKUP_SEMANTICS),
        false if kind.is_file() => options.read(true).write(true),
        false => return None,
    };
    options.open(path).ok()
}

/// Does nothing: the system has no such call for folders.
pub fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Gives a temporary file its name. A file with that name is replaced.
pub fn replace_file(from: NamedTempFile, target: &Path) -> io::Result<()> {
    // The handle is open until the file has its name, so that no other process takes it for a stale one.
    let (_file, path) = from.into_parts();
    rename_over(&path, target)
}

/// Gives a file another name. A file with that name is replaced; if it is in use, tries again for less than half a second.
pub fn rename_over(from: &Path, target: &Path) -> io::Result<()> {
    for wait in WAITS {
        match std::fs::rename(from, target) {
            Err(e) if is_in_use(&e) => std::thread::sleep(wait),
            done => return done,
        }
    }
    std::fs::rename(from, target)
}

/// Returns `true` if the error says that another process, or another part of this one, has the file open.
pub fn is_in_use(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(
            ERROR_ACCESS_DENIED
                | ERROR_SHARING_VIOLATION
                | ERROR_LOCK_VIOLATION
                | ERROR_USER_MAPPED_FILE
        )
    )
}

/// Makes the new file read-only if the one at `target`, which will be replaced, is. Its other permissions are those of the folder.
pub fn copy_access(file: &File, target: &Path) {
    if let Ok(old) = target.metadata() {
        let _ = file.set_permissions(old.permissions());
    }
}

/// Returns `None`: a folder has the permissions of the folder around it.
pub fn default_folder_access(_: &Path) -> io::Result<Option<Permissions>> {
    Ok(None)
}

/// Does nothing: folders of a user's profile are private already.
pub fn make_private_folders(_: &mut DirBuilder) {}

/// Does nothing: files of a user's profile are private already.
pub fn make_private(_: &mut OpenOptions) {}

/// Does nothing: the extension says what can be executed.
pub fn make_executable(_: &mut OpenOptions) {}

/// Returns `false`: the extension says what can be executed.
pub fn is_executable(_: &Path) -> bool {
    false
}

/// Does nothing: read-only files could not be removed again.
pub fn set_read_only(_: &Path, _: &Metadata, _: bool) -> io::Result<()> {
    Ok(())
}

/// Does nothing: read-only files could not be removed again.
pub fn freeze(_: &File) -> io::Result<()> {
    Ok(())
}

/// Returns `true` if the error of [`make_link`] says that this file system or this account has no symbolic links.
pub fn has_no_links(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied)
        || e.raw_os_error() == Some(ERROR_PRIVILEGE_NOT_HELD)
}

/// Does nothing: only accounts with a special right can create symbolic links.
pub fn do_not_follow(_: &mut OpenOptions) {}

/// Returns `true` if the file is on another machine. `path` is where it was opened.
pub fn is_remote(_: &File, path: &Path) -> bool {
    // A drive letter may stand for a share, which the resolved path shows.
    path.canonicalize().is_ok_and(|full| is_remote_path(&full.to_string_lossy()))
}

/// Opens the file at `path` a second time, for reads that bypass the system's cache.
pub fn open_direct(path: &Path) -> Option<File> {
    File::options().read(true).custom_flags(FILE_FLAG_NO_BUFFERING).open(path).ok()
}

/// Returns the system's folder for caches. `env` looks up environment variables, of which those that are not absolute
/// paths are to be ignored.
pub fn cache_folder(env: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let local = env("LOCALAPPDATA").map(PathBuf::from).filter(|path| path.is_absolute())?;
    Some(local.join("holdall").join("cache"))
}
