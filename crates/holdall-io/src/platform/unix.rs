//! What Unix systems have in common.

use super::names::Names;
use super::{FileId, HeldFolder};
use rustix::fs::{Gid, Uid, fchown};
use std::fs::{DirBuilder, File, FileType, Metadata, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;
use tempfile::{Builder, NamedTempFile};

pub use std::os::unix::fs::symlink as make_link;

/// The system's rules for the names of files.
pub const NAMES: Names = Names::Any;

/// Whether a file can be replaced while it is open or mapped, by this process or another one.
pub const REPLACES_OPEN_FILES: bool = true;

/// Returns the length of a page in bytes: what mappings are made of, and to what reads past the cache are aligned.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// Returns the file system's identity of a file, if the metadata has it.
pub fn file_id(meta: &Metadata) -> Option<FileId> {
    Some((meta.dev(), meta.ino()))
}

/// Returns `true` if the open file is the one at `path`, which is not followed if it is a symbolic link.
pub fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(own), Ok(there)) => file_id(&own) == file_id(&there),
        _ => false,
    }
}

/// Fills `out` with the bytes at `offset`.
pub fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(out, offset)
}

/// Reads bytes at `offset`. Returns their number.
pub fn read_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(out, offset)
}

/// Writes all bytes at `offset`.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Opens a file for reading and writing by this process alone. Returns `None` if another process has it open in this way. On file systems
/// without locks, nothing keeps others out.
pub fn open_alone(path: &Path) -> io::Result<Option<File>> {
    let file = File::options().read(true).write(true).open(path)?;
    Ok(match file.try_lock() {
        Ok(()) | Err(TryLockError::Error(_)) => Some(file),
        Err(TryLockError::WouldBlock) => None,
    })
}

/// Creates a file with a temporary name in `folder`, locked. Returns `None` if another process removed it as stale before it
/// was locked.
pub fn temporary_file(
    builder: &mut Builder<'_, '_>,
    folder: &Path,
) -> io::Result<Option<NamedTempFile>> {
    let file = builder.permissions(Permissions::from_mode(0o666)).tempfile_in(folder)?;
    let is_held = match file.as_file().try_lock() {
        Ok(()) => is_at(file.as_file(), file.path()),
        Err(TryLockError::WouldBlock) => false,
        // Without locks nothing is removed.
        Err(TryLockError::Error(_)) => true,
    };
    Ok(is_held.then_some(file))
}

/// Locks a folder that will be filled.
pub fn hold_folder(path: &Path) -> HeldFolder {
    let Ok(file) = File::open(path) else { return HeldFolder::Gone };
    match file.try_lock() {
        Ok(()) if path.exists() => HeldFolder::Held(Some(file)),
        Ok(()) | Err(TryLockError::WouldBlock) => HeldFolder::Gone,
        // Without locks nothing is removed.
        Err(TryLockError::Error(_)) => HeldFolder::Held(None),
    }
}

/// Locks a temporary file or folder that no process holds. Returns `None` for all others. Until the lock is dropped, no other process
/// can claim it.
pub fn hold_stale(path: &Path, kind: FileType) -> Option<File> {
    let file = match kind.is_dir() {
        true => File::open(path),
        false if kind.is_file() => File::options().read(true).write(true).open(path),
        false => return None,
    };
    file.ok().filter(|file| file.try_lock().is_ok())
}

/// Flushes a folder to the disk, so that renames, new files and removals in it are durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Gives a temporary file its name. A file with that name is replaced.
pub fn replace_file(from: NamedTempFile, target: &Path) -> io::Result<()> {
    from.persist(target).map(|_| ()).map_err(|e| e.error)
}

/// Gives a closed file another name. A file with that name is replaced.
pub fn rename_over(from: &Path, target: &Path) -> io::Result<()> {
    std::fs::rename(from, target)
}

/// Returns `true` if the error says that another process, or another part of this one, has the file open.
pub fn is_in_use(_: &io::Error) -> bool {
    false
}

/// Copies the owner, group and mode of the file at `target`, which will be replaced, as far as the system allows. Errors are
/// ignored, because they do not prevent writing, but another group never gets the old group's permissions.
pub fn copy_access(file: &File, target: &Path) {
    let (Ok(old), Ok(new)) = (target.metadata(), file.metadata()) else { return };
    let set = |mode| file.set_permissions(Permissions::from_mode(mode));
    // Start with the permissions that are safe for any group.
    let _ = set(without_group(old.mode()));
    let group =
        old.gid() == new.gid() || fchown(file, None, Some(Gid::from_raw(old.gid()))).is_ok();
    // Only a privileged process may do this. It comes before the mode, which a change of owner may reset.
    let owner =
        old.uid() == new.uid() || fchown(file, Some(Uid::from_raw(old.uid())), None).is_ok();
    let _ = match (group, owner) {
        (true, true) => set(old.mode()),
        (true, false) => set(old.mode() & 0o777),
        (false, _) => set(without_group(old.mode())),
    };
}

/// Returns a mode for a file whose group has changed: no permissions for the group, and for others, who now include the
/// old group, none that the old group did not have.
fn without_group(mode: u32) -> u32 {
    let (owner, group, other) = (mode & 0o700, mode >> 3 & 0o7, mode & 0o7);
    owner | (other & group)
}

/// Returns the default permissions of a new folder, found by creating one in `part`, which must be empty.
pub fn default_folder_access(part: &Path) -> io::Result<Option<Permissions>> {
    let probe = part.join("mode");
    std::fs::create_dir(&probe)?;
    let mode = probe.metadata()?.permissions();
    std::fs::remove_dir(&probe)?;
    Ok(Some(mode))
}

/// Lets only the user access the folders that the builder creates.
pub fn make_private_folders(builder: &mut DirBuilder) {
    builder.mode(0o700);
}

/// Lets only the user access a file that the options create.
pub fn make_private(options: &mut OpenOptions) {
    options.mode(0o600);
}

/// Makes a file that the options create executable.
pub fn make_executable(options: &mut OpenOptions) {
    // The umask is applied to this.
    options.mode(0o777);
}

/// Returns `true` if the owner of a local file may execute it.
pub fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o100 != 0)
}

/// Makes a file or folder read-only, or lets its owner write it.
pub fn set_read_only(path: &Path, old: &Metadata, read_only: bool) -> io::Result<()> {
    let mode = old.permissions().mode() & 0o777;
    let mode = if read_only { mode & 0o555 } else { mode | 0o200 };
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Makes an open file one that can only be read, by those who could read it before.
pub fn freeze(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.permissions().mode() & 0o444;
    file.set_permissions(Permissions::from_mode(mode))
}

/// Returns `true` if the error of [`make_link`] says that this file system or this account has no symbolic links.
pub fn has_no_links(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied)
}

/// Refuses to open a symbolic link with these options.
pub fn do_not_follow(options: &mut OpenOptions) {
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
}

#[cfg(test)]
mod tests {
    use super::without_group;

    #[test]
    fn a_changed_group_never_gains_permissions() {
        for (old, new) in
            [(0o640, 0o600), (0o664, 0o604), (0o604, 0o600), (0o4755, 0o705), (0o647, 0o604)]
        {
            assert_eq!(without_group(old), new, "{old:o}");
        }
    }
}
