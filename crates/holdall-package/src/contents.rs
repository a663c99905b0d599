//! A whole package: its texts, its files, and the checks between them.

use crate::description::{Description, Reference};
use crate::fields::Warnings;
use crate::links::Links;
use crate::manifest::Manifest;
use crate::paths::ConflictingPaths;
use crate::rules::*;
use crate::tensors::{self, TensorKind, TensorRow};
use crate::{
    CARTON_TOML, LINKS_NAME, MANIFEST_NAME, TENSOR_DATA, TENSOR_INDEX, fit, paths, symlinks,
};
use bytes::Bytes;
use holdall_collections::HashSet;
use holdall_collections::sort_by;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::sha256::Sha256;
use holdall_core::model::{Warning, element_count};
use std::borrow::Cow;
use std::cmp::Ordering;

/// A file or symbolic link found in a zip or on a disk. Folders are not included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPath<'a> {
    /// Path in the package, parts separated by `/`.
    pub path: Cow<'a, str>,
    /// Length in bytes; not used for a symbolic link.
    pub len: u64,
    /// The text of the link, if it is a symbolic link.
    pub target: Option<String>,
    /// The caller's number for the entry.
    pub index: usize,
}

/// The texts of a package, decoded.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    /// `carton.toml`; `None` if only `LINKS` has it.
    pub description: Option<Bytes>,
    /// `MANIFEST`; `None` for a folder without it.
    pub manifest: Option<Bytes>,
    /// `LINKS`, if the package has it.
    pub links: Option<Bytes>,
    /// `tensor_data/index.toml`, if the package has it.
    pub tensors: Option<Bytes>,
    /// Whether the texts come from a folder in which an author works: `carton.toml` may then lack the fields
    /// that packing adds.
    pub are_unpacked: bool,
}

/// The whole description of a package. Its files are those found and those in `LINKS`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PackageContents {
    /// The contents of `carton.toml`.
    pub description: Description,
    /// The model's hash: SHA-256 of the `MANIFEST`'s bytes. A folder may have no `MANIFEST`.
    pub hash: Option<[u8; 32]>,
    /// Addresses of missing files.
    pub links: Links,
    /// The rows of `tensor_data/index.toml`, in its order.
    pub tensors: Vec<TensorRow>,
    /// All files, in the order of the bytes of their paths.
    pub files: Vec<PackedFile>,
    /// Files and folders whose paths are equal on systems that ignore case or Unicode form.
    pub conflicting_paths: Vec<ConflictingPaths>,
    /// Harmless irregularities.
    pub warnings: Vec<Warning>,
}

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedFile {
    /// Path in the package, parts separated by `/`.
    pub path: String,
    /// Length in bytes; of the target for a symbolic link; `None` if only `LINKS` has the file.
    pub len: Option<u64>,
    /// SHA-256 of the bytes, as given in `MANIFEST`.
    pub sha256: Option<[u8; 32]>,
    /// For a symbolic link, the path in the package of the file that it finally leads to.
    pub target: Option<String>,
    /// For a symbolic link, the path in the package that it names, which may be another link.
    pub next: Option<String>,
    /// The caller's number of the entry; `None` if only `LINKS` has the file.
    pub found: Option<usize>,
}

impl PackageContents {
    /// Combines what was found in a zip or a folder, and checks it. All packages are created here.
    ///
    /// # Errors
    /// Returns all rules of packages, except those about zips and about bytes that are not in the package.
    pub fn new(
        found: Vec<FoundPath<'_>>,
        texts: &Texts,
        limits: &Limits,
    ) -> Result<PackageContents> {
        let parse = match texts.are_unpacked {
            true => Description::parse_unpacked,
            false => Description::parse,
        };
        let parsed = texts.description.as_deref().map(|text| parse(text, limits));
        let (description, warnings) = parsed.transpose()?.unwrap_or_default();
        let manifest = texts.manifest.as_deref().map(|text| Manifest::parse(text, limits));
        let links = texts.links.as_deref().map(|text| Links::parse(text, limits));
        let manifest = manifest.transpose()?;
        let mut contents = PackageContents {
            description,
            hash: texts.manifest.as_deref().map(sha256),
            links: links.transpose()?.unwrap_or_default(),
            warnings,
            ..PackageContents::default()
        };
        contents.files = gather(manifest, found, &contents.links, limits)?;
        // Files in `MANIFEST` were checked with its lines.
        for file in contents.files.iter().filter(|file| file.sha256.is_none()) {
            paths::check(&file.path)?;
        }
        let paths: Vec<&str> = contents.files.iter().map(|file| file.path.as_str()).collect();
        contents.conflicting_paths = paths::check_apart(&paths)?;
        symlinks::resolve(&mut contents.files)?;
        let index = texts.tensors.as_deref();
        match &texts.description {
            Some(text) => contents.check_text(CARTON_TOML, text)?,
            None if contents.description_is_linked() => {}
            None => return Err(no_description()),
        }
        if let Some(index) = index {
            contents.check_text(TENSOR_INDEX, index)?;
            contents.tensors = tensors::parse(index, limits)?;
        }
        contents.check_tensors()?;
        let mut warnings = Warnings(std::mem::take(&mut contents.warnings));
        if let Some(first) = contents.conflicting_paths.first() {
            let count = contents.conflicting_paths.len() as u64;
            warnings.add_many(COLLISION.code, count, || paths::conflict_message(first));
        }
        if texts.description.is_none() {
            let message = || format!("`{CARTON_TOML}` is only in `{LINKS_NAME}`: fetch it first");
            warnings.add(crate::warnings::LINKED_DESCRIPTION, message);
        }
        if contents.needs_index(index)? {
            let message = || format!("`{TENSOR_INDEX}` is only in `{LINKS_NAME}`: fetch it first");
            warnings.add(crate::warnings::LINKED_INDEX, message);
        } else {
            contents.check_references()?;
            fit::check(&contents.description, &contents.tensors, &mut warnings);
        }
        contents.warnings = warnings.0;
        Ok(contents)
    }

    /// Returns `true` if `carton.toml` is only in `LINKS`.
    pub fn description_is_linked(&self) -> bool {
        self.is_linked(CARTON_TOML)
    }

    /// Returns `true` if the file at this path is only in `LINKS`.
    pub fn is_linked(&self, path: &str) -> bool {
        self.file(path).is_some_and(|file| file.found.is_none())
    }

    /// Returns the file at this path.
    pub fn file(&self, path: &str) -> Option<&PackedFile> {
        let at = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        self.files.get(at)
    }

    /// Returns the file of a tensor by the `file` in its row; the target if it is a symbolic link.
    pub fn tensor_file(&self, name: &str) -> Option<&PackedFile> {
        let file = self.file(&format!("{TENSOR_DATA}/{name}"))?;
        match &file.target {
            Some(target) => self.file(target),
            None => Some(file),
        }
    }

    /// Compares a text with its hash in `MANIFEST`.
    fn check_text(&self, path: &str, text: &[u8]) -> Result<()> {
        match self.file(path).and_then(|file| file.sha256) {
            Some(listed) if listed != sha256(text) => Err(wrong_hash(path, &listed, &sha256(text))),
            _ => Ok(()),
        }
    }

    /// Returns `true` if the table of tensors must be fetched before the tensors are known.
    fn needs_index(&self, index: Option<&[u8]>) -> Result<bool> {
        let in_folder = |file: &&PackedFile| paths::is_in_tensor_data(&file.path);
        if index.is_some() {
            return Ok(false);
        }
        match (self.file(TENSOR_INDEX), self.files.iter().find(in_folder)) {
            (Some(_), _) => Ok(true),
            (None, Some(file)) => {
                let path = file.path.escaped();
                let message = format!("`{path}` is there, `{TENSOR_INDEX}` is not");
                Err(NO_TENSOR_INDEX.broken(message))
            }
            (None, None) => Ok(false),
        }
    }

    /// Checks that each row's tensor file exists and has the right length.
    fn check_tensors(&self) -> Result<()> {
        for row in &self.tensors {
            let TensorKind::Plain { ty, shape, file } = &row.kind else { continue };
            let shown = file.escaped();
            let Some(found) = self.tensor_file(file) else {
                let message = format!("there is no file `{TENSOR_DATA}/{shown}`");
                return Err(TENSOR_FILE.broken(message).in_tensor(&row.name));
            };
            let wanted = ty
                .width()
                .and_then(|width| element_count(shape).and_then(|n| n.checked_mul(width)));
            if let (Some(wanted), Some(len)) = (wanted, found.len)
                && wanted != len
            {
                let message = format!(
                    "shape {shape:?} of {} takes {wanted} bytes, `{TENSOR_DATA}/{shown}` has {len}",
                    ty.as_str()
                );
                return Err(TENSOR_LEN.broken(message).in_tensor(&row.name));
            }
        }
        Ok(())
    }

    /// Checks that the tensors and files of self-tests and examples exist.
    fn check_references(&self) -> Result<()> {
        let names: HashSet<&str> = self.tensors.iter().map(|row| row.name.as_str()).collect();
        let tensor = |what: &str, at: usize, name: &str| {
            if names.contains(name) {
                return Ok(());
            }
            let (number, name) = (at.saturating_add(1), name.escaped());
            let message = format!("{what} {number} refers to tensor `{name}`, which is not there");
            Err(REFERENCE.broken(message))
        };
        for (at, test) in self.description.self_tests.iter().enumerate() {
            let expected = test.expected.iter().flatten();
            for (_, name) in test.inputs.iter().chain(expected) {
                tensor("self-test", at, name)?;
            }
        }
        for (at, example) in self.description.examples.iter().enumerate() {
            for (_, reference) in example.inputs.iter().chain(&example.outputs) {
                match reference {
                    Reference::Tensor(name) => tensor("example", at, name)?,
                    Reference::Misc(path) if self.file(&format!("misc/{path}")).is_none() => {
                        let (number, path) = (at.saturating_add(1), path.escaped());
                        let message =
                            format!("example {number} refers to `misc/{path}`, which is not there");
                        return Err(REFERENCE.broken(message));
                    }
                    Reference::Misc(_) => {}
                }
            }
        }
        Ok(())
    }
}

/// Joins the found files with the rows of `MANIFEST`; both are sorted by path.
fn gather(
    manifest: Option<Manifest>,
    mut found: Vec<FoundPath<'_>>,
    links: &Links,
    limits: &Limits,
) -> Result<Vec<PackedFile>> {
    let is_complete = manifest.is_some();
    let rows = manifest.unwrap_or_default().rows;
    let count = found.len().max(rows.len());
    if count as u64 > limits.files {
        return Err(TOO_MANY_FILES.broken(format!("{count} files, at most {}", limits.files)));
    }
    // The stable sort is fast on sorted runs, and most zips have their files in order.
    sort_by(&mut found, |a, b| a.path.cmp(&b.path));
    let linked = links.hashes();
    // `MANIFEST` and `LINKS` have no rows.
    let mut files = Vec::with_capacity(count.saturating_add(2));
    let (mut rows, mut found) = (rows.into_iter().peekable(), found.into_iter().peekable());
    loop {
        let order = match (rows.peek(), found.peek()) {
            (Some((path, _)), Some(file)) => path.as_str().cmp(&file.path),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Ok(files),
        };
        let row = if order.is_le() { rows.next() } else { None };
        let file = if order.is_ge() { found.next() } else { None };
        files.push(match (row, file) {
            (Some((path, sha256)), None) => linked_file(path, sha256, &linked)?,
            (row, Some(file)) => {
                if row.is_none() && is_complete && is_listed(&file.path) {
                    let path = file.path.escaped();
                    let message = format!("`{MANIFEST_NAME}` does not list `{path}`");
                    return Err(UNLISTED.broken(message));
                }
                let (path, sha256) = row.unzip();
                PackedFile {
                    path: path.unwrap_or_else(|| file.path.into_owned()),
                    len: Some(file.len),
                    sha256,
                    target: file.target,
                    next: None,
                    found: Some(file.index),
                }
            }
            (None, None) => return Ok(files),
        });
    }
}

/// Returns the error for a package without `carton.toml`.
#[cold]
fn no_description() -> Error {
    let message = format!(
        "there is no `{CARTON_TOML}`, neither in the package nor in `{LINKS_NAME}`, and a \
         `{MANIFEST_NAME}` says that this is one"
    );
    MISSING_FILE.broken(message).with_hint(PUT_BACK)
}

/// The hint for a package without `carton.toml`.
const PUT_BACK: &str = "get it where the package is from, and put it back";

/// Returns `true` if `MANIFEST` should have a row for this path.
fn is_listed(path: &str) -> bool {
    path != MANIFEST_NAME && path != LINKS_NAME
}

/// Returns a file that is only in `LINKS`, or an error if it is not there either.
fn linked_file(path: String, sha256: [u8; 32], linked: &HashSet<[u8; 32]>) -> Result<PackedFile> {
    if !linked.contains(&sha256) {
        let shown = path.escaped();
        let message =
            format!("`{shown}` is listed, but neither in the package nor in `{LINKS_NAME}`");
        let e = MISSING_FILE.broken(message);
        return Err(if path == CARTON_TOML { e.with_hint(PUT_BACK) } else { e });
    }
    Ok(PackedFile { path, len: None, sha256: Some(sha256), target: None, next: None, found: None })
}

/// Returns the error for a file whose bytes have another hash than `MANIFEST` gives.
pub fn wrong_hash(path: &str, listed: &[u8; 32], found: &[u8; 32]) -> Error {
    let (listed, found) = (crate::write::hex(listed), crate::write::hex(found));
    HASH.broken(format!("`{}` has {found}, `{MANIFEST_NAME}` says {listed}", path.escaped()))
}

/// Returns the SHA-256 of `bytes`.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(bytes);
    hash.finish()
}
