//! Writes a package: its files in the order of their paths, then `LINKS` and `MANIFEST`, each hashed in the
//! pass that writes it.

mod engine;
mod ignored;
mod named;
mod parts;
mod recipe;
mod symlinks;
mod zip;

pub use ignored::IGNORE_FILE;
pub use parts::FileSelection;
pub use recipe::{Prepared, Recipe, package_path};

use super::rules::OUTPUT_INSIDE;
use super::{Description, Links, Package, TensorValue};
use bytes::Bytes;
use holdall_core::{Error, Limits, Result, Warning};
use holdall_io::package::MODEL;
use holdall_io::sink::{Durability, FileSink};
use holdall_io::{Work, with_work};
use holdall_package::{MANIFEST_NAME, sha256, write, wrong_hash};
use parts::{FileToPack, FolderParts, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use zip::ZipOutput;

/// How the files of a package are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Packing {
    /// Uncompressed, each at a multiple of 64 bytes, so that they can be mapped.
    #[default]
    Stored,
    /// zstd, if that is shorter. Texts that describe the package are not compressed.
    Zstd,
    /// Deflate, if that is shorter. Texts that describe the package are not compressed.
    Deflate,
    /// Files from another zip keep their compression, without being compressed again; all others are stored
    /// as under [`Packing::Stored`].
    Kept,
}

/// The symbolic links in a packed folder that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SymlinkPolicy {
    /// Links to files inside the folder; others are refused.
    #[default]
    Inside,
    /// All links: their targets become part of the package.
    All,
}

/// The source of a packed file's bytes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum FileContent {
    /// A file on the disk.
    Path(PathBuf),
    /// Bytes in memory.
    Bytes(Bytes),
}

/// Writes a package. The same parts always give the same bytes.
#[derive(Debug, Clone)]
pub struct Packer {
    description: Option<Description>,
    /// The folder that is packed.
    root: Option<PathBuf>,
    files: BTreeMap<String, FileToPack>,
    tensors: Vec<(String, TensorValue)>,
    links: Links,
    /// The original `MANIFEST` if the same package is written again.
    manifest: Option<Bytes>,
    packing: Packing,
    work: Work,
    /// Files and folders that are not packed.
    left_out: Vec<String>,
    left_behind: Vec<String>,
    /// `MANIFEST` of the folder, if it was an unpacked package.
    unpacked: Option<Bytes>,
}

/// The result of packing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackReport {
    /// The model hash.
    pub hash: [u8; 32],
    /// Length of the package in bytes.
    pub len: u64,
    /// Number of files that `MANIFEST` lists.
    pub files: u64,
    /// Number of files that are only linked to.
    pub linked: u64,
    /// Files and folders that were not packed: secrets, caches, and those that match the ignore file. Folders
    /// end in `/`.
    pub left_out: Vec<String>,
    /// Properties of the folder that the package lacks, in words: for example that a file is a symbolic link
    /// that a package cannot contain, so that its target was packed.
    pub left_behind: Vec<String>,
    /// Warnings about the package, as they appear when it is opened.
    pub warnings: Vec<Warning>,
}

impl Packer {
    fn empty(description: Option<Description>) -> Packer {
        Packer {
            description,
            root: None,
            files: BTreeMap::new(),
            tensors: Vec::new(),
            links: Links::default(),
            manifest: None,
            packing: Packing::default(),
            work: Work::default(),
            left_out: Vec::new(),
            left_behind: Vec::new(),
            unpacked: None,
        }
    }

    /// Creates a package with this description. Tensors that it refers to are added by
    /// [`Packer::with_tensor`].
    pub fn new(description: Description) -> Packer {
        Packer::empty(Some(description))
    }

    /// Creates a package of the files in a folder that `selection` selects. Symbolic links to files of the same
    /// top-level folder stay links; others are followed if `symlinks` allows it. Its `carton.toml` is kept byte
    /// for byte; `MANIFEST` and `LINKS` are written anew.
    ///
    /// # Errors
    /// Returns an `Io` error; a `Misuse` error if a name cannot be in a package, or if a link must not be followed.
    pub fn from_folder(
        path: impl AsRef<Path>,
        symlinks: SymlinkPolicy,
        selection: FileSelection,
    ) -> Result<Packer> {
        Packer::from_files(path.as_ref(), "", symlinks, selection)
    }

    /// Creates a package of the files in a folder, whose paths in the package begin with `below`.
    fn from_files(
        path: &Path,
        below: &str,
        symlinks: SymlinkPolicy,
        selection: FileSelection,
    ) -> Result<Packer> {
        let mut packer = Packer::empty(None);
        packer.root = Some(path.to_owned());
        let FolderParts { files, left_out, left_behind, manifest } =
            parts::folder_parts(path, below, symlinks, selection)?;
        (packer.files, packer.unpacked) = (files, manifest);
        (packer.left_out, packer.left_behind) = (left_out, left_behind);
        Ok(packer)
    }

    /// Creates a package whose `model/` is the contents of a folder. It has no description yet:
    /// [`Packer::with_description`].
    ///
    /// # Errors
    /// Returns the same errors as [`Packer::from_folder`].
    pub fn from_model(
        path: impl AsRef<Path>,
        symlinks: SymlinkPolicy,
        selection: FileSelection,
    ) -> Result<Packer> {
        Packer::from_files(path.as_ref(), MODEL, symlinks, selection)
    }

    /// Creates the same package again: files, `MANIFEST` and `LINKS` are kept, so that its hash stays the
    /// same. Files that are only linked to are not fetched.
    pub fn from_package(package: &Package) -> Packer {
        let mut packer = Packer::empty(None);
        packer.files = parts::package_parts(package);
        packer.links = package.links().clone();
        let has_manifest = package.hash().is_some();
        packer.manifest = has_manifest.then(|| package.read(MANIFEST_NAME)).and_then(Result::ok);
        packer
    }

    /// Sets the description, instead of the `carton.toml` of a folder.
    pub fn with_description(mut self, description: Description) -> Packer {
        self.description = Some(description);
        self.manifest = None;
        self
    }

    /// Returns the description, unless it comes from the `carton.toml` of a folder.
    pub fn description(&self) -> Option<&Description> {
        self.description.as_ref()
    }

    /// Adds a file at `path`, which must be under `model/` or `misc/`. It replaces a file with the same path.
    pub fn with_file(mut self, path: impl Into<String>, content: FileContent) -> Packer {
        let source = match content {
            FileContent::Path(path) => Source::Path(path),
            FileContent::Bytes(bytes) => Source::Bytes(bytes),
        };
        self.files.insert(path.into(), FileToPack { source, sha256: None });
        self.manifest = None;
        self
    }

    /// Returns the bytes of a text that was added.
    fn text(&self, path: &str) -> Result<Bytes> {
        match self.files.get(path) {
            Some(part) => part.text(path, &Limits::default()),
            None => Ok(Bytes::new()),
        }
    }

    /// Returns the paths of the files added so far.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Adds a tensor for self-tests and examples to refer to.
    pub fn with_tensor(mut self, name: impl Into<String>, value: TensorValue) -> Packer {
        self.tensors.push((name.into(), value));
        self.manifest = None;
        self
    }

    /// Sets `LINKS`. Files with these hashes are listed and left out of the zip.
    pub fn with_links(mut self, links: Links) -> Packer {
        self.links = links;
        self
    }

    /// Sets how files are stored.
    pub fn with_packing(mut self, packing: Packing) -> Packer {
        self.packing = packing;
        self
    }

    /// Writes the package to `to`, which appears when it is complete.
    ///
    /// # Errors
    /// Returns an `Io` error; a `Misuse` error if `to` exists and `overwrite` is not set, if `to` is in the packed folder, or if the parts
    /// do not fit together; an `Integrity` error if a file of another package does not match its `MANIFEST`.
    pub fn write(self, to: impl AsRef<Path>, overwrite: bool) -> Result<PackReport> {
        let to = to.as_ref();
        check_outside(self.root.as_deref(), &self.files, to)?;
        FileSink::check(to, overwrite)?;
        let Packer { description, mut files, tensors, links, manifest, packing, work, .. } = self;
        let (left_out, left_behind) = (self.left_out, self.left_behind);
        let warnings = match manifest {
            Some(_) => Vec::new(),
            None => parts::complete(
                &mut files,
                description.as_ref(),
                tensors,
                self.unpacked.as_deref(),
            )?,
        };
        let sink = FileSink::create(to, overwrite, Durability::Disk)?;
        let total = files.values().map(FileToPack::len).sum::<Result<u64>>()?;
        work.begin(total);
        let mut out = ZipOutput::new(sink, total, &work);
        let mut rows: Vec<(String, [u8; 32])> = Vec::new();
        let mut linked = 0;
        let mut outside = BTreeSet::new();
        let mut links_at = Vec::new();
        let with_address = links.hashes();
        for (path, part) in &files {
            if let Source::Link { text, .. } = &part.source {
                // A link stays a link even if its target is only linked to. Its hash is that of the target,
                // which may come later.
                out.add_link(path, text)?;
                links_at.push(rows.len());
                rows.push((path.clone(), [0; 32]));
                continue;
            }
            let known = match part.sha256 {
                // Whether the file is left out is known only from its hash.
                None if !links.urls.is_empty() => {
                    Some(part.hash(path).map_err(|e| in_source_package(part, e))?)
                }
                known => known,
            };
            if let Some(hash) = known.filter(|hash| with_address.contains(hash)) {
                linked += 1;
                outside.insert(path.clone());
                rows.push((path.clone(), hash));
                continue;
            }
            let packing = if is_text(path) { Packing::Stored } else { packing };
            let hash = out.add(path, part, packing).map_err(|e| in_source_package(part, e))?;
            if let Some(known) = known.filter(|known| *known != hash) {
                return Err(in_source_package(part, wrong_hash(path, &known, &hash)));
            }
            rows.push((path.clone(), hash));
        }
        for at in links_at {
            let end = symlinks::end_of_link(&files, &rows[at].0)?;
            // Rows are sorted by path, like the files.
            if let Ok(end) = rows.binary_search_by(|(path, _)| path.as_str().cmp(end)) {
                rows[at].1 = rows[end].1;
            }
        }
        let count = rows.len() as u64;
        let is_inside = |path: &&String| !outside.contains(*path);
        let inside: Vec<String> = files.keys().filter(is_inside).cloned().collect();
        let text = match manifest {
            Some(text) => text,
            // The same list is the same package, even if the last line feed of its text differs.
            None => {
                match self.unpacked.filter(|own| parts::rows_of(Some(own)).eq(rows.iter().cloned()))
                {
                    Some(own) => own,
                    None => write::manifest(&super::Manifest { rows }).into(),
                }
            }
        };
        let hash = sha256(&text);
        if !links.urls.is_empty() {
            out.add_bytes("LINKS", write::links(&links).as_bytes(), Packing::Stored)?;
        }
        out.add_bytes("MANIFEST", &text, Packing::Stored)?;
        let len = out.finish(inside.iter().map(String::as_str).chain(["MANIFEST"]))?;
        Ok(PackReport { hash, len, files: count, linked, left_out, left_behind, warnings })
    }
}

with_work!(Packer);

/// Returns an error if the target is in the packed folder or is a packed file: the package would become a
/// part of the next one, or replace its own source.
fn check_outside(
    root: Option<&Path>,
    files: &BTreeMap<String, FileToPack>,
    to: &Path,
) -> Result<()> {
    let there = FileSink::resolve(to)?;
    let refused = |what: &str| Err(OUTPUT_INSIDE.broken(what.to_owned()).in_source(to.display()));
    if root.and_then(|root| root.canonicalize().ok()).is_some_and(|root| there.starts_with(root)) {
        return refused("this is in the folder that is packed");
    }
    let is_packed = |part: &FileToPack| {
        part.path().is_some_and(|from| from.canonicalize().is_ok_and(|from| from == there))
    };
    if there.exists() && files.values().any(is_packed) {
        return refused("this is one of the files that are packed");
    }
    Ok(())
}

/// Returns an error about the bytes of another package's file, with that file as its source.
#[cold]
fn in_source_package(part: &FileToPack, e: Error) -> Error {
    match &part.source {
        Source::Package(package, path) if e.source_name().is_none() => {
            e.in_source(package.inside(path))
        }
        _ => e,
    }
}

/// Returns `true` if a file describes the package: readers read it first, so it is not compressed.
fn is_text(path: &str) -> bool {
    matches!(path, "carton.toml" | "tensor_data/index.toml")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Runner;
    use holdall_core::wire::zip::write::Entry;

    /// Entries that tests lose, or whose length they change, when the directory is written.
    const LOST: &str = "misc/lost-in-packing";
    const CUT: &str = "misc/cut-in-packing";

    /// Returns the entries for the directory.
    pub(super) fn listed(entries: &[Entry]) -> Vec<Entry> {
        let mut all: Vec<Entry> = entries.iter().filter(|e| e.name != LOST).cloned().collect();
        for entry in all.iter_mut().filter(|entry| entry.name == CUT) {
            (entry.len, entry.stored_len) = (1, 1);
        }
        all
    }

    /// Packs a file at that path, and another.
    pub(crate) fn packed_with(path: &str, to: &Path) -> Result<()> {
        let mut runner = Runner::default();
        (runner.name, runner.compat_version) = ("noop".into(), 1);
        runner.framework_version = "=1.0.0".into();
        let mut description = Description::default();
        description.runner = runner;
        let content = |bytes: &'static [u8]| FileContent::Bytes(Bytes::from_static(bytes));
        let packer = Packer::new(description)
            .with_file("model/w", content(b"weights"))
            .with_file(path, content(b"something"));
        packer.write(to, true).map(drop)
    }

    #[test]
    fn a_lost_entry_prevents_publishing_the_package() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("a.carton");
        for path in [LOST, CUT] {
            let e = packed_with(path, &to).unwrap_err();
            assert_eq!((e.code(), to.exists()), ("internal/ledger", false), "{e}");
            std::fs::write(&to, "old").unwrap();
            assert_eq!(packed_with(path, &to).unwrap_err().code(), "internal/ledger");
            assert_eq!(std::fs::read(&to).unwrap(), b"old");
            std::fs::remove_file(&to).unwrap();
        }
        packed_with("misc/kept", &to).unwrap();
        assert!(to.exists());
    }
}
