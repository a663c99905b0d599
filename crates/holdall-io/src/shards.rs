//! Models of several files, opened as one: folders, index files that map tensors to files, and the parts of a split
//! GGUF file. Distributed checkpoints have their own module.

use crate::arrays;
use crate::error::io as failed;
use crate::file::File;
use crate::index::decode_index;
use crate::journal;
use crate::location::{Folder, FoundFile, Location, Site};
use crate::lock::Stamp;
use crate::model::{FileRole, ModelFile};
use crate::open::ATTEMPTS;
use crate::options::OpenOptions;
use crate::quantized::check_joined;
use crate::source::ByteSource;
use holdall_core::error::Escape as _;
use holdall_core::model::Warning;
use holdall_core::{Error, Remedy, Result};
use holdall_formats::folders::{self, FOLDERS, ModelFiles, chosen};
pub use holdall_formats::shards::part_name;
use holdall_formats::shards::{self, Map, NO_MODEL, PartName, SHARD_OUTSIDE, Shard, Split};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// If a model has more files than this, each is reopened for every read, to save handles.
pub(crate) const MANY: usize = 64;

/// A file of a model, its source, and its location.
type Sourced = (Shard, Arc<dyn ByteSource>, Location);

/// Returns `true` if a folder contains a model: an index file, tensor files, or `.npy` files, also in subfolders.
pub fn is_model_folder(path: &Path) -> bool {
    path.is_dir()
        && (files(path).is_ok_and(|all| contain_model(path, &all))
            || !is_package_folder(path)
                && !path.join("MANIFEST").exists()
                && arrays::has_arrays(path))
}

/// Returns the file by which the model in a folder is opened with all its files: its index file, its only file, or its
/// first part.
///
/// # Errors
/// Returns an `Io` error; a `NotFound` error if the folder has no such file.
pub fn model_file(folder: &Path) -> Result<PathBuf> {
    let all = files(folder)?;
    let name = match chosen(&all) {
        ModelFiles::Index(name, _) | ModelFiles::Whole(name, _) => name,
        ModelFiles::File(name) | ModelFiles::Root(name, _) | ModelFiles::Checkpoint(name) => name,
        ModelFiles::Shards(names) => {
            let count = names.len();
            let message =
                format!("the model has {count} files, and none of them is an index of the others");
            return Err(NO_MODEL.broken(message).in_source(folder.display()));
        }
        ModelFiles::Arrays if arrays::has_arrays(folder) => {
            let e = NO_MODEL
                .broken("the folder has only `.npy` files, and none of them is the whole model");
            let e = e.with_hint(
                "merge them into one file with `holdall convert`, or open one of them by its path",
            );
            return Err(e.in_source(folder.display()));
        }
        other => return Err(no_model(&other).in_source(folder.display())),
    };
    Ok(folder.join(name))
}

/// Returns `true` if these files of a folder are those of a model.
pub(crate) fn contain_model(folder: &Path, all: &[String]) -> bool {
    !is_package_folder(folder) && folders::contain_model(all)
}

fn is_package_folder(folder: &Path) -> bool {
    folder.join("carton.toml").exists()
}

/// Returns the names of the files in a folder, sorted, including those in subfolders that belong to its model.
pub(crate) fn files(folder: &Path) -> Result<Vec<String>> {
    let mut all = own_files(folder)?;
    for inner in FOLDERS.iter().filter_map(|format| format.inner) {
        if all.iter().any(|name| name == inner.marker) && folder.join(inner.folder).is_dir() {
            let found = own_files(&folder.join(inner.folder))?;
            all.extend(found.into_iter().map(|name| format!("{}/{name}", inner.folder)));
        }
    }
    all.sort();
    Ok(all)
}

fn own_files(folder: &Path) -> Result<Vec<String>> {
    let in_context = |e| failed(e, "reading the folder").in_source(folder.display());
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(in_context)? {
        let entry = entry.map_err(in_context)?;
        if let (Ok(name), true) = (entry.file_name().into_string(), entry.path().is_file()) {
            all.push(name);
        }
    }
    Ok(all)
}

/// Returns the error for a folder that is not one model.
#[cold]
fn no_model(chosen: &ModelFiles<'_>) -> Error {
    match chosen {
        ModelFiles::Several(names) | ModelFiles::Root(_, names) => folders::too_many(names),
        ModelFiles::Variants(names) => folders::variants(names),
        ModelFiles::Incomplete(names) => folders::missing(names),
        _ => NO_MODEL.broken("the folder has no file of tensors, and no index of them"),
    }
}

#[cfg(not(feature = "pytorch"))]
impl OpenOptions {
    /// Returns an error: this build does not support PyTorch checkpoints.
    fn open_checkpoint(&self, folder: &Folder) -> Result<File> {
        Err(NO_MODEL
            .broken("this build does not read PyTorch checkpoints")
            .in_source(folder.display_name()))
    }
}

impl OpenOptions {
    /// Opens several files as one model, in this order: shards without an index. Each has its own tensors. The format
    /// and the attributes are those of the first file. A single file is opened as [`open`](Self::open) does.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open) for each file; a `NotFound` error if `paths` is empty; `index/duplicate-name` if two files have a
    /// tensor of the same name; `quantized-weight/parameter` if their quantized weights are described by different texts.
    pub fn open_all<P: AsRef<Path>>(&self, paths: &[P]) -> Result<File> {
        let (first, more) = match paths {
            [] => return Err(NO_MODEL.broken("no paths are given")),
            [one] => return self.open(one),
            [first, more @ ..] => (Location::new(first), more.len()),
        };
        let shown = format!("{first} and {more} more");
        let mut shards = Vec::with_capacity(paths.len());
        for path in paths {
            let location = Location::new(path);
            let FoundFile { source, name, .. } = Site::new(self, &location)?.find(self)?;
            let index = decode_index(&*source, self.limits()).map_err(|e| e.in_source(&name))?;
            shards.push((Shard::new(name, index), source, location));
        }
        let all = shards.iter().map(|(shard, _, location)| (location, &shard.index));
        check_joined(self, all)?;
        self.joined(shards, Vec::new(), shown)
    }

    /// Opens a model of several files: the folder of a store, or an index file. Returns `None` if the site is neither.
    pub(crate) fn open_model(&self, site: &Site) -> Result<Option<File>> {
        #[cfg(feature = "stores")]
        if let Location::Store(address) = &site.location
            && crate::stores::is_folder(address)
        {
            return self.open_folder(&Folder::at_store(address)).map(Some);
        }
        let Some(entry) = folders::by_entry(&site.name) else { return Ok(None) };
        match entry {
            _ if site.folder.has(&site.name) == Some(false) => Ok(None),
            ModelFiles::Index(name, more) => {
                self.open_index_file(&site.folder, name, more, None).map(Some)
            }
            ModelFiles::Checkpoint(_) => self.open_checkpoint(&site.folder).map(Some),
            _ => Ok(None),
        }
    }

    /// Opens the model below an address of an object store that has no object at that address. Returns `None` if there
    /// is nothing below it.
    #[cfg(feature = "stores")]
    pub(crate) fn open_prefix(&self, site: &Site) -> Option<Result<File>> {
        let folder = Folder::at_store(site.location.as_address()?);
        match folder.names(self) {
            Ok(names) if !names.is_empty() => Some(self.open_folder(&folder)),
            _ => None,
        }
    }

    /// Opens the model in a folder.
    pub(crate) fn open_folder(&self, folder: &Folder) -> Result<File> {
        let mut all = folder.names(self)?;
        if let Folder::Disk(path) = folder {
            journal::leave_out(path, &mut all);
        }
        let shown = folder.display_name();
        match chosen(&all) {
            ModelFiles::Index(name, more) => self.open_index_file(folder, name, more, Some(shown)),
            ModelFiles::Whole(name, warning) => {
                self.open_shards(folder, &[name], vec![warning], shown)
            }
            ModelFiles::Shards(names) => self.open_shards(folder, &names, Vec::new(), shown),
            ModelFiles::Checkpoint(_) => self.open_checkpoint(folder),
            ModelFiles::File(name) => self.open_in(folder, name),
            // All other files of the folder must be among those that the root names.
            ModelFiles::Root(root, names) => match self.open_in(folder, root) {
                Ok(file) if names.iter().all(|name| file.is_made_of(&folder.locate(name))) => {
                    Ok(file)
                }
                _ => Err(folders::too_many(&names).in_source(shown)),
            },
            // The arrays may also be in subfolders.
            ModelFiles::Arrays if !matches!(folder, Folder::Address(_)) => self.open_arrays(folder),
            other => Err(no_model(&other).in_source(shown)),
        }
    }

    /// Opens the file with this name in a folder, with the files that belong to it.
    fn open_in(&self, folder: &Folder, name: &str) -> Result<File> {
        let location = folder.locate(name);
        self.open_site(&Site { location, folder: folder.clone(), name: name.to_owned() })
    }

    /// Opens these files of a folder as one model.
    fn open_shards(
        &self,
        folder: &Folder,
        names: &[&str],
        warnings: Vec<Warning>,
        shown: String,
    ) -> Result<File> {
        let shards = folder.each(names.to_vec(), |name| self.shard(folder, name))?;
        self.joined(shards, warnings, shown)
    }

    /// Opens the model that an index file describes. `shown` is the model's name in errors, by default that of the
    /// index file. `more` is an additional warning.
    fn open_index_file(
        &self,
        folder: &Folder,
        name: &str,
        more: Option<Warning>,
        shown: Option<String>,
    ) -> Result<File> {
        let Folder::Disk(home) = folder else {
            return self.open_index_once(folder, name, more, shown);
        };
        let path = home.join(name);
        // An edit may replace the index and then remove old shards while they are being opened. Then the index has
        // changed.
        for _ in 1..ATTEMPTS {
            let before = Stamp::from_path(&path)?;
            let opened = self.open_index_once(folder, name, more.clone(), shown.clone());
            if opened.is_ok() || Stamp::from_path(&path)? == before {
                return opened;
            }
        }
        self.open_index_once(folder, name, more, shown)
    }

    /// Opens the model of an index file once, without retrying.
    fn open_index_once(
        &self,
        folder: &Folder,
        name: &str,
        more: Option<Warning>,
        shown: Option<String>,
    ) -> Result<File> {
        let FoundFile { source, name: own, .. } = folder.find(self, name, false)?;
        let shown = shown.unwrap_or(own);
        let in_context = |e: Error| e.in_source(folder.locate(name));
        let len = source.len();
        let read = || Map::read(&source.read_range(0..len)?, name);
        let map = Map::check_len(len).and_then(|()| read()).map_err(in_context)?;
        let lacking: Vec<String> =
            map.files().iter().filter(|file| folder.has(file) == Some(false)).cloned().collect();
        if !lacking.is_empty() {
            return Err(self.lacking(folder, &lacking, map.files()));
        }
        folder.check_links(name, map.files(), &SHARD_OUTSIDE)?;
        let files = map.files().iter().enumerate().collect();
        let checked = folder.each(files, |(number, file)| {
            let mut sourced = self.shard(folder, file)?;
            let checked = map.check(number, &mut sourced.0, name);
            Ok((sourced, checked))
        })?;
        let (shards, checked): (Vec<Sourced>, Vec<_>) = checked.into_iter().unzip();
        let mut warnings = Vec::from_iter(more);
        let all: Vec<&Shard> = shards.iter().map(|(shard, ..)| shard).collect();
        warnings.extend(map.check_all(&all, checked, name).map_err(in_context)?);
        let index = ModelFile::new(FileRole::Index, folder.locate(name), None);
        Ok(self.joined(shards, warnings, shown)?.with_first_file(index))
    }

    /// Returns the error for missing files of a model, with the files that the folder has instead.
    #[cold]
    fn lacking(&self, folder: &Folder, lacking: &[String], files: &[String]) -> Error {
        let e = folders::missing_files(lacking, files.len());
        let all = folder.names(self).unwrap_or_default();
        let others: Vec<&String> = all
            .iter()
            .filter(|name| PartName::new(name).is_some() && !files.contains(name))
            .collect();
        match &*others {
            [first, .., last] if lacking.len() == files.len() => {
                let context = format!(
                    "the index is of another division of the model: the folder has the files `{}` to `{}`",
                    first.escaped(),
                    last.escaped()
                );
                e.within(context).with_remedy(Remedy::NameFiles).with_remedy(Remedy::Salvage)
            }
            _ => e,
        }
        .in_source(folder.display_name())
    }

    /// Opens one file of a model.
    fn shard(&self, folder: &Folder, name: &str) -> Result<Sourced> {
        let FoundFile { source, name: shown, .. } = folder.find(self, name, false)?;
        let index = decode_index(&*source, self.limits()).map_err(|e| e.in_source(shown))?;
        Ok((Shard::new(name, index), source, folder.locate(name)))
    }

    /// Joins files to one model.
    fn joined(&self, shards: Vec<Sourced>, warnings: Vec<Warning>, shown: String) -> Result<File> {
        let all = shards.iter().map(|(shard, ..)| shard);
        let index = shards::joined(all, warnings, self.limits()).and_then(|i| self.check_faults(i));
        let index = index.map_err(|e| e.in_source(&shown))?;
        let (sources, files): (Vec<_>, Vec<_>) =
            shards.into_iter().map(|(_, source, location)| (source, location)).unzip();
        let files = match &*files {
            [one] => vec![ModelFile::new(FileRole::Main, one.clone(), Some(0))],
            _ => ModelFile::shards(files),
        };
        Ok(self.open_index(index, sources, shown)?.with_files(files))
    }

    /// Adds the other parts of a split file to the first one. Another part, or a shard by its name, gets a warning
    /// instead.
    pub(crate) fn with_parts(&self, first: File, site: &Site) -> Result<File> {
        let index = first.index().clone();
        let shown = first.name().to_owned();
        let (folder, own) = (&site.folder, site.name.as_str());
        let blame = |e: Error| e.in_source(&shown);
        let Some(split) = Split::from_index(&index, own).map_err(blame)? else {
            return Ok(match shards::part_of(&index) {
                Some(_) => first.with_part_warning(),
                None => match shard_warning(site) {
                    Some(warning) => first.with_warning(warning),
                    None => first,
                },
            });
        };
        let others = split.others();
        let lacking: Vec<String> =
            others.iter().filter(|name| folder.has(name) == Some(false)).cloned().collect();
        if !lacking.is_empty() {
            let e = folders::missing_files(&lacking, others.len() + 1);
            return Err(e.in_source(folder.display_name()));
        }
        folder.check_links(own, &others, &SHARD_OUTSIDE)?;
        let sources = first.all_sources().iter();
        let own = |source: &Arc<dyn ByteSource>| {
            (Shard::new(own, index.clone()), source.clone(), site.location.clone())
        };
        let mut shards: Vec<Sourced> = sources.map(own).collect();
        let others = folder.each((1u32..).zip(others).collect(), |(no, name)| {
            let sourced = self.shard(folder, &name)?;
            split.check(no, &sourced.0.index).map_err(blame)?;
            Ok(sourced)
        });
        shards.extend(others?);
        let total = shards.iter().map(|(shard, ..)| shard.index.len()).sum();
        split.check_all(total).map_err(blame)?;
        self.joined(shards, Vec::new(), shown)
    }
}

/// Returns a warning if the file's name is that of one shard of several, and no index in its folder names it.
fn shard_warning(site: &Site) -> Option<Warning> {
    let part = PartName::new(&site.name).filter(|part| part.count > 1)?;
    // At an address, checking for files takes time, and the server may deny that they exist.
    let has_index =
        folders::indices_of(&site.name).iter().any(|name| site.folder.has(name) != Some(false));
    (!has_index).then(|| {
        let (number, count) = (part.number, part.count);
        Warning::new(
            shards::PART,
            format!(
                "by its name, this is file {number} of {count} of a model, and its folder has no index: \
                 open the folder, or all files together, to get the whole model"
            ),
        )
    })
}

impl File {
    /// Returns `true` if this is a part of a split file that was opened from bytes in memory, without the other parts.
    pub fn is_single_part(&self) -> bool {
        let is_bytes = |file: &ModelFile| matches!(file.location, Location::Bytes(_));
        self.files().iter().any(is_bytes) && shards::part_of(self.index()).is_some()
    }

    /// Adds a warning if the file is a part of a split one.
    pub(crate) fn with_part_warning(self) -> File {
        let Some(part) = shards::part_of(self.index()) else { return self };
        let message = format!(
            "this is part {} of {} of a model, and has only the tensors of that part; \
             to get the whole model, open the first part by its path, in the folder with the others",
            part.index.saturating_add(1),
            part.count
        );
        self.with_warning(Warning::new(shards::PART, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for a missing file names the folder, even if it is the current one.
    #[test]
    fn folders_have_names() {
        for (path, folder) in [("m.safetensors.index.json", "."), ("a/m.json", "a")] {
            let site = Site::new(&OpenOptions::new(), &Location::new(path)).unwrap();
            let e = site.folder.find(&OpenOptions::new(), "none", false).map(drop).unwrap_err();
            assert_eq!((e.code(), e.source_name()), ("shards/missing", Some(folder)));
        }
    }
}
