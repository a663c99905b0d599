//! Writing a package.

use super::{Description, Links, Package, Value};
use crate::progress::{Listener, Progress};
use bytes::Bytes;
use holdall_core::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the files of a package are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Packing {
    /// As they are, each at a multiple of 64 bytes: they can be mapped.
    #[default]
    Stored,
    /// zstd.
    Zstd,
    /// Deflate.
    Deflate,
}

/// Where the bytes of a file that is packed come from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Content {
    /// A file on the disk.
    Path(PathBuf),
    /// These bytes.
    Bytes(Bytes),
    /// A file of another package.
    Package(Package, String),
}

/// Makes a package. The same parts give the same bytes, whenever and wherever.
#[derive(Debug, Clone)]
pub struct Packer {
    description: Option<Description>,
    files: Vec<(String, Content)>,
    tensors: Vec<(String, Value)>,
    links: Links,
    packing: Packing,
    listener: Listener,
}

/// What came of packing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackReport {
    /// The model hash.
    pub hash: [u8; 32],
    /// Bytes of the package.
    pub len: u64,
    /// Files in it, `MANIFEST` and `LINKS` included.
    pub files: u64,
}

impl Packer {
    /// A package with this description. Tensors that it names are given by [`Packer::with_tensor`].
    pub fn new(description: Description) -> Packer {
        Packer {
            description: Some(description),
            files: Vec::new(),
            tensors: Vec::new(),
            links: Links::default(),
            packing: Packing::default(),
            listener: Listener::default(),
        }
    }

    /// A package of what is in an unpacked folder. Its `carton.toml` stays as it is, byte for byte.
    ///
    /// # Errors
    /// What opening the folder finds wrong, but for a `MANIFEST` that does not fit: it is made anew.
    pub fn from_folder(path: impl AsRef<Path>) -> Result<Packer> {
        let _ = path.as_ref();
        todo!()
    }

    /// The same package again: its files, `MANIFEST` and `LINKS` as they are, so that its hash stays.
    /// Files that are only linked to stay so.
    pub fn from_package(package: &Package) -> Packer {
        let _ = package;
        todo!()
    }

    /// Adds a file: `path` is under `model/` or `misc/`.
    pub fn with_file(mut self, path: impl Into<String>, content: Content) -> Packer {
        self.files.push((path.into(), content));
        self
    }

    /// Adds a tensor for self-tests and examples to refer to.
    pub fn with_tensor(mut self, name: impl Into<String>, value: Value) -> Packer {
        self.tensors.push((name.into(), value));
        self
    }

    /// Sets what `LINKS` says. Files of these hashes are listed and left out of the zip.
    pub fn with_links(mut self, links: Links) -> Packer {
        self.links = links;
        self
    }

    /// Stores files this way.
    pub fn with_packing(mut self, packing: Packing) -> Packer {
        self.packing = packing;
        self
    }

    /// Tells how far along the packing is.
    pub fn with_progress(mut self, progress: Arc<dyn Progress>) -> Packer {
        self.listener = Listener(Some(progress));
        self
    }

    /// Writes the package to `to`, which appears whole or not at all.
    ///
    /// # Errors
    /// Io; Misuse where `to` exists and `overwrite` is not set, or the parts do not fit together.
    pub fn write(self, to: impl AsRef<Path>, overwrite: bool) -> Result<PackReport> {
        let _ = (to.as_ref(), overwrite, self.description, self.files, self.tensors);
        todo!()
    }
}
