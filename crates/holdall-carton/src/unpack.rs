//! Writing a package's files into a folder.

use super::ledger::{self, Entry};
use super::rules::PLACE;
use super::{Package, PackageFile};
use holdall_core::Result;
use holdall_core::error::Shown as _;
use holdall_io::error::io;
use holdall_io::package::MODEL;
use holdall_io::package::read::{fill, reading};
use holdall_io::sink::{Durability, FolderSink};
use holdall_io::{Work, with_work};
use holdall_package::paths::collision;
use holdall_package::rules::SYMLINK;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Bytes copied at a time.
const PIECE: usize = 1 << 20;

/// What a caller chooses about unpacking.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct UnpackOptions {
    work: Work,
    overwrite: bool,
}

impl UnpackOptions {
    /// One thread for each core, no progress; an existing folder is left alone.
    pub fn new() -> UnpackOptions {
        UnpackOptions::default()
    }

    /// Replaces an existing folder, all of it.
    pub fn with_overwrite(mut self, overwrite: bool) -> UnpackOptions {
        self.overwrite = overwrite;
        self
    }
}

with_work!(UnpackOptions);

/// What is unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnpackScope {
    /// Every file.
    Package,
    /// What is under `model/`, without that folder.
    Model,
}

pub(super) fn unpack(
    package: &Package,
    what: UnpackScope,
    to: &Path,
    options: &UnpackOptions,
) -> Result<()> {
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
    let sink = FolderSink::create(to, options.overwrite, &PLACE)?;
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
    // The longest first, so that no thread is left with one at the end.
    files.sort_by_key(|(file, _)| std::cmp::Reverse(file.len));
    let listed = files.clone();
    options.work.for_each(
        files,
        || vec![0; PIECE],
        |piece, (file, path)| {
            write_file(package, file, path, root, piece, &options.work)
                .map_err(|e| e.in_source(package.inside(&file.path)))
        },
    )?;
    let source = listed.iter().map(|(file, path)| Entry {
        path,
        // A symbolic link has the length of its text, or that of what it leads to.
        len: file.len.filter(|_| file.target.is_none()),
        sha256: None,
    });
    let written = listed.iter().filter_map(|(file, path)| {
        let meta = root.join(path).symlink_metadata().ok()?;
        let len = (file.target.is_none() && file.len.is_some()).then_some(meta.len());
        Some(Entry { path, len, sha256: None })
    });
    ledger::check(source, written)?;
    sink.finish(Durability::System)
}

/// Refuses a place that cannot hold all files: where paths that differ in case or Unicode form are one.
fn keep_apart(package: &Package, what: UnpackScope, root: &Path) -> Result<()> {
    let inside = |path: &str| match what {
        UnpackScope::Package => true,
        UnpackScope::Model => path.starts_with(MODEL),
    };
    let twins: Vec<_> = package.twins().iter().filter(|(path, _)| inside(path)).collect();
    if twins.is_empty() {
        return Ok(());
    }
    let failed = |e| io(e, "trying which names the file system tells apart");
    let probe = tempfile::tempdir_in(root).map_err(failed)?;
    for (a, b) in twins {
        let (a_name, b_name) = (last(a), last(b));
        let file = probe.path().join(a_name);
        std::fs::write(&file, b"").map_err(failed)?;
        check_apart((a, b), probe.path().join(b_name).symlink_metadata().is_ok())?;
        std::fs::remove_file(&file).map_err(failed)?;
    }
    probe.close().map_err(failed)
}

/// Where one of two names is that of a file, the other is none.
fn check_apart((a, b): (&str, &str), are_one: bool) -> Result<()> {
    if !are_one {
        return Ok(());
    }
    let e = collision(a, b, "are one where the package is unpacked to");
    Err(e.with_hint("unpack it to a file system that tells upper from lower case"))
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Refuses to replace a folder that the package is in, or is: it would go with the rest of it.
fn check_outside(package: &Package, to: &Path) -> Result<()> {
    let path = package.path().and_then(|path| path.canonicalize().ok());
    let (Some(path), Ok(folder)) = (path, to.canonicalize()) else { return Ok(()) };
    if !path.starts_with(folder) {
        return Ok(());
    }
    let e = PLACE.broken("the package is in this folder, which would be replaced as a whole");
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
) -> Result<()> {
    #[cfg(test)]
    if file.path == tests::LOST {
        return Ok(());
    }
    let to = root.join(path);
    let failed = |e| io(e, format_args!("writing `{}`", path.shown()));
    if let Some(target) = &file.target
        && make_link(&file.path, target, &to)?
    {
        // What it leads to is checked where it is written.
        return Ok(());
    }
    let mut from = package.reader(&file.path)?;
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if package.is_executable(file) {
        // What the user lets new files have takes away from it.
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o777);
    }
    let mut out = options.open(&to).map_err(failed)?;
    loop {
        let count = fill(&mut from, piece).map_err(|e| reading(e, &file.path))?;
        #[cfg(test)]
        if file.path == tests::CUT {
            return Ok(());
        }
        out.write_all(&piece[..count]).map_err(failed)?;
        work.advance(count as u64)?;
        if count < piece.len() {
            return Ok(());
        }
    }
}

/// Makes the symbolic link from one path of the package to another; whether the system has such.
fn make_link(from: &str, target: &str, to: &Path) -> Result<bool> {
    let text = relative(from, target).ok_or_else(|| {
        let (from, target) = (from.shown(), target.shown());
        SYMLINK.broken(format!("`{from}` leads to `{target}`"))
    })?;
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(text, to).map_err(|e| io(e, "making a symbolic link"))?;
        Ok(true)
    }
    #[cfg(not(unix))]
    {
        let _ = (text, to);
        Ok(false)
    }
}

/// The way from the folder of `from` to `target`, both paths of the package in the same top folder.
pub(super) fn relative(from: &str, target: &str) -> Option<PathBuf> {
    let from: Vec<&str> = from.split('/').collect();
    let target: Vec<&str> = target.split('/').collect();
    let is_plain = |parts: &[&str]| parts.iter().all(|p| !matches!(*p, "" | "." | ".."));
    if from.len() < 2 || from.first() != target.first() || !is_plain(&target) || !is_plain(&from) {
        return None;
    }
    let folder = &from[..from.len() - 1];
    let same = folder.iter().zip(&target).take_while(|(a, b)| a == b).count();
    let mut out = PathBuf::new();
    out.extend(std::iter::repeat_n("..", folder.len() - same));
    out.extend(&target[same..]);
    Some(out)
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
    use crate::{Package, UnpackOptions};

    /// A file that is lost on its way, by tests.
    pub(super) const LOST: &str = "misc/lost-in-unpacking";
    /// A file of which the end is lost.
    pub(super) const CUT: &str = "misc/cut-in-unpacking";

    #[test]
    fn a_file_that_is_lost_on_its_way_is_found_before_the_folder_appears() {
        let dir = tempfile::tempdir().unwrap();
        let zip = dir.path().join("a.carton");
        let to = dir.path().join("to");
        for path in [LOST, CUT] {
            packed_with(path, &zip).unwrap();
            let package = Package::open(&zip).unwrap();
            let e = package.unpack(&to).unwrap_err();
            assert_eq!((e.code(), to.exists()), ("internal/ledger", false), "{e}");
            // What was there stays.
            std::fs::create_dir(&to).unwrap();
            std::fs::write(to.join("old"), "old").unwrap();
            let options = UnpackOptions::new().with_overwrite(true);
            let e = package.unpack_with(&to, &options).unwrap_err();
            assert_eq!(e.code(), "internal/ledger", "{e}");
            assert_eq!(std::fs::read_dir(&to).unwrap().count(), 1);
            std::fs::remove_dir_all(&to).unwrap();
        }
    }

    #[test]
    fn twins_that_are_one_here_are_refused() {
        let of = |are_one| super::check_apart(("model/A", "model/a"), are_one);
        assert!(of(false).is_ok());
        let e = of(true).map_err(|e| (e.code(), e.to_string()));
        assert!(
            e.is_err_and(|(code, text)| code == "carton/collision" && text.contains("`model/A`"))
        );
    }
}
