//! The files of an edited model, and the file that lists them.

#[cfg(feature = "ztensor2")]
use super::part::check_kept;
use super::part::{EditedFile, writable};
use holdall_core::{Attributes, Error, Result};
use holdall_formats::folders::{self, ModelFiles};
use holdall_formats::shards::{ChangedShard, IndexText, Map};
#[cfg(feature = "ztensor2")]
use holdall_formats::ztensor2::Root;
use holdall_io::error::{CANNOT_EDIT, io};
#[cfg(feature = "ztensor2")]
use holdall_io::external;
use holdall_io::lock::Stamp;
use holdall_io::sink::folder;
use holdall_io::{File, FileRole, OpenOptions};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The file that lists the parts of a model, if there is one.
pub(super) enum Catalog {
    None,
    /// An index file.
    Index {
        path: PathBuf,
        stamp: Stamp,
        text: Box<IndexText>,
    },
    /// The root file of zTensor 2, which states the contents of its shards.
    #[cfg(feature = "ztensor2")]
    Root {
        path: PathBuf,
        stamp: Stamp,
        root: Root,
        attributes: Attributes,
        changed: bool,
    },
}

/// Opens the model at `path` for editing: as a whole, and each of its files.
///
/// # Errors
/// Returns the same errors as [`OpenOptions::open`]; a `Misuse` error if the model does not consist of files that can be written.
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<(File, Catalog, Vec<EditedFile>)> {
    // Taken before the file is read, so that a later change is detected. A folder has a stamp too, which is
    // not used.
    let stamp = Stamp::from_path(path)?;
    let file = options.open(path)?;
    let all = file.files();
    let of_role = |is: fn(&FileRole) -> bool| {
        let own = all.iter().filter(move |own| is(&own.role));
        own.map(|own| own.location.to_path_buf()).collect::<Vec<PathBuf>>()
    };
    let mains = of_role(|role| *role == FileRole::Main);
    let shards = of_role(|role| matches!(role, FileRole::Shard(_)));
    let indices = of_role(|role| *role == FileRole::Index);
    let external = of_role(|role| *role == FileRole::External);
    let (catalog, parts) = match (&*mains, &*shards, &*indices, &*external) {
        ([main], [], [], []) => {
            let stamp = if main == path { stamp } else { Stamp::from_path(main)? };
            let mut part = EditedFile::new(main, String::new(), stamp, file.clone());
            part.named_by = named_by(main, options);
            (Catalog::None, vec![part])
        }
        ([], [_, ..], [], []) => {
            let open = |path: &PathBuf| EditedFile::open(path, String::new(), options);
            (Catalog::None, shards.iter().map(open).collect::<Result<_>>()?)
        }
        ([], [_, ..], [index], []) if is_index(index) => indexed(index, options)?,
        #[cfg(feature = "ztensor2")]
        ([main], [], [], [_, ..]) if file.format() == "ztensor2" => {
            rooted(&file, main, &external, options)?
        }
        _ => {
            // If the file cannot be written at all, that error is returned.
            writable(&file)?;
            let e =
                CANNOT_EDIT.broken("cannot edit this model: it does not consist of files that can be written separately");
            let hint = "convert it into one file, and edit that file";
            return Err(e.with_hint(hint).in_source(path.display()));
        }
    };
    Ok((file, catalog, parts))
}

/// Returns `true` if the file at `path` is an index file, by its name.
pub(crate) fn is_index(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    matches!(folders::by_entry(name), Some(ModelFiles::Index(..)))
}

/// Reads an index file of at most the maximum length.
///
/// # Errors
/// Returns an `Io` error; `shards/index`.
pub(crate) fn index_text(path: &Path) -> Result<IndexText> {
    let named = |e: Error| e.in_source(path.display());
    let failed = |e| named(io(e, "reading"));
    Map::check_len(path.metadata().map_err(failed)?.len()).map_err(named)?;
    let text = std::fs::read(path).map_err(failed)?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    IndexText::read(&text, name).map_err(named)
}

fn indexed(path: &Path, options: &OpenOptions) -> Result<(Catalog, Vec<EditedFile>)> {
    let stamp = Stamp::from_path(path)?;
    let text = index_text(path)?;
    let mut parts = Vec::new();
    for (number, name) in text.map().files().iter().enumerate() {
        let mut part = EditedFile::open(&path.with_file_name(name), name.clone(), options)?;
        let is_elsewhere =
            |name: &&str| text.map().file_of(name).is_some_and(|file| file != number);
        part.hidden = part.file.names().filter(is_elsewhere).map(str::to_owned).collect();
        parts.push(part);
    }
    let path = path.to_owned();
    Ok((Catalog::Index { path, stamp, text: Box::new(text) }, parts))
}

/// Opens the model of a zTensor 2 file that lists shards.
#[cfg(feature = "ztensor2")]
fn rooted(
    file: &File,
    path: &Path,
    shards: &[PathBuf],
    options: &OpenOptions,
) -> Result<(Catalog, Vec<EditedFile>)> {
    let stamp = Stamp::from_path(path)?;
    check_kept(file)?;
    let other = || {
        let message =
            "its entries do not agree with its shards, or it has tensors that are in none of them";
        let hint = "convert it into another folder, and edit that folder";
        CANNOT_EDIT.broken(message).with_hint(hint).in_source(path.display())
    };
    let root = external::root(file)?.ok_or_else(other)?;
    let mut parts = Vec::new();
    for shard in root.shards() {
        let at = shard_path(path, shard);
        if !shards.contains(&at) {
            return Err(other());
        }
        let part = EditedFile::open(&at, shard.to_owned(), options)?;
        let stated: HashSet<&str> = root.objects(shard).collect();
        if stated != part.file.names().collect::<HashSet<&str>>() {
            return Err(other());
        }
        parts.push(part);
    }
    let (path, attributes) = (path.to_owned(), file.attributes().clone());
    Ok((Catalog::Root { path, stamp, root, attributes, changed: false }, parts))
}

/// Returns the path of a shard of the model at `path`.
#[cfg(feature = "ztensor2")]
fn shard_path(path: &Path, shard: &str) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let beside = holdall_formats::by_name("ztensor2").and_then(|format| format.external_files);
    path.with_file_name(beside.map_or(String::new(), |beside| (beside.path)(name, shard)))
}

/// Returns the file in the same folder that lists the file at `path`, if there is one.
fn named_by(path: &Path, options: &OpenOptions) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let named = |index: &PathBuf| {
        index_text(index).is_ok_and(|text| text.map().files().iter().any(|file| file == name))
    };
    if let Some(index) = indices_beside(path).into_iter().find(named) {
        return Some(index);
    }
    root_beside(path, name, options)
}

#[cfg(feature = "ztensor2")]
fn root_beside(path: &Path, name: &str, options: &OpenOptions) -> Option<PathBuf> {
    let (stem, extension) = name.rsplit_once('.')?;
    let models = stem.match_indices('-').filter_map(|(at, _)| stem.get(..at));
    let mut models = models.map(|model| path.with_file_name(format!("{model}.{extension}")));
    models.find(|model| {
        let file = options.open_single_file(model).ok().filter(|file| file.format() == "ztensor2");
        let root = file.and_then(|file| external::root(&file).ok().flatten());
        root.is_some_and(|root| root.shards().any(|shard| shard_path(model, shard) == path))
    })
}

#[cfg(not(feature = "ztensor2"))]
fn root_beside(_: &Path, _: &str, _: &OpenOptions) -> Option<PathBuf> {
    None
}

/// Returns the index files in the folder of a file.
fn indices_beside(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = folder(path).read_dir() else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).filter(|path| is_index(path)).collect()
}

impl Catalog {
    /// Returns the catalog's path and its stamp from before it was read.
    pub(super) fn file(&self) -> Option<(&Path, &Stamp)> {
        match self {
            Catalog::None => None,
            Catalog::Index { path, stamp, .. } => Some((path, stamp)),
            #[cfg(feature = "ztensor2")]
            Catalog::Root { path, stamp, .. } => Some((path, stamp)),
        }
    }

    /// Returns the attributes of the model for changes, if the catalog holds them.
    pub(super) fn attributes_mut(&mut self) -> Option<&mut Attributes> {
        match self {
            #[cfg(feature = "ztensor2")]
            Catalog::Root { attributes, changed, .. } => {
                *changed = true;
                Some(attributes)
            }
            _ => None,
        }
    }

    /// Returns `true` if the catalog's attributes were changed.
    pub(super) fn has_new_attributes(&self) -> bool {
        match self {
            #[cfg(feature = "ztensor2")]
            Catalog::Root { changed, .. } => *changed,
            _ => false,
        }
    }

    /// Returns `true` if the catalog states offsets or digests of bytes in the parts, so that it changes with
    /// each of them.
    pub(super) fn names_bytes(&self) -> bool {
        match self {
            #[cfg(feature = "ztensor2")]
            Catalog::Root { .. } => true,
            _ => false,
        }
    }

    /// Returns `true` if the catalog states lengths of tensors that may change when their files are
    /// rewritten.
    pub(super) fn states_lengths_of(&self, parts: &[EditedFile]) -> bool {
        let Catalog::Index { text, .. } = self else { return false };
        text.has_totals() && parts.iter().any(EditedFile::is_encoded)
    }

    /// Returns `true` if the catalog would be wrong after these shards were changed.
    pub(super) fn needs_update_for(&self, changed: &[ChangedShard], parts: &[EditedFile]) -> bool {
        let Catalog::Index { text, .. } = self else { return self.names_bytes() };
        let has_other_len = || {
            let mut parts = parts.iter().filter(|part| part.changed);
            changed.iter().any(|shard| shard.bytes != 0 || shard.elements != 0)
                || parts.any(EditedFile::is_encoded)
        };
        text.needs_update_for(changed) || (text.has_totals() && has_other_len())
    }

    /// Returns the path of a shard.
    pub(super) fn shard(&self, name: &str) -> PathBuf {
        match self {
            Catalog::None => PathBuf::from(name),
            Catalog::Index { path, .. } => path.with_file_name(name),
            #[cfg(feature = "ztensor2")]
            Catalog::Root { path, .. } => shard_path(path, name),
        }
    }

    /// Returns a free name for the replacement of a shard: `NAME.2` for `NAME`, and so on, before the
    /// extension.
    pub(super) fn free_name(&self, old: &str) -> String {
        let has_extension = !self.names_bytes();
        let (stem, extension) = match old.rsplit_once('.').filter(|_| has_extension) {
            // Keras files have an extension of two parts.
            Some((stem, extension)) => match stem.strip_suffix(".weights") {
                Some(stem) => (stem, format!(".weights.{extension}")),
                None => (stem, format!(".{extension}")),
            },
            None => (old, String::new()),
        };
        let (stem, first) = match stem.rsplit_once('.').map(|(stem, n)| (stem, n.parse::<u32>())) {
            Some((stem, Ok(n))) if n > 1 => (stem, n.saturating_add(1)),
            _ => (stem, 2),
        };
        let mut names = (first..).map(|n| format!("{stem}.{n}{extension}"));
        let free = names.find(|name| self.shard(name).symlink_metadata().is_err());
        free.unwrap_or_default()
    }

    /// Returns the paths of the files that this catalog on disk lists now, and of those that other index
    /// files in the folder list. All are derived from the catalog's path, so that equal files have equal
    /// paths.
    pub(super) fn named_now(
        &self,
        #[cfg_attr(not(feature = "ztensor2"), expect(unused_variables))] options: &OpenOptions,
    ) -> Result<HashSet<PathBuf>> {
        let Some((path, _)) = self.file() else { return Ok(HashSet::new()) };
        let mut all = HashSet::new();
        match self {
            #[cfg(feature = "ztensor2")]
            Catalog::Root { .. } => {
                let root = external::root(&options.open_single_file(path)?)?;
                all.extend(root.iter().flat_map(Root::shards).map(|shard| shard_path(path, shard)));
            }
            _ => {
                let text = index_text(path)?;
                all.extend(text.map().files().iter().map(|name| path.with_file_name(name)));
            }
        }
        for other in indices_beside(path) {
            if let Ok(text) = index_text(&other) {
                all.extend(text.map().files().iter().map(|name| path.with_file_name(name)));
            }
        }
        Ok(all)
    }
}
