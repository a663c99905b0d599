//! Taking what is sound out of a damaged file.
//!
//! A file that opens gives up all tensors but those that verification finds something wrong with. One that does not
//! open is tried in two more ways, in this order: as a file of which the data was cut short or grew (its header says
//! which tensors are all there) or whose footer was lost while its manifest was not, and as one of which the end was lost, by an older end of the same file further up
//! (what an append that was cut off leaves behind). A zip without a directory gets one, of what the headers of its entries
//! say. Names, types and shapes come from the file or not at all.

use crate::OpenOptions;
use crate::convert::{Convert, convert};
use crate::edit::version_to_write;
use crate::verify::broken;
#[cfg(feature = "carton")]
use holdall_core::error::Shown as _;
use holdall_core::{Error, ErrorKind, Limits, Result};
use holdall_formats::FORMATS;
#[cfg(feature = "carton")]
use holdall_io::error::EXTENSION;
use holdall_io::error::NOTHING_SOUND;
use holdall_io::select::Select;
use holdall_io::source::{ByteSource, FileSource, SliceSource};
use holdall_io::{File, WriteOptions};
use std::path::Path;
use std::sync::Arc;

/// Bytes that are searched for an older end at a time.
const STEP: u64 = 4 << 20;
/// The most bytes that tell an end.
const END_LEN: u64 = 16;
/// Bytes that tell whether a table of contents may begin.
const HEAD_LEN: u64 = 16;
/// What is wrong that is told, and not only counted.
#[cfg(feature = "carton")]
const MOST_TOLD: usize = 1000;
/// Older ends that are tried.
const MOST_ENDS: usize = 256;

/// What a salvage took, and what it could not.
#[derive(Debug)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Why the file cannot be opened as it is, where that is so.
    pub refused: Option<Error>,
    /// Bytes of the file.
    pub source_len: u64,
    /// Bytes of it that were taken for the file: fewer where an older end was found.
    pub read_len: u64,
    /// Tensors that were taken.
    pub tensors: u64,
    /// Files that were taken, of a package.
    pub files: u64,
    /// What is wrong with those that were not: the first 1000.
    pub left_out: Vec<Error>,
    /// How many were not.
    pub left_out_count: u64,
    /// Components of the file without a digest that could be checked: if their bytes changed, nobody can tell.
    pub unchecked: u64,
    /// What else the file contains and the new one lacks, in words, as [`convert`] reports it.
    pub left_behind: Vec<String>,
    /// Bytes of the new file.
    pub target_len: u64,
}

impl SalvageReport {
    /// Whether everything that the file once had was taken, as far as that can be told.
    pub fn is_whole(&self) -> bool {
        self.refused.is_none() && self.left_out_count == 0
    }
}

/// Writes the sound tensors of the damaged file at `path` to `target`, in the format that `write` or the extension says, or
/// else in that of the file.
///
/// # Errors
/// Io. What is wrong with the file, where not one tensor can be taken. Then as [`convert`].
pub fn salvage(
    path: impl AsRef<Path>,
    target: impl AsRef<Path>,
    write: WriteOptions,
    options: &OpenOptions,
) -> Result<SalvageReport> {
    let (path, target) = (path.as_ref(), target.as_ref());
    let (file, refused) = match options.open(path) {
        Ok(file) => (file, None),
        Err(e) if matches!(e.kind(), ErrorKind::Io | ErrorKind::Misuse) => return Err(e),
        Err(e) => match opened(path, options)? {
            Some(file) => (file, Some(e)),
            #[cfg(feature = "carton")]
            None if holdall_carton::is_zip(path)? => {
                return package(path, target, write, options, e);
            }
            None => {
                return Err(e
                    .without_advice()
                    .with_hint("nothing can be taken out of it: what its tensors are is lost"));
            }
        },
    };
    let wrong = broken(&file, &write.work)?;
    let name = |at: &usize| file.index().at(*at).map(|t| t.name().to_owned());
    let select = Select::all().without(wrong.tensors.iter().filter_map(name));
    if wrong.tensors.len() >= file.len() && !file.is_empty() {
        let e = NOTHING_SOUND.broken(format!("not one of {} tensors is sound", file.len()));
        let e = e.in_source(file.name());
        return Err(match wrong.errors.into_iter().next() {
            Some(first) => e.because(first),
            None => e,
        });
    }
    let report =
        convert(&file, target, &Convert::new(target_of(&file, target, write)).with_select(select))?;
    let read_len = file.index().source_len();
    // Of a file of which a part was read, the whole is in the file system.
    let source_len = match refused {
        Some(_) => path.metadata().map_or(read_len, |meta| meta.len()),
        None => read_len,
    };
    Ok(SalvageReport {
        refused,
        source_len,
        read_len,
        tensors: report.tensors,
        files: 0,
        left_out: wrong.errors,
        left_out_count: wrong.tensors.len() as u64,
        unchecked: wrong.unchecked,
        left_behind: report.left_behind,
        target_len: report.target_len,
    })
}

/// What is sound of the zip at `path`, which has no directory that can be read, as a zip.
#[cfg(feature = "carton")]
fn package(
    path: &Path,
    target: &Path,
    write: WriteOptions,
    options: &OpenOptions,
    refused: Error,
) -> Result<SalvageReport> {
    if let Ok(format) = write.format_for(target)
        && format.encode.is_some()
    {
        let name = format.name;
        return Err(EXTENSION
            .broken(format!(
                "`{}` is a zip that has lost its directory: its files can be taken out of it, into a zip, but no tensors \
                 into {name}",
                path.display().to_string().shown()
            ))
            .with_hint("give the new file the extension `.zip` or `.carton`")
            .in_source(target.display()));
    }
    let mended = holdall_carton::mend(path, target, &write, options)?;
    let left_out_count = mended.lost.len() as u64;
    Ok(SalvageReport {
        refused: Some(refused),
        source_len: mended.source_len,
        read_len: mended.read_len,
        tensors: 0,
        files: mended.files,
        left_out: mended.lost.into_iter().take(MOST_TOLD).collect(),
        left_out_count,
        unchecked: 0,
        left_behind: Vec::new(),
        target_len: mended.target_len,
    })
}

/// How the new file is written: as the old one, unless something else is asked for.
fn target_of(file: &File, target: &Path, write: WriteOptions) -> WriteOptions {
    let own = FORMATS.iter().find(|format| format.id == file.format());
    let mut write = match (write.format_for(target), own) {
        (Err(_), Some(own)) => write.with_format(own),
        _ => write,
    };
    let is_same = write.format_for(target).is_ok_and(|format| format.id == file.format());
    if is_same && write.encode.version.is_none() {
        write.encode.version = version_to_write(file);
    }
    write
}

/// The file at `path`, which does not open as it is.
fn opened(path: &Path, options: &OpenOptions) -> Result<Option<File>> {
    let mut limits: Limits = options.limits().clone();
    limits.salvage = true;
    match options.clone().with_limits(limits).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == ErrorKind::Io => Err(e),
        Err(_) => older(path, options),
    }
}

/// The file up to the last older end that is a sound one.
fn older(path: &Path, options: &OpenOptions) -> Result<Option<File>> {
    let name = path.display().to_string();
    let whole: Arc<dyn ByteSource> = match FileSource::open(path) {
        Ok(file) => Arc::new(file),
        Err(_) => return Ok(None),
    };
    let finders: Vec<_> = FORMATS.iter().filter_map(|format| format.old_ends).collect();
    let (mut upto, mut tried) = (whole.len(), 0);
    while upto > 0 && !finders.is_empty() {
        let start = upto.saturating_sub(STEP);
        // What an end is told by may reach into what was searched before.
        let bytes = whole.read_range(start..whole.len().min(upto + END_LEN))?;
        let mut ends: Vec<_> = finders.iter().flat_map(|find| find(&bytes)).collect();
        ends.sort_by_key(|end| std::cmp::Reverse(end.at));
        for old in ends {
            let end = start + old.at as u64;
            let Some(begin) = end.checked_sub(old.back) else { continue };
            // Those that end behind what is searched now were tried before.
            if end == whole.len() || (end > upto + END_LEN / 2 && upto < whole.len()) {
                continue;
            }
            let head = begin..end.min(begin + HEAD_LEN);
            // Mostly in what was read for the search.
            let begins = match begin.checked_sub(start) {
                Some(at) => (old.begins)(&bytes[at as usize..(head.end - start) as usize]),
                None => (old.begins)(&whole.read_range(head)?),
            };
            if !begins {
                continue;
            }
            if tried == MOST_ENDS {
                return Ok(None);
            }
            tried += 1;
            let part = SliceSource::new(whole.clone(), 0..end)?;
            if let Ok(file) = options.open_source(Arc::new(part), name.clone())
                && !file.is_empty()
            {
                return Ok(Some(file));
            }
        }
        upto = start;
    }
    Ok(None)
}
