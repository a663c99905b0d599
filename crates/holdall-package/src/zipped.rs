//! Finds the texts and files of a package in a zip.

use crate::contents::{FoundPath, PackageContents, Texts};
use crate::fields::Warnings;
use crate::rules::*;
use crate::{CARTON_TOML, LINKS_NAME, MANIFEST_NAME, TENSOR_INDEX, paths, warnings};
use bytes::Bytes;
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::zip::{Directory, Entry, EntryKind};

/// Texts of a package that it only links to, fetched.
#[derive(Debug, Clone, Default)]
pub struct FetchedTexts {
    /// `carton.toml`, if it was fetched.
    pub description: Option<Bytes>,
    /// `tensor_data/index.toml`, if it was fetched.
    pub tensors: Option<Bytes>,
}

/// Reads the package in the zip with `directory`: its texts, and the targets of symbolic links. The numbers
/// of the found files are those of the zip's entries. `fetched` has the texts that the package only links to,
/// as far as they were fetched. Returns `None` if the zip is not a package: it has neither `carton.toml` nor
/// both `MANIFEST` and `LINKS`.
///
/// # Errors
/// Returns all rules of packages, except those about bytes of other files.
pub fn read(
    directory: &Directory,
    window: &Window,
    limits: &Limits,
    fetched: &FetchedTexts,
) -> Result<Option<PackageContents>, Stop> {
    check_names(directory)?;
    let texts = texts(directory);
    let is_link = |entry: &Entry<'_>| entry.kind() == EntryKind::Symlink;
    if let Some(text) = texts.into_iter().flatten().find(is_link) {
        let message = format!("`{}` is a link", text.name());
        return Err(SYMLINK.broken(message).into());
    }
    let long = |entry: &Entry<'_>| is_link(entry) && entry.decoded_len() > paths::LONGEST as u64;
    if let Some(link) = directory.entries().find(long) {
        let (name, len) = (link.name().escaped(), link.decoded_len());
        return Err(SYMLINK.broken(format!("`{name}` leads to {len} bytes of path")).into());
    }
    // Sorted by name, which is the order of a package's files.
    let entries = || directory.entries_by_name();
    let wanted: Vec<Entry<'_>> =
        texts.into_iter().flatten().chain(entries().filter(is_link)).collect();
    let mut contents = directory.contents(&wanted, window, limits)?.into_iter();
    let mut next = |entry: Option<Entry<'_>>| entry.and_then(|_| contents.next());
    let [description, manifest, links, tensors] = texts.map(&mut next);
    if description.is_none() && (manifest.is_none() || links.is_none()) {
        return Ok(None);
    }
    let texts = Texts {
        description: description.or_else(|| fetched.description.clone()),
        manifest: Some(manifest.ok_or_else(|| {
            NO_MANIFEST.broken(format!("there is no `{MANIFEST_NAME}` in the zip"))
        })?),
        links,
        tensors: tensors.or_else(|| fetched.tensors.clone()),
        are_unpacked: false,
    };
    let mut found = Vec::with_capacity(directory.len());
    for entry in entries().filter(|entry| entry.kind() != EntryKind::Folder) {
        let target = match entry.kind() {
            EntryKind::Symlink => Some(target(entry, next(Some(entry)).unwrap_or_default())?),
            _ => None,
        };
        found.push(FoundPath {
            path: path_of(entry.name()).into(),
            len: entry.decoded_len(),
            target,
            index: entry.position(),
        });
    }
    let mut contents = PackageContents::new(found, &texts, limits)?;
    let is_rooted = |entry: &Entry<'_>| path_of(entry.name()) != entry.name();
    if let Some(first) = directory.entries().find(is_rooted) {
        let mut noted = Warnings(std::mem::take(&mut contents.warnings));
        let count = directory.entries().filter(is_rooted).count() as u64;
        let message = || format!("entry `{}` has a slash at its start", first.name());
        noted.add_many(warnings::LEADING_SLASH, count, message);
        contents.warnings = noted.0;
    }
    Ok(Some(contents))
}

/// Returns the entries of `carton.toml`, `MANIFEST`, `LINKS` and the table of tensors, if they exist.
pub fn texts(directory: &Directory) -> [Option<Entry<'_>>; 4] {
    let names = [CARTON_TOML, MANIFEST_NAME, LINKS_NAME, TENSOR_INDEX];
    names.map(|name| directory.get(name).or_else(|| rooted(directory, name)))
}

/// Returns `true` if a zip is a package, even one without its description.
pub fn is_package(directory: &Directory) -> bool {
    let has = |name| directory.get(name).or_else(|| rooted(directory, name)).is_some();
    has(CARTON_TOML) || (has(MANIFEST_NAME) && has(LINKS_NAME))
}

/// Returns the entry of `MANIFEST` or `LINKS`, which the original writes with a slash before the name.
fn rooted<'a>(directory: &'a Directory, name: &str) -> Option<Entry<'a>> {
    ROOTED.into_iter().find(|rooted| path_of(rooted) == name).and_then(|name| directory.get(name))
}

/// Returns the path of an entry: its name, without the slash of those two.
fn path_of(name: &str) -> &str {
    if ROOTED.contains(&name) { name.trim_start_matches('/') } else { name }
}

/// The names that the original gives `MANIFEST` and `LINKS` in a package that it has shrunk.
const ROOTED: [&str; 2] = ["/MANIFEST", "/LINKS"];

/// Checks the names of folders, and that no path collides with them. Files are checked with those of `LINKS`.
fn check_names(directory: &Directory) -> Result<()> {
    let folders = || directory.entries().filter(|entry| entry.kind() == EntryKind::Folder);
    for entry in folders() {
        paths::check(entry.name().strip_suffix('/').unwrap_or_default())?;
    }
    match folders().next() {
        // Empty folders are never created: those that differ only in case do no harm.
        Some(_) => paths::check_paths_alone(directory.entries().map(|entry| path_of(entry.name())))
            .map(drop),
        None => Ok(()),
    }
}

fn target(entry: Entry<'_>, content: Bytes) -> Result<String> {
    String::from_utf8(content.into()).map_err(|_| {
        SYMLINK.broken(format!("`{}` leads to a path that is not UTF-8", entry.name().escaped()))
    })
}
