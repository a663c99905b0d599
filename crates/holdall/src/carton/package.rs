//! An open package.

use super::{Description, Fetcher, FileReader, Links, Manifest, TensorRow, Value};
use crate::file::File;
use crate::open::OpenOptions;
use crate::source::ByteSource;
use bytes::Bytes;
use holdall_core::{Result, Warning};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// An open package. Cheap to clone; shared by threads.
#[derive(Clone)]
pub struct Package {
    inner: Arc<Inner>,
    fetcher: Option<Arc<dyn Fetcher>>,
}

struct Inner {
    name: String,
    description: Description,
    manifest: Option<Manifest>,
    links: Links,
    files: Vec<PackageFile>,
    hash: Option<[u8; 32]>,
    tensors: Vec<TensorRow>,
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
    pub place: Place,
    /// The path in the package that it stands for, where it is a symbolic link.
    pub target: Option<String>,
}

/// Where the bytes of a package's file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Place {
    /// In the zip.
    Zip,
    /// In the unpacked folder.
    Disk,
    /// Elsewhere: `LINKS` says where.
    Links,
}

impl Package {
    /// Opens a package, zip or unpacked folder, with the default [`OpenOptions`].
    ///
    /// # Errors
    /// Io when it cannot be read, and what is wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Package> {
        Package::open_with(path, &OpenOptions::new())
    }

    /// Opens a package, zip or unpacked folder.
    ///
    /// # Errors
    /// As [`Package::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Package> {
        let _ = (path.as_ref(), options);
        todo!()
    }

    /// Opens a zip that `source` gives; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`Package::open`].
    pub fn open_source(
        source: Arc<dyn ByteSource>,
        name: impl Into<String>,
        options: &OpenOptions,
    ) -> Result<Package> {
        let _ = (source, name.into(), options);
        todo!()
    }

    /// Opens an unpacked folder that may have no `carton.toml`: the caller says what runs the model.
    ///
    /// # Errors
    /// As [`Package::open`].
    pub fn open_folder(
        path: impl AsRef<Path>,
        runner: super::Runner,
        options: &OpenOptions,
    ) -> Result<Package> {
        let _ = (path.as_ref(), runner, options);
        todo!()
    }

    /// Gets files that are only linked to through `fetcher`. Without one, reading them is an error.
    pub fn with_fetcher(mut self, fetcher: Arc<dyn Fetcher>) -> Package {
        self.fetcher = Some(fetcher);
        self
    }

    /// The name it was opened under.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What `carton.toml` says.
    pub fn description(&self) -> &Description {
        &self.inner.description
    }

    /// The `MANIFEST`; a folder that is being made may have none.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.inner.manifest.as_ref()
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

    /// What is odd about the package but does not make it bad.
    pub fn warnings(&self) -> &[Warning] {
        &self.inner.warnings
    }

    /// The bytes of a file, checked against `MANIFEST`.
    ///
    /// # Errors
    /// NotFound, Io, Integrity, Limit; what a fetch finds wrong.
    pub fn read(&self, path: &str) -> Result<Bytes> {
        let _ = path;
        todo!()
    }

    /// The bytes of a file as a stream in bounded memory. It fails at its end when the hash is wrong: who
    /// reads it keeps nothing before that.
    ///
    /// # Errors
    /// As [`Package::read`].
    pub fn reader(&self, path: &str) -> Result<FileReader> {
        let _ = path;
        todo!()
    }

    /// Opens a tensor file inside: in place where it is stored as it is, else decoded in memory.
    ///
    /// # Errors
    /// As [`Package::read`] and [`crate::open`].
    pub fn open_file(&self, path: &str) -> Result<File> {
        let _ = path;
        todo!()
    }

    /// The tensor of that name in `tensor_data`.
    ///
    /// # Errors
    /// As [`Package::read`]; Malformed where its file is not what its row says.
    pub fn value(&self, tensor: &str) -> Result<Value> {
        let _ = tensor;
        todo!()
    }

    /// Writes every file of the package into the new folder `to`, which appears whole or not at all.
    ///
    /// # Errors
    /// As [`Package::read`]; Misuse where `to` exists.
    pub fn unpack(&self, to: impl AsRef<Path>) -> Result<()> {
        let _ = to.as_ref();
        todo!()
    }

    /// Writes what is under `model/` into the new folder `to`, which appears whole or not at all.
    ///
    /// # Errors
    /// As [`Package::unpack`].
    pub fn unpack_model(&self, to: impl AsRef<Path>) -> Result<()> {
        let _ = to.as_ref();
        todo!()
    }
}

impl fmt::Debug for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Package").field("name", &self.name()).finish_non_exhaustive()
    }
}
