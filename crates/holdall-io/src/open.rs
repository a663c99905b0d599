//! Opening a file: how its bytes are fetched, what it may ask for, and finding what it contains.

use crate::checked::{Check, check_source};
use crate::error::{CHANGED, SOURCES, io};
use crate::executor::Sources;
use crate::external::is_away;
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

/// Opens a file with the default [`OpenOptions`]: one of the file system, one at `https://…`, or one inside a package or an archive.
///
/// # Errors
/// Io when it cannot be read, Unsupported when no format claims it, and what its format finds wrong.
pub fn open(path: impl AsRef<Path>) -> Result<File> {
    OpenOptions::new().open(path)
}

impl OpenOptions {
    /// Opens what `path` names: a file of the file system; where `path` begins with `https://`, one on a web server, by
    /// range requests, see [`crate::http`]; with `s3://`, `gs://`, `az://` or `hf://` one in an object store, see [`crate::stores`];
    /// `ARCHIVE!/PATH`, one inside a package, or inside a zip or tar archive. A model of several files is opened as one, wherever it
    /// is: a folder with an index file (`*.index.json`), with all shards of one model or with one file of tensors; such an index file;
    /// the first part of a split GGUF file; an ONNX model with external data; a file of zTensor 2 with shards; a distributed checkpoint.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        self.open_location(&Location::new(path))
    }

    /// Opens what is at a location, as [`OpenOptions::open`] does.
    ///
    /// # Errors
    /// As [`open`]; Misuse for the name of bytes.
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
            // Asked last, for most of what is opened is a file.
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
        // Where faults are not kept, tensors in other files are none once those are open.
        let opened = match opened {
            Err(e) if self.faults == Faults::Refuse && is_away(&e) => {
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

    /// Opens a file on a disk by itself, whatever it is a part of: without its shards or parts.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_alone(&self, path: impl AsRef<Path>) -> Result<File> {
        let site = Site::new(self, &Location::new(path))?;
        let main = vec![ModelFile::new(FileRole::Main, site.location.clone(), Some(0))];
        Ok(self.open_one(&site)?.with_files(main))
    }

    /// Opens one file, whatever it is a part of.
    fn open_one(&self, site: &Site) -> Result<File> {
        let Location::Path(path) = &site.location else {
            let FoundFile { source, name, io } = site.find(self)?;
            return self.decode(source, name, io);
        };
        let name = path.display().to_string();
        // Somebody may be editing the file in place. What was decoded counts only if the file was the
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

    /// Returns the bytes of the one file at a location, as they lie there: packages are read as the zips that they are, and no hash is
    /// compared. It is for those that look for what is wrong.
    ///
    /// # Errors
    /// As [`OpenOptions::source_at`].
    pub fn unchecked_source_at(
        &self,
        location: &Location,
    ) -> Result<(Arc<dyn ByteSource>, String)> {
        let Location::Member { archive, path } = location else { return self.source_at(location) };
        let member = Member::locate_plain(self, archive, path)?;
        let found = member.container.find(&member.path, self, &member.name)?;
        Ok((found.source, found.name))
    }

    /// Returns the bytes of the one file at a location, compared with the digest that its container keeps of it under the
    /// options' [`Check`], and how it is called in errors. All bytes are read.
    ///
    /// # Errors
    /// As [`OpenOptions::source_at`]; Integrity.
    pub fn checked_source_at(&self, location: &Location) -> Result<(Arc<dyn ByteSource>, String)> {
        if self.check() == Check::Off {
            return self.source_at(location);
        }
        // The hash of a file of a package is compared when it is opened.
        let (source, name) = self.clone().with_check(Check::All).source_at(location)?;
        if !matches!(source.digest(), Some(Digest::Sha256(_))) {
            check_source(&*source, self.check()).map_err(|e| e.in_source(&name))?;
        }
        Ok((source, name))
    }

    /// Returns the bytes of the one file at a location, of whatever format, and how it is called in errors. A file of a package has
    /// the hash of its `MANIFEST` as its [digest](ByteSource::digest); what is compressed is compared with that.
    ///
    /// # Errors
    /// Io; what is wrong with an archive; NotFound for the name of bytes.
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
                    "bytes in memory are opened by `open_bytes`, and have no files beside them";
                Err(SHARD_MISSING.broken(message).in_source(name))
            }
        }
    }

    /// Returns the bytes at an address of a web server or an object store, and how it is called in errors.
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

    /// Refuses: this build opens no addresses on the web.
    #[cfg(not(feature = "http"))]
    fn remote(&self, location: &Location) -> Result<(Arc<dyn ByteSource>, String)> {
        if let Location::Store(url) = location {
            return Err(no_stores(url));
        }
        Err(crate::http::rules::NOT_BUILT.broken("this build does not open addresses on the web"))
    }

    /// Returns the bytes of a file that another Holdall serves, and how it is called in errors.
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

    /// What an object store has below a prefix, or what of it matches a pattern: `s3://bucket/model/*.safetensors`.
    ///
    /// # Errors
    /// What the store refuses; Limit, where there are more than `Limits::files`.
    #[cfg(feature = "stores")]
    pub fn list(&self, address: &str) -> Result<Vec<crate::stores::Listed>> {
        self.stores.list(address, self.client.policy(), self.limits())
    }

    /// Begins a file that will be at an address of an object store: what writes files is given the path of what this returns, and
    /// [`Staged::publish`](crate::stores::Staged::publish) uploads it.
    ///
    /// # Errors
    /// Misuse where there is an object and `overwrite` is not set; what the store refuses.
    #[cfg(feature = "stores")]
    pub fn stage(&self, address: &str, overwrite: bool) -> Result<crate::stores::Staged> {
        self.stores.stage(address, self.client.policy(), overwrite)
    }

    /// Begins a model of several files that will be below an address of an object store: what writes folders is given the path of what this
    /// returns, and [`StagedFolder::publish`](crate::stores::StagedFolder::publish) uploads its files.
    ///
    /// # Errors
    /// Misuse where there are objects below it and `overwrite` is not set; what the store refuses.
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

    /// The way to the bytes of a file, and what [`Io::Auto`] came to.
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
            // A read needs no more memory than it is of.
            Mapped::NoRoom(file) => Ok((Arc::new(file), Io::Read)),
        }
    }

    /// Opens a file that is in memory; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`open`], without Io.
    pub fn open_bytes(&self, bytes: impl Into<Bytes>, name: impl Into<String>) -> Result<File> {
        self.decode_alone(Arc::new(MemorySource::new(bytes)), name.into(), Io::Map)
    }

    /// Opens whatever `source` gives; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open_source(
        &self,
        source: Arc<dyn ByteSource>,
        name: impl Into<String>,
    ) -> Result<File> {
        self.decode_alone(source, name.into(), Io::Read)
    }

    /// Opens bytes without a folder around them.
    fn decode_alone(&self, source: Arc<dyn ByteSource>, name: String, io: Io) -> Result<File> {
        let main = ModelFile::new(FileRole::Main, Location::Bytes(name.clone()), Some(0));
        Ok(self.decode(source, name, io)?.with_files(vec![main]).with_part_warning())
    }

    /// A model whose index is at hand and whose bytes are in `sources`, one for each that the index numbers: shards,
    /// external data. `name` stands for it in errors.
    ///
    /// # Errors
    /// Misuse, where there are fewer or more sources than the index spans, or one is of another length than it says.
    pub fn open_index(
        &self,
        index: Index,
        sources: Vec<Arc<dyn ByteSource>>,
        name: impl Into<String>,
    ) -> Result<File> {
        let name = name.into();
        let said: Vec<u64> = index.source_lens().collect();
        let found: Vec<u64> = sources.iter().map(|source| source.len()).collect();
        if said != found {
            let message = format!("the index spans sources of {said:?} bytes, there are {found:?}");
            return Err(SOURCES.broken(message).in_source(name));
        }
        let sources = Sources::new(sources, &index);
        Ok(File::new(index, sources, self, Io::Read, name))
    }

    /// The file that `source` has, under that name in errors; `io` is what [`Io::Auto`] came to.
    ///
    /// # Errors
    /// As [`open`].
    pub fn decode(&self, source: Arc<dyn ByteSource>, name: String, io: Io) -> Result<File> {
        let index =
            decode_index(&*source, self.limits()).and_then(|index| self.check_faults(index));
        let index = index.map_err(|e| e.in_source(&name))?;
        let sources = Sources::new(vec![source], &index);
        Ok(File::new(index, sources, self, io, name))
    }
}

/// The descriptions of layouts in a file, for [`OpenOptions::with_layouts`].
///
/// # Errors
/// Io; what is wrong with it: `docs/spec/layouts.md`.
pub fn read_layouts(path: impl AsRef<Path>, limits: &Limits) -> Result<Layouts> {
    let path = path.as_ref();
    let named = |e: holdall_core::Error| e.in_source(path.display());
    let failed = |e| named(io(e, "reading"));
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    // One byte more than may be there, so that what is too long is found to be.
    file.take(limits.text_len.saturating_add(1)).read_to_end(&mut text).map_err(failed)?;
    Layouts::parse(&text, limits).map_err(named)
}

/// How often a file that changes while it is opened is opened again.
pub(crate) const ATTEMPTS: u32 = 100;
/// What an edit takes that is under way.
const PAUSE: Duration = Duration::from_millis(2);

/// Returns the part of the file at an address that is asked for first, as far as its name tells.
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
    e.in_source(crate::stores::shown(url))
}

#[cold]
fn changing() -> holdall_core::Error {
    CHANGED.broken(format!("the file changed each of {ATTEMPTS} times that it was opened"))
}
