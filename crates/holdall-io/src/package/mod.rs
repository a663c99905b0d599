//! Open packages: their description, their files, and the files' bytes.
//!
//! Code in a package is never executed here. A file that is read whole is compared with its SHA-256 in the package's
//! `MANIFEST` first. A file that is opened in place, to be mapped or read in parts, is only compared with
//! [`Check::All`]. Verifying, packing and unpacking are in `holdall-carton`.

mod check;
pub mod folder;
mod linked;
mod open;
pub mod origin;
pub mod read;
pub mod rules;
mod value;

use crate::buffer::Buffer;
use crate::checked::Check;
use crate::file::File;
use crate::location::{Container, FoundFile, Location, Member, Site};
use crate::options::{Io, OpenOptions};
use crate::source::{Access, FileSource, MemorySource, SliceSource};
use crate::work::Work;
use bytes::Bytes;
use holdall_core::codec::check_decoded_len;
use holdall_core::error::Escape as _;
use holdall_core::{Digest, Error, Limits, Remedy, Result, Warning};
use holdall_package::paths::ConflictingPaths;
use holdall_package::{
    CARTON_TOML, Description, Links, TENSOR_DATA, TENSOR_INDEX, TensorRow, sha256, wrong_hash,
};
use origin::{Origin, Source, Stored, on_disk as on_disk_file};
use read::{FileReader, reading};
use rules::{NO_FILE, NOT_HERE};
use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder in a package with the model's files, which the runner uses.
pub const MODEL: &str = "model/";

/// Fetches files that a package only links to. Shared by threads.
pub trait Fetcher: Send + Sync {
    /// Returns the path of a local file with this SHA-256. If the file is not there yet, fetches it from one of `urls`.
    /// According to the package, the file has at most `at_most` bytes; longer ones need not be fetched. The
    /// implementation must check the hash.
    ///
    /// # Errors
    /// Returns an `Io` error or an `Integrity` error if none of the addresses returns the file.
    fn fetch(&self, sha256: [u8; 32], urls: &[String], at_most: u64) -> Result<PathBuf>;
}

/// An optional fetcher.
#[derive(Clone, Default)]
pub(crate) struct Fetching(pub(crate) Option<Arc<dyn Fetcher>>);

impl fmt::Debug for Fetching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "fetching" } else { "not fetching" })
    }
}

/// An open package: its description, its files and their bytes. Cheap to clone, and can be shared between threads.
#[derive(Clone)]
pub struct PackageReader {
    inner: Arc<Inner>,
    fetcher: Option<Arc<dyn Fetcher>>,
}

struct Inner {
    name: String,
    origin: Origin,
    /// The location of the zip file or folder.
    location: Location,
    io: Io,
    /// The options for opening the package's files.
    options: OpenOptions,
    description: Description,
    hash: Option<[u8; 32]>,
    links: Links,
    /// The number in `links` of each hash that has addresses.
    addresses: HashMap<[u8; 32], usize>,
    /// The maximum length of each file of a tensor, according to the declared tensors.
    declared: HashMap<String, u64>,
    files: Vec<PackageFile>,
    tensors: Vec<TensorRow>,
    /// The number in `tensors` of each name.
    numbers: HashMap<String, usize>,
    conflicting_paths: Vec<ConflictingPaths>,
    warnings: Vec<Warning>,
}

/// A file of a package. Folders are not included.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackageFile {
    /// The path in the package, with segments separated by `/`.
    pub path: String,
    /// The length in bytes. `None` if it is only known after fetching the file.
    pub len: Option<u64>,
    /// The SHA-256 of the file according to `MANIFEST`. `None` for `MANIFEST` and `LINKS` themselves, and if there is
    /// no `MANIFEST`.
    pub sha256: Option<[u8; 32]>,
    /// The location of the file's bytes.
    pub location: FileLocation,
    /// If the file is a symbolic link, the path in the package to which it leads.
    pub target: Option<String>,
    /// The path in the package that a symbolic link names, which may be that of another link.
    pub next: Option<String>,
    /// The index of the file's entry in the zip, whose name may differ: the original implementation begins some with
    /// `/`.
    entry: Option<usize>,
}

/// The location of a file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileLocation {
    /// In the zip.
    Zip,
    /// In the unpacked folder.
    Disk,
    /// Elsewhere: `LINKS` has the addresses.
    Links,
}

impl PackageReader {
    /// Sets the fetcher for files that are only linked to, instead of the one in the [`OpenOptions`]. Without a
    /// fetcher, reading such a file is an error.
    pub fn with_fetcher(mut self, fetcher: Arc<dyn Fetcher>) -> PackageReader {
        self.fetcher = Some(fetcher);
        self
    }

    /// Returns the name under which the package was opened.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the local path, if the package was opened from one.
    pub fn path(&self) -> Option<&Path> {
        self.inner.location.as_path()
    }

    /// Returns the package's location.
    pub fn location(&self) -> &Location {
        &self.inner.location
    }

    /// Returns the content of `carton.toml`.
    pub fn description(&self) -> &Description {
        &self.inner.description
    }

    /// Returns the content of `LINKS`. Empty if there is no such file.
    pub fn links(&self) -> &Links {
        &self.inner.links
    }

    /// Returns all files, sorted by the bytes of their paths. Includes files that are only linked to, and `MANIFEST`
    /// and `LINKS`.
    pub fn files(&self) -> &[PackageFile] {
        &self.inner.files
    }

    /// Returns the file with this path.
    pub fn file(&self, path: &str) -> Option<&PackageFile> {
        let files = &self.inner.files;
        let at = files.binary_search_by(|f| f.path.as_str().cmp(path)).ok()?;
        files.get(at)
    }

    /// Returns the rows of `tensor_data/index.toml`.
    pub fn tensors(&self) -> &[TensorRow] {
        &self.inner.tensors
    }

    /// Returns the model hash: the SHA-256 of the bytes of `MANIFEST`.
    pub fn hash(&self) -> Option<[u8; 32]> {
        self.inner.hash
    }

    /// Returns the warnings: oddities of the package or its source that do not make it invalid.
    pub fn warnings(&self) -> &[Warning] {
        &self.inner.warnings
    }

    /// Reads a file, and checks it against `MANIFEST`. The bytes of an uncompressed file in a mapped package are not
    /// copied.
    ///
    /// # Errors
    /// Returns a `NotFound` error; an `Io` error; an `Integrity` error if the hash differs; a `Limit` error; errors of fetching.
    pub fn read(&self, path: &str) -> Result<Bytes> {
        let file = self.find(path)?;
        let checked = |bytes: Bytes| match file.sha256 {
            Some(wanted) if sha256(&bytes) != wanted => {
                Err(wrong_hash(path, &wanted, &sha256(&bytes)))
            }
            _ => Ok(bytes),
        };
        let read = match self.locate(file)? {
            FileBytes::Zip(stored) if stored.is_plain() => {
                self.check_len(&stored)?;
                stored.source.read_range(stored.range()).and_then(checked)
            }
            FileBytes::Zip(stored) => {
                let from = stored.stream(self.inner.options.limits())?;
                let from = FileReader::new(Box::new(from), path, stored.len, file.sha256);
                whole(from, stored.len, path)
            }
            FileBytes::Disk(on_disk) => {
                let (len, from) = on_disk_file(&on_disk)?;
                check_decoded_len(len, len, self.inner.options.limits())?;
                let from = FileReader::new(Box::new(from), path, len, file.sha256);
                whole(from, len, path)
            }
        };
        read.map_err(|e| e.in_source(self.inside(path)))
    }

    /// Returns the bytes of a file as a stream, in bounded memory. If the hash is wrong, the read that would return the
    /// last bytes fails: a caller must not use any bytes before the end.
    ///
    /// # Errors
    /// Returns the same errors as [`PackageReader::read`].
    pub fn reader(&self, path: &str) -> Result<FileReader> {
        let file = self.find(path)?;
        let (len, from) = self.stream(file).map_err(|e| e.in_source(self.inside(path)))?;
        Ok(FileReader::new(from, path, len, file.sha256))
    }

    /// Returns the length of a file and a stream of its bytes, whose hash the caller must check.
    pub fn unchecked_reader(&self, path: &str) -> Result<(u64, Box<dyn Read + Send>)> {
        self.stream(self.find(path)?)
    }

    fn stream(&self, file: &PackageFile) -> Result<(u64, Box<dyn Read + Send>)> {
        Ok(match self.locate(file)? {
            FileBytes::Zip(stored) => {
                (stored.len, Box::new(stored.stream(self.inner.options.limits())?))
            }
            FileBytes::Disk(path) => {
                let (len, from) = on_disk_file(&path)?;
                (len, Box::new(from))
            }
        })
    }

    /// Opens a model in the package, with all its files: in place if they are not compressed, else decoded in memory.
    /// `path` is that of a file or a folder. In place, bytes are only read when they are needed, and the hash of a file
    /// is only checked with [`Check::All`], completely before the model is returned. Verifying the package always
    /// checks hashes.
    ///
    /// # Errors
    /// Returns the same errors as [`PackageReader::read`] and [`crate::open()`].
    pub fn open_file(&self, path: &str) -> Result<File> {
        let member = Member {
            container: Arc::new(Container::Package(Box::new(self.clone()))),
            name: self.name().to_owned(),
            way: String::new(),
            path: path.to_owned(),
        };
        self.inner.options.open_site(&Site::in_container(self.location().clone(), member))
    }

    /// Returns the bytes of a file in the package: in place if it is not compressed, else decoded in memory. Its hash
    /// is checked as in [`PackageReader::open_file`].
    ///
    /// # Errors
    /// Returns the same errors as [`PackageReader::read`].
    pub(crate) fn find_source(&self, path: &str) -> Result<FoundFile> {
        let name = self.inside(path);
        let options = &self.inner.options;
        let file = self.find(path)?;
        let at = self.locate(file).map_err(|e| e.in_source(&name))?;
        let is_mapped = !matches!(&at, FileBytes::Zip(stored) if !stored.is_plain());
        if options.check() == Check::All && is_mapped {
            let whole = file.target.as_deref().map_or(Ok(file), |target| self.find(target))?;
            self.check_file(whole, &Work::default()).map_err(|e| e.in_source(&name))?;
        }
        match at {
            FileBytes::Zip(stored) if stored.is_plain() => {
                let digest = file.sha256.map_or(Digest::Crc32(stored.crc), Digest::Sha256);
                let source = SliceSource::new(stored.source.clone(), stored.range())?;
                let source = source.with_digest(Some(digest));
                Ok(FoundFile { source: Arc::new(source), name, io: self.inner.io })
            }
            FileBytes::Zip(..) => {
                Ok(FoundFile::new(Arc::new(MemorySource::new(self.read(path)?)), name))
            }
            FileBytes::Disk(path) => {
                let is_here = |prefix: &Path| path.starts_with(prefix);
                // The name of a file in the cache is only a hash.
                let name = match self.inner.origin.folder().is_some_and(is_here) {
                    true => path.display().to_string(),
                    false => name,
                };
                let opened = FileSource::open(&path).and_then(|file| options.source(file));
                let (source, io) = opened.map_err(|e| e.in_source(&name))?;
                Ok(FoundFile { source, name, io })
            }
        }
    }

    /// Returns `true` if the owner may execute a file, according to an entry of a zip made on Unix or a file on a disk.
    pub fn is_executable(&self, file: &PackageFile) -> bool {
        let target = file.target.as_deref().and_then(|target| self.file(target));
        let file = target.unwrap_or(file);
        match (&self.inner.origin, file.location) {
            (Origin::Zip { directory, .. }, FileLocation::Zip) => file
                .entry
                .and_then(|at| directory.at(at))
                .is_some_and(|entry| entry.is_executable()),
            (_, FileLocation::Disk) => match self.locate(file) {
                Ok(FileBytes::Disk(path)) => is_executable(&path),
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns `true` if there is a folder `model`, which may be empty.
    pub fn has_model(&self) -> bool {
        let is_folder = || match &self.inner.origin {
            Origin::Zip { directory, .. } => directory.get(MODEL).is_some(),
            Origin::Folder(root) => root.join(MODEL).is_dir(),
            Origin::Model(_) => true,
        };
        self.files().iter().any(|file| file.path.starts_with(MODEL)) || is_folder()
    }

    /// Returns the files and folders whose paths are equal on some systems.
    pub fn conflicting_paths(&self) -> &[ConflictingPaths] {
        &self.inner.conflicting_paths
    }

    /// Returns which digests are checked.
    pub fn check(&self) -> Check {
        self.inner.options.check()
    }

    /// Returns the limits.
    pub fn limits(&self) -> &Limits {
        self.inner.options.limits()
    }

    /// Opens a source for a file on the disk, with the package's options.
    pub fn source_of(&self, path: &Path) -> Result<Source> {
        let opened = FileSource::open(path).and_then(|file| self.inner.options.source(file));
        Ok(opened.map_err(|e| e.in_source(path.display()))?.0)
    }

    /// Returns the location of a file's bytes, after following symbolic links and fetching linked files.
    pub fn locate(&self, file: &PackageFile) -> Result<FileBytes> {
        let file = match &file.target {
            Some(target) => self.find(target)?,
            None => file,
        };
        match (&self.inner.origin, file.location) {
            (Origin::Zip { source, directory }, FileLocation::Zip) => {
                let entry = file.entry.and_then(|at| directory.at(at));
                match entry.map(|entry| Stored::find(source, directory, entry)).transpose()? {
                    Some(stored) => Ok(FileBytes::Zip(stored)),
                    None => Err(self.no_file(&file.path)),
                }
            }
            (Origin::Folder(root), FileLocation::Disk) => {
                Ok(FileBytes::Disk(root.join(&file.path)))
            }
            (Origin::Model(root), FileLocation::Disk) => {
                let path = file.path.strip_prefix(MODEL).unwrap_or(&file.path);
                Ok(FileBytes::Disk(root.join(path)))
            }
            _ => self.fetched(file).map(FileBytes::Disk),
        }
    }

    /// Compares the descriptor of a file in a zip, if it has one, with the directory.
    pub fn check_descriptor(&self, file: &PackageFile) -> Result<()> {
        let Origin::Zip { source, directory } = &self.inner.origin else { return Ok(()) };
        match file.entry.and_then(|at| directory.at(at)) {
            Some(entry) => Stored::check_descriptor(&**source, directory, entry),
            None => Ok(()),
        }
    }

    fn fetched(&self, file: &PackageFile) -> Result<PathBuf> {
        let path = file.path.escaped();
        let urls = |hash: [u8; 32]| {
            let row = self.inner.links.urls.get(*self.inner.addresses.get(&hash)?);
            row.map(|(_, urls)| (hash, urls))
        };
        let Some((hash, urls)) = file.sha256.and_then(urls) else {
            return Err(self.no_file(&file.path));
        };
        match &self.fetcher {
            Some(fetcher) => {
                let fetched = fetcher.fetch(hash, urls, self.max_len(&file.path));
                fetched.map_err(|e| e.for_source(self.inside(&file.path)))
            }
            None => {
                let message = format!("`{path}` is not in the package, which only links to it");
                Err(NOT_HERE.broken(message))
            }
        }
    }

    /// Returns the greatest length in bytes that a file may have, according to its declaration: for a tensor that of
    /// its type and shape, for a text the limit for texts.
    pub fn max_len(&self, path: &str) -> u64 {
        let limits = self.inner.options.limits();
        let name = match path.split_once('/') {
            None if path == CARTON_TOML => return limits.text_len,
            Some((TENSOR_DATA, name)) => name,
            _ => return limits.fetched_len,
        };
        let declared = self.inner.declared.get(name).copied();
        let is_table = path == TENSOR_INDEX;
        declared.unwrap_or(if is_table { limits.text_len } else { limits.fetched_len })
    }

    /// Checks that an uncompressed file may be read into memory.
    fn check_len(&self, stored: &Stored) -> Result<()> {
        match stored.source.read_hints().access {
            Access::Borrowed => Ok(()),
            _ => check_decoded_len(
                stored.len,
                stored.component.stored_len(),
                self.inner.options.limits(),
            ),
        }
    }

    fn find(&self, path: &str) -> Result<&PackageFile> {
        self.file(path).ok_or_else(|| self.no_file(path))
    }

    #[cold]
    fn no_file(&self, path: &str) -> Error {
        let e = NO_FILE.broken(format!("there is no `{}`", path.escaped()));
        let e = e.in_source(self.name());
        match crate::select::nearest(path, self.files().iter().map(|f| f.path.as_str())) {
            Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
            None => e,
        }
    }

    /// Returns the name of a file in the package for errors, by which it can also be opened.
    pub fn inside(&self, path: &str) -> String {
        format!("{}!/{path}", self.name())
    }
}

/// The location of a file's bytes.
pub enum FileBytes {
    /// In the zip.
    Zip(Stored),
    /// In a file on the disk.
    Disk(PathBuf),
}

/// Returns `true` if the owner of a local file may execute it.
pub fn is_executable(path: &Path) -> bool {
    crate::platform::is_executable(path)
}

/// Returns `true` if the error says that a file is not a package. It may still be another kind of archive.
pub(crate) fn is_no_package(e: &Error) -> bool {
    e.code() == holdall_formats::UNKNOWN.code || e.code() == rules::NO_PACKAGE.code
}

/// Reads all bytes of a stream of `len` bytes, which the caller has checked against the limits.
fn whole(mut from: FileReader, len: u64, path: &str) -> Result<Bytes> {
    let mut out = Buffer::new(len as usize)?;
    from.read_exact(out.as_mut()).map_err(|e| reading(e, path))?;
    // For an empty file, only this read checks the hash.
    from.read(&mut [0]).map_err(|e| reading(e, path))?;
    Ok(out.freeze())
}

impl fmt::Debug for PackageReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackageReader").field("name", &self.name()).finish_non_exhaustive()
    }
}
