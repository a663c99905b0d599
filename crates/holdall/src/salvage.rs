//! Taking what is sound out of a damaged file.
//!
//! A file that opens gives up all tensors but those that verification finds something wrong with. What does not open is tried in
//! more ways, in this order: as a file of which the data was cut short or grew (its header says which tensors are all there) or whose
//! footer was lost while its manifest was not; as a model in several files, of which those are taken that are there; as a zip whose
//! directory was lost, by the headers of its entries; and as a file of which the end was lost, by an older end of the same file further up
//! (what an append that was cut off leaves behind). A package without a directory gets one, of what the headers of its entries
//! say. Names, types and shapes come from the file or not at all.

mod older;
mod parts;
#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
mod zip;

use crate::OpenOptions;
use crate::convert::{Convert, convert};
use crate::edit::version_to_write;
use crate::verify::broken;
use holdall_core::model::builder::CUT_SHORT;
use holdall_core::{Error, ErrorKind, Limits, Result};
use holdall_formats::FORMATS;
use holdall_io::error::NOTHING_SOUND;
use holdall_io::select::Select;
use holdall_io::{File, WriteOptions};
use std::path::Path;

/// What is wrong that is told, and not only counted.
const MOST_TOLD: usize = 1000;

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
    let damaged = match options.open(path) {
        Ok(file) => Damaged { file, refused: None, lost: Vec::new() },
        Err(e) if e.kind() == ErrorKind::Misuse => return Err(e),
        // A folder may lack what would open it.
        Err(e) if e.kind() == ErrorKind::Io && !path.is_dir() => return Err(e),
        Err(e) => match opened(path, target, &write, options)? {
            Opened::File(file, lost) => Damaged { file, refused: Some(e), lost },
            #[cfg(feature = "carton")]
            Opened::Package => return package(path, target, write, options, e),
            Opened::Nothing(why) => return Err(e.without_advice().with_hint(why)),
        },
    };
    take(damaged, path, target, write)
}

/// A damaged file, opened as far as it goes.
struct Damaged {
    file: File,
    /// Why it cannot be opened as it is, where that is so.
    refused: Option<Error>,
    /// What is known to be missing, beside what is wrong with its tensors.
    lost: Vec<Error>,
}

/// Writes the tensors that are sound.
fn take(
    damaged: Damaged,
    path: &Path,
    target: &Path,
    write: WriteOptions,
) -> Result<SalvageReport> {
    let Damaged { file, refused, mut lost } = damaged;
    if lost.is_empty() {
        lost.extend(parts::others(&file, path));
    }
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
    // Of an array that is cut short, its whole rows are there.
    for warning in file.index().warnings().iter().filter(|w| w.code == CUT_SHORT.code) {
        let e = CUT_SHORT.broken(warning.message.clone()).in_source(file.name());
        lost.push(match &warning.tensor {
            Some(tensor) => e.in_tensor(tensor),
            None => e,
        });
    }
    let report =
        convert(&file, target, &Convert::new(target_of(&file, target, write)).with_select(select))?;
    let read_len = file.index().source_len();
    // Of a file of which a part was read, the whole is in the file system.
    let source_len = match (&refused, path.metadata()) {
        (Some(_), Ok(meta)) if meta.is_file() && file.all_sources().len() == 1 => meta.len(),
        _ => read_len,
    };
    let left_out_count = (wrong.tensors.len() + lost.len()) as u64;
    let left_out = lost.into_iter().chain(wrong.errors).take(MOST_TOLD).collect();
    Ok(SalvageReport {
        refused,
        source_len,
        read_len: read_len.min(source_len),
        tensors: report.tensors,
        files: 0,
        left_out,
        left_out_count,
        unchecked: wrong.unchecked,
        left_behind: report.left_behind,
        target_len: report.target_len,
    })
}

/// What becomes of a file that does not open as it is.
enum Opened {
    /// As far as it goes, and what is known to be missing.
    File(File, Vec<Error>),
    /// A package without a directory, whose files are taken.
    #[cfg(feature = "carton")]
    Package,
    /// No tensors: why.
    Nothing(&'static str),
}

/// Why nothing can be taken out of a file.
const LOST: &str = "nothing can be taken out of it: what its tensors are is lost";

/// Opens the file at `path`, which does not open as it is, in the ways in which a damaged one may.
fn opened(
    path: &Path,
    target: &Path,
    write: &WriteOptions,
    options: &OpenOptions,
) -> Result<Opened> {
    let mut limits: Limits = options.limits().clone();
    limits.salvage = true;
    let options_of_damaged = options.clone().with_limits(limits);
    match options_of_damaged.open(path) {
        Ok(file) => return Ok(Opened::File(file, Vec::new())),
        Err(e) if e.kind() == ErrorKind::Io && !path.is_dir() => return Err(e),
        Err(_) => {}
    }
    if let Some(parts) = parts::open(path, &options_of_damaged)? {
        return Ok(Opened::File(parts.file, parts.lost));
    }
    if path.is_dir() {
        return Ok(Opened::Nothing(
            "nothing can be taken out of the folder: no files of it are parts of one model",
        ));
    }
    // A part that was renamed.
    if let Ok(file) = options_of_damaged.open_alone(path) {
        return Ok(Opened::File(file, Vec::new()));
    }
    #[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
    if let Some(opened) = zip::open(path, target, write, &options_of_damaged)? {
        return Ok(opened);
    }
    #[cfg(not(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5")))]
    let _ = (target, write);
    Ok(match older::older(path, options)? {
        Some(file) => Opened::File(file, Vec::new()),
        None => Opened::Nothing(LOST),
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
