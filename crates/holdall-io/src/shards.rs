//! Models of several files, opened as one: folders, index files that say which tensor is in which file, and the parts of a
//! split GGUF file. Distributed checkpoints have a module of their own.

use crate::arrays::Reopened;
use crate::error::io as failed;
use crate::file::File;
use crate::index::decode_index;
use crate::journal;
use crate::lock::Stamp;
use crate::model::{FileRole, ModelFile};
use crate::open::ATTEMPTS;
use crate::options::OpenOptions;
use crate::source::{ByteSource, FileSource};
use crate::workers;
use holdall_core::Result;
use holdall_core::error::Shown as _;
use holdall_core::model::Warning;
use holdall_formats::folders::{self, Chosen, FOLDERS, chosen, too_many};
pub use holdall_formats::shards::part_name;
use holdall_formats::shards::{self, Map, NO_MODEL, SHARD_MISSING, Shard, Split};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of more files than this each is opened when it is read, not before.
pub(crate) const MANY: usize = 64;
/// Files at addresses that are opened at once: each takes a round trip or two.
const AT_ONCE: usize = 32;
/// Where the files of a model are.
pub(crate) enum Home {
    Folder(PathBuf),
    /// An address, up to the last `/`, and what follows the name: `#` and a fragment, or nothing.
    Web(String, String),
}

impl Home {
    /// Where the file at `path` is, and its name there.
    pub(crate) fn of(path: &Path) -> (Home, &str) {
        if let Some(url) = crate::address::is_url(path) {
            // In keys of object stores `?` and `#` are characters like others.
            let is_key = crate::stores::is_address(url);
            let end = if is_key { None } else { url.find('#') };
            let (address, fragment) = url.split_at(end.unwrap_or(url.len()));
            let address = match is_key {
                true => address,
                false => address.split('?').next().unwrap_or_default(),
            };
            let (base, name) = address.rsplit_once('/').unwrap_or_default();
            return (Home::Web(format!("{base}/"), fragment.to_owned()), name);
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        (Home::Folder(path.parent().unwrap_or(Path::new("")).to_owned()), name)
    }

    /// Where the file of that name is.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        match self {
            Home::Folder(folder) => folder.join(name),
            Home::Web(base, fragment) => PathBuf::from(format!("{base}{name}{fragment}")),
        }
    }

    /// What becomes of each of several files, in their order: one for each core at once; many, where each is waited for.
    pub(crate) fn each<J: Send, T: Send>(
        &self,
        files: Vec<J>,
        open: impl Fn(J) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let at_once = match self {
            Home::Folder(_) => workers::threads(None),
            Home::Web(..) => AT_ONCE,
        };
        workers::map(at_once, files, open)
    }

    pub(crate) fn shown(&self) -> String {
        match self {
            Home::Folder(folder) if folder.as_os_str().is_empty() => ".".to_owned(),
            Home::Folder(folder) => folder.display().to_string(),
            Home::Web(base, _) => base.clone(),
        }
    }
}

/// The folder that an address of an object store is.
#[cfg(feature = "stores")]
fn folder_of(address: &str) -> Home {
    Home::Web(format!("{}/", address.trim_end_matches('/')), String::new())
}

/// A file of a model, and where its bytes come from.
type Sourced = (Shard, Arc<dyn ByteSource>);

/// Whether a folder holds a model: an index file, or files of tensors.
pub fn is_model_folder(path: &Path) -> bool {
    path.is_dir() && files(path).is_ok_and(|all| are_model(path, &all))
}

/// The file by which the model of a folder is opened, and with it all others: its index file, its only file, the first part.
///
/// # Errors
/// Io; NotFound, for a folder without such a file.
pub fn model_file(folder: &Path) -> Result<PathBuf> {
    let all = files(folder)?;
    let name = match chosen(&all) {
        Chosen::Index(name, _) | Chosen::Whole(name, _) => name,
        Chosen::File(name) | Chosen::Root(name, _) | Chosen::Checkpoint(name) => name,
        Chosen::Several(names) => return Err(too_many(&names).in_source(folder.display())),
        Chosen::Arrays => {
            let message = "the folder has no file of tensors, and no index of them";
            return Err(NO_MODEL.broken(message).in_source(folder.display()));
        }
    };
    Ok(folder.join(name))
}

/// Whether these are the files of a folder that holds a model.
pub(crate) fn are_model(folder: &Path, all: &[String]) -> bool {
    !folder.join("carton.toml").exists() && folders::are_model(all)
}

/// The names of the files in a folder, sorted, with those of folders inside that are part of its model.
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
    let place = |e| failed(e, "reading the folder").in_source(folder.display());
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(place)? {
        let entry = entry.map_err(place)?;
        if let (Ok(name), true) = (entry.file_name().into_string(), entry.path().is_file()) {
            all.push(name);
        }
    }
    Ok(all)
}

#[cfg(not(feature = "pytorch"))]
impl OpenOptions {
    /// This build reads no checkpoints.
    fn open_checkpoint(&self, home: &Home) -> Result<File> {
        Err(NO_MODEL.broken("this build reads no checkpoints of PyTorch").in_source(home.shown()))
    }
}

impl OpenOptions {
    /// Opens several files as one, in this order: shards that no index names together. Each has tensors of its own; what the
    /// first says of itself, its format among it, is said of all. One alone is opened as [`open`](Self::open) does.
    ///
    /// # Errors
    /// As [`open`](Self::open) of each; NotFound, where none is named; `index/duplicate-name`, where two have a tensor of the same name.
    pub fn open_all<P: AsRef<Path>>(&self, paths: &[P]) -> Result<File> {
        let (first, more) = match paths {
            [] => return Err(NO_MODEL.broken("no file is named")),
            [one] => return self.open(one),
            [first, more @ ..] => (first.as_ref().display(), more.len()),
        };
        let shown = format!("{first} and {more} more");
        let mut shards = Vec::with_capacity(paths.len());
        for path in paths {
            let (source, name) = self.bytes_of(path.as_ref())?;
            let index = decode_index(&*source, self.limits()).map_err(|e| e.in_source(&name))?;
            shards.push((Shard::new(name, index), source));
        }
        self.joined(shards, Vec::new(), shown)
    }

    /// The model of several files that `path` names: a folder of a store, or an index file; nothing where it names neither.
    pub(crate) fn open_model(&self, path: &Path) -> Result<Option<File>> {
        let (home, name) = Home::of(path);
        #[cfg(feature = "stores")]
        if let Home::Web(base, _) = &home
            && crate::stores::is_address(base)
            && crate::stores::is_folder(&path.to_string_lossy())
        {
            return self.open_folder(&folder_of(&path.to_string_lossy())).map(Some);
        }
        let Some(entry) = folders::by_entry(name) else { return Ok(None) };
        match (entry, &home) {
            (_, Home::Folder(_)) if !path.is_file() => Ok(None),
            (Chosen::Index(name, more), Home::Folder(folder)) => {
                self.of_file(folder, name, more, path.display().to_string()).map(Some)
            }
            (Chosen::Index(name, more), Home::Web(..)) => {
                let (source, shown) = self.remote(&path.to_string_lossy())?;
                self.of_index(&home, name, &*source, more, shown).map(Some)
            }
            (Chosen::Checkpoint(_), _) => self.open_checkpoint(&home).map(Some),
            _ => Ok(None),
        }
    }

    /// What an object store has below an address at which it has no object; nothing where there is nothing.
    #[cfg(feature = "stores")]
    pub(crate) fn open_prefix(&self, path: &Path) -> Option<Result<File>> {
        let home = folder_of(path.to_str()?);
        match self.names(&home) {
            Ok(names) if !names.is_empty() => Some(self.open_folder(&home)),
            _ => None,
        }
    }

    /// The names of the files in a folder, sorted.
    fn names(&self, home: &Home) -> Result<Vec<String>> {
        match home {
            Home::Folder(folder) => files(folder),
            #[cfg(feature = "stores")]
            Home::Web(base, _) => {
                let base = crate::stores::shown(base);
                let own = |listed: &crate::stores::Listed| {
                    let name = listed.address.strip_prefix(base.as_str())?.to_owned();
                    (!name.contains('/')).then_some(name)
                };
                let all = self.list(&base)?;
                if all.is_empty() {
                    let message = "there is nothing below this address";
                    return Err(crate::stores::rules::NO_OBJECT.broken(message).in_source(&base));
                }
                Ok(all.iter().filter_map(own).collect())
            }
            #[cfg(not(feature = "stores"))]
            Home::Web(..) => Ok(Vec::new()),
        }
    }

    pub(crate) fn open_folder(&self, home: &Home) -> Result<File> {
        let all = self.names(home)?;
        let shown = home.shown();
        match (chosen(&all), home) {
            (Chosen::Index(name, more), Home::Folder(folder)) => {
                self.of_file(folder, name, more, shown)
            }
            (Chosen::Index(name, more), Home::Web(base, _)) => {
                let (source, _) = self.remote(&format!("{base}{name}"))?;
                self.of_index(home, name, &*source, more, shown)
            }
            (Chosen::Whole(name, warning), _) => {
                let main = ModelFile::new(FileRole::Main, home.join(name), Some(0));
                let file = self.joined(vec![self.shard(home, name)?], vec![warning], shown)?;
                Ok(file.with_files(vec![main]))
            }
            (Chosen::Checkpoint(_), _) => self.open_checkpoint(home),
            (Chosen::File(name), _) => self.open(home.join(name)),
            // All the others are what it names, or what an edit is about to add or remove.
            (Chosen::Root(root, names), _) => {
                let passing = match home {
                    Home::Folder(_) => journal::files_for(&home.join(root)),
                    Home::Web(..) => Vec::new(),
                };
                match self.open(home.join(root)) {
                    Ok(file)
                        if names.iter().all(|name| {
                            let path = home.join(name);
                            file.files().iter().any(|own| own.location == path)
                                || passing.contains(&path)
                        }) =>
                    {
                        Ok(file)
                    }
                    _ => Err(too_many(&names).in_source(shown)),
                }
            }
            (Chosen::Several(names), _) => Err(too_many(&names).in_source(shown)),
            // Which may be in folders of it.
            (Chosen::Arrays, Home::Folder(folder)) => self.open_arrays(folder),
            (Chosen::Arrays, Home::Web(..)) => {
                let message = "the folder has no file of tensors, and no index of them";
                Err(NO_MODEL.broken(message).in_source(shown))
            }
        }
    }

    /// The model of the index file of that name in a folder.
    fn of_file(
        &self,
        folder: &Path,
        name: &str,
        more: Option<Warning>,
        shown: String,
    ) -> Result<File> {
        let path = folder.join(name);
        let home = Home::Folder(folder.to_owned());
        // An edit may take an index, and then the shards that it names, away while they are opened: the new index is there before.
        for _ in 1..ATTEMPTS {
            let before = Stamp::of(&path)?;
            let source = FileSource::open(&path).map_err(|e| e.in_source(path.display()))?;
            let opened = self.of_index(&home, name, &source, more.clone(), shown.clone());
            if opened.is_ok() || Stamp::of(&path)? == before {
                return opened;
            }
        }
        let source = FileSource::open(&path).map_err(|e| e.in_source(path.display()))?;
        self.of_index(&home, name, &source, more, shown)
    }

    /// The model that an index file describes; `more` is a warning besides those about it.
    fn of_index(
        &self,
        home: &Home,
        name: &str,
        source: &dyn ByteSource,
        more: Option<Warning>,
        shown: String,
    ) -> Result<File> {
        let place = |e: holdall_core::Error| e.in_source(home.join(name).display());
        let len = source.len();
        let read = || Map::read(&source.read_range(0..len)?, name);
        let map = Map::check_len(len).and_then(|()| read()).map_err(place)?;
        let files = map.files().iter().enumerate().collect();
        let checked = home.each(files, |(number, file)| {
            let (mut shard, source) = self.shard(home, file)?;
            let checked = map.check(number, &mut shard, name);
            Ok(((shard, source), checked))
        })?;
        let (shards, checked): (Vec<Sourced>, Vec<_>) = checked.into_iter().unzip();
        let mut warnings = Vec::from_iter(more);
        let all: Vec<&Shard> = shards.iter().map(|(shard, _)| shard).collect();
        warnings.extend(map.check_all(&all, checked, name).map_err(place)?);
        let mut all = ModelFile::shards(shards.iter().map(|(shard, _)| home.join(&shard.name)));
        all.insert(0, ModelFile::new(FileRole::Index, home.join(name), None));
        Ok(self.joined(shards, warnings, shown)?.with_files(all))
    }

    /// The bytes of a file of a model, and how it is named in errors; `is_many` where it is opened when it is read, not before.
    pub(crate) fn part(
        &self,
        home: &Home,
        name: &str,
        is_many: bool,
    ) -> Result<(Arc<dyn ByteSource>, String)> {
        let folder = match home {
            Home::Web(base, fragment) => return self.remote(&format!("{base}{name}{fragment}")),
            Home::Folder(folder) => folder,
        };
        let path = folder.join(name);
        let shown = path.display().to_string();
        if !path.is_file() {
            let message = format!("`{}` is not there", name.shown());
            return Err(SHARD_MISSING.broken(message).in_source(home.shown()));
        }
        if is_many {
            return Ok((Arc::new(Reopened::open(&path)?), shown));
        }
        let file = FileSource::open(&path).map_err(|e| e.in_source(&shown))?;
        Ok((self.source(file).map_err(|e| e.in_source(&shown))?.0, shown))
    }

    /// A file of a model.
    fn shard(&self, home: &Home, name: &str) -> Result<Sourced> {
        let (source, shown) = self.part(home, name, false)?;
        let index = decode_index(&*source, self.limits()).map_err(|e| e.in_source(shown))?;
        Ok((Shard::new(name, index), source))
    }

    /// Files as one.
    fn joined(&self, shards: Vec<Sourced>, warnings: Vec<Warning>, shown: String) -> Result<File> {
        let all = shards.iter().map(|(shard, _)| shard);
        let index = shards::joined(all, warnings, self.limits()).and_then(|i| self.judged(i));
        let sources = shards.into_iter().map(|(_, source)| source).collect();
        self.open_index(index.map_err(|e| e.in_source(&shown))?, sources, shown)
    }

    /// All parts of a split file, whose first part is open.
    pub(crate) fn with_parts(&self, first: File, path: &Path) -> Result<File> {
        let index = first.index().clone();
        let shown = first.name().to_owned();
        let (home, own) = Home::of(path);
        let blame = |e: holdall_core::Error| e.in_source(&shown);
        let Some(split) = Split::of(&index, own).map_err(blame)? else { return Ok(first) };
        let sources = first.all_sources().iter();
        let own = |source: &Arc<dyn ByteSource>| (Shard::new(own, index.clone()), source.clone());
        let mut shards: Vec<Sourced> = sources.map(own).collect();
        let others = home.each((1u32..).zip(split.others()).collect(), |(no, name)| {
            let (shard, source) = self.shard(&home, &name)?;
            split.check(no, &shard.index).map_err(blame)?;
            Ok((shard, source))
        });
        shards.extend(others?);
        let total = shards.iter().map(|(shard, _)| shard.index.len()).sum();
        split.check_all(total).map_err(blame)?;
        let all = ModelFile::shards(shards.iter().map(|(shard, _)| home.join(&shard.name)));
        Ok(self.joined(shards, Vec::new(), shown)?.with_files(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error about a file that is not there names the folder, also the one that the process is in.
    #[test]
    fn folders_have_names() {
        for (path, folder) in [("m.safetensors.index.json", "."), ("a/m.json", "a")] {
            let (home, _) = Home::of(Path::new(path));
            let e = OpenOptions::new().part(&home, "none", false).map(drop).unwrap_err();
            assert_eq!((e.code(), e.source_name()), ("shards/missing", Some(folder)));
        }
    }
}
