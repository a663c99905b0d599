//! Looking for pickles in files, folders and what is on the web: see [`holdall_formats::scan`].

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

/// What is known of something that a pickle would import, and of a pickle.
pub use holdall_formats::scan::names::Danger as Verdict;
/// Something that a pickle would import.
pub use holdall_formats::scan::trace::Import;
pub use holdall_formats::scan::{Pickle, ScanReport};

/// Looks for pickles in the file or folder at `path`, at an address on the web or in an object store, or in an archive
/// (`ARCHIVE!/PATH`), and at what each would do. All files of a model are looked at: those that an index names, the parts of a split
/// file, the files beside it. One that is missing makes the verdict [`Verdict::Unknown`].
///
/// # Errors
/// Io; cancellation. What is wrong with a file is in the report.
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
        // Asked last, for most of what is scanned is a file.
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
    /// The files that are scanned, or will be.
    seen: HashSet<Location>,
}

impl Walk<'_> {
    /// Scans these files, and those that belong to them. One that cannot be read hides nothing of the others.
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

    /// Scans one file, and returns those that belong to it.
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

/// As [`scan`], of whatever `source` gives, which is called `name` in the report. Files beside it are not looked at: the verdict on
/// an index of a model is [`Verdict::Unknown`].
///
/// # Errors
/// As [`scan`].
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

/// All files of a folder and those in it, by name. Links to folders are not followed. What cannot be read
/// below `root` is told to `unread`.
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
                // Links to nothing, pipes and devices.
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
