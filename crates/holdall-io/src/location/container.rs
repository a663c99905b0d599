//! Archives and packages as containers of files.

use super::{Location, cuts};
use crate::options::{Io, OpenOptions};
use crate::source::{Access, ByteSource};
use holdall_core::{Error, Result};
use std::sync::Arc;

/// An open package or archive.
pub(crate) enum Container {
    #[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
    Archive(crate::archive::Archive),
    #[cfg(feature = "carton")]
    Package(Box<crate::package::PackageReader>),
}

/// The bytes of a file, its name in errors, and how its bytes are fetched.
pub(crate) struct FoundFile {
    pub(crate) source: Arc<dyn ByteSource>,
    pub(crate) name: String,
    pub(crate) io: Io,
}

impl FoundFile {
    /// Creates the result for a source. Its bytes are mapped if they can be borrowed.
    pub(crate) fn new(source: Arc<dyn ByteSource>, name: String) -> FoundFile {
        let io = match source.read_hints().access {
            Access::Borrowed => Io::Map,
            _ => Io::Read,
        };
        FoundFile { source, name, io }
    }
}

/// A path in a container, which may be nested in other containers.
pub(crate) struct Member {
    pub(crate) container: Arc<Container>,
    /// The container's name in errors.
    pub(crate) name: String,
    /// The path from the outermost container to this one. Empty, or ends with `!/`.
    pub(crate) way: String,
    /// The path in this container.
    pub(crate) path: String,
}

/// The greatest number of nested archives.
const MAX_NESTED: usize = 8;

impl Member {
    /// Finds a path in a package or an archive, or in an archive nested in it: `b.zip!/c.npy` in `a.tar`.
    ///
    /// # Errors
    /// Returns the errors of an archive; `archive/no-archive` if the file is not an archive, or nested too deep.
    pub(crate) fn locate(options: &OpenOptions, archive: &Location, path: &str) -> Result<Member> {
        let mut name = archive.to_string();
        let container = Container::open(options, archive)?;
        if let Some(own) = container.own_name() {
            name = own.to_owned();
        }
        let open = |source, way: &str, name: &str| {
            let path = way.to_owned();
            let location = Location::Member { archive: Box::new(archive.clone()), path };
            Container::open_nested(source, &location, name, options)
        };
        Member::locate_in(options, container, name, path, open)
    }

    /// Finds a path as [`Member::locate`] does, but opens packages as plain zip archives: hashes are not checked and
    /// links not followed.
    pub(crate) fn locate_plain(
        options: &OpenOptions,
        archive: &Location,
        path: &str,
    ) -> Result<Member> {
        // Only a package can be a folder.
        if archive.as_path().is_some_and(std::path::Path::is_dir) {
            return Member::locate(options, archive, path);
        }
        let (source, name) = options.source_at(archive)?;
        let container = Container::from_source(source, options).map_err(|e| e.in_source(&name))?;
        let open = |source, _: &str, _: &str| Container::from_source(source, options);
        Member::locate_in(options, container, name, path, open)
    }

    /// Finds a path in a container. `open` opens a nested container from its bytes, its path and its name.
    fn locate_in(
        options: &OpenOptions,
        mut container: Container,
        mut name: String,
        path: &str,
        open: impl Fn(Arc<dyn ByteSource>, &str, &str) -> Result<Container>,
    ) -> Result<Member> {
        let (mut way, mut path) = (String::new(), path.trim_end_matches('/'));
        for _ in 0..MAX_NESTED {
            let is_here = container.has(path) || container.has_folder(path);
            let next = match is_here {
                true => None,
                false => cuts(path).find(|(own, _)| container.has(own)),
            };
            let Some((own, rest)) = next else {
                let (container, path) = (Arc::new(container), path.to_owned());
                return Ok(Member { container, name, way, path });
            };
            let found = container.find(own, options, &name)?;
            name = format!("{name}!/{own}");
            container = open(found.source, &format!("{way}{own}"), &name)
                .map_err(|e: Error| e.in_source(&name))?;
            way = format!("{way}{own}!/");
            path = rest;
        }
        Err(too_deep(MAX_NESTED).in_source(name))
    }
}

#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
impl Container {
    /// Opens the package or archive at a location.
    fn open(options: &OpenOptions, archive: &Location) -> Result<Container> {
        #[cfg(feature = "carton")]
        let no_package = match crate::package::PackageReader::open_location(archive, options) {
            Ok(package) => return Ok(Container::Package(Box::new(package))),
            Err(e) if crate::package::is_no_package(&e) => Some(e),
            Err(e) => return Err(e),
        };
        #[cfg(not(feature = "carton"))]
        let no_package = None;
        let opened = options.source_at(archive).and_then(|(source, name)| {
            Container::from_source(source, options).map_err(|e| e.in_source(name))
        });
        opened.map_err(|e| match no_package {
            Some(first) if e.code() == crate::archive::NO_ARCHIVE.code => first,
            _ => e,
        })
    }

    /// Opens the package or archive at a location inside another archive, from its bytes.
    fn open_nested(
        source: Arc<dyn ByteSource>,
        location: &Location,
        name: &str,
        options: &OpenOptions,
    ) -> Result<Container> {
        #[cfg(feature = "carton")]
        match crate::package::PackageReader::open_nested(source.clone(), location, name, options) {
            Ok(package) => return Ok(Container::Package(Box::new(package))),
            Err(e) if crate::package::is_no_package(&e) => {}
            Err(e) => return Err(e),
        }
        #[cfg(not(feature = "carton"))]
        let (_, _) = (location, name);
        Container::from_source(source, options)
    }

    /// Reads the archive in a source.
    fn from_source(source: Arc<dyn ByteSource>, options: &OpenOptions) -> Result<Container> {
        crate::archive::Archive::read(source, options.limits()).map(Container::Archive)
    }

    /// Returns the name of a package for errors. Archives do not have one.
    fn own_name(&self) -> Option<&str> {
        match self {
            Container::Archive(_) => None,
            #[cfg(feature = "carton")]
            Container::Package(package) => Some(package.name()),
        }
    }

    /// Returns `true` if there is a file at this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        match self {
            Container::Archive(archive) => archive.has(path),
            #[cfg(feature = "carton")]
            Container::Package(package) => package.file(path).is_some(),
        }
    }

    /// Calls `each` with the path of every file.
    fn for_each_path<'c>(&'c self, mut each: impl FnMut(&'c str)) {
        match self {
            Container::Archive(archive) => archive.for_each_path(&mut each),
            #[cfg(feature = "carton")]
            Container::Package(package) => {
                package.files().iter().for_each(|file| each(&file.path));
            }
        }
    }

    /// Returns the file at this path. `name` is the container's name in errors.
    ///
    /// # Errors
    /// Returns `archive/no-file` or `package/no-file` if there is no such file; errors in the file or its entry.
    pub(crate) fn find(&self, path: &str, options: &OpenOptions, name: &str) -> Result<FoundFile> {
        match self {
            Container::Archive(archive) => {
                let found = archive.find(path, options.limits());
                let source = found.map_err(|e| e.in_source(name))?;
                Ok(FoundFile::new(source, format!("{name}!/{path}")))
            }
            #[cfg(feature = "carton")]
            Container::Package(package) => package.find_source(path),
        }
    }
}

#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
impl Container {
    /// Returns the paths of all files below a folder, relative to it. `folder` is empty or ends with `/`.
    pub(crate) fn below(&self, folder: &str) -> Vec<&str> {
        let mut all = Vec::new();
        self.for_each_path(|path| all.extend(path.strip_prefix(folder)));
        all
    }

    /// Returns `true` if there are files below the folder at this path. An empty path is the container itself.
    pub(crate) fn has_folder(&self, path: &str) -> bool {
        let mut has = false;
        self.for_each_path(|file| {
            let rest = if path.is_empty() { Some("/") } else { file.strip_prefix(path) };
            has |= rest.is_some_and(|rest| rest.starts_with('/'));
        });
        has
    }
}

#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
#[cold]
fn too_deep(most: usize) -> Error {
    let message = format!("more than {most} archives are nested");
    crate::archive::NO_ARCHIVE.broken(message)
}

/// This build does not support archives.
#[cfg(not(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5")))]
impl Container {
    fn open(_: &OpenOptions, _: &Location) -> Result<Container> {
        Err(too_deep(0))
    }

    fn from_source(_: Arc<dyn ByteSource>, _: &OpenOptions) -> Result<Container> {
        Err(too_deep(0))
    }

    fn open_nested(
        _: Arc<dyn ByteSource>,
        _: &Location,
        _: &str,
        _: &OpenOptions,
    ) -> Result<Container> {
        Err(too_deep(0))
    }

    fn own_name(&self) -> Option<&str> {
        match *self {}
    }

    pub(crate) fn has(&self, _: &str) -> bool {
        match *self {}
    }

    pub(crate) fn find(&self, _: &str, _: &OpenOptions, _: &str) -> Result<FoundFile> {
        match *self {}
    }

    pub(crate) fn below(&self, _: &str) -> Vec<&str> {
        match *self {}
    }

    pub(crate) fn has_folder(&self, _: &str) -> bool {
        match *self {}
    }
}

#[cfg(not(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5")))]
#[cold]
fn too_deep(_: usize) -> Error {
    holdall_formats::shards::NO_MODEL.broken("this build does not read files in archives")
}
