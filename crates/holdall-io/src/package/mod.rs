//! Packages, opened: what they say, their files, and the bytes of those.
//!
//! Nothing of a package is ever executed here. A file that is read whole is compared with its SHA-256 in the package's `MANIFEST`
//! first. One that is opened in place, to be mapped or read in part, is so only under [`Check::All`]. Verifying, packing and
//! unpacking are in `holdall-carton`.

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
use holdall_core::error::Shown as _;
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

/// What is for the runner.
pub const MODEL: &str = "model/";

/// Gets files that a package only links to. Shared by threads.
pub trait Fetcher: Send + Sync {
    /// Returns the path of a local file with this SHA-256, fetched from one of `urls` if there is none yet.
    /// It has at most `at_most` bytes, by what the package declares it as: more need not be fetched. The implementation
    /// has checked the hash.
    ///
    /// # Errors
    /// Io and Integrity, where none of the addresses gives the file.
    fn fetch(&self, sha256: [u8; 32], urls: &[String], at_most: u64) -> Result<PathBuf>;
}

/// A fetcher, or none.
#[derive(Clone, Default)]
pub(crate) struct Fetching(pub(crate) Option<Arc<dyn Fetcher>>);

impl fmt::Debug for Fetching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "fetching" } else { "not fetching" })
    }
}

/// An open package: its description, its files and their bytes. Cheap to clone; shared by threads.
#[derive(Clone)]
pub struct PackageReader {
    inner: Arc<Inner>,
    fetcher: Option<Arc<dyn Fetcher>>,
}

struct Inner {
    name: String,
    origin: Origin,
    /// Where the file or folder is.
    location: Location,
    io: Io,
    /// How its files are opened.
    options: OpenOptions,
    description: Description,
    hash: Option<[u8; 32]>,
    links: Links,
    /// The number in `links` of each hash that has addresses.
    addresses: HashMap<[u8; 32], usize>,
    /// The most bytes that each file of a tensor has, as the tensors are declared.
    declared: HashMap<String, u64>,
    files: Vec<PackageFile>,
    tensors: Vec<TensorRow>,
    /// The number in `tensors` of each name.
    numbers: HashMap<String, usize>,
    twins: Vec<ConflictingPaths>,
    warnings: Vec<Warning>,
}

/// A file of a package, folders excepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackageFile {
    /// Path in the package, parts separated by `/`.
    pub path: String,
    /// Its bytes; `None` where only a fetch tells.
    pub len: Option<u64>,
    /// SHA-256 of its bytes as `MANIFEST` gives it; `None` for `MANIFEST`, `LINKS`, and where there is no
    /// `MANIFEST`.
    pub sha256: Option<[u8; 32]>,
    /// Where its bytes are.
    pub place: FileLocation,
    /// The path in the package that it stands for, where it is a symbolic link.
    pub target: Option<String>,
    /// The path in the package that a symbolic link names, which may be that of another link.
    pub next: Option<String>,
    /// Number of its entry in the zip, whose name may be another: the original begins some with `/`.
    entry: Option<usize>,
}

/// Where the bytes of a package's file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileLocation {
    /// In the zip.
    Zip,
    /// In the unpacked folder.
    Disk,
    /// Elsewhere: `LINKS` says where.
    Links,
}

impl PackageReader {
    /// Gets files that are only linked to through `fetcher`, in place of the one of the
    /// [`OpenOptions`].
    /// Without one, reading them is an error.
    pub fn with_fetcher(mut self, fetcher: Arc<dyn Fetcher>) -> PackageReader {
        self.fetcher = Some(fetcher);
        self
    }

    /// The name it was opened under.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Where it is on the disk, if it was opened there.
    pub fn path(&self) -> Option<&Path> {
        self.inner.location.as_path()
    }

    /// Returns where the package is.
    pub fn location(&self) -> &Location {
        &self.inner.location
    }

    /// What `carton.toml` says.
    pub fn description(&self) -> &Description {
        &self.inner.description
    }

    /// What `LINKS` says; empty where there is none.
    pub fn links(&self) -> &Links {
        &self.inner.links
    }

    /// All files in the order of the bytes of their paths, also those that are only linked to, and
    /// `MANIFEST` and `LINKS`.
    pub fn files(&self) -> &[PackageFile] {
        &self.inner.files
    }

    /// The file of that path.
    pub fn file(&self, path: &str) -> Option<&PackageFile> {
        let files = &self.inner.files;
        let at = files.binary_search_by(|f| f.path.as_str().cmp(path)).ok()?;
        files.get(at)
    }

    /// The rows of `tensor_data/index.toml`.
    pub fn tensors(&self) -> &[TensorRow] {
        &self.inner.tensors
    }

    /// The model hash: SHA-256 of the bytes of `MANIFEST`.
    pub fn hash(&self) -> Option<[u8; 32]> {
        self.inner.hash
    }

    /// What is odd about the package, or about where it comes from, but does not make it bad.
    pub fn warnings(&self) -> &[Warning] {
        &self.inner.warnings
    }

    /// The bytes of a file, checked against `MANIFEST`. Those that are stored as they are in a mapped file
    /// are not copied.
    ///
    /// # Errors
    /// NotFound, Io, Integrity, Limit; what a fetch finds wrong.
    pub fn read(&self, path: &str) -> Result<Bytes> {
        let file = self.find(path)?;
        let checked = |bytes: Bytes| match file.sha256 {
            Some(wanted) if sha256(&bytes) != wanted => {
                Err(wrong_hash(path, &wanted, &sha256(&bytes)))
            }
            _ => Ok(bytes),
        };
        let read = match self.at(file)? {
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

    /// The bytes of a file as a stream in bounded memory. The read that would hand out its last bytes fails
    /// when the hash is wrong: who reads it keeps nothing before that.
    ///
    /// # Errors
    /// As [`PackageReader::read`].
    pub fn reader(&self, path: &str) -> Result<FileReader> {
        let file = self.find(path)?;
        let (len, from) = self.stream(file).map_err(|e| e.in_source(self.inside(path)))?;
        Ok(FileReader::new(from, path, len, file.sha256))
    }

    /// A stream of a file's bytes whose hash the caller compares, and how many there are.
    pub fn unchecked_reader(&self, path: &str) -> Result<(u64, Box<dyn Read + Send>)> {
        self.stream(self.find(path)?)
    }

    fn stream(&self, file: &PackageFile) -> Result<(u64, Box<dyn Read + Send>)> {
        Ok(match self.at(file)? {
            FileBytes::Zip(stored) => {
                (stored.len, Box::new(stored.stream(self.inner.options.limits())?))
            }
            FileBytes::Disk(path) => {
                let (len, from) = on_disk_file(&path)?;
                (len, Box::new(from))
            }
        })
    }

    /// Opens a model inside, with all its files: in place where they are stored as they are, else decoded in memory. `path` is that of a
    /// file or a folder. In place no byte is read before it is asked for, and the hash of a file is checked only under [`Check::All`],
    /// all of it before the model is returned. Verifying the package always checks.
    ///
    /// # Errors
    /// As [`PackageReader::read`] and [`crate::open()`].
    pub fn open_file(&self, path: &str) -> Result<File> {
        let member = Member {
            container: Arc::new(Container::Package(Box::new(self.clone()))),
            name: self.name().to_owned(),
            way: String::new(),
            path: path.to_owned(),
        };
        self.inner.options.open_site(&Site::in_container(self.location().clone(), member))
    }

    /// Returns the bytes of a file inside: in place where it is stored as it is, else decoded in memory. Its hash is checked as
    /// [`PackageReader::open_file`] does.
    ///
    /// # Errors
    /// As [`PackageReader::read`].
    pub(crate) fn find_source(&self, path: &str) -> Result<FoundFile> {
        let name = self.inside(path);
        let options = &self.inner.options;
        let file = self.find(path)?;
        let at = self.at(file).map_err(|e| e.in_source(&name))?;
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
                let is_here = |of: &Path| path.starts_with(of);
                // The name of a file of the cache is a hash.
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

    /// Returns whether a file, or the one that a symbolic link leads to, is one that its owner may execute: an entry of a zip made on
    /// Unix, a file on a disk.
    pub fn is_executable(&self, file: &PackageFile) -> bool {
        let target = file.target.as_deref().and_then(|target| self.file(target));
        let file = target.unwrap_or(file);
        match (&self.inner.origin, file.place) {
            (Origin::Zip { directory, .. }, FileLocation::Zip) => file
                .entry
                .and_then(|at| directory.at(at))
                .is_some_and(|entry| entry.is_executable()),
            (_, FileLocation::Disk) => match self.at(file) {
                Ok(FileBytes::Disk(path)) => is_executable(&path),
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns whether there is a folder `model`, with files or without.
    pub fn has_model(&self) -> bool {
        let is_folder = || match &self.inner.origin {
            Origin::Zip { directory, .. } => directory.get(MODEL).is_some(),
            Origin::Folder(root) => root.join(MODEL).is_dir(),
            Origin::Model(_) => true,
        };
        self.files().iter().any(|file| file.path.starts_with(MODEL)) || is_folder()
    }

    /// Files and folders that are one on some systems.
    pub fn twins(&self) -> &[ConflictingPaths] {
        &self.inner.twins
    }

    /// Returns which digests are checked.
    pub fn check(&self) -> Check {
        self.inner.options.check()
    }

    /// The limits that files are held to.
    pub fn limits(&self) -> &Limits {
        self.inner.options.limits()
    }

    /// The way to the bytes of a file on the disk.
    pub fn source_of(&self, path: &Path) -> Result<Source> {
        let opened = FileSource::open(path).and_then(|file| self.inner.options.source(file));
        Ok(opened.map_err(|e| e.in_source(path.display()))?.0)
    }

    /// Where the bytes of a file are, links of all kinds followed.
    pub fn at(&self, file: &PackageFile) -> Result<FileBytes> {
        let file = match &file.target {
            Some(target) => self.find(target)?,
            None => file,
        };
        match (&self.inner.origin, file.place) {
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
        let path = file.path.shown();
        let urls = |hash: [u8; 32]| {
            let row = self.inner.links.urls.get(*self.inner.addresses.get(&hash)?);
            row.map(|(_, urls)| (hash, urls))
        };
        let Some((hash, urls)) = file.sha256.and_then(urls) else {
            return Err(self.no_file(&file.path));
        };
        match &self.fetcher {
            Some(fetcher) => {
                let fetched = fetcher.fetch(hash, urls, self.at_most(&file.path));
                fetched.map_err(|e| e.for_source(self.inside(&file.path)))
            }
            None => {
                let message = format!("`{path}` is not in the package, which only links to it");
                Err(NOT_HERE.broken(message))
            }
        }
    }

    /// The bytes that a file of that path has at most, by what it is declared as: a tensor those of its type and
    /// shape, a text those that texts have.
    pub fn at_most(&self, path: &str) -> u64 {
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

    /// Whether a file that is stored as it is may be held in memory.
    fn check_len(&self, stored: &Stored) -> Result<()> {
        match stored.source.terms().access {
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
        let e = NO_FILE.broken(format!("there is no `{}`", path.shown()));
        let e = e.in_source(self.name());
        match crate::select::nearest(path, self.files().iter().map(|f| f.path.as_str())) {
            Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
            None => e,
        }
    }

    /// How a file inside is named in errors, and opened by name.
    pub fn inside(&self, path: &str) -> String {
        format!("{}!/{path}", self.name())
    }
}

/// Where the bytes of one file are.
pub enum FileBytes {
    /// In the zip.
    Zip(Stored),
    /// In a file on the disk.
    Disk(PathBuf),
}

/// Returns whether the owner of a file on a disk may execute it.
pub fn is_executable(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        path.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o100 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Whether what was opened as a package is none: other archives have files, too.
pub(crate) fn is_no_package(e: &Error) -> bool {
    e.code() == holdall_formats::UNKNOWN.code || e.code() == rules::NO_PACKAGE.code
}

/// All bytes of a stream of `len` bytes, which were checked against the limits.
fn whole(mut from: FileReader, len: u64, path: &str) -> Result<Bytes> {
    let mut out = Buffer::new(len as usize)?;
    from.read_exact(out.as_mut()).map_err(|e| reading(e, path))?;
    // An empty file has no last bytes for the check to come before.
    from.read(&mut [0]).map_err(|e| reading(e, path))?;
    Ok(out.freeze())
}

impl fmt::Debug for PackageReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackageReader").field("name", &self.name()).finish_non_exhaustive()
    }
}
