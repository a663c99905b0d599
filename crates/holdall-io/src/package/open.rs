//! Opening a package from a zip, a folder or an address.

use super::folder;
use super::origin::Origin;
use super::rules::{NO_PACKAGE, NOT_HERE, PART};
use super::{FileLocation, Inner, MODEL, PackageFile, PackageReader};
use crate::file::File;
use crate::location::{FoundFile, Location};
use crate::options::{Io, OpenOptions};
use crate::source::{ByteSource, FileSource};
use bytes::Bytes;
use holdall_core::model::element_count;
use holdall_core::wire::tar;
use holdall_core::wire::zip::Directory;
use holdall_core::{Error, ErrorKind, Limits, Remedy, Result, Window};
use holdall_package::{
    CARTON_TOML, Description, FetchedTexts, PackageContents, PackedFile, TENSOR_INDEX, TensorKind,
    TensorRow, Texts, read_zip, rules::MISSING_FILE, write,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

impl PackageReader {
    /// Opens a package, zip or unpacked folder, with the default [`OpenOptions`].
    ///
    /// # Errors
    /// Returns an `Io` error if the package cannot be read; errors in the package.
    pub fn open(path: impl AsRef<Path>) -> Result<PackageReader> {
        PackageReader::open_with(path, &OpenOptions::new())
    }

    /// Opens a package, zip or unpacked folder.
    ///
    /// # Errors
    /// Returns the same errors as [`PackageReader::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<PackageReader> {
        PackageReader::open_location(&Location::new(path), options)
    }

    /// Opens the package at a location: a zip, or an unpacked folder.
    ///
    /// # Errors
    /// Returns the same errors as [`PackageReader::open`].
    pub fn open_location(location: &Location, options: &OpenOptions) -> Result<PackageReader> {
        let Some(path) = location.as_path() else {
            let (source, name) = options.source_at(location)?;
            return PackageReader::open_nested(source, location, &name, options);
        };
        let name = path.display().to_string();
        if path.is_dir() {
            return PackageReader::from_folder(path, options).map_err(|e| e.in_source(name));
        }
        let opened = FileSource::open(path).and_then(|file| options.source(file));
        let (source, io) = opened.map_err(|e| e.in_source(&name))?;
        PackageReader::from_zip(source, location, io, name, options)
    }

    /// Opens a package inside an archive, from its bytes. `location` is its location.
    ///
    /// # Errors
    /// Returns the same errors as [`PackageReader::open`].
    pub(crate) fn open_nested(
        source: Arc<dyn ByteSource>,
        location: &Location,
        name: &str,
        options: &OpenOptions,
    ) -> Result<PackageReader> {
        let FoundFile { io, .. } = FoundFile::new(source.clone(), String::new());
        PackageReader::from_zip(source, location, io, name.to_owned(), options)
    }

    /// Opens the zip that `source` reads. `name` is its name in errors.
    ///
    /// # Errors
    /// Returns the same errors as [`PackageReader::open`].
    pub fn open_source(
        source: Arc<dyn ByteSource>,
        name: impl Into<String>,
        options: &OpenOptions,
    ) -> Result<PackageReader> {
        let name = name.into();
        PackageReader::from_zip(source, &Location::Bytes(name.clone()), Io::Read, name, options)
    }

    /// Opens an already open file as a package. Returns `None` if the file has another format.
    ///
    /// # Errors
    /// Returns the same errors as [`PackageReader::open`].
    pub fn from_file(file: &File) -> Result<Option<PackageReader>> {
        if file.format() != holdall_formats::carton::FORMAT.id {
            return Ok(None);
        }
        let mut options = OpenOptions::new().with_limits(file.limits().clone());
        options.fetching = file.fetching().clone();
        let name = file.name().to_owned();
        let source = Arc::clone(&file.all_sources()[0]);
        let location = match file.files() {
            [main, ..] => main.location.clone(),
            [] => Location::Bytes(name.clone()),
        };
        PackageReader::from_zip(source, &location, file.io(), name, &options).map(Some)
    }

    /// Opens a folder without a `carton.toml`, with this description instead. The folder is an unpacked package, or has
    /// only the files of a model, which are then below `model/` in the package. Descriptions are made from the recipe
    /// of a package.
    ///
    /// # Errors
    /// Returns the same errors as [`PackageReader::open`]; `package/part` if there is a `carton.toml`.
    pub fn open_folder(
        path: impl AsRef<Path>,
        description: &Description,
        options: &OpenOptions,
    ) -> Result<PackageReader> {
        let path = path.as_ref();
        let opened = PackageReader::with_description(path, description, options);
        opened.map_err(|e| e.in_source(path.display()))
    }

    pub(super) fn from_zip(
        source: Arc<dyn ByteSource>,
        location: &Location,
        io: Io,
        name: String,
        options: &OpenOptions,
    ) -> Result<PackageReader> {
        let limits = options.limits();
        let mut window = Window::new(source.len());
        let found = crate::fetch_ends(&*source, &mut window).and_then(|()| {
            // The directory is read once, even if reading the texts needs several fetches.
            let directory =
                crate::source::fetched(&*source, &mut window, |w| Directory::read(w, limits))?;
            let mut read = |given: &FetchedTexts| {
                let found = crate::source::fetched(&*source, &mut window, |w| {
                    read_zip(&directory, w, limits, given)
                })?;
                found.ok_or_else(|| holdall_formats::unknown_zip(&directory))
            };
            let mut contents = read(&FetchedTexts::default())?;
            if let Some(texts) = texts_of(&contents, options)? {
                contents = read(&texts)?;
            }
            Ok((contents, directory))
        });
        let (mut contents, directory) =
            found.map_err(|e| no_package(&*source, e).in_source(&name))?;
        contents.warnings.extend(source.warnings());
        let origin = Origin::Zip { source, directory };
        PackageReader::from_contents(contents, origin, location.clone(), io, name, options)
    }

    fn from_contents(
        contents: PackageContents,
        origin: Origin,
        location: Location,
        io: Io,
        name: String,
        options: &OpenOptions,
    ) -> Result<PackageReader> {
        let found = match origin {
            Origin::Zip { .. } => FileLocation::Zip,
            Origin::Folder(_) | Origin::Model(_) => FileLocation::Disk,
        };
        let file = |file: PackedFile| PackageFile {
            path: file.path,
            len: file.len,
            sha256: file.sha256,
            location: if file.found.is_some() { found } else { FileLocation::Links },
            target: file.target,
            next: file.next,
            entry: file.found,
        };
        let files = contents.files.into_iter().map(file).collect();
        let hashes = contents.links.urls.iter().map(|(sha256, _)| *sha256);
        let addresses = hashes.enumerate().map(|(at, sha256)| (sha256, at)).collect();
        let names = contents.tensors.iter().map(|row| row.name.clone());
        let numbers = names.enumerate().map(|(at, name)| (name, at)).collect();
        let declared = declared_lens(&contents.tensors, options.limits());
        let inner = Inner {
            name,
            origin,
            location,
            io,
            options: options.clone(),
            description: contents.description,
            hash: contents.hash,
            links: contents.links,
            addresses,
            declared,
            files,
            tensors: contents.tensors,
            numbers,
            conflicting_paths: contents.conflicting_paths,
            warnings: contents.warnings,
        };
        Ok(PackageReader { inner: Arc::new(inner), fetcher: options.fetching.0.clone() })
    }

    fn from_folder(root: &Path, options: &OpenOptions) -> Result<PackageReader> {
        let (found, mut texts) = folder::read(root, options.limits())?;
        let is_package = texts.manifest.is_some() && texts.links.is_some();
        if texts.description.is_none() && !is_package {
            return Err(no_package_folder(root));
        }
        let limits = options.limits();
        let mut contents = PackageContents::new(found.clone(), &texts, limits)?;
        if let Some(fetched) = texts_of(&contents, options)? {
            texts.description = texts.description.or(fetched.description);
            texts.tensors = texts.tensors.or(fetched.tensors);
            contents = PackageContents::new(found, &texts, limits)?;
        }
        let name = root.display().to_string();
        PackageReader::from_contents(
            contents,
            Origin::Folder(root.to_owned()),
            Location::Path(root.to_owned()),
            Io::Read,
            name,
            options,
        )
    }

    fn with_description(
        root: &Path,
        description: &Description,
        options: &OpenOptions,
    ) -> Result<PackageReader> {
        if root.join(CARTON_TOML).exists() {
            let e = "there is a `carton.toml` in the folder, which says what runs the model";
            return Err(PART.broken(e));
        }
        let limits = options.limits();
        let (origin, found, mut texts) = if root.join("model").is_dir() {
            let (found, texts) = folder::read(root, limits)?;
            (Origin::Folder(root.to_owned()), found, texts)
        } else {
            let mut found = folder::files(root, folder::Links::Kept, limits)?;
            found.iter_mut().for_each(|file| file.path.to_mut().insert_str(0, MODEL));
            (Origin::Model(root.to_owned()), found, Texts::default())
        };
        texts.description = Some(write::description(description).into());
        let contents = PackageContents::new(found, &texts, limits)?;
        PackageReader::from_contents(
            contents,
            origin,
            Location::Path(root.to_owned()),
            Io::Read,
            root.display().to_string(),
            options,
        )
    }
}

/// Returns the maximum length in bytes of each tensor file, from the types and shapes of the tensors stored in it.
fn declared_lens(tensors: &[TensorRow], limits: &Limits) -> HashMap<String, u64> {
    let mut out: HashMap<String, u64> = HashMap::new();
    for row in tensors {
        let TensorKind::Plain { ty, shape, file } = &row.kind else { continue };
        let len = ty.width().and_then(|width| element_count(shape)?.checked_mul(width));
        // Arrays of texts, and the table itself, are TOML.
        let len = len.unwrap_or(limits.text_len);
        let known = out.entry(file.clone()).or_insert(len);
        *known = len.max(*known);
    }
    out
}

/// Fetches the texts that a package only links to. Returns `None` if it contains them.
///
/// # Errors
/// Returns the errors of fetching `carton.toml`, because the package cannot be opened without it. A missing table of tensors is
/// only a warning.
pub(super) fn texts_of(
    contents: &PackageContents,
    options: &OpenOptions,
) -> Result<Option<FetchedTexts>> {
    let mut texts = FetchedTexts::default();
    if contents.is_linked(CARTON_TOML) {
        texts.description = Some(text_of(contents, CARTON_TOML, options)?);
    }
    if contents.is_linked(TENSOR_INDEX) {
        texts.tensors = match text_of(contents, TENSOR_INDEX, options) {
            Err(e) if e.kind() == ErrorKind::Integrity => return Err(e),
            found => found.ok(),
        };
    }
    Ok((texts.description.is_some() || texts.tensors.is_some()).then_some(texts))
}

/// Fetches a text that a package only links to.
fn text_of(contents: &PackageContents, path: &str, options: &OpenOptions) -> Result<Bytes> {
    let limits = options.limits();
    let hash = contents.file(path).and_then(|file| file.sha256).unwrap_or_default();
    let urls =
        contents.links.urls.iter().find(|(other, _)| *other == hash).map(|(_, urls)| &urls[..]);
    match &options.fetching.0 {
        Some(fetcher) => {
            let path = fetcher.fetch(hash, urls.unwrap_or_default(), limits.text_len)?;
            folder::text(&path, limits)
        }
        None => {
            let message = format!("`{path}` is not in the package, which only links to it");
            Err(NOT_HERE.broken(message))
        }
    }
}

/// Returns the error for a folder that is not a package.
#[cold]
fn no_package_folder(root: &Path) -> Error {
    if root.read_dir().is_ok_and(|mut all| all.next().is_none()) {
        return MISSING_FILE.broken("the folder is empty");
    }
    let e = if crate::is_model_folder(root) {
        let e = "the folder has a model, but is not a package: it has no `carton.toml`";
        MISSING_FILE.broken(e).with_remedy(Remedy::PackFile)
    } else {
        MISSING_FILE.broken("there is no `carton.toml` in the folder, and no file of tensors")
    };
    e.with_remedy(Remedy::NameRunner)
}

/// Returns the error for a file that cannot be opened: that it is not a package, if it has another format or none, or
/// else the original error.
#[cold]
fn no_package(source: &dyn ByteSource, e: Error) -> Error {
    let is_zip = e.code() == holdall_formats::UNKNOWN.code;
    if e.kind() != ErrorKind::Malformed && !is_zip {
        return e;
    }
    let mut window = Window::new(source.len());
    let detected = crate::fetch_ends(source, &mut window)
        .and_then(|()| crate::source::fetched(source, &mut window, holdall_formats::detect));
    match detected {
        Ok(format) if format.id != holdall_formats::carton::FORMAT.id => {
            let e = NO_PACKAGE
                .broken(format!("this is a file of the format {}, not a package", format.name));
            e.with_remedy(Remedy::PackFile)
        }
        Err(unknown) if unknown.kind() == ErrorKind::Unsupported => unknown,
        Err(empty) if empty.code() == holdall_formats::EMPTY.code => empty,
        // A tar archive with a fault.
        Err(other) if tar::RULES.iter().any(|rule| rule.code == other.code()) => other,
        _ => e,
    }
}
