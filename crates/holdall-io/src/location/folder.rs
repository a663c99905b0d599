//! The folder that contains the files of a model: on a disk, at an address, or inside a package or an archive.

use super::container::Member;
use super::{Container, FoundFile, Location};
use crate::arrays::Reopened;
use crate::options::{Io, OpenOptions};
use crate::source::FileSource;
use crate::{shards, workers};
use holdall_core::error::Escape as _;
use holdall_core::{Result, Rule};
use holdall_formats::folders::FOLDERS;
use holdall_formats::shards::SHARD_MISSING;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The number of files at addresses that are opened in parallel, because each takes one or two round trips.
const AT_ONCE: usize = 32;

/// A folder that contains files of a model, which it can list and open.
#[derive(Clone)]
pub(crate) enum Folder {
    /// A local folder.
    Disk(PathBuf),
    /// The folder of the file at this address. An address that ends with a slash is the folder itself.
    Address(Location),
    /// A folder inside a package or an archive.
    Inside(Inside),
}

/// A folder inside a package or an archive.
#[derive(Clone)]
pub(crate) struct Inside {
    container: Arc<Container>,
    /// The container's name in errors.
    name: String,
    /// The outermost container.
    archive: Location,
    /// The path from the outermost container to this one. Empty, or ends with `!/`.
    way: String,
    /// The path of the folder in the container. Empty, or ends with `/`.
    path: String,
}

/// A file or folder to be opened: its location, and the folder that contains it.
pub(crate) struct Site {
    pub(crate) location: Location,
    pub(crate) folder: Folder,
    /// The name in the folder. Empty if it is not UTF-8.
    pub(crate) name: String,
}

impl Site {
    /// Finds the folder that contains `location`. This opens archives, but not files.
    ///
    /// # Errors
    /// Returns the errors of an archive; a `Misuse` error for bytes in memory, which have no folder.
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

    /// Creates the site of a path in a container.
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

    /// Returns the bytes of the file alone, without other files of its model.
    ///
    /// # Errors
    /// Returns an `Io` error; `archive/no-file` or `package/no-file` if it does not exist.
    pub(crate) fn find(&self, options: &OpenOptions) -> Result<FoundFile> {
        match &self.folder {
            Folder::Inside(inside) => inside.find(&self.name, options),
            _ => {
                let (source, name) = options.source_at(&self.location)?;
                Ok(FoundFile::new(source, name))
            }
        }
    }

    /// Returns the folder at this location, if there is one.
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

    /// Returns the location of the file with this name.
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

    /// Returns the locations of all files below a folder inside an archive. Empty for other folders.
    pub(crate) fn below(&self) -> Vec<Location> {
        match self {
            Folder::Inside(inside) => inside.below().iter().map(|name| self.locate(name)).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the folder's name for errors.
    pub(crate) fn display_name(&self) -> String {
        match self {
            Folder::Disk(folder) if folder.as_os_str().is_empty() => ".".to_owned(),
            Folder::Disk(folder) => folder.display().to_string(),
            Folder::Address(_) => self.locate("").to_string(),
            Folder::Inside(Inside { name, path, .. }) => {
                format!("{name}!/{}", path.trim_end_matches('/'))
            }
        }
    }

    /// Returns `true` if there is a file of this name, or `None` if that is only known by opening it.
    pub(crate) fn has(&self, name: &str) -> Option<bool> {
        match self {
            Folder::Disk(folder) => Some(folder.join(name).is_file()),
            Folder::Address(_) => None,
            Folder::Inside(inside) => Some(inside.container.has(&format!("{}{name}", inside.path))),
        }
    }

    /// Returns the names of the files in the folder, sorted, including those in subfolders that belong to its model.
    ///
    /// # Errors
    /// Returns an `Io` error; errors of the store.
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

    /// Returns the bytes of the file with this name. If `is_many`, the file is reopened for each read, to save handles.
    ///
    /// # Errors
    /// Returns `shards/missing` if it does not exist; an `Io` error.
    pub(crate) fn find(
        &self,
        options: &OpenOptions,
        name: &str,
        is_many: bool,
    ) -> Result<FoundFile> {
        if self.has(name) == Some(false) {
            let message = format!("`{}` is not there", name.escaped());
            return Err(SHARD_MISSING.broken(message).in_source(self.display_name()));
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

    /// Checks that the files that the file `entry` names are not symbolic links out of the folder. Their names are
    /// relative paths without `..`. Links into the folder to which `entry` itself links are allowed, because caches
    /// store models so.
    ///
    /// # Errors
    /// Returns `rule` if there is such a link.
    pub(crate) fn check_links(
        &self,
        entry: &str,
        names: &[impl AsRef<str>],
        rule: &'static Rule,
    ) -> Result<()> {
        let Folder::Disk(folder) = self else { return Ok(()) };
        for name in names.iter().map(AsRef::as_ref) {
            if !is_inside(&folder.join(name), folder, entry, name) {
                let message = format!("`{}` is a link out of the model's folder", name.escaped());
                return Err(rule.broken(message).in_source(self.locate(entry)));
            }
        }
        Ok(())
    }

    /// Calls `open` for each of several files in parallel, and returns the results in order: one thread for each core,
    /// or more if each file is a network request.
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
    /// Returns the bytes of a file below the folder.
    pub(crate) fn find(&self, name: &str, options: &OpenOptions) -> Result<FoundFile> {
        self.container.find(&format!("{}{name}", self.path), options, &self.name)
    }

    /// Returns the paths of all files below the folder.
    pub(crate) fn below(&self) -> Vec<&str> {
        self.container.below(&self.path)
    }
}

/// Returns the names of the objects directly below an address of an object store.
#[cfg(feature = "stores")]
fn names_at(options: &OpenOptions, address: &Location, folder: &Folder) -> Result<Vec<String>> {
    if !matches!(address, Location::Store(_)) {
        return Ok(Vec::new());
    }
    let base = folder.display_name();
    let own = |listed: &crate::stores::Listed| {
        let name = listed.address.strip_prefix(base.as_str())?.to_owned();
        (!name.contains('/')).then_some(name)
    };
    let all = options.list(&base)?;
    if all.is_empty() {
        let message = "there are no objects below this address";
        return Err(crate::stores::rules::NO_OBJECT.broken(message).in_source(&base));
    }
    Ok(all.iter().filter_map(own).collect())
}

#[cfg(not(feature = "stores"))]
fn names_at(_: &OpenOptions, _: &Location, _: &Folder) -> Result<Vec<String>> {
    Ok(Vec::new())
}

/// Returns `true` if a file, after following links, is in the folder or in that of the file `entry`.
fn is_inside(path: &Path, folder: &Path, entry: &str, name: &str) -> bool {
    if !name.contains('/') && !path.is_symlink() {
        return true;
    }
    let real = |path: &Path| path.canonicalize().ok();
    let around = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // A missing file is reported when it is opened.
    let Some(path) = real(path) else { return true };
    let home = (!entry.is_empty()).then(|| real(&folder.join(entry))).flatten();
    real(around).is_some_and(|folder| path.starts_with(folder))
        || home.is_some_and(|home| path.parent() == home.parent())
}
