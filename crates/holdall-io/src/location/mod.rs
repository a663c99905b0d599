//! Locations of files: parsing what the user named, and finding the other files in its folder.

mod container;
mod folder;

pub(crate) use container::{Container, FoundFile, Member};
pub(crate) use folder::{Folder, Site};

use std::fmt;
use std::path::{Path, PathBuf};

/// The location of a file or folder: a path, an address, or a path inside an archive.
///
/// [`Location::new`] is the only function that decides how a text is interpreted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Location {
    /// A local file or folder.
    Path(PathBuf),
    /// An HTTP address: `https://host/model.zt`.
    Web(String),
    /// An address in an object store or on a hub: `s3://bucket/model.zt`.
    Store(String),
    /// The address of a file that another Holdall serves: `holdall://host/model.zt`.
    Served(String),
    /// A file or folder inside a package, a zip or a tar archive: `model.tar!/folder/a.gguf`.
    Member {
        /// The outermost archive, which is never a member itself.
        archive: Box<Location>,
        /// The path in the archive. It contains further `!/` if archives are nested.
        path: String,
    },
    /// Bytes that the caller passed in memory, with their name.
    Bytes(String),
}

impl Location {
    /// Returns the location that `path` names.
    ///
    /// A path that begins with `http://`, `https://` or `holdall://`, or with the scheme of an object store, in letters
    /// of any case, is an address. So is one with another scheme, unless a file of that name exists. `ARCHIVE!/PATH` is
    /// a member if `ARCHIVE` is an address or exists, unless a file with the whole text as its name exists.
    pub fn new(path: impl AsRef<Path>) -> Location {
        let path = path.as_ref();
        let Some(text) = path.to_str() else { return Location::Path(path.to_owned()) };
        if text.contains("!/") && !path.exists() {
            for (archive, inside) in cuts(text) {
                let archive = Location::outermost(Path::new(archive), archive);
                if archive.as_path().is_none_or(Path::exists) {
                    return Location::Member {
                        archive: Box::new(archive),
                        path: inside.to_owned(),
                    };
                }
            }
        }
        Location::outermost(path, text)
    }

    /// Returns the location of a path that is not inside an archive.
    fn outermost(path: &Path, text: &str) -> Location {
        let Some((scheme, _)) = text.split_once("://") else {
            return Location::Path(path.to_owned());
        };
        let is = |known: &str| scheme.eq_ignore_ascii_case(known);
        // A single letter is a drive on Windows.
        let is_scheme = || {
            scheme.len() > 1
                && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        };
        match () {
            () if is("holdall") => Location::Served(text.to_owned()),
            () if crate::stores::is_scheme(scheme) => Location::Store(text.to_owned()),
            () if is("http") || is("https") || (is_scheme() && !path.exists()) => {
                Location::Web(text.to_owned())
            }
            () => Location::Path(path.to_owned()),
        }
    }

    /// Returns the local path, if the location is one.
    pub fn as_path(&self) -> Option<&Path> {
        match self {
            Location::Path(path) => Some(path),
            _ => None,
        }
    }

    /// Returns the address as it was given, if the location is one. It may contain secrets; to display it, use
    /// [`Display`](fmt::Display).
    pub fn as_address(&self) -> Option<&str> {
        match self {
            Location::Web(address) | Location::Store(address) | Location::Served(address) => {
                Some(address)
            }
            _ => None,
        }
    }

    /// Returns the text from which [`Location::new`] creates this location again. For bytes in memory, it is only their
    /// name.
    pub fn to_path_buf(&self) -> PathBuf {
        match self {
            Location::Path(path) => path.clone(),
            Location::Web(text)
            | Location::Store(text)
            | Location::Served(text)
            | Location::Bytes(text) => PathBuf::from(text),
            Location::Member { archive, path } => {
                let mut text = archive.to_path_buf().into_os_string();
                text.push("!/");
                text.push(path);
                PathBuf::from(text)
            }
        }
    }

    /// Returns the name of the file without its folder. Empty if it has none, or the name is not UTF-8.
    pub fn file_name(&self) -> &str {
        match self {
            Location::Path(path) => path.file_name().and_then(|name| name.to_str()).unwrap_or(""),
            Location::Web(text) | Location::Served(text) => parts_of_address(text).1,
            Location::Store(text) | Location::Member { path: text, .. } => last(text),
            Location::Bytes(_) => "",
        }
    }

    /// Returns the location of a file in the same folder, by its name or relative path. `None` for bytes in memory.
    pub fn sibling(&self, name: &str) -> Option<Location> {
        Some(match self {
            Location::Path(path) => Location::Path(path.with_file_name(name)),
            Location::Web(text) => {
                let (folder, _, fragment) = parts_of_address(text);
                Location::Web(format!("{folder}{}{fragment}", encoded(name)))
            }
            Location::Served(text) => {
                let (folder, _, fragment) = parts_of_address(text);
                Location::Served(format!("{folder}{name}{fragment}"))
            }
            Location::Store(text) => Location::Store(format!("{}{name}", folder_of(text))),
            Location::Member { archive, path } => {
                let path = format!("{}{name}", folder_of(path));
                Location::Member { archive: archive.clone(), path }
            }
            Location::Bytes(_) => return None,
        })
    }
}

/// Formats the location for display, without secrets in addresses.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Path(path) => path.display().fmt(f),
            #[cfg(feature = "http")]
            Location::Web(address) => f.write_str(&crate::http::redacted(address)),
            #[cfg(not(feature = "http"))]
            Location::Web(address) => f.write_str(address),
            Location::Store(address) => f.write_str(&crate::stores::redacted(address)),
            #[cfg(feature = "quic")]
            Location::Served(address) => match holdall_net::quic::Address::parse(address) {
                Ok(address) => address.fmt(f),
                Err(_) => f.write_str(&crate::http::redacted(address)),
            },
            #[cfg(all(feature = "http", not(feature = "quic")))]
            Location::Served(address) => f.write_str(&crate::http::redacted(address)),
            #[cfg(not(feature = "http"))]
            Location::Served(address) => f.write_str(address),
            Location::Member { archive, path } => write!(f, "{archive}!/{path}"),
            Location::Bytes(name) => f.write_str(name),
        }
    }
}

/// Formats a path or address for display, without secrets in addresses.
pub fn redacted(path: &Path) -> String {
    Location::new(path).to_string()
}

/// Returns the text before and after each `!/`.
pub(crate) fn cuts(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("!/").map(|(at, _)| (&text[..at], &text[at + 2..]))
}

/// Returns the last segment of a path.
fn last(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Returns a path up to and including its last `/`.
fn folder_of(path: &str) -> &str {
    path.strip_suffix(last(path)).unwrap_or_default()
}

/// Splits an address into the part up to the last `/` of its path, the name after it, and its fragment with `#`. The
/// query is dropped, because it belongs to this file only.
fn parts_of_address(address: &str) -> (&str, &str, &str) {
    let (address, fragment) = address.split_at(address.find('#').unwrap_or(address.len()));
    let address = address.split('?').next().unwrap_or_default();
    (folder_of(address), last(address), fragment)
}

/// Encodes a relative path for use in an address, so that a `?` in a name does not begin a query.
fn encoded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '%' => out.push_str("%25"),
            '?' => out.push_str("%3F"),
            '#' => out.push_str("%23"),
            ' ' => out.push_str("%20"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_paths_addresses_and_members() {
        let web = |text: &str| Location::Web(text.to_owned());
        for (text, wanted) in [
            ("m.zt", Location::Path("m.zt".into())),
            ("none.tar!/m.zt", Location::Path("none.tar!/m.zt".into())),
            ("C:/m.zt", Location::Path("C:/m.zt".into())),
            ("HTTPS://h/m.zt?a=b#c", web("HTTPS://h/m.zt?a=b#c")),
            ("ftp://h/m.zt", web("ftp://h/m.zt")),
            ("S3://b/m.zt", Location::Store("S3://b/m.zt".into())),
            ("holdall://h/m.zt", Location::Served("holdall://h/m.zt".into())),
            (
                "https://h/a.zip!/b.zip!/m.zt",
                Location::Member {
                    archive: Box::new(web("https://h/a.zip")),
                    path: "b.zip!/m.zt".into(),
                },
            ),
        ] {
            let location = Location::new(text);
            assert_eq!(location, wanted);
            assert_eq!(location.to_path_buf(), Path::new(text));
            let name = if text.contains("C:") { "m.zt" } else { location.file_name() };
            assert_eq!(name, "m.zt", "{text}");
        }
    }

    #[test]
    fn siblings_are_in_the_same_folder() {
        for (text, wanted) in [
            ("m.zt", "a/n.zt"),
            ("f/m.zt", "f/a/n.zt"),
            ("https://h/f/m.zt?token=/x#etag", "https://h/f/a/n.zt#etag"),
            ("s3://b/f/m?x#y", "s3://b/f/a/n.zt"),
            ("holdall://h/f/m.zt", "holdall://h/f/a/n.zt"),
            ("https://h/a.zip!/m.zt", "https://h/a.zip!/a/n.zt"),
            ("https://h/a.zip!/f/b.zip!/m.zt", "https://h/a.zip!/f/b.zip!/a/n.zt"),
        ] {
            let sibling = Location::new(text).sibling("a/n.zt").unwrap();
            assert_eq!(sibling.to_path_buf(), Path::new(wanted));
        }
        let sibling = |name| Location::new("https://h/m").sibling(name).unwrap().to_path_buf();
        assert_eq!(sibling("50%?#.zt"), Path::new("https://h/50%25%3F%23.zt"));
        assert_eq!(Location::Bytes("m".into()).sibling("n"), None);
    }
}
