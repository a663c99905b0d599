//! A file under construction, before it gets its name.
//!
//! If the system supports unnamed files, a killed process leaves nothing. Otherwise, and for the instant in which a
//! file replaces another, it has a temporary name next to the target, `.holdall-XXXXXX.part`, and is locked while it is
//! written. The same holds for a folder that is being filled. Creating a file or a folder removes the temporary ones
//! next to it that are not locked, because killed processes left them. On file systems without locks nothing is
//! removed.

use std::fs::File;
use std::io;
use std::path::Path;

/// The prefix of the names of temporary files and folders.
pub(super) const PREFIX: &str = ".holdall-";
/// The suffix of these names.
pub(super) const SUFFIX: &str = ".part";
/// The number of random characters between prefix and suffix.
pub(super) const RANDOM: usize = 6;

pub(super) enum Unpublished {
    Nameless(File),
    Named(tempfile::NamedTempFile),
}

impl Unpublished {
    /// Creates a file that can get the name `target`.
    pub(super) fn begin(target: &Path) -> io::Result<Unpublished> {
        let file = match nameless(folder(target)) {
            Some(file) => {
                sweep(folder(target));
                Unpublished::Nameless(file)
            }
            None => Unpublished::Named(temporary(folder(target))?),
        };
        keep_access(file.as_file(), target);
        Ok(file)
    }

    pub(super) fn as_file(&self) -> &File {
        match self {
            Unpublished::Nameless(file) => file,
            Unpublished::Named(file) => file.as_file(),
        }
    }

    /// Gives the file its name, in one step.
    pub(super) fn publish(self, target: &Path, overwrite: bool) -> io::Result<()> {
        match self {
            Unpublished::Named(file) if overwrite => {
                file.persist(target).map_err(|e| e.error)?;
            }
            Unpublished::Named(file) => {
                file.persist_noclobber(target).map_err(|e| e.error)?;
            }
            Unpublished::Nameless(file) => link(&file, target, overwrite)?,
        }
        Ok(())
    }
}

/// Returns the folder that contains `target`, which need not exist.
pub fn folder(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Flushes the folder of `target` to the disk, so that renames, new files and removals in it are durable.
///
/// # Errors
/// Returns an `Io` error.
pub fn sync_folder(target: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder(target))?.sync_all()?;
    #[cfg(not(unix))]
    let _ = target;
    Ok(())
}

/// Creates an unnamed file, if the system supports that.
#[cfg(target_os = "linux")]
fn nameless(folder: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::TMPFILE.bits() as i32;
    File::options().read(true).write(true).custom_flags(flags).mode(0o666).open(folder).ok()
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path) -> Option<File> {
    None
}

/// Creates a file with a temporary name, and locks it.
fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    sweep(folder);
    loop {
        let file = named().tempfile_in(folder).map_err(system)?;
        // Between creation and lock, another process may have removed it as stale.
        if hold(&file) {
            return Ok(file);
        }
    }
}

fn named() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX).rand_bytes(RANDOM);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder
}

/// Returns the operating system's own error. `tempfile` wraps it in a message that ends with the temporary name, which
/// is of no use to the reader, and does not expose it.
pub(super) fn system(e: io::Error) -> io::Error {
    let text = e.to_string();
    let code = text.split_once("(os error ").and_then(|(_, rest)| rest.split_once(')'));
    let code = code.and_then(|(code, _)| code.parse().ok());
    code.map_or(e, io::Error::from_raw_os_error)
}

/// Locks a temporary file. Returns `true` if it still exists.
#[cfg(unix)]
fn hold(file: &tempfile::NamedTempFile) -> bool {
    use std::fs::TryLockError;
    use std::os::unix::fs::MetadataExt;
    match file.as_file().try_lock() {
        Ok(()) => {
            let own = file.as_file().metadata().map(|meta| meta.ino());
            let there = file.path().symlink_metadata().map(|meta| meta.ino());
            own.ok() == there.ok()
        }
        Err(TryLockError::WouldBlock) => false,
        // Without locks nothing is removed.
        Err(TryLockError::Error(_)) => true,
    }
}

#[cfg(not(unix))]
fn hold(_: &tempfile::NamedTempFile) -> bool {
    true
}

/// Removes the temporary files and folders in `folder` that no process is writing. Errors are ignored, because they do
/// not prevent writing.
#[cfg(unix)]
pub fn sweep(folder: &Path) {
    let Ok(entries) = folder.read_dir() else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(is_temporary) {
            continue;
        }
        let (path, kind) = (entry.path(), entry.file_type());
        let is = |what: fn(&std::fs::FileType) -> bool| kind.as_ref().is_ok_and(what);
        // The lock is held until the file is removed, so that no other process can claim it.
        if is(std::fs::FileType::is_file) {
            let file = File::options().read(true).write(true).open(&path);
            if let Some(_lock) = file.ok().filter(|file| file.try_lock().is_ok()) {
                let _ = std::fs::remove_file(&path);
            }
        } else if is(std::fs::FileType::is_dir) {
            let folder = File::open(&path);
            if let Some(_lock) = folder.ok().filter(|folder| folder.try_lock().is_ok()) {
                let _ = std::fs::remove_dir_all(&path);
            }
        }
    }
}

/// Does nothing, because there are no locks that show which files are in use.
#[cfg(not(unix))]
pub fn sweep(_: &Path) {}

/// Returns `true` if [`named`] creates names of this form.
#[cfg(unix)]
fn is_temporary(name: &str) -> bool {
    let random = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    random.is_some_and(|r| r.len() == RANDOM && r.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Copies the owner, group and mode of the file that will be replaced, as far as the system allows. Errors are ignored,
/// because they do not prevent writing, but another group never gets the old group's permissions.
#[cfg(unix)]
fn keep_access(file: &File, target: &Path) {
    use rustix::fs::{Gid, Uid, fchown};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let (Ok(old), Ok(new)) = (target.metadata(), file.metadata()) else { return };
    let set = |mode| file.set_permissions(std::fs::Permissions::from_mode(mode));
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

#[cfg(not(unix))]
fn keep_access(file: &File, target: &Path) {
    if let Ok(old) = target.metadata() {
        let _ = file.set_permissions(old.permissions());
    }
}

/// Returns a mode for a file whose group has changed: no permissions for the group, and for others, who now include the
/// old group, none that the old group did not have.
#[cfg(unix)]
fn without_group(mode: u32) -> u32 {
    let (owner, group, other) = (mode & 0o700, mode >> 3 & 0o7, mode & 0o7);
    owner | (other & group)
}

/// Gives an unnamed file its name.
#[cfg(target_os = "linux")]
fn link(file: &File, target: &Path, overwrite: bool) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    use std::os::fd::AsRawFd;
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link_to = |name: &Path| linkat(CWD, &source, CWD, name, AtFlags::SYMLINK_FOLLOW);
    if !overwrite || !target.exists() {
        match link_to(target) {
            Err(rustix::io::Errno::EXIST) if overwrite => {}
            done => return Ok(done?),
        }
    }
    // A link cannot replace a file, but a rename can: link to a temporary name first, already locked.
    let _ = file.try_lock();
    let temporary = named().make_in(folder(target), |name| Ok(link_to(name)?))?;
    temporary.persist(target).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path, _: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let name = |e: io::Result<std::fs::DirEntry>| e.unwrap().file_name();
        let mut all: Vec<String> =
            folder.read_dir().unwrap().map(|e| name(e).into_string().unwrap()).collect();
        all.sort();
        all
    }

    #[test]
    fn a_changed_group_never_gains_permissions() {
        for (old, new) in
            [(0o640, 0o600), (0o664, 0o604), (0o604, 0o600), (0o4755, 0o705), (0o647, 0o604)]
        {
            assert_eq!(without_group(old), new, "{old:o}");
        }
    }

    #[test]
    fn errors_do_not_name_temporary_files() {
        let e = temporary(Path::new("/there/is no such")).unwrap_err();
        assert_eq!((e.raw_os_error(), e.to_string().contains(PREFIX)), (Some(2), false), "{e}");
    }

    #[test]
    fn stale_files_are_removed_and_locked_ones_kept() {
        let dir = tempfile::tempdir().unwrap();
        // A killed process leaves the name, but not the lock.
        let killed = temporary(dir.path()).unwrap();
        let (file, path) = killed.keep().unwrap();
        drop(file);
        for other in
            [".holdall-x.part", ".holdall-notes.part.txt", "model.part", "holdall-abcdef.part"]
        {
            std::fs::write(dir.path().join(other), "mine").unwrap();
        }
        let first = temporary(dir.path()).unwrap();
        assert!(!path.exists());
        let second = temporary(dir.path()).unwrap();
        assert!(first.path().exists() && second.path().exists());
        assert_eq!(names(dir.path()).len(), 6);

        let target = dir.path().join("a");
        std::fs::write(&target, "old").unwrap();
        let (file, stale) = temporary(dir.path()).unwrap().keep().unwrap();
        drop(file);
        Unpublished::Named(second).publish(&target, true).unwrap();
        assert!(first.path().exists() && stale.exists());
        Unpublished::begin(&target).unwrap().publish(&target, true).unwrap();
        assert!(first.path().exists() && !stale.exists());
        // Creating a file that replaces none also removes stale ones.
        let (file, stale) = temporary(dir.path()).unwrap().keep().unwrap();
        drop(file);
        let new = dir.path().join("b");
        Unpublished::begin(&new).unwrap().publish(&new, false).unwrap();
        assert!(first.path().exists() && !stale.exists());
        // And it removes a stale folder.
        let folder = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.join("model/deep")).unwrap();
            std::fs::write(path.join("model/deep/x"), "x").unwrap();
            path
        };
        let (stale, filled) = (folder(".holdall-abcdef.part"), folder(".holdall-ABCDEF.part"));
        let lock = File::open(&filled).unwrap();
        lock.try_lock().unwrap();
        std::os::unix::fs::symlink(&filled, dir.path().join(".holdall-zzzzzz.part")).unwrap();
        sweep(dir.path());
        assert!(!stale.exists() && filled.join("model/deep/x").exists());
        drop(lock);
        sweep(dir.path());
        assert!(!filled.exists());
        std::fs::remove_file(dir.path().join(".holdall-zzzzzz.part")).unwrap();
        drop(first);
        let expected = [
            ".holdall-notes.part.txt",
            ".holdall-x.part",
            "a",
            "b",
            "holdall-abcdef.part",
            "model.part",
        ];
        assert_eq!(names(dir.path()), expected);
    }
}
