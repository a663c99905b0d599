//! Opening a file: choosing its source, and reading its index within the limits.

use crate::checked::{Check, check_source};
use crate::error::{CHANGED, SOURCES, io};
use crate::executor::Sources;
use crate::external::has_unavailable_data;
use crate::file::File;
use crate::index::decode_index;
use crate::location::{FoundFile, Location, Member, Site};
use crate::lock::Stamp;
use crate::model::{FileRole, ModelFile};
use crate::options::{Faults, Io, OpenOptions};
use crate::source::{ByteSource, FileSource, Mapped, MemorySource};
use bytes::Bytes;
use holdall_core::layout::described::Layouts;
use holdall_core::{Digest, Index, Limits, Result};
use holdall_formats::shards::SHARD_MISSING;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Opens a file with the default [`OpenOptions`]: a local file, one at `https://…`, or one inside a package or an
/// archive.
///
/// # Errors
/// Returns an `Io` error if the file cannot be read; an `Unsupported` error if no format recognises it; errors of its format.
pub fn open(path: impl AsRef<Path>) -> Result<File> {
    OpenOptions::new().open(path)
}

impl OpenOptions {
    /// Opens the file at `path`, which is one of
    /// - the path of a local file;
    /// - the address of a file on a web server (`https://…`), which is read by range requests, see [`crate::http`];
    /// - the address of a file in an object store (`s3://`, `gs://`, `az://` or `hf://`), see [`crate::stores`];
    /// - `ARCHIVE!/PATH`, a file inside a package or inside a zip or tar archive.
    ///
    /// A model of several files is opened as one, at any of these locations: a folder with an index file
    /// (`*.index.json`), with all shards of one model, or with one tensor file; such an index file; the first part of a
    /// split GGUF file; an ONNX model with external data; a zTensor 2 file with shards; a distributed checkpoint.
    ///
    /// # Errors
    /// Returns the same errors as [`open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        self.open_location(&Location::new(path))
    }

    /// Opens the file at a location, as [`OpenOptions::open`] does.
    ///
    /// # Errors
    /// Returns the same errors as [`open`]; a `Misuse` error for a location that only names bytes in memory.
    pub fn open_location(&self, location: &Location) -> Result<File> {
        self.open_site(&Site::new(self, location)?)
    }

    /// Opens a file, an index or a folder, with all files that belong to it.
    pub(crate) fn open_site(&self, site: &Site) -> Result<File> {
        if let Some(file) = self.open_model(site)? {
            return Ok(file);
        }
        let opened = self.with_other_files(self.open_one(site), site);
        match opened {
            // Tried last, because most locations are files.
            Err(e) => match site.as_folder() {
                Some(folder) => self.open_folder(&folder),
                #[cfg(feature = "stores")]
                None if e.code() == crate::stores::rules::NO_OBJECT.code => {
                    self.open_prefix(site).unwrap_or(Err(e))
                }
                None => Err(e),
            },
            opened => opened,
        }
    }

    /// Adds the files that belong to the one that was opened.
    fn with_other_files(&self, opened: Result<File>, site: &Site) -> Result<File> {
        // With `Faults::Refuse`, tensors in other files look faulty until those files are open.
        let opened = match opened {
            Err(e) if self.faults == Faults::Refuse && has_unavailable_data(&e) => {
                self.clone().with_faults(Faults::Keep).open_one(site)
            }
            opened => opened,
        };
        let main = vec![ModelFile::new(FileRole::Main, site.location.clone(), Some(0))];
        let file = self.with_external(opened?.with_files(main), site)?;
        #[cfg(feature = "carton")]
        let file = self.with_links(file, site)?;
        self.with_parts(file, site)
    }

    /// Opens a local file alone, without its shards or parts.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open).
    pub fn open_single_file(&self, path: impl AsRef<Path>) -> Result<File> {
        let site = Site::new(self, &Location::new(path))?;
        let main = vec![ModelFile::new(FileRole::Main, site.location.clone(), Some(0))];
        Ok(self.open_one(&site)?.with_files(main))
    }

    /// Opens one file, without its shards or parts.
    fn open_one(&self, site: &Site) -> Result<File> {
        let Location::Path(path) = &site.location else {
            let FoundFile { source, name, io } = site.find(self)?;
            return self.decode(source, name, io);
        };
        let name = path.display().to_string();
        // Another process may be editing the file in place. The decoded index counts only if the file was the
        // same before and after.
        for attempt in 1..=ATTEMPTS {
            let file = FileSource::open(path).map_err(|e| e.in_source(&name))?;
            let (handle, before) = file.as_opened();
            let opened = self.open_file(file, &name);
            let now = handle.metadata().map_err(|e| io(e, "opening").in_source(&name))?;
            if Stamp::from(&now) == before {
                return opened;
            }
            if attempt == ATTEMPTS {
                return opened.and_then(|_| Err(changing().in_source(&name)));
            }
            std::thread::sleep(PAUSE);
        }
        Err(changing().in_source(&name))
    }

    /// Returns the bytes of the file at a location without comparing hashes: packages are read as plain zip archives.
    /// For tools that search for damage. Also returns the file's name for errors.
    ///
    /// # Errors
    /// Returns the same errors as [`OpenOptions::source_at`].
    pub fn unchecked_source_at(
        &self,
        location: &Location,
    ) -> Result<(Arc<dyn ByteSource>, String)> {
        let Location::Member { archive, path } = location else { return self.source_at(location) };
        let member = Member::locate_plain(self, archive, path)?;
        let found = member.container.find(&member.path, self, &member.name)?;
        Ok((found.source, found.name))
    }

    /// Returns the bytes of the file at a location, after checking them against the digest that its container has of
    /// it, as the options' [`Check`] demands, and the file's name for errors. Reads all bytes.
    ///
    /// # Errors
    /// Returns the same errors as [`OpenOptions::source_at`]; an `Integrity` error if the digest differs.
    pub fn checked_source_at(&self, location: &Location) -> Result<(Arc<dyn ByteSource>, String)> {
        if self.check() == Check::Off {
            return self.source_at(location);
        }
        // The hash of a file in a package is checked when it is opened.
        let (source, name) = self.clone().with_check(Check::All).source_at(location)?;
        if !matches!(source.digest(), Some(Digest::Sha256(_))) {
            check_source(&*source, self.check()).map_err(|e| e.in_source(&name))?;
        }
        Ok((source, name))
    }

    /// Returns the bytes of the file at a location, in any format, and the file's name for errors. For a file in a
    /// package, the [digest](ByteSource::digest) of the source is its hash from the `MANIFEST`; compressed files are
    /// checked against it.
    ///
    /// # Errors
    /// Returns an `Io` error; errors of the archive; a `NotFound` error for a location that only names bytes in memory.
    pub fn source_at(&self, location: &Location) -> Result<(Arc<dyn ByteSource>, String)> {
        match location {
            Location::Path(path) => {
                let name = path.display().to_string();
                let file = FileSource::open(path).and_then(|file| self.source(file));
                file.map(|(source, _)| (source, name.clone())).map_err(|e| e.in_source(name))
            }
            Location::Web(_) | Location::Store(_) => self.remote(location),
            Location::Served(address) => self.served(address),
            Location::Member { archive, path } => {
                let member = Member::locate(self, archive, path)?;
                let found = member.container.find(&member.path, self, &member.name)?;
                Ok((found.source, found.name))
            }
            Location::Bytes(name) => {
                let message =
                    "bytes in memory have no location and no folder: open them with `open_bytes`";
                Err(SHARD_MISSING.broken(message).in_source(name))
            }
        }
    }

    /// Returns the file at an address of a web server or an object store, and its name for errors.
    #[cfg(feature = "http")]
    fn remote(&self, location: &Location) -> Result<(Arc<dyn ByteSource>, String)> {
        let (url, begin) = (location.as_address().unwrap_or_default(), begin(location));
        let source = match location {
            #[cfg(feature = "stores")]
            Location::Store(_) => self.stores.open(url, &self.client, begin)?,
            #[cfg(not(feature = "stores"))]
            Location::Store(_) => return Err(no_stores(url)),
            _ => crate::source::HttpSource::open_with(url, self.client.clone(), begin)?,
        };
        let (name, version) = (source.name(), source.version());
        let source: Arc<dyn ByteSource> = Arc::new(source);
        Ok(match (&self.cache, version) {
            (Some(cache), Some(version)) => (Arc::new(cache.wrap(source, &version)), name),
            _ => (source, name),
        })
    }

    /// Returns an error: this build has no HTTP support.
    #[cfg(not(feature = "http"))]
    fn remote(&self, location: &Location) -> Result<(Arc<dyn ByteSource>, String)> {
        if let Location::Store(url) = location {
            return Err(no_stores(url));
        }
        Err(crate::http::rules::NOT_BUILT.broken("this build does not open addresses on the web"))
    }

    /// Returns a file that another Holdall serves, and its name for errors.
    #[cfg(feature = "quic")]
    fn served(&self, address: &str) -> Result<(Arc<dyn ByteSource>, String)> {
        let source = crate::source::QuicSource::open(address, self.client.policy())?;
        let name = source.name();
        Ok((Arc::new(source), name))
    }

    #[cfg(not(feature = "quic"))]
    fn served(&self, _: &str) -> Result<(Arc<dyn ByteSource>, String)> {
        let rule = &crate::http::rules::NOT_SERVED;
        Err(rule.broken("this build does not open `holdall://` addresses"))
    }

    /// Lists the objects below a prefix of an object store, or those that match a pattern:
    /// `s3://bucket/model/*.safetensors`.
    ///
    /// # Errors
    /// Returns the errors of the store; a `Limit` error if there are more objects than `Limits::files`.
    #[cfg(feature = "stores")]
    pub fn list(&self, address: &str) -> Result<Vec<crate::stores::Listed>> {
        self.stores.list(address, self.client.policy(), self.limits())
    }

    /// Starts a file that will be uploaded to an address of an object store. Write the file to the local path of the
    /// returned value; [`Staged::publish`](crate::stores::Staged::publish) then uploads it.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the object exists and `overwrite` is not set; errors of the store.
    #[cfg(feature = "stores")]
    pub fn stage(&self, address: &str, overwrite: bool) -> Result<crate::stores::Staged> {
        self.stores.stage(address, self.client.policy(), overwrite)
    }

    /// Starts a model of several files that will be uploaded below an address of an object store. Write the folder to
    /// the local path of the returned value; [`StagedFolder::publish`](crate::stores::StagedFolder::publish) then
    /// uploads its files.
    ///
    /// # Errors
    /// Returns a `Misuse` error if there are objects below the address and `overwrite` is not set; errors of the store.
    #[cfg(feature = "stores")]
    pub fn stage_folder(
        &self,
        address: &str,
        overwrite: bool,
    ) -> Result<crate::stores::StagedFolder> {
        self.stores.stage_folder(address, self.client.policy(), overwrite)
    }

    fn open_file(&self, file: FileSource, name: &str) -> Result<File> {
        let (source, io) = self.source(file).map_err(|e| e.in_source(name))?;
        self.decode(source, name.to_owned(), io)
    }

    /// Maps or reads a local file, as these options say. Returns the source, and the [`Io`] that was chosen for
    /// [`Io::Auto`].
    pub fn source(&self, file: FileSource) -> Result<(Arc<dyn ByteSource>, Io)> {
        let io = match self.io() {
            Io::Auto if file.is_remote() => Io::Read,
            Io::Auto | Io::Map => Io::Map,
            other => other,
        };
        if io != Io::Map {
            return Ok((Arc::new(file), io));
        }
        match Mapped::new(file)? {
            Mapped::Map(map) => Ok((Arc::new(map), Io::Map)),
            // Reading needs no address space for the whole file.
            Mapped::NoRoom(file) => Ok((Arc::new(file), Io::Read)),
        }
    }

    /// Opens a file in memory. `name` is its name in errors.
    ///
    /// # Errors
    /// Returns the same errors as [`open`], without an `Io` error.
    pub fn open_bytes(&self, bytes: impl Into<Bytes>, name: impl Into<String>) -> Result<File> {
        self.decode_alone(Arc::new(MemorySource::new(bytes)), name.into(), Io::Map)
    }

    /// Opens the file that `source` reads. `name` is its name in errors.
    ///
    /// # Errors
    /// Returns the same errors as [`open`].
    pub fn open_source(
        &self,
        source: Arc<dyn ByteSource>,
        name: impl Into<String>,
    ) -> Result<File> {
        self.decode_alone(source, name.into(), Io::Read)
    }

    /// Opens bytes that have no folder, and so no shards.
    fn decode_alone(&self, source: Arc<dyn ByteSource>, name: String, io: Io) -> Result<File> {
        let main = ModelFile::new(FileRole::Main, Location::Bytes(name.clone()), Some(0));
        Ok(self.decode(source, name, io)?.with_files(vec![main]).with_part_warning())
    }

    /// Opens a model whose index is already decoded. `sources` has one source for each that the index numbers, such as
    /// shards or external data. `name` is the model's name in errors.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the number of sources or the length of one differs from what the index states.
    pub fn open_index(
        &self,
        index: Index,
        sources: Vec<Arc<dyn ByteSource>>,
        name: impl Into<String>,
    ) -> Result<File> {
        let name = name.into();
        let expected: Vec<u64> = index.source_lens().collect();
        let found: Vec<u64> = sources.iter().map(|source| source.len()).collect();
        if expected != found {
            let message = format!("expected sources of {expected:?} bytes, found {found:?}");
            return Err(SOURCES.broken(message).in_source(name));
        }
        let sources = Sources::new(sources, &index);
        Ok(File::new(index, sources, self, Io::Read, name))
    }

    /// Decodes the file that `source` reads. `name` is its name in errors; `io` is what was chosen for [`Io::Auto`].
    ///
    /// # Errors
    /// Returns the same errors as [`open`].
    pub fn decode(&self, source: Arc<dyn ByteSource>, name: String, io: Io) -> Result<File> {
        let index =
            decode_index(&*source, self.limits()).and_then(|index| self.check_faults(index));
        let index = index.map_err(|e| e.in_source(&name))?;
        let sources = Sources::new(vec![source], &index);
        Ok(File::new(index, sources, self, io, name))
    }
}

/// Reads descriptions of layouts from a file, for [`OpenOptions::with_layouts`].
///
/// # Errors
/// Returns an `Io` error; errors in the descriptions: see `docs/spec/layouts.md`.
pub fn read_layouts(path: impl AsRef<Path>, limits: &Limits) -> Result<Layouts> {
    let path = path.as_ref();
    let named = |e: holdall_core::Error| e.in_source(path.display());
    let failed = |e| named(io(e, "reading"));
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    // One byte more than allowed, so that a longer file is detected.
    file.take(limits.text_len.saturating_add(1)).read_to_end(&mut text).map_err(failed)?;
    Layouts::parse(&text, limits).map_err(named)
}

/// How many times a file is reopened if it changes while it is being opened.
pub(crate) const ATTEMPTS: u32 = 100;
/// The pause between two attempts: about as long as an edit takes.
const PAUSE: Duration = Duration::from_millis(2);

/// Returns the range of a remote file that is fetched first, chosen by the file's extension.
#[cfg(feature = "http")]
fn begin(location: &Location) -> crate::source::Begin {
    let format = holdall_formats::folders::format_by(location.file_name());
    format.map_or(crate::source::Begin::Unknown, |f| crate::source::Begin::With(f.index_location))
}

#[cfg(not(feature = "stores"))]
#[cold]
fn no_stores(url: &str) -> holdall_core::Error {
    let e = crate::stores::rules::NOT_BUILT
        .broken("this build does not open addresses of object stores");
    e.in_source(crate::stores::redacted(url))
}

#[cold]
fn changing() -> holdall_core::Error {
    CHANGED.broken(format!("the file changed each of {ATTEMPTS} times that it was opened"))
}
