//! Opening files that may be inside packages.

use crate::rules::NO_PACKAGE;
use crate::{Fetcher, Package};
use bytes::Bytes;
use holdall_core::layout::described::Layouts;
use holdall_core::{Index, Limits, Result};
use holdall_formats::UNKNOWN;
use holdall_io::archive::{NO_ARCHIVE, split};
use holdall_io::{ByteSource, Check, Faults, File, Io, Open};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Opens a file with the default [`OpenOptions`]: one of the file system, one at `https://…`, or one inside a
/// package.
///
/// # Errors
/// Io when it cannot be read, Unsupported when no format claims it, and what its format finds wrong.
pub fn open(path: impl AsRef<Path>) -> Result<File> {
    OpenOptions::new().open(path)
}

/// What a caller chooses about opening a file, or a package.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The same for files that are in no package.
    pub(crate) files: holdall_io::OpenOptions,
    pub(crate) fetching: Fetching,
}

impl OpenOptions {
    /// [`Io::Auto`], [`Check::Read`] and the default [`Limits`].
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Fetches bytes this way.
    pub fn with_io(self, io: Io) -> OpenOptions {
        OpenOptions { files: self.files.with_io(io), ..self }
    }

    /// Checks these digests on reading.
    pub fn with_check(self, check: Check) -> OpenOptions {
        OpenOptions { files: self.files.with_check(check), ..self }
    }

    /// The limits that files are held to.
    pub fn limits(&self) -> &Limits {
        self.files.limits()
    }

    /// What becomes of a file in which single tensors have a fault.
    pub fn with_faults(self, faults: Faults) -> OpenOptions {
        OpenOptions { files: self.files.with_faults(faults), ..self }
    }

    /// Holds the file to these limits.
    pub fn with_limits(self, limits: Limits) -> OpenOptions {
        OpenOptions { files: self.files.with_limits(limits), ..self }
    }

    /// Gives layouts that have no meaning by themselves the one that these descriptions say; see
    /// [`holdall_io::read_layouts`].
    pub fn with_layouts(self, layouts: impl Into<Arc<Layouts>>) -> OpenOptions {
        OpenOptions { files: self.files.with_layouts(layouts), ..self }
    }

    /// Opens addresses on the web under this policy.
    #[cfg(feature = "http")]
    pub fn with_policy(self, policy: holdall_io::http::Policy) -> OpenOptions {
        OpenOptions { files: self.files.with_policy(policy), ..self }
    }

    /// Keeps blocks of files that are elsewhere in this cache.
    #[cfg(feature = "http")]
    pub fn with_cache(self, cache: holdall_io::cache::BlockCache) -> OpenOptions {
        OpenOptions { files: self.files.with_cache(cache), ..self }
    }

    /// Uses object stores so: with these credentials, at this endpoint.
    #[cfg(feature = "stores")]
    pub fn with_store_options(self, options: holdall_io::stores::StoreOptions) -> OpenOptions {
        OpenOptions { files: self.files.with_store_options(options), ..self }
    }

    /// What an object store has below a prefix, or what of it matches a pattern: see [`holdall_io::OpenOptions::list`].
    ///
    /// # Errors
    /// As that.
    #[cfg(feature = "stores")]
    pub fn list(&self, address: &str) -> Result<Vec<holdall_io::stores::Listed>> {
        self.files.list(address)
    }

    /// Begins a file that will be at an address of an object store: see [`holdall_io::OpenOptions::stage`].
    ///
    /// # Errors
    /// As that.
    #[cfg(feature = "stores")]
    pub fn stage(&self, address: &str, overwrite: bool) -> Result<holdall_io::stores::Staged> {
        self.files.stage(address, overwrite)
    }

    /// Begins a model of several files that will be below an address of an object store: see [`holdall_io::OpenOptions::stage_folder`].
    ///
    /// # Errors
    /// As that.
    #[cfg(feature = "stores")]
    pub fn stage_folder(
        &self,
        address: &str,
        overwrite: bool,
    ) -> Result<holdall_io::stores::StagedFolder> {
        self.files.stage_folder(address, overwrite)
    }

    /// Gets what packages only link to through `fetcher`.
    pub fn with_fetcher(mut self, fetcher: Arc<dyn Fetcher>) -> OpenOptions {
        self.fetching = Fetching(Some(fetcher));
        self
    }

    /// The same for a file that will change while it is open: read where it would be mapped.
    pub fn unmapped(&self) -> OpenOptions {
        OpenOptions { files: self.files.unmapped(), ..self.clone() }
    }

    /// Opens a file of the file system, or, where `path` begins with `https://`, one on a web server: by
    /// range requests, see [`holdall_io::http`]; with `s3://`, `gs://`, `az://` or `hf://` one in an object store, see
    /// [`holdall_io::stores`]. `PACKAGE!/PATH` is a file inside a package, or inside a zip or tar archive. A model of several files is
    /// opened as one: see [`holdall_io::OpenOptions::open`].
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        match split(path) {
            Some((package, inside)) => match Package::open_with(package, self) {
                Ok(package) => package.open_file(inside),
                // Other archives have files too.
                Err(e) if e.code() == UNKNOWN.code || e.code() == NO_PACKAGE.code => {
                    let opened = self.files.open_inside(package, inside);
                    opened.map_err(|inner| if inner.code() == NO_ARCHIVE.code { e } else { inner })
                }
                Err(e) => Err(e),
            },
            None => self.files.open(path),
        }
    }

    /// Opens several files as one: see [`holdall_io::OpenOptions::open_all`].
    ///
    /// # Errors
    /// As that.
    pub fn open_all<P: AsRef<Path>>(&self, paths: &[P]) -> Result<File> {
        match paths {
            [one] => self.open(one),
            several => self.files.open_all(several),
        }
    }

    /// See [`holdall_io::OpenOptions::bytes_of`].
    ///
    /// # Errors
    /// As that.
    pub fn bytes_of(&self, path: &Path) -> Result<(Arc<dyn ByteSource>, String)> {
        self.files.bytes_of(path)
    }

    /// Opens a file that is in memory; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`open`], without Io.
    pub fn open_bytes(&self, bytes: impl Into<Bytes>, name: impl Into<String>) -> Result<File> {
        self.files.open_bytes(bytes, name)
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
        self.files.open_source(source, name)
    }

    /// A model whose index is at hand and whose bytes are in `sources`: see
    /// [`holdall_io::OpenOptions::open_index`].
    ///
    /// # Errors
    /// As that.
    pub fn open_index(
        &self,
        index: Index,
        sources: Vec<Arc<dyn ByteSource>>,
        name: impl Into<String>,
    ) -> Result<File> {
        self.files.open_index(index, sources, name)
    }
}

impl Open for OpenOptions {
    fn at(&self, path: &Path) -> Result<File> {
        self.open(path)
    }

    fn in_memory(&self, bytes: Bytes, name: String) -> Result<File> {
        self.open_bytes(bytes, name)
    }

    fn of_source(&self, source: Arc<dyn ByteSource>, name: String) -> Result<File> {
        self.open_source(source, name)
    }
}

/// A fetcher, or none.
#[derive(Clone, Default)]
pub(crate) struct Fetching(pub(crate) Option<Arc<dyn Fetcher>>);

impl fmt::Debug for Fetching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "fetching" } else { "not fetching" })
    }
}
