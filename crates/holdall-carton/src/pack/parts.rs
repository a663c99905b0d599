//! The parts of a package, before it is written.

use super::SymlinkPolicy;
use super::ignored::Ignored;
use super::symlinks::kept_links;
use crate::{
    Description, FileLocation, Package, PackageFile, TensorKind, TensorRow, TensorValue, ValueType,
};
use bytes::Bytes;
use holdall_core::error::Escape as _;
use holdall_core::model::element_count;
use holdall_core::{Error, Limits, Remedy, Result, Warning};
use holdall_io::error::io;
use holdall_io::package::folder::{self, Links};
use holdall_io::package::origin::{Stored, on_disk};
use holdall_io::package::read::{fill, reading};
use holdall_io::package::rules::PART;
use holdall_io::package::{FileBytes, is_executable};
use holdall_package::{
    CARTON_TOML, FileHasher, FoundPath, LINKS_NAME, MANIFEST_NAME, Manifest, PackageContents,
    TENSOR_INDEX, Texts, revise, rules::NO_TENSOR_INDEX, symlinks::link_text, unmet_requirements,
    write,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A file to be packed.
#[derive(Debug, Clone)]
pub(super) struct FileToPack {
    pub(super) source: Source,
    /// SHA-256, if it is known before reading.
    pub(super) sha256: Option<[u8; 32]>,
}

/// The source of a file's bytes.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Path(PathBuf),
    Bytes(Bytes),
    /// A file of another package, and its path there.
    Package(Package, String),
    /// A symbolic link: its text, and the source of its target's bytes.
    Link {
        text: String,
        target: Box<Source>,
    },
}

impl FileToPack {
    fn new(source: Source) -> FileToPack {
        FileToPack { source, sha256: None }
    }

    /// Returns the path on disk, if it is a file on disk.
    pub(super) fn path(&self) -> Option<&Path> {
        self.source.path()
    }

    /// Returns the length in bytes; 0 if it is known only after fetching.
    pub(super) fn len(&self) -> Result<u64> {
        match &self.source {
            Source::Path(from) => {
                let meta = from.metadata().map_err(|e| failed(e, "opening", from))?;
                Ok(meta.len())
            }
            Source::Bytes(bytes) => Ok(bytes.len() as u64),
            Source::Package(package, inside) => {
                Ok(package.file(inside).and_then(|file| file.len).unwrap_or(0))
            }
            Source::Link { .. } => Ok(0),
        }
    }

    /// Returns the length and a stream of the bytes. Bytes of a package are not verified: the caller has
    /// their hash.
    pub(super) fn open(&self) -> Result<(u64, Box<dyn Read + Send + '_>)> {
        self.source.open()
    }

    /// Returns the location of the compressed bytes, if the file is compressed in the zip it comes from.
    pub(super) fn compressed(&self) -> Result<Option<Stored>> {
        let Source::Package(package, inside) = &self.source else { return Ok(None) };
        let Some(file) = package.file(inside) else { return Ok(None) };
        Ok(match package.locate(file)? {
            FileBytes::Zip(stored) if !stored.is_plain() => Some(stored),
            _ => None,
        })
    }

    /// Returns `true` if the owner may execute the file.
    pub(super) fn is_executable(&self) -> bool {
        match &self.source {
            Source::Path(from) => is_executable(from),
            Source::Package(package, inside) => {
                package.file(inside).is_some_and(|file| package.is_executable(file))
            }
            Source::Bytes(_) | Source::Link { .. } => false,
        }
    }

    /// Returns the whole of a text that describes the package.
    pub(super) fn text(&self, path: &str, limits: &Limits) -> Result<Bytes> {
        let mut out = Vec::new();
        let most = limits.text_len.saturating_add(1);
        self.open()?.1.take(most).read_to_end(&mut out).map_err(|e| reading(e, path))?;
        Ok(out.into())
    }

    /// Reads the bytes and returns their SHA-256.
    pub(super) fn hash(&self, path: &str) -> Result<[u8; 32]> {
        let mut hasher = FileHasher::default();
        let mut from = self.open()?.1;
        let mut piece = vec![0; 1 << 20];
        loop {
            let count = fill(&mut *from, &mut piece).map_err(|e| reading(e, path))?;
            hasher.update(&piece[..count]);
            if count < piece.len() {
                return Ok(hasher.finish().0);
            }
        }
    }
}

impl Source {
    fn path(&self) -> Option<&Path> {
        match self {
            Source::Path(from) => Some(from),
            Source::Link { target, .. } => target.path(),
            Source::Bytes(_) | Source::Package(..) => None,
        }
    }

    fn open(&self) -> Result<(u64, Box<dyn Read + Send + '_>)> {
        Ok(match self {
            Source::Path(from) => {
                let (len, file) = on_disk(from)?;
                (len, Box::new(file))
            }
            Source::Bytes(bytes) => (bytes.len() as u64, Box::new(&bytes[..])),
            Source::Package(package, inside) => package.unchecked_reader(inside)?,
            Source::Link { target, .. } => target.open()?,
        })
    }
}

#[cold]
fn failed(e: std::io::Error, what: &str, path: &Path) -> Error {
    io(e, what).in_source(path.display())
}

#[cold]
fn part(message: String) -> Error {
    PART.broken(message)
}

/// The files of a folder, as they will be packed.
#[derive(Debug, Default)]
pub(super) struct FolderParts {
    pub(super) files: BTreeMap<String, FileToPack>,
    /// Files and folders that are not packed; folders end in `/`.
    pub(super) left_out: Vec<String>,
    /// Files that are packed in another form, in words.
    pub(super) left_behind: Vec<String>,
    /// The text of the folder's `MANIFEST`, if it has one.
    pub(super) manifest: Option<Bytes>,
}

/// Returns the files in the folder `root` and its subfolders, whose paths in the package begin with `below`,
/// without [ignored](Ignored) ones unless `selection` selects all. For an unpacked package (`below` is empty),
/// `MANIFEST` and `LINKS` are left out, and files that its `MANIFEST` lists are always packed. Symbolic links
/// stay links if a package can contain them; others are followed and reported.
pub(super) fn folder_parts(
    root: &Path,
    below: &str,
    policy: SymlinkPolicy,
    selection: FileSelection,
) -> Result<FolderParts> {
    let links = match policy {
        SymlinkPolicy::Inside => Links::Inside,
        SymlinkPolicy::All => Links::Followed,
    };
    let limits = Limits::default();
    let ignored = Ignored::from_folder(root)?;
    let is_package = below.is_empty();
    let manifest =
        is_package.then(|| folder::text(&root.join(MANIFEST_NAME), &limits).ok()).flatten();
    let listed: BTreeSet<String> = rows_of(manifest.as_deref()).map(|(path, _)| path).collect();
    let is_listed = |path: &str| match path.ends_with('/') {
        true => listed.range(path.to_owned()..).next().is_some_and(|next| next.starts_with(path)),
        false => listed.contains(path),
    };
    let mut out = FolderParts { manifest, ..FolderParts::default() };
    let mut symlinks: BTreeMap<String, PathBuf> = BTreeMap::new();
    // Excluded folders, except for files in them that are listed.
    let mut partly: Vec<String> = Vec::new();
    let mut found = folder::files_except(root, links, &limits, &mut |path, leads_to| {
        let is_ignored = selection == FileSelection::Usual
            && (ignored.is_left_out(path)
                || partly.iter().any(|prefix| path.starts_with(prefix.as_str())));
        if is_ignored && !is_listed(path) {
            out.left_out.push(path.to_owned());
            return true;
        }
        if is_ignored && path.ends_with('/') {
            partly.push(path.to_owned());
        }
        if let Some(leads_to) = leads_to {
            symlinks.insert(path.trim_end_matches('/').to_owned(), leads_to.to_owned());
        }
        false
    })?;
    out.left_out.sort();
    if is_package {
        check_linked(root, &found)?;
        found.retain(|file| !matches!(&*file.path, MANIFEST_NAME | LINKS_NAME));
    }
    let mut kept = kept_links(root, below, &found)?;
    symlinks.retain(|path, _| !kept.contains_key(path));
    out.left_behind.extend(symlinks.iter().map(|(path, to)| {
        let to = to.display().to_string();
        format!("that `{}` is a symbolic link to `{}`", path.escaped(), to.escaped())
    }));
    let part = |file: FoundPath<'_>| {
        let source = Source::Path(root.join(&*file.path));
        let source = match kept.remove(&*file.path) {
            Some(text) => Source::Link { text, target: Box::new(source) },
            None => source,
        };
        (format!("{below}{}", file.path), FileToPack::new(source))
    };
    out.files = found.into_iter().map(part).collect();
    Ok(out)
}

/// The files of a folder that are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileSelection {
    /// All except secrets, caches, version control, and files that match the folder's `.holdallignore`.
    #[default]
    Usual,
    /// All files.
    All,
}

/// Returns the rows of a `MANIFEST`; empty if the package has no `MANIFEST` or it cannot be parsed.
pub(super) fn rows_of(manifest: Option<&[u8]>) -> impl Iterator<Item = (String, [u8; 32])> {
    let parsed = manifest.and_then(|text| Manifest::parse(text, &Limits::default()).ok());
    parsed.unwrap_or_default().rows.into_iter()
}

/// Returns an error if the folder is a package with files that are only linked to: they would be left out.
fn check_linked(root: &Path, found: &[FoundPath<'_>]) -> Result<()> {
    let there: HashSet<&str> = found.iter().map(|file| &*file.path).collect();
    if !there.contains(LINKS_NAME) || !there.contains(MANIFEST_NAME) {
        return Ok(());
    }
    let limits = Limits::default();
    let text = |name: &str| FileToPack::new(Source::Path(root.join(name))).text(name, &limits);
    let (manifest, links) = (text(MANIFEST_NAME)?, text(LINKS_NAME)?);
    let manifest = Manifest::parse(&manifest, &limits)?;
    let links = holdall_package::Links::parse(&links, &limits)?.hashes();
    let is_missing = |(path, sha256): &&(String, [u8; 32])| {
        links.contains(sha256) && !there.contains(path.as_str())
    };
    match manifest.rows.iter().find(is_missing) {
        None => Ok(()),
        Some((path, _)) => {
            let e = part(format!(
                "`{}` is not in the folder: `{LINKS_NAME}` only links to it",
                path.escaped()
            ));
            Err(e.with_remedy(Remedy::FetchWhole))
        }
    }
}

/// Returns the files of a package, without `MANIFEST` and `LINKS`.
pub(super) fn package_parts(package: &Package) -> BTreeMap<String, FileToPack> {
    let files =
        package.files().iter().filter(|f| !matches!(f.path.as_str(), MANIFEST_NAME | LINKS_NAME));
    let part = |f: &PackageFile| {
        let source = match (&f.target, f.location) {
            (Some(_), FileLocation::Zip | FileLocation::Disk) => {
                let text = f.next.as_deref().and_then(|next| link_text(&f.path, next));
                let target = Box::new(Source::Package(package.clone(), f.path.clone()));
                Source::Link { text: text.unwrap_or_default(), target }
            }
            _ => Source::Package(package.clone(), f.path.clone()),
        };
        (f.path.clone(), FileToPack { source, sha256: f.sha256 })
    };
    files.map(part).collect()
}

/// Adds the parts that follow from the description and the tensors: `carton.toml`, files of tensors and their
/// index. `unpacked` is the `MANIFEST` of the packed folder. Runs the checks of opening a package.
pub(super) fn complete(
    files: &mut BTreeMap<String, FileToPack>,
    description: Option<&Description>,
    tensors: Vec<(String, TensorValue)>,
    unpacked: Option<&[u8]>,
) -> Result<Vec<Warning>> {
    if let Some(description) = description {
        // The author's text is kept, except for changed values.
        let own = files.get(CARTON_TOML).map(|part| part.text(CARTON_TOML, &Limits::default()));
        let revised = own.transpose()?.and_then(|own| revise(&own, description));
        let whole = || write::description(description);
        files.insert(CARTON_TOML.into(), text(revised.unwrap_or_else(whole)));
    }
    if !files.contains_key(CARTON_TOML) {
        let message = "there is no `carton.toml`, and no description was given";
        return Err(PART.broken(message).with_remedy(Remedy::NameRunner));
    }
    // A package without an index stays as it was.
    let had_none =
        rows_of(unpacked).count() > 0 && rows_of(unpacked).all(|(path, _)| path != TENSOR_INDEX);
    let has_files = files.keys().any(|path| path.starts_with("tensor_data/"));
    let needs_none = had_none && tensors.is_empty() && !has_files;
    if (!tensors.is_empty() || !files.contains_key(TENSOR_INDEX)) && !needs_none {
        let stray = files.keys().find(|path| path.starts_with("tensor_data/"));
        if let Some(stray) = stray.filter(|_| tensors.is_empty()) {
            let message = format!("`{}` has no `{TENSOR_INDEX}` that lists it", stray.escaped());
            return Err(NO_TENSOR_INDEX.broken(message));
        }
        files.retain(|path, _| !path.starts_with("tensor_data/"));
        let mut rows = Vec::new();
        for (name, value) in tensors {
            add_tensor(files, &mut rows, name, value)?;
        }
        files.insert(TENSOR_INDEX.into(), text(write::index(&rows)));
    }
    check(files)
}

fn text(text: String) -> FileToPack {
    FileToPack::new(Source::Bytes(text.into()))
}

/// Decodes the texts that will be written, and checks them.
fn check(files: &BTreeMap<String, FileToPack>) -> Result<Vec<Warning>> {
    let limits = Limits::default();
    let mut found = Vec::new();
    for (at, (path, part)) in files.iter().enumerate() {
        let target = match &part.source {
            Source::Link { text, .. } => Some(text.clone()),
            _ => None,
        };
        found.push(FoundPath { path: path.into(), len: part.len()?, target, index: at });
    }
    let text = |path: &str| match files.get(path) {
        None => Ok(None),
        Some(part) => part.text(path, &limits).map(Some),
    };
    let texts =
        Texts { description: text(CARTON_TOML)?, tensors: text(TENSOR_INDEX)?, ..Texts::default() };
    let PackageContents { description, mut warnings, .. } =
        PackageContents::new(found, &texts, &limits)?;
    let has_model = files.keys().any(|path| path.starts_with("model/"));
    warnings.extend(unmet_requirements(&description, has_model, &|path| files.contains_key(path)));
    warnings.extend(super::engine::engine_warning(files, &description));
    Ok(warnings)
}

fn add_tensor(
    files: &mut BTreeMap<String, FileToPack>,
    rows: &mut Vec<TensorRow>,
    name: String,
    value: TensorValue,
) -> Result<()> {
    let (ty, shape, extension, content) = match value {
        TensorValue::Numbers { ty, shape, data } => (ty, shape, "bin", data),
        TensorValue::Strings { shape, data } => {
            let len = data.len() as u64;
            if element_count(&shape) != Some(len) {
                return Err(
                    part(format!("{len} strings do not fit the shape {shape:?}")).in_tensor(name)
                );
            }
            (ValueType::String, shape, "toml", write::strings(&data).into())
        }
        TensorValue::Nested(values) => {
            let mut inner = Vec::new();
            for (at, value) in values.into_iter().enumerate() {
                if matches!(value, TensorValue::Nested(_)) {
                    return Err(
                        part("a nested tensor contains a nested tensor".into()).in_tensor(name)
                    );
                }
                // The original takes an inner tensor away from other nested tensors, so each has its own
                // copy.
                let own = format!("{name}.{at}");
                add_tensor(files, rows, own.clone(), value)?;
                inner.push(own);
            }
            rows.push(TensorRow { name, kind: TensorKind::Nested { inner } });
            return Ok(());
        }
    };
    if rows.iter().any(|row| row.name == name) {
        return Err(part(format!("two tensors are named `{}`", name.escaped())));
    }
    if let Some(width) = ty.width() {
        let wanted = element_count(&shape).and_then(|n| n.checked_mul(width));
        if wanted != Some(content.len() as u64) {
            let message = format!("{} bytes do not fit the shape {shape:?}", content.len());
            return Err(part(message).in_tensor(name));
        }
    }
    let file = format!("tensor_{}.{extension}", rows.len());
    files.insert(format!("tensor_data/{file}"), FileToPack::new(Source::Bytes(content)));
    rows.push(TensorRow { name, kind: TensorKind::Plain { ty, shape, file } });
    Ok(())
}
