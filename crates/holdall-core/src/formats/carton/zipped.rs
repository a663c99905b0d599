//! A package in a zip: which entries are its texts and its files.

use super::contents::{Contents, Found, Texts};
use super::rules::*;
use super::{CARTON_TOML, LINKS_NAME, MANIFEST_NAME, TENSOR_INDEX, paths};
use crate::error::Result;
use crate::limits::Limits;
use crate::window::{Stop, Window};
use crate::wire::zip::{Directory, Entry, EntryKind};
use bytes::Bytes;

/// Reads what the zip of `directory` says of its package: the texts, and where symbolic links lead. The
/// numbers of what was found are those of its entries.
///
/// # Errors
/// All rules of packages, but for those about bytes of other files.
pub fn read(directory: &Directory, window: &Window, limits: &Limits) -> Result<Contents, Stop> {
    check_names(directory)?;
    let texts =
        [CARTON_TOML, MANIFEST_NAME, LINKS_NAME, TENSOR_INDEX].map(|name| directory.get(name));
    let is_link = |entry: &Entry<'_>| entry.kind() == EntryKind::Symlink;
    if let Some(text) = texts.into_iter().flatten().find(is_link) {
        let message = format!("`{}` is a link", text.name());
        return Err(SYMLINK.broken(message).into());
    }
    let wanted: Vec<Entry<'_>> =
        texts.into_iter().flatten().chain(directory.entries().filter(is_link)).collect();
    let mut contents = directory.contents(&wanted, window, limits)?.into_iter();
    let mut next = |entry: Option<Entry<'_>>| entry.and_then(|_| contents.next());
    let [description, manifest, links, tensors] = texts.map(&mut next);
    let texts = Texts {
        description: description.ok_or_else(|| {
            MISSING_FILE.broken(format!("there is no `{CARTON_TOML}` in the zip"))
        })?,
        manifest: Some(manifest.ok_or_else(|| {
            NO_MANIFEST.broken(format!("there is no `{MANIFEST_NAME}` in the zip"))
        })?),
        links,
        tensors,
    };
    let mut found = Vec::new();
    for entry in directory.entries().filter(|entry| entry.kind() != EntryKind::Folder) {
        let target = match entry.kind() {
            EntryKind::Symlink => Some(target(entry, next(Some(entry)).unwrap_or_default())?),
            _ => None,
        };
        found.push(Found {
            path: entry.name().to_owned(),
            len: entry.decoded_len(),
            target,
            at: entry.position(),
        });
    }
    Ok(Contents::new(found, &texts, limits)?)
}

/// Checks the names of all entries; folders and files together, so that nothing stands where a folder is.
fn check_names(directory: &Directory) -> Result<()> {
    for entry in directory.entries().filter(|entry| entry.kind() == EntryKind::Folder) {
        let path = entry.name().strip_suffix('/').unwrap_or_default();
        paths::check(path)?;
        if directory.get(path).is_some() {
            let path = path.escape_debug();
            return Err(COLLISION.broken(format!("`{path}` is a file and a folder")));
        }
    }
    Ok(())
}

fn target(entry: Entry<'_>, content: Bytes) -> Result<String> {
    String::from_utf8(content.into()).map_err(|_| {
        SYMLINK.broken(format!("`{}` leads to what is not UTF-8", entry.name().escape_debug()))
    })
}
