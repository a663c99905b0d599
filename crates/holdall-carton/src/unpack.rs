//! Writes a package's files into a folder.

use super::ledger::{self, Entry};
use super::rules::TARGET;
use super::{Package, PackageFile};
use holdall_core::Result;
use holdall_core::error::Escape as _;
use holdall_io::error::{NAME, io};
use holdall_io::package::MODEL;
use holdall_io::package::read::{fill, reading};
use holdall_io::sink::{Durability, FolderSink};
use holdall_io::{Work, platform, with_work};
use holdall_package::paths::collision;
use holdall_package::rules::SYMLINK;
use holdall_package::symlinks::link_text;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes copied at a time.
const PIECE: usize = 1 << 20;

/// Options of unpacking.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct UnpackOptions {
    work: Work,
    overwrite: bool,
}

impl UnpackOptions {
    /// Creates the default options: one thread per core, no progress, existing folders are not replaced.
    pub fn new() -> UnpackOptions {
        UnpackOptions::default()
    }

    /// Sets whether an existing folder is replaced as a whole.
    pub fn with_overwrite(mut self, overwrite: bool) -> UnpackOptions {
        self.overwrite = overwrite;
        self
    }
}

with_work!(UnpackOptions);

/// The result of unpacking.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UnpackReport {
    /// Number of files written, including symbolic links.
    pub files: u64,
    /// Properties of the package that the folder lacks, in words: that a file is a symbolic link, if the
    /// system does not support links.
    pub left_behind: Vec<String>,
}

/// The part of the package to unpack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnpackScope {
    /// All files.
    Package,
    /// The files under `model/`, without that folder.
    Model,
}

pub(super) fn unpack(
    package: &Package,
    what: UnpackScope,
    to: &Path,
    options: &UnpackOptions,
) -> Result<UnpackReport> {
    let mut files: Vec<(&PackageFile, &str)> = package
        .files()
        .iter()
        .filter_map(|file| match what {
            UnpackScope::Package => Some((file, file.path.as_str())),
            UnpackScope::Model => Some((file, file.path.strip_prefix("model/")?)),
        })
        .collect();
    if options.overwrite {
        check_outside(package, to)?;
    }
    let sink = FolderSink::create(to, options.overwrite, &TARGET)?;
    let root = sink.path();
    keep_apart(package, what, root).map_err(|e| e.in_source(to.display()))?;
    if what == UnpackScope::Package {
        make_folder(&root.join("model"), root)?;
    }
    for (_, path) in &files {
        if let Some(folder) = Path::new(path).parent() {
            make_folder(&root.join(folder), root)?;
        }
    }
    options.work.begin(files.iter().filter_map(|(file, _)| file.len).sum());
    // The longest first, so that no thread still works on a long one at the end.
    files.sort_by_key(|(file, _)| std::cmp::Reverse(file.len));
    let listed = files.clone();
    let copied = Mutex::new(Vec::new());
    options.work.for_each(
        files,
        || vec![0; PIECE],
        |piece, (file, path)| {
            let written = write_file(package, file, path, root, piece, &options.work);
            if written.map_err(|e| e.in_source(package.inside(&file.path)))? == Written::Copy {
                copied.lock().unwrap_or_else(PoisonError::into_inner).push((path, file));
            }
            Ok(())
        },
    )?;
    let source = listed.iter().map(|(file, path)| Entry {
        path,
        // The length of a symbolic link may be that of its text or that of its target.
        len: file.len.filter(|_| file.target.is_none()),
        sha256: None,
    });
    let written = listed.iter().filter_map(|(file, path)| {
        let meta = root.join(path).symlink_metadata().ok()?;
        let len = (file.target.is_none() && file.len.is_some()).then_some(meta.len());
        Some(Entry { path, len, sha256: None })
    });
    ledger::check(source, written)?;
    let files = listed.len() as u64;
    let mut copied = copied.into_inner().unwrap_or_else(PoisonError::into_inner);
    copied.sort_by_key(|(path, _)| *path);
    let left_behind = copied.into_iter().map(|(path, file)| {
        let to = file.next.as_deref().unwrap_or_default();
        format!("that `{}` is a symbolic link to `{}`", path.escaped(), to.escaped())
    });
    let left_behind = left_behind.collect();
    sink.finish(Durability::System)?;
    Ok(UnpackReport { files, left_behind })
}

/// How a file was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// A regular file or a symbolic link, as in the package.
    File,
    /// A copy of the symbolic link's target, because the file system does not support links.
    Copy,
}

/// Returns an error if the target's file system cannot hold all files because it treats paths that differ in
/// case or Unicode form as one.
fn keep_apart(package: &Package, what: UnpackScope, root: &Path) -> Result<()> {
    let inside = |path: &str| match what {
        UnpackScope::Package => true,
        UnpackScope::Model => path.starts_with(MODEL),
    };
    let conflicting_paths: Vec<_> =
        package.conflicting_paths().iter().filter(|(path, _)| inside(path)).collect();
    if conflicting_paths.is_empty() {
        return Ok(());
    }
    let failed = |e| io(e, "trying which names the file system tells apart");
    let probe = tempfile::tempdir_in(root).map_err(failed)?;
    for (a, b) in conflicting_paths {
        let (a_name, b_name) = (last(a), last(b));
        let file = probe.path().join(a_name);
        std::fs::write(&file, b"").map_err(failed)?;
        check_apart((a, b), probe.path().join(b_name).symlink_metadata().is_ok())?;
        std::fs::remove_file(&file).map_err(failed)?;
    }
    probe.close().map_err(failed)
}

/// Returns an error if two paths are one on the target's file system.
fn check_apart((a, b): (&str, &str), are_one: bool) -> Result<()> {
    if !are_one {
        return Ok(());
    }
    let e = collision(a, b, "are the same path on the target's file system");
    Err(e.with_hint("unpack it to a file system that tells upper from lower case"))
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns an error if the folder to be replaced contains the package or is the package, which would be
/// deleted.
fn check_outside(package: &Package, to: &Path) -> Result<()> {
    let path = package.path().and_then(|path| path.canonicalize().ok());
    let (Some(path), Ok(folder)) = (path, to.canonicalize()) else { return Ok(()) };
    if !path.starts_with(folder) {
        return Ok(());
    }
    let e = TARGET.broken("the package is in this folder, which would be replaced as a whole");
    let hint = "name another folder, or move the package out of this one first";
    Err(e.with_hint(hint).in_source(to.display()))
}

fn write_file(
    package: &Package,
    file: &PackageFile,
    path: &str,
    root: &Path,
    piece: &mut [u8],
    work: &Work,
) -> Result<Written> {
    #[cfg(test)]
    if file.path == tests::LOST {
        return Ok(Written::File);
    }
    let to = root.join(path);
    if let Some(why) = platform::invalid_name(&to) {
        return Err(NAME.broken(format!("`{}`: {why}", path.escaped())));
    }
    let failed = |e| io(e, format_args!("writing `{}`", path.escaped()));
    let written = match &file.next {
        // The target's bytes are checked when the target is written.
        Some(next) if make_link(&file.path, next, &to)? => return Ok(Written::File),
        Some(_) => Written::Copy,
        None => Written::File,
    };
    let mut from = package.reader(&file.path)?;
    let mut options = File::options();
    options.write(true).create_new(true);
    if package.is_executable(file) {
        platform::make_executable(&mut options);
    }
    let mut out = options.open(&to).map_err(failed)?;
    loop {
        let count = fill(&mut from, piece).map_err(|e| reading(e, &file.path))?;
        #[cfg(test)]
        if file.path == tests::CUT {
            return Ok(written);
        }
        out.write_all(&piece[..count]).map_err(failed)?;
        work.advance(count as u64)?;
        if count < piece.len() {
            return Ok(written);
        }
    }
}

/// Creates the symbolic link at `to` from one path of the package to another. Returns `false` if the system
/// does not support it.
fn make_link(from: &str, next: &str, to: &Path) -> Result<bool> {
    let text = link_text(from, next).ok_or_else(|| {
        let (from, next) = (from.escaped(), next.escaped());
        SYMLINK.broken(format!("`{from}` leads to `{next}`"))
    })?;
    #[cfg(test)]
    if from == tests::NO_LINK {
        return Ok(false);
    }
    match platform::make_link(text.split('/').collect::<PathBuf>(), to) {
        Ok(()) => Ok(true),
        Err(e) if platform::has_no_links(&e) => Ok(false),
        Err(e) => Err(io(e, "making a symbolic link")),
    }
}

fn make_folder(folder: &Path, root: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| {
        let shown = folder.strip_prefix(root).unwrap_or(folder).display();
        io(e, format_args!("making the folder `{shown}`"))
    })
}

#[cfg(test)]
mod tests {
    use crate::pack::tests::packed_with;
    use crate::{FileSelection, Package, Packer, SymlinkPolicy, UnpackOptions};

    /// A file that tests lose in unpacking.
    pub(super) const LOST: &str = "misc/lost-in-unpacking";
    /// A file that tests cut short in unpacking.
    pub(super) const CUT: &str = "misc/cut-in-unpacking";
    /// A symbolic link that tests treat as unsupported.
    pub(super) const NO_LINK: &str = "model/no-link-in-unpacking";

    #[test]
    fn a_lost_file_prevents_publishing_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let zip = dir.path().join("a.carton");
        let to = dir.path().join("to");
        for path in [LOST, CUT] {
            packed_with(path, &zip).unwrap();
            let package = Package::open(&zip).unwrap();
            let e = package.unpack(&to).unwrap_err();
            assert_eq!((e.code(), to.exists()), ("internal/ledger", false), "{e}");
            // An existing folder stays.
            std::fs::create_dir(&to).unwrap();
            std::fs::write(to.join("old"), "old").unwrap();
            let options = UnpackOptions::new().with_overwrite(true);
            let e = package.unpack_with(&to, &options).unwrap_err();
            assert_eq!(e.code(), "internal/ledger", "{e}");
            assert_eq!(std::fs::read_dir(&to).unwrap().count(), 1);
            std::fs::remove_dir_all(&to).unwrap();
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_cannot_be_made_is_a_copy_and_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (zip, folder, to) =
            (dir.path().join("a.carton"), dir.path().join("in"), dir.path().join("to"));
        packed_with("misc/x", &zip).unwrap();
        let first = Package::open(&zip).unwrap();
        assert_eq!(first.unpack(&folder).unwrap().left_behind, [""; 0]);
        std::os::unix::fs::symlink("w", folder.join(NO_LINK)).unwrap();
        let again = dir.path().join("b.carton");
        let packer =
            Packer::from_folder(&folder, SymlinkPolicy::Inside, FileSelection::Usual).unwrap();
        assert_eq!(packer.write(&again, false).unwrap().left_behind, [""; 0]);
        let report = Package::open(&again).unwrap().unpack(&to).unwrap();
        let named = format!("that `{NO_LINK}` is a symbolic link to `model/w`");
        assert_eq!(report.left_behind, [named]);
        let copy = to.join(NO_LINK);
        assert!(!copy.is_symlink() && std::fs::read(copy).unwrap() == b"weights");
    }

    #[test]
    fn names_that_the_file_system_does_not_distinguish_are_refused() {
        let conflict = |are_one| super::check_apart(("model/A", "model/a"), are_one);
        assert!(conflict(false).is_ok());
        let e = conflict(true).map_err(|e| (e.code(), e.to_string()));
        assert!(
            e.is_err_and(|(code, text)| code == "carton/collision" && text.contains("`model/A`"))
        );
    }
}
