//! Files inside of archives, opened in place: of tar archives, and of zips that are no packages.

use crate::index::fetch_ends;
use crate::source::{ByteSource, MemorySource, SliceSource, fetched, read_now};
use holdall_core::codec::check_decoded_len;
use holdall_core::error::{Remedy, Shown as _};
use holdall_core::wire::tar::{self, Member, Walk};
use holdall_core::wire::zip::{Directory, Entry, EntryKind, Method};
use holdall_core::{Digest, Error, Limits, Result, Stop, Window};
use holdall_formats::Format;
use std::sync::Arc;

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A path that is not in the archive.
    pub NO_FILE: NotFound "archive/no-file" "The archive contains the file whose path is asked for.";
    /// What has no files in it.
    pub NO_ARCHIVE: Misuse "archive/no-archive"
        "The path before `!/` names a package, a zip or an uncompressed tar archive.";
}

/// What an archive has in it.
#[derive(Debug)]
#[non_exhaustive]
pub struct ArchiveContents {
    /// Where it is from, as errors say it.
    pub source: String,
    /// `tar` or `zip`.
    pub kind: &'static str,
    /// Its bytes.
    pub len: u64,
    /// Its files, in its order.
    pub files: Vec<ArchiveEntry>,
}

/// A file in an archive.
#[derive(Debug)]
#[non_exhaustive]
pub struct ArchiveEntry {
    /// Its path in the archive.
    pub name: String,
    /// Its bytes.
    pub len: u64,
    /// Bytes that it takes in the archive.
    pub stored_len: u64,
    /// How it is compressed, where it is: `deflate`, for example.
    pub method: Option<String>,
    /// The format that it can be opened as, as far as its bytes tell. Not known of what is compressed and long.
    pub format: Option<&'static Format>,
}

/// What the archive that `source` gives has in it; `name` stands for it in errors.
///
/// # Errors
/// [`NO_ARCHIVE`]; what is wrong with it; Io.
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

/// Bytes that compressed files of one archive are decoded to together, to tell their formats.
const MOST_DECODED: u64 = 64 << 20;

/// The files of a tar archive, and what is wrong behind them. What was walked past is not kept.
///
/// # Errors
/// Io.
pub fn members(source: &dyn ByteSource, limits: &Limits) -> Result<(Vec<Member>, Option<Error>)> {
    let (mut walk, mut at, mut window) = (Walk::default(), 0, Window::new(source.len()));
    fetch_ends(source, &mut window)?;
    loop {
        match walk.go(&window, limits) {
            Ok(()) => return Ok((walk.members, None)),
            Err(Stop::Fail(e)) => return Ok((walk.members, Some(e))),
            Err(Stop::Need(ranges)) => {
                // A header and the record behind it are looked at together.
                if walk.position() != at {
                    (at, window) = (walk.position(), Window::new(source.len()));
                }
                let bytes = read_now(source, &ranges)?;
                ranges.iter().zip(bytes).for_each(|(range, bytes)| window.add(range.start, bytes));
            }
        }
    }
}

/// The table of an archive.
pub(crate) enum Archive {
    Tar(Arc<dyn ByteSource>, Vec<Member>),
    Zip(Arc<dyn ByteSource>, Arc<Directory>),
}

impl Archive {
    /// Reads the table of the archive that a source holds.
    ///
    /// # Errors
    /// [`NO_ARCHIVE`]; what is wrong with it; Io.
    pub(crate) fn read(source: Arc<dyn ByteSource>, limits: &Limits) -> Result<Archive> {
        let mut window = Window::new(source.len());
        fetch_ends(&*source, &mut window)?;
        let head = fetched(&*source, &mut window, |window| window.head(512))?;
        if tar::is_one(&head) {
            return match members(&*source, limits)? {
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

    /// Whether it has a file at that path.
    pub(crate) fn has(&self, path: &str) -> bool {
        match self {
            Archive::Tar(_, members) => members.iter().any(|member| member.name == path),
            Archive::Zip(_, directory) => entry_of(directory, path).is_some(),
        }
    }

    /// Calls `each` with the paths of all files.
    pub(crate) fn for_each_path<'a>(&'a self, each: &mut dyn FnMut(&'a str)) {
        match self {
            Archive::Tar(_, members) => members.iter().for_each(|member| each(&member.name)),
            Archive::Zip(_, directory) => {
                let files = directory.entries().filter(|entry| entry.kind() == EntryKind::File);
                files.for_each(|entry| each(entry.name()));
            }
        }
    }

    /// Returns the bytes of the file at that path. What is stored as it is is read where it lies; what is compressed is decoded into
    /// memory, under [`Limits::decoded_len`](holdall_core::Limits).
    ///
    /// # Errors
    /// `archive/no-file`; what is wrong with the entry; Io.
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

    /// What kind it is of, and all its files.
    fn files(&self, limits: &Limits) -> Result<(&'static str, Vec<ArchiveEntry>)> {
        let mut left = MOST_DECODED;
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
                        // What is wrong with one file is told by opening it.
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
        let e = NO_FILE.broken(format!("there is no file `{}`", path.shown()));
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

/// Returns the file at that path of a zip.
fn entry_of<'d>(directory: &'d Directory, path: &str) -> Option<Entry<'d>> {
    directory.get(path).filter(|entry| entry.kind() == EntryKind::File)
}

/// The bytes of an entry of a zip: where they lie, or decoded.
fn zipped(
    source: &Arc<dyn ByteSource>,
    directory: &Directory,
    entry: Entry<'_>,
    limits: &Limits,
) -> Result<Arc<dyn ByteSource>> {
    let mut window = Window::new(source.len());
    if entry.method() == Method::Stored {
        let place = fetched(&**source, &mut window, |window| directory.data(entry, window))?;
        let sum = entry.sum().map(Digest::Crc32);
        return Ok(Arc::new(SliceSource::new(source.clone(), place)?.with_digest(sum)));
    }
    let most = entry.decoded_len().max(entry.stored_len());
    check_decoded_len(most, entry.stored_len(), limits)?;
    let decoded = |window: &Window| directory.decoded(entry, window, limits);
    Ok(Arc::new(MemorySource::new(fetched(&**source, &mut window, decoded)?)))
}

/// The format of the file that a source gives, where it is of one.
fn format_in(source: &dyn ByteSource) -> Result<Option<&'static Format>> {
    let mut window = Window::new(source.len());
    match fetched(source, &mut window, holdall_formats::detect) {
        Ok(format) => Ok(Some(format)),
        Err(e) if e.io().is_some() => Err(e),
        Err(_) => Ok(None),
    }
}
