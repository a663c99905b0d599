//! A file under construction, before it gets its name.
//!
//! If the system supports unnamed files, a killed process leaves nothing. Otherwise, and for the instant in which a
//! file replaces another, it has a temporary name next to the target, `.holdall-XXXXXX.part`, and is locked while it is
//! written. The same holds for a folder that is being filled. Creating a file or a folder removes the temporary ones
//! next to it that are not locked, because killed processes left them. On file systems without locks nothing is
//! removed.

use crate::platform;
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
        let file = match platform::nameless(folder(target)) {
            Some(file) => {
                sweep(folder(target));
                Unpublished::Nameless(file)
            }
            None => Unpublished::Named(temporary(folder(target))?),
        };
        platform::copy_access(file.as_file(), target);
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
            Unpublished::Named(file) if overwrite => platform::replace_file(file, target)?,
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
    platform::sync_folder(folder(target))
}

/// Creates a file with a temporary name, and locks it.
fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    sweep(folder);
    loop {
        // Between creation and lock, another process may have removed it as stale.
        if let Some(file) = platform::temporary_file(&mut named(), folder).map_err(system)? {
            return Ok(file);
        }
    }
}

fn named() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX).rand_bytes(RANDOM);
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

/// Removes the temporary files and folders in `folder` that no process is writing. Errors are ignored, because they do
/// not prevent writing.
pub fn sweep(folder: &Path) {
    let Ok(entries) = folder.read_dir() else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(is_temporary) {
            continue;
        }
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        // The lock is held until the file is removed, so that no other process can claim it.
        if let Some(_lock) = platform::hold_stale(&path, kind) {
            let _ = match kind.is_dir() {
                true => std::fs::remove_dir_all(&path),
                false => std::fs::remove_file(&path),
            };
        }
    }
}

/// Returns `true` if [`named`] creates names of this form.
fn is_temporary(name: &str) -> bool {
    let random = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    random.is_some_and(|r| r.len() == RANDOM && r.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Gives an unnamed file its name.
fn link(file: &File, target: &Path, overwrite: bool) -> io::Result<()> {
    if !overwrite || !target.exists() {
        match platform::link(file, target) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && overwrite => {}
            done => return done,
        }
    }
    // A link cannot replace a file, but a rename can: link to a temporary name first, already locked.
    let _ = file.try_lock();
    let temporary = named().make_in(folder(target), |name| platform::link(file, name))?;
    temporary.persist(target).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
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
    fn errors_do_not_name_temporary_files() {
        let e = temporary(Path::new("/there/is no such")).unwrap_err();
        assert_eq!((e.kind(), e.to_string().contains(PREFIX)), (io::ErrorKind::NotFound, false));
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
        let (stale, filled) = (folder(".holdall-abcdef.part"), folder(".holdall-GHIJKL.part"));
        let lock = platform::hold_folder(&filled);
        let link = dir.path().join(".holdall-zzzzzz.part");
        // An emulated Windows may say that it has made a link, and not do it.
        let has_links = platform::make_link(&filled, &link).is_ok() && link.is_symlink();
        sweep(dir.path());
        assert!(!stale.exists() && filled.join("model/deep/x").exists());
        drop(lock);
        sweep(dir.path());
        assert!(!filled.exists());
        if has_links {
            std::fs::remove_file(link).unwrap();
        }
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
