//! An open package, with what is done with packages.

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

/// An open package. Cheap to clone; shared by threads. Dereferences to [`PackageReader`], which has its files and their
/// bytes.
#[derive(Debug, Clone)]
pub struct Package(PackageReader);

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
        PackageReader::open_with(path, options).map(Package)
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
        PackageReader::open_source(source, name, options).map(Package)
    }

    /// Returns the package that an open file is; `None` for a file of another format.
    ///
    /// # Errors
    /// As [`Package::open`].
    pub fn of_file(file: &File) -> Result<Option<Package>> {
        Ok(PackageReader::of_file(file)?.map(Package))
    }

    /// Opens a folder without `carton.toml`, which this description stands for: an unpacked package, or one with the
    /// files of a model alone, which are then below `model/` in the package. [`Recipe::open`](crate::Recipe::open)
    /// makes the description.
    ///
    /// # Errors
    /// As [`Package::open`]; `package/part` where there is a `carton.toml`.
    pub fn open_folder(
        path: impl AsRef<Path>,
        description: &Description,
        options: &OpenOptions,
    ) -> Result<Package> {
        PackageReader::open_folder(path, description, options).map(Package)
    }

    /// Gets files that are only linked to through `fetcher`, in place of the one of the [`OpenOptions`].
    /// Without one, reading them is an error.
    pub fn with_fetcher(self, fetcher: Arc<dyn Fetcher>) -> Package {
        Package(self.0.with_fetcher(fetcher))
    }

    /// Checks every byte: see [`PackageVerifyOptions`].
    ///
    /// # Errors
    /// Io. UnpackScope is wrong with the package is in the report.
    pub fn verify(&self, options: &PackageVerifyOptions) -> Result<PackageReport> {
        verify(self, options)
    }

    /// Writes every file of the package into the new folder `to`, which appears whole or not at all.
    ///
    /// # Errors
    /// As [`PackageReader::read`]; Misuse where `to` exists.
    pub fn unpack(&self, to: impl AsRef<Path>) -> Result<UnpackReport> {
        self.unpack_with(to, &UnpackOptions::new())
    }

    /// As [`Package::unpack`], with choices.
    ///
    /// # Errors
    /// As [`Package::unpack`].
    pub fn unpack_with(
        &self,
        to: impl AsRef<Path>,
        options: &UnpackOptions,
    ) -> Result<UnpackReport> {
        unpack(self, UnpackScope::Package, to.as_ref(), options)
    }

    /// Writes what is under `model/` into the new folder `to`, which appears whole or not at all.
    ///
    /// # Errors
    /// As [`Package::unpack`].
    pub fn unpack_model(&self, to: impl AsRef<Path>) -> Result<UnpackReport> {
        self.unpack_model_with(to, &UnpackOptions::new())
    }

    /// As [`Package::unpack_model`], with choices.
    ///
    /// # Errors
    /// As [`Package::unpack`].
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
