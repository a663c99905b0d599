//! The folder that the files of a model are in: on a disk, at an address, or inside a package or an archive.

use super::container::Member;
use super::{Container, FoundFile, Location};
use crate::arrays::Reopened;
use crate::options::{Io, OpenOptions};
use crate::source::FileSource;
use crate::{shards, workers};
use holdall_core::error::Shown as _;
use holdall_core::{Result, Rule};
use holdall_formats::folders::FOLDERS;
use holdall_formats::shards::SHARD_MISSING;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files at addresses that are opened at once: each takes a round trip or two.
const AT_ONCE: usize = 32;

/// A folder that files of a model are in. Lists and opens them.
#[derive(Clone)]
pub(crate) enum Folder {
    /// A folder of the file system.
    Disk(PathBuf),
    /// The folder that the file at this address is in. An address that ends in a slash is the folder itself.
    Address(Location),
    /// A folder inside a package or an archive.
    Inside(Inside),
}

/// A folder inside a package or an archive.
#[derive(Clone)]
pub(crate) struct Inside {
    container: Arc<Container>,
    /// How the container is called in errors.
    name: String,
    /// The outermost container.
    archive: Location,
    /// Leads from that to the container. Empty, or ends in `!/`.
    way: String,
    /// The path of the folder. Empty, or ends in `/`.
    path: String,
}

/// A file or folder that is to be opened: where it is, and the folder around it.
pub(crate) struct Site {
    pub(crate) location: Location,
    pub(crate) folder: Folder,
    /// The name in the folder. Empty if it is not UTF-8.
    pub(crate) name: String,
}

impl Site {
    /// Finds the folder that `location` is in. Archives are opened for that, files are not.
    ///
    /// # Errors
    /// What is wrong with an archive; Misuse for bytes, which have no folder.
    pub(crate) fn new(options: &OpenOptions, location: &Location) -> Result<Site> {
        let own = location.clone();
        match location {
            Location::Path(path) => {
                let folder = path.parent().unwrap_or(Path::new("")).to_owned();
                let name = location.file_name().to_owned();
                Ok(Site { location: own, folder: Folder::Disk(folder), name })
            }
            Location::Member { archive, path } => {
                let member = Member::locate(options, archive, path)?;
                Ok(Site::in_container((**archive).clone(), member))
            }
            _ => {
                let name = location.file_name().to_owned();
                Ok(Site { location: own.clone(), folder: Folder::Address(own), name })
            }
        }
    }

    /// Returns the file or folder at a path of a container.
    pub(crate) fn in_container(archive: Location, member: Member) -> Site {
        let Member { container, name: shown, way, path } = member;
        let (folder, name) = match path.rsplit_once('/') {
            Some((folder, name)) => (format!("{folder}/"), name.to_owned()),
            None => (String::new(), path),
        };
        let inside = Inside { container, name: shown, archive, way, path: folder };
        let folder = Folder::Inside(inside);
        Site { location: folder.locate(&name), folder, name }
    }

    /// Returns the bytes of the file, without asking what else belongs to it.
    ///
    /// # Errors
    /// Io; `archive/no-file`, `package/no-file`.
    pub(crate) fn find(&self, options: &OpenOptions) -> Result<FoundFile> {
        match &self.folder {
            Folder::Inside(inside) => inside.find(&self.name, options),
            _ => {
                let (source, name) = options.source_at(&self.location)?;
                Ok(FoundFile::new(source, name))
            }
        }
    }

    /// Returns the folder that this is, if it is one.
    pub(crate) fn as_folder(&self) -> Option<Folder> {
        match &self.folder {
            Folder::Disk(_) => {
                let path = self.location.as_path().filter(|path| path.is_dir())?;
                Some(Folder::Disk(path.to_owned()))
            }
            Folder::Address(_) => None,
            Folder::Inside(inside) => {
                let path = format!("{}{}", inside.path, self.name);
                let is_file = inside.container.has(&path);
                if is_file || !inside.container.has_folder(&path) {
                    return None;
                }
                let path = if path.is_empty() { path } else { format!("{path}/") };
                Some(Folder::Inside(Inside { path, ..inside.clone() }))
            }
        }
    }
}

impl Folder {
    /// Returns the folder at an address of an object store.
    #[cfg(feature = "stores")]
    pub(crate) fn at_store(address: &str) -> Folder {
        Folder::Address(Location::Store(format!("{}/", address.trim_end_matches('/'))))
    }

    /// Returns where the file of that name is.
    pub(crate) fn locate(&self, name: &str) -> Location {
        match self {
            Folder::Disk(folder) => Location::Path(folder.join(name)),
            Folder::Address(address) => address.sibling(name).unwrap_or_else(|| address.clone()),
            Folder::Inside(Inside { archive, way, path, .. }) => Location::Member {
                archive: Box::new(archive.clone()),
                path: format!("{way}{path}{name}"),
            },
        }
    }

    /// Returns the locations of the files in and below a folder inside an archive; empty for others.
    pub(crate) fn below(&self) -> Vec<Location> {
        match self {
            Folder::Inside(inside) => inside.below().iter().map(|name| self.locate(name)).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns how the folder is called in errors.
    pub(crate) fn shown(&self) -> String {
        match self {
            Folder::Disk(folder) if folder.as_os_str().is_empty() => ".".to_owned(),
            Folder::Disk(folder) => folder.display().to_string(),
            Folder::Address(_) => self.locate("").to_string(),
            Folder::Inside(Inside { name, path, .. }) => {
                format!("{name}!/{}", path.trim_end_matches('/'))
            }
        }
    }

    /// Whether there is a file of that name; `None` where only opening it tells.
    pub(crate) fn has(&self, name: &str) -> Option<bool> {
        match self {
            Folder::Disk(folder) => Some(folder.join(name).is_file()),
            Folder::Address(_) => None,
            Folder::Inside(inside) => Some(inside.container.has(&format!("{}{name}", inside.path))),
        }
    }

    /// Returns the names of the files in the folder, sorted, with those of folders inside that are part of its model.
    ///
    /// # Errors
    /// Io; what a store refuses.
    pub(crate) fn names(&self, options: &OpenOptions) -> Result<Vec<String>> {
        match self {
            Folder::Disk(folder) => shards::files(folder),
            Folder::Address(address) => names_at(options, address, self),
            Folder::Inside(Inside { container, path, .. }) => {
                let below = container.below(path);
                let inner = |name: &str| {
                    FOLDERS.iter().filter_map(|format| format.inner).any(|inner| {
                        let own = name.strip_prefix(inner.folder).and_then(|n| n.strip_prefix('/'));
                        own.is_some_and(|own| !own.contains('/')) && below.contains(&inner.marker)
                    })
                };
                let own = below.iter().filter(|name| !name.contains('/') || inner(name));
                let mut all: Vec<String> = own.map(|name| (*name).to_owned()).collect();
                all.sort();
                Ok(all)
            }
        }
    }

    /// Returns the bytes of the file of that name; if `is_many`, it is opened anew for each read.
    ///
    /// # Errors
    /// `shards/missing`; Io.
    pub(crate) fn find(
        &self,
        options: &OpenOptions,
        name: &str,
        is_many: bool,
    ) -> Result<FoundFile> {
        if self.has(name) == Some(false) {
            let message = format!("`{}` is not there", name.shown());
            return Err(SHARD_MISSING.broken(message).in_source(self.shown()));
        }
        let folder = match self {
            Folder::Disk(folder) => folder,
            Folder::Inside(inside) => return inside.find(name, options),
            Folder::Address(_) => {
                let (source, name) = options.source_at(&self.locate(name))?;
                return Ok(FoundFile { source, name, io: Io::Read });
            }
        };
        let path = folder.join(name);
        let shown = path.display().to_string();
        if is_many {
            let source = Arc::new(Reopened::open(&path)?);
            return Ok(FoundFile { source, name: shown, io: Io::Read });
        }
        let file = FileSource::open(&path).and_then(|file| options.source(file));
        let (source, io) = file.map_err(|e| e.in_source(&shown))?;
        Ok(FoundFile { source, name: shown, io })
    }

    /// Refuses files that symbolic links take out of the folder, where the file `entry` in it names them; their names are relative
    /// paths without `..`. Files that are links into one other folder, as `entry` is, are fine: caches keep the files of a model so.
    ///
    /// # Errors
    /// `rule`.
    pub(crate) fn check_links(
        &self,
        entry: &str,
        names: &[impl AsRef<str>],
        rule: &'static Rule,
    ) -> Result<()> {
        let Folder::Disk(folder) = self else { return Ok(()) };
        for name in names.iter().map(AsRef::as_ref) {
            if !is_inside(&folder.join(name), folder, entry, name) {
                let message = format!("`{}` is a link out of the model's folder", name.shown());
                return Err(rule.broken(message).in_source(self.locate(entry)));
            }
        }
        Ok(())
    }

    /// Does the same for each of several files and returns what comes of each, in their order: one for each core at once; many where
    /// each is waited for.
    pub(crate) fn each<J: Send, T: Send>(
        &self,
        files: Vec<J>,
        open: impl Fn(J) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let at_once = match self {
            Folder::Disk(_) | Folder::Inside(_) => workers::threads(None),
            Folder::Address(_) => AT_ONCE,
        };
        workers::map(at_once, files, open)
    }
}

impl Inside {
    /// Returns the bytes of a file in or below the folder.
    pub(crate) fn find(&self, name: &str, options: &OpenOptions) -> Result<FoundFile> {
        self.container.find(&format!("{}{name}", self.path), options, &self.name)
    }

    /// Returns the paths of the files in and below the folder.
    pub(crate) fn below(&self) -> Vec<&str> {
        self.container.below(&self.path)
    }
}

/// Returns the names of what an object store has below an address.
#[cfg(feature = "stores")]
fn names_at(options: &OpenOptions, address: &Location, folder: &Folder) -> Result<Vec<String>> {
    if !matches!(address, Location::Store(_)) {
        return Ok(Vec::new());
    }
    let base = folder.shown();
    let own = |listed: &crate::stores::Listed| {
        let name = listed.address.strip_prefix(base.as_str())?.to_owned();
        (!name.contains('/')).then_some(name)
    };
    let all = options.list(&base)?;
    if all.is_empty() {
        let message = "there is nothing below this address";
        return Err(crate::stores::rules::NO_OBJECT.broken(message).in_source(&base));
    }
    Ok(all.iter().filter_map(own).collect())
}

#[cfg(not(feature = "stores"))]
fn names_at(_: &OpenOptions, _: &Location, _: &Folder) -> Result<Vec<String>> {
    Ok(Vec::new())
}

/// Whether a file is in a folder, or in the one in which the file `entry` is, links followed.
fn is_inside(path: &Path, folder: &Path, entry: &str, name: &str) -> bool {
    if !name.contains('/') && !path.is_symlink() {
        return true;
    }
    let real = |path: &Path| path.canonicalize().ok();
    let around = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // What is not there is told of by opening it.
    let Some(path) = real(path) else { return true };
    let home = (!entry.is_empty()).then(|| real(&folder.join(entry))).flatten();
    real(around).is_some_and(|folder| path.starts_with(folder))
        || home.is_some_and(|home| path.parent() == home.parent())
}
