//! Files inside archives, opened in place: in tar archives, and in zip archives that are not packages.

use crate::index::fetch_ends;
use crate::source::{ByteSource, MemorySource, SliceSource, fetched, read_now};
use holdall_core::codec::check_decoded_len;
use holdall_core::error::{Escape as _, Remedy};
use holdall_core::wire::tar::{self, Member, Walk};
use holdall_core::wire::zip::{Directory, Entry, EntryKind, Method};
use holdall_core::{Digest, Error, Limits, Result, Stop, Window};
use holdall_formats::Format;
use std::sync::Arc;

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A path that the archive does not contain.
    pub NO_FILE: NotFound "archive/no-file" "The archive contains a file with the requested path.";
    /// A file that is not an archive.
    pub NO_ARCHIVE: Misuse "archive/no-archive"
        "The path before `!/` names a package, a zip or an uncompressed tar archive.";
}

/// The contents of an archive.
#[derive(Debug)]
#[non_exhaustive]
pub struct ArchiveContents {
    /// The name of the archive in errors.
    pub source: String,
    /// The kind of archive: `tar` or `zip`.
    pub kind: &'static str,
    /// The length of the archive in bytes.
    pub len: u64,
    /// The files, in the order of the archive.
    pub files: Vec<ArchiveEntry>,
}

/// A file in an archive.
#[derive(Debug)]
#[non_exhaustive]
pub struct ArchiveEntry {
    /// The path in the archive.
    pub name: String,
    /// The length of the file in bytes.
    pub len: u64,
    /// The number of bytes that the file takes in the archive.
    pub stored_len: u64,
    /// The compression method, such as `deflate`. `None` if the file is not compressed.
    pub method: Option<String>,
    /// The file's format, detected from its content. `None` if it is unknown, or the file is compressed and too long to
    /// decode for this.
    pub format: Option<&'static Format>,
}

/// Lists the files of an archive. `name` is its name in errors.
///
/// # Errors
/// Returns [`NO_ARCHIVE`] if the file is neither a zip nor a tar archive; errors in the archive; an `Io` error.
pub fn contents(
    source: Arc<dyn ByteSource>,
    name: &str,
    limits: &Limits,
) -> Result<ArchiveContents> {
    let len = source.len();
    let read = || {
        let archive = Archive::read(source, limits)?;
        let (kind, files) = archive.files(limits)?;
        Ok(ArchiveContents { source: name.to_owned(), kind, len, files })
    };
    read().map_err(|e: Error| e.in_source(name))
}

/// The total number of bytes of one archive's compressed files that are decoded to detect formats.
const MAX_DECODED: u64 = 64 << 20;

/// Returns the files of a tar archive, and the error after them if the archive is damaged. Skipped bytes are not kept
/// in memory.
///
/// # Errors
/// Returns an `Io` error.
pub fn tar_members(
    source: &dyn ByteSource,
    limits: &Limits,
) -> Result<(Vec<Member>, Option<Error>)> {
    let (mut walk, mut at, mut window) = (Walk::default(), 0, Window::new(source.len()));
    fetch_ends(source, &mut window)?;
    loop {
        match walk.advance(&window, limits) {
            Ok(()) => return Ok((walk.members, None)),
            Err(Stop::Fail(e)) => return Ok((walk.members, Some(e))),
            Err(Stop::Need(ranges)) => {
                // A header and the record after it are read together.
                if walk.position() != at {
                    (at, window) = (walk.position(), Window::new(source.len()));
                }
                let bytes = read_now(source, &ranges)?;
                ranges.iter().zip(bytes).for_each(|(range, bytes)| window.add(range.start, bytes));
            }
        }
    }
}

/// An archive whose directory has been read.
pub(crate) enum Archive {
    Tar(Arc<dyn ByteSource>, Vec<Member>),
    Zip(Arc<dyn ByteSource>, Arc<Directory>),
}

impl Archive {
    /// Reads the directory of the archive in a source.
    ///
    /// # Errors
    /// Returns [`NO_ARCHIVE`] if the file is neither a zip nor a tar archive; errors in the archive; an `Io` error.
    pub(crate) fn read(source: Arc<dyn ByteSource>, limits: &Limits) -> Result<Archive> {
        let mut window = Window::new(source.len());
        fetch_ends(&*source, &mut window)?;
        let head = fetched(&*source, &mut window, |window| window.head(512))?;
        if tar::is_tar(&head) {
            return match tar_members(&*source, limits)? {
                (_, Some(e)) => Err(e),
                (members, None) => Ok(Archive::Tar(source, members)),
            };
        }
        if !head.starts_with(b"PK") {
            return Err(NO_ARCHIVE.broken("this is neither a zip nor a tar archive"));
        }
        let directory = fetched(&*source, &mut window, |window| Directory::read(window, limits))?;
        Ok(Archive::Zip(source, directory))
    }

    /// Returns `true` if the archive has a file at this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        match self {
            Archive::Tar(_, members) => members.iter().any(|member| member.name == path),
            Archive::Zip(_, directory) => entry_of(directory, path).is_some(),
        }
    }

    /// Calls `each` with the path of every file.
    pub(crate) fn for_each_path<'a>(&'a self, each: &mut dyn FnMut(&'a str)) {
        match self {
            Archive::Tar(_, members) => members.iter().for_each(|member| each(&member.name)),
            Archive::Zip(_, directory) => {
                let files = directory.entries().filter(|entry| entry.kind() == EntryKind::File);
                files.for_each(|entry| each(entry.name()));
            }
        }
    }

    /// Returns the bytes of the file at this path. An uncompressed file is read in place; a compressed one is decoded
    /// into memory, up to [`Limits::decoded_len`](holdall_core::Limits).
    ///
    /// # Errors
    /// Returns `archive/no-file` if there is no such entry; errors in the entry; an `Io` error.
    pub(crate) fn find(&self, path: &str, limits: &Limits) -> Result<Arc<dyn ByteSource>> {
        let found = match self {
            Archive::Tar(source, members) => {
                let found = members.iter().find(|member| member.name == path);
                let slice =
                    |member: &Member| SliceSource::new(source.clone(), member.range.clone());
                found.map(slice).transpose()?.map(|slice| Arc::new(slice) as _)
            }
            Archive::Zip(source, directory) => entry_of(directory, path)
                .map(|entry| zipped(source, directory, entry, limits))
                .transpose()?,
        };
        found.ok_or_else(|| self.no_file(path))
    }

    /// Returns the kind of archive and its files.
    fn files(&self, limits: &Limits) -> Result<(&'static str, Vec<ArchiveEntry>)> {
        let mut left = MAX_DECODED;
        match self {
            Archive::Tar(source, members) => {
                let one = |member: &Member| {
                    let len = member.range.end - member.range.start;
                    let slice = SliceSource::new(source.clone(), member.range.clone())?;
                    let format = format_in(&slice)?;
                    let name = member.name.clone();
                    Ok(ArchiveEntry { name, len, stored_len: len, method: None, format })
                };
                Ok(("tar", members.iter().map(one).collect::<Result<_>>()?))
            }
            Archive::Zip(source, directory) => {
                let entries = directory.entries().filter(|entry| entry.kind() == EntryKind::File);
                let one = |entry: Entry<'_>| {
                    let (len, is_stored) = (entry.decoded_len(), entry.method() == Method::Stored);
                    let rest = if is_stored { Some(left) } else { left.checked_sub(len) };
                    left = rest.unwrap_or(left);
                    let found = rest.map(|_| zipped(source, directory, entry, limits));
                    let format = match found {
                        Some(Ok(found)) => format_in(&*found)?,
                        Some(Err(e)) if e.io().is_some() => return Err(e),
                        // An error in one file is reported when that file is opened.
                        Some(Err(_)) | None => None,
                    };
                    Ok(ArchiveEntry {
                        name: entry.name().to_owned(),
                        len,
                        stored_len: entry.stored_len(),
                        method: (!is_stored).then(|| entry.method().to_string()),
                        format,
                    })
                };
                Ok(("zip", entries.map(one).collect::<Result<_>>()?))
            }
        }
    }

    #[cold]
    fn no_file(&self, path: &str) -> Error {
        let e = NO_FILE.broken(format!("there is no file `{}`", path.escaped()));
        let near = match self {
            Archive::Tar(_, members) => {
                let names = members.iter().map(|member| member.name.as_str());
                holdall_core::model::nearest(path, names).map(str::to_owned)
            }
            Archive::Zip(_, directory) => {
                let names = directory.entries().map(|entry| entry.name());
                holdall_core::model::nearest(path, names).map(str::to_owned)
            }
        };
        match near {
            Some(near) => e.with_remedy(Remedy::did_you_mean(&near)),
            None => e,
        }
    }
}

/// Returns the entry of the file at this path in a zip archive.
fn entry_of<'d>(directory: &'d Directory, path: &str) -> Option<Entry<'d>> {
    directory.get(path).filter(|entry| entry.kind() == EntryKind::File)
}

/// Returns the bytes of an entry of a zip archive, in place or decoded.
fn zipped(
    source: &Arc<dyn ByteSource>,
    directory: &Directory,
    entry: Entry<'_>,
    limits: &Limits,
) -> Result<Arc<dyn ByteSource>> {
    let mut window = Window::new(source.len());
    if entry.method() == Method::Stored {
        let range = fetched(&**source, &mut window, |window| directory.data(entry, window))?;
        let digest = entry.checked_crc32().map(Digest::Crc32);
        return Ok(Arc::new(SliceSource::new(source.clone(), range)?.with_digest(digest)));
    }
    let most = entry.decoded_len().max(entry.stored_len());
    check_decoded_len(most, entry.stored_len(), limits)?;
    let decoded = |window: &Window| directory.decoded(entry, window, limits);
    Ok(Arc::new(MemorySource::new(fetched(&**source, &mut window, decoded)?)))
}

/// Detects the format of the file in a source. Returns `None` if no format recognises it.
fn format_in(source: &dyn ByteSource) -> Result<Option<&'static Format>> {
    let mut window = Window::new(source.len());
    match fetched(source, &mut window, holdall_formats::detect) {
        Ok(format) => Ok(Some(format)),
        Err(e) if e.io().is_some() => Err(e),
        Err(_) => Ok(None),
    }
}
