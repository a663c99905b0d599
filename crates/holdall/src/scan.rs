//! Looks for pickles in files, folders and remote files: see [`holdall_formats::scan`].

use crate::OpenOptions;
use holdall_core::wire::zip::TOO_MANY_ENTRIES;
use holdall_core::{Error, Limits, Remedy, Result, Window};
use holdall_formats::scan::Scan;
use holdall_io::error::{CANCELLED, io};
use holdall_io::source::{ByteSource, fetched};
use holdall_io::{Location, Work};
use std::collections::{HashSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How dangerous an import of a pickle, or the whole pickle, is.
pub use holdall_formats::scan::names::Danger as Verdict;
/// An object that a pickle would import.
pub use holdall_formats::scan::trace::Import;
pub use holdall_formats::scan::{Pickle, ScanReport};

/// Looks for pickles in the file or folder at `path`, at a web address or in an object store, or in an
/// archive (`ARCHIVE!/PATH`), and reports what each would do. All files of a model are scanned: those that an
/// index names, the parts of a split file, and external data. A missing file makes the verdict
/// [`Verdict::Unknown`].
///
/// # Errors
/// Returns an `Io` error; cancellation. Errors in a file are in the report.
pub fn scan(path: impl AsRef<Path>, options: &OpenOptions, work: &Work) -> Result<ScanReport> {
    let location = Location::new(path);
    let mut walk = Walk { options, work, report: ScanReport::default(), seen: HashSet::new() };
    if let Some(folder) = location.as_path().filter(|path| path.is_dir()) {
        let files = files_of(folder, options.limits(), &mut walk.report.unread)?;
        walk.all(files.into_iter().map(Location::Path).collect())?;
        return Ok(walk.report);
    }
    walk.seen.insert(location.clone());
    let more = match walk.one(&location) {
        Ok(more) => more,
        Err(e) if e.code() == CANCELLED.code => return Err(e),
        // The listing comes last, because most scanned locations are files.
        Err(e) => match options.files_below(&location) {
            Ok(Some(files)) => files,
            _ => return Err(e),
        },
    };
    walk.all(more)?;
    Ok(walk.report)
}

/// A scan of several files.
struct Walk<'w> {
    options: &'w OpenOptions,
    work: &'w Work,
    report: ScanReport,
    /// The files that are scanned or queued.
    seen: HashSet<Location>,
}

impl Walk<'_> {
    /// Scans these files and the files that belong to them. An unreadable file does not stop the others.
    fn all(&mut self, files: Vec<Location>) -> Result<()> {
        let mut ahead: VecDeque<Location> = VecDeque::new();
        ahead.extend(files.into_iter().filter(|file| self.seen.insert(file.clone())));
        while let Some(file) = ahead.pop_front() {
            match self.one(&file) {
                Ok(more) => {
                    ahead.extend(more.into_iter().filter(|file| self.seen.insert(file.clone())));
                }
                Err(e) if e.code() == CANCELLED.code => return Err(e),
                Err(e) => self.report.unread.push(e),
            }
        }
        Ok(())
    }

    /// Scans one file and returns the files that belong to it.
    fn one(&mut self, location: &Location) -> Result<Vec<Location>> {
        let (source, name) = self.options.unchecked_source_at(location)?;
        let limits = self.options.limits();
        self.work.begin(source.len());
        let (report, indices) = scanned(&source, &name, limits, self.work)?.finish_with_indices();
        self.work.advance(source.len())?;
        let mut more = Vec::new();
        for index in indices {
            let files = index.files.iter().map(|file| location.sibling(file));
            match files.collect::<Option<Vec<_>>>().filter(|_| index.source == name) {
                Some(files) => more.extend(files),
                None => self.report.unread.push(index.unread()),
            }
        }
        match self.options.other_files(location, &*source) {
            Ok(files) => more.extend(files),
            Err(e) if e.code() == CANCELLED.code => return Err(e),
            Err(e) => self.report.unread.push(e),
        }
        self.report.extend(report);
        Ok(more)
    }
}

/// Scans the bytes of `source`, which is called `name` in the report. Other files of a model are not scanned,
/// so the verdict on a model's index is [`Verdict::Unknown`].
///
/// # Errors
/// Returns the same errors as [`scan`].
pub fn scan_source(
    source: &Arc<dyn ByteSource>,
    name: &str,
    limits: &Limits,
    work: &Work,
) -> Result<ScanReport> {
    work.begin(source.len());
    let report = scanned(source, name, limits, work)?.finish();
    work.advance(source.len())?;
    Ok(report)
}

fn scanned(source: &Arc<dyn ByteSource>, name: &str, limits: &Limits, work: &Work) -> Result<Scan> {
    let mut scan = Scan::new(name, source.len(), limits);
    while !scan.is_done() {
        work.check()?;
        fetched(&**source, &mut Window::new(source.len()), |window| scan.step(window))?;
    }
    Ok(scan)
}

/// Returns all files of a folder and its subfolders, sorted by name. Links to folders are not followed.
/// Errors below `root` are added to `unread`.
fn files_of(root: &Path, limits: &Limits, unread: &mut Vec<Error>) -> Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |e| io(e, "reading the folder").in_source(folder.display());
        let entries = match std::fs::read_dir(&folder) {
            Err(e) if folder != root => {
                unread.push(failed(e));
                continue;
            }
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            match std::fs::metadata(&path) {
                Ok(meta) if meta.is_file() => out.push(path),
                // Broken links, pipes and devices.
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    unread.push(io(e, "opening").in_source(path.display()));
                }
                _ => {}
            }
            if out.len() as u64 > limits.files {
                let message = format!("the folder has more than {} files", limits.files);
                let more = Remedy::RaiseLimit { limit: "files", at_least: None };
                return Err(TOO_MANY_ENTRIES.broken(message).with_remedy(more));
            }
        }
    }
    out.sort();
    Ok(out)
}
