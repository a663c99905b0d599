//! Looking for pickles in files, folders and what is on the web: see [`holdall_formats::scan`].

use crate::OpenOptions;
use holdall_core::wire::zip::TOO_MANY_ENTRIES;
use holdall_core::{Error, Limits, Remedy, Result, Window};
use holdall_formats::scan::Scan;
use holdall_io::Work;
use holdall_io::error::{CANCELLED, io};
use holdall_io::source::{ByteSource, fetched};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is known of something that a pickle would import, and of a pickle.
pub use holdall_formats::scan::names::Danger as Verdict;
/// Something that a pickle would import.
pub use holdall_formats::scan::trace::Import;
pub use holdall_formats::scan::{Pickle, ScanReport};

/// Looks for pickles in the file or folder at `path`, at an address on the web, or in an archive (`ARCHIVE!/PATH`), and at what each
/// would do.
///
/// # Errors
/// Io; cancellation. What is wrong with a file is in the report.
pub fn scan(path: impl AsRef<Path>, options: &OpenOptions, work: &Work) -> Result<ScanReport> {
    let path = path.as_ref();
    let limits = options.limits();
    if !path.is_dir() {
        let (source, name) = options.bytes_of(path)?;
        return scan_source(&source, &name, limits, work);
    }
    let mut report = ScanReport::default();
    let files = files_of(path, limits, &mut report.unread)?;
    work.begin(files.iter().map(|(_, len)| len).sum());
    for (file, len) in files {
        let found = options.bytes_of(&file);
        match found.and_then(|(source, name)| scanned(&source, &name, limits, work)) {
            Ok(found) => report.extend(found),
            Err(e) if e.code() == CANCELLED.code => return Err(e),
            // One file that cannot be read hides nothing of the others.
            Err(e) => report.unread.push(e),
        }
        work.advance(len)?;
    }
    Ok(report)
}

/// As [`scan`], of whatever `source` gives, which is called `name` in the report.
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
    let report = scanned(source, name, limits, work)?;
    work.advance(source.len())?;
    Ok(report)
}

fn scanned(
    source: &Arc<dyn ByteSource>,
    name: &str,
    limits: &Limits,
    work: &Work,
) -> Result<ScanReport> {
    let mut scan = Scan::new(name, source.len(), limits);
    while !scan.is_done() {
        work.check()?;
        fetched(&**source, &mut Window::new(source.len()), |window| scan.step(window))?;
    }
    Ok(scan.finish())
}

/// All files of a folder and those in it, by name, and their lengths. Links to folders are not followed. What cannot be read
/// below `root` is told to `unread`.
fn files_of(root: &Path, limits: &Limits, unread: &mut Vec<Error>) -> Result<Vec<(PathBuf, u64)>> {
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
                Ok(meta) if meta.is_file() => out.push((path, meta.len())),
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
