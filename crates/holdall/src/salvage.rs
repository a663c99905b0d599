//! Recovers the sound tensors of a damaged file.
//!
//! From a file that opens, all tensors are recovered except those in which verification finds an error. If the
//! file does not open, it is read in these ways, in order: as a file whose data was cut short or grew (the
//! header determines which tensors are complete) or whose footer was lost while its manifest was not; as a model in
//! several files, some of which are missing; as a zip whose directory was lost, by the headers of its entries;
//! and as a file whose end was lost, up to an older end of the same file (which an interrupted append leaves). A
//! package without a directory gets a new one, made from the headers of its entries. Names, types and shapes are
//! read from the file, never guessed.

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

/// The maximum number of errors in a report; further errors are only counted.
const MAX_REPORTED_ERRORS: usize = 1000;

/// The result of a salvage.
#[derive(Debug)]
#[non_exhaustive]
pub struct SalvageReport {
    /// The error of opening the file as it is, if it does not open.
    pub open_error: Option<Error>,
    /// Length of the damaged file in bytes.
    pub source_len: u64,
    /// Bytes of the damaged file that belong to the file that was read: fewer than `source_len` if it was read up to
    /// an older end.
    pub read_len: u64,
    /// Number of recovered tensors.
    pub tensors: u64,
    /// Number of files recovered from a package.
    pub files: u64,
    /// Errors of the tensors and files that were not recovered: the first 1000.
    pub left_out: Vec<Error>,
    /// Number of errors, including those beyond the first 1000.
    pub left_out_count: u64,
    /// Number of components without a digest that could be checked: changed bytes in them are not detected.
    pub unchecked: u64,
    /// Other contents of the file that the new file lacks, in words, as [`convert`] reports them.
    pub left_behind: Vec<String>,
    /// Length of the new file in bytes.
    pub target_len: u64,
}

impl SalvageReport {
    /// Returns `true` if nothing is missing, as far as can be determined.
    pub fn is_complete(&self) -> bool {
        self.open_error.is_none() && self.left_out_count == 0
    }
}

/// Writes the sound tensors of the damaged file at `path` to `target`, in the format of `write` or of the
/// extension, otherwise in the format of the damaged file.
///
/// # Errors
/// Returns an `Io` error; the error of the file if no tensor can be taken; then the same as [`convert`].
pub fn salvage(
    path: impl AsRef<Path>,
    target: impl AsRef<Path>,
    write: WriteOptions,
    options: &OpenOptions,
) -> Result<SalvageReport> {
    let (path, target) = (path.as_ref(), target.as_ref());
    let damaged = match options.open(path) {
        Ok(file) => Damaged { file, open_error: None, lost: Vec::new() },
        Err(e) if e.kind() == ErrorKind::Misuse => return Err(e),
        // A folder may fail with Io because the file that would open it is missing.
        Err(e) if e.kind() == ErrorKind::Io && !path.is_dir() => return Err(e),
        Err(e) => match open_damaged(path, target, &write, options)? {
            Opened::File(file, lost) => Damaged { file, open_error: Some(e), lost },
            #[cfg(feature = "carton")]
            Opened::Package => return package(path, target, write, options, e),
            Opened::Nothing(why) => return Err(e.without_advice().with_hint(why)),
        },
    };
    write_sound_tensors(damaged, path, target, write)
}

/// A damaged file, opened as far as possible.
struct Damaged {
    file: File,
    /// The error of opening the file as it is, if it does not open.
    open_error: Option<Error>,
    /// Known missing parts, in addition to the errors of its tensors.
    lost: Vec<Error>,
}

/// Writes the sound tensors of a damaged file.
fn write_sound_tensors(
    damaged: Damaged,
    path: &Path,
    target: &Path,
    write: WriteOptions,
) -> Result<SalvageReport> {
    let Damaged { file, open_error, mut lost } = damaged;
    if lost.is_empty() {
        lost.extend(parts::others(&file, path));
    }
    let faulty = broken(&file, &write.work)?;
    let name = |at: &usize| file.index().at(*at).map(|t| t.name().to_owned());
    let select = Select::all().without(faulty.tensors.iter().filter_map(name));
    if faulty.tensors.len() >= file.len() && !file.is_empty() {
        let e = NOTHING_SOUND.broken(format!("none of the {} tensors is sound", file.len()));
        let e = e.in_source(file.name());
        return Err(match faulty.errors.into_iter().next() {
            Some(first) => e.because(first),
            None => e,
        });
    }
    // The complete rows of an array that is cut short are kept.
    for warning in file.index().warnings().iter().filter(|w| w.code == CUT_SHORT.code) {
        let e = CUT_SHORT.broken(warning.message.clone()).in_source(file.name());
        lost.push(match &warning.tensor {
            Some(tensor) => e.in_tensor(tensor),
            None => e,
        });
    }
    let report = convert(
        &file,
        target,
        &Convert::new(target_options(&file, target, write)).with_select(select),
    )?;
    let read_len = file.index().source_len();
    // If only a part of the file was read, its full length is taken from the file system.
    let source_len = match (&open_error, path.metadata()) {
        (Some(_), Ok(meta)) if meta.is_file() && file.all_sources().len() == 1 => meta.len(),
        _ => read_len,
    };
    let left_out_count = (faulty.tensors.len() + lost.len()) as u64;
    let left_out = lost.into_iter().chain(faulty.errors).take(MAX_REPORTED_ERRORS).collect();
    Ok(SalvageReport {
        open_error,
        source_len,
        read_len: read_len.min(source_len),
        tensors: report.tensors,
        files: 0,
        left_out,
        left_out_count,
        unchecked: faulty.unchecked,
        left_behind: report.left_behind,
        target_len: report.target_len,
    })
}

/// The result of opening a file that does not open as it is.
enum Opened {
    /// The file, opened as far as possible, and its known missing parts.
    File(File, Vec<Error>),
    /// A package without a directory, whose files can be taken.
    #[cfg(feature = "carton")]
    Package,
    /// Nothing can be recovered, for this reason.
    Nothing(&'static str),
}

/// The reason why nothing can be recovered from a file.
const NAMES_LOST: &str =
    "nothing can be recovered: the names, types and shapes of its tensors are lost";

/// Opens the damaged file at `path` by each kind of recovery in turn.
fn open_damaged(
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
            "nothing can be recovered from the folder: none of its files are parts of the same model",
        ));
    }
    // A shard that was renamed.
    if let Ok(file) = options_of_damaged.open_single_file(path) {
        return Ok(Opened::File(file, Vec::new()));
    }
    #[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
    if let Some(open_damaged) = zip::open(path, target, write, &options_of_damaged)? {
        return Ok(open_damaged);
    }
    #[cfg(not(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5")))]
    let _ = (target, write);
    Ok(match older::open(path, options)? {
        Some(file) => Opened::File(file, Vec::new()),
        None => Opened::Nothing(NAMES_LOST),
    })
}

/// Writes the sound files of the zip at `path`, whose directory cannot be read, as a new zip.
#[cfg(feature = "carton")]
fn package(
    path: &Path,
    target: &Path,
    write: WriteOptions,
    options: &OpenOptions,
    open_error: Error,
) -> Result<SalvageReport> {
    let repaired = holdall_carton::repair(path, target, &write, options)?;
    let left_out_count = repaired.lost.len() as u64;
    Ok(SalvageReport {
        open_error: Some(open_error),
        source_len: repaired.source_len,
        read_len: repaired.read_len,
        tensors: 0,
        files: repaired.files,
        left_out: repaired.lost.into_iter().take(MAX_REPORTED_ERRORS).collect(),
        left_out_count,
        unchecked: 0,
        left_behind: Vec::new(),
        target_len: repaired.target_len,
    })
}

/// Returns options that write the format and version of the old file, unless `write` or the extension of
/// `target` give others.
fn target_options(file: &File, target: &Path, write: WriteOptions) -> WriteOptions {
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
