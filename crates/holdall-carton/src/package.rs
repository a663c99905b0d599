//! An open package, and the operations on packages.

use crate::unpack::{UnpackReport, UnpackScope, unpack};
use crate::verify::{PackageReport, PackageVerifyOptions, verify};
use crate::{Description, Fetcher, UnpackOptions};
use holdall_core::Result;
use holdall_io::package::PackageReader;
use holdall_io::source::ByteSource;
use holdall_io::{File, OpenOptions};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// An open package. Cheap to clone; shared by threads. Dereferences to [`PackageReader`], which gives access
/// to its files and their bytes.
#[derive(Debug, Clone)]
pub struct Package(PackageReader);

impl Package {
    /// Opens a package, zip or unpacked folder, with the default [`OpenOptions`].
    ///
    /// # Errors
    /// Returns an `Io` error if the package cannot be read; errors of the package.
    pub fn open(path: impl AsRef<Path>) -> Result<Package> {
        Package::open_with(path, &OpenOptions::new())
    }

    /// Opens a package, zip or unpacked folder.
    ///
    /// # Errors
    /// Returns the same errors as [`Package::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Package> {
        PackageReader::open_with(path, options).map(Package)
    }

    /// Opens the zip that `source` reads, which is called `name` in errors.
    ///
    /// # Errors
    /// Returns the same errors as [`Package::open`].
    pub fn open_source(
        source: Arc<dyn ByteSource>,
        name: impl Into<String>,
        options: &OpenOptions,
    ) -> Result<Package> {
        PackageReader::open_source(source, name, options).map(Package)
    }

    /// Returns an open file as a package; `None` if the file has another format.
    ///
    /// # Errors
    /// Returns the same errors as [`Package::open`].
    pub fn from_file(file: &File) -> Result<Option<Package>> {
        Ok(PackageReader::from_file(file)?.map(Package))
    }

    /// Opens a folder without `carton.toml`, with `description` in its place: an unpacked package, or a
    /// folder with only the files of a model, which are then below `model/` in the package.
    /// [`Recipe::open`](crate::Recipe::open) creates the description.
    ///
    /// # Errors
    /// Returns the same errors as [`Package::open`]; `package/part` if there is a `carton.toml`.
    pub fn open_folder(
        path: impl AsRef<Path>,
        description: &Description,
        options: &OpenOptions,
    ) -> Result<Package> {
        PackageReader::open_folder(path, description, options).map(Package)
    }

    /// Fetches files that are only linked to through `fetcher`, instead of the one of the [`OpenOptions`].
    /// Without a fetcher, reading them is an error.
    pub fn with_fetcher(self, fetcher: Arc<dyn Fetcher>) -> Package {
        Package(self.0.with_fetcher(fetcher))
    }

    /// Checks every byte: see [`PackageVerifyOptions`].
    ///
    /// # Errors
    /// Returns an `Io` error. Errors in the package are in the report.
    pub fn verify(&self, options: &PackageVerifyOptions) -> Result<PackageReport> {
        verify(self, options)
    }

    /// Writes every file of the package into the new folder `to`, which appears when it is complete.
    ///
    /// # Errors
    /// Returns the same errors as [`PackageReader::read`]; a `Misuse` error if `to` exists.
    pub fn unpack(&self, to: impl AsRef<Path>) -> Result<UnpackReport> {
        self.unpack_with(to, &UnpackOptions::new())
    }

    /// Writes every file of the package into the folder `to`, with these options.
    ///
    /// # Errors
    /// Returns the same errors as [`Package::unpack`].
    pub fn unpack_with(
        &self,
        to: impl AsRef<Path>,
        options: &UnpackOptions,
    ) -> Result<UnpackReport> {
        unpack(self, UnpackScope::Package, to.as_ref(), options)
    }

    /// Writes the files under `model/` into the new folder `to`, which appears when it is complete.
    ///
    /// # Errors
    /// Returns the same errors as [`Package::unpack`].
    pub fn unpack_model(&self, to: impl AsRef<Path>) -> Result<UnpackReport> {
        self.unpack_model_with(to, &UnpackOptions::new())
    }

    /// Writes the files under `model/` into the folder `to`, with these options.
    ///
    /// # Errors
    /// Returns the same errors as [`Package::unpack`].
    pub fn unpack_model_with(
        &self,
        to: impl AsRef<Path>,
        options: &UnpackOptions,
    ) -> Result<UnpackReport> {
        unpack(self, UnpackScope::Model, to.as_ref(), options)
    }
}

impl Deref for Package {
    type Target = PackageReader;

    fn deref(&self) -> &PackageReader {
        &self.0
    }
}
