//! Files that a model's file refers to: either all of them are packed with it, or packing is refused.

use super::parts::FileToPack;
use crate::rules::UNREAD;
use holdall_core::error::Shown as _;
use holdall_core::model::Warning;
use holdall_core::{Error, Result};
use holdall_formats::{FORMATS, folders};
use holdall_io::OpenOptions;
use holdall_io::package::rules::PART;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Returns the other files of the model at `path`: for each, its path relative to the folder of `path`, and
/// its location. A file that is not a model has none. If the file is damaged, so that they cannot be known,
/// that is a warning; with `is_alone` a damaged index is refused, since it is useless without them.
///
/// # Errors
/// `package/part` if one of them is missing or outside of that folder, or is a link out of it; for such an
/// index.
pub(super) fn files_named(
    path: &Path,
    open: &OpenOptions,
    is_alone: bool,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<(String, PathBuf)>> {
    let file = match open.open(path) {
        Ok(file) => file,
        Err(e) if is_about_files(&e) => return Err(refused(path, e)),
        // It is packed anyway.
        Err(e) => {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_index = folders::by_entry(name).is_some();
            if is_index && is_alone {
                return Err(refused(path, e));
            }
            // Files with these extensions may hold weights of any kind.
            let is_tensors =
                folders::format_by(name).is_some() && e.code() != holdall_formats::UNKNOWN.code;
            if is_index || is_tensors {
                let message =
                    format!("`{}` is packed as it is, but does not open: {e}", name.shown());
                warnings.push(Warning::new(UNREAD.code, message));
            }
            return Ok(Vec::new());
        }
    };
    if let Some(e) = file.faults().find(is_about_files) {
        return Err(refused(path, e));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut all = Vec::new();
    for own in file.files() {
        let location = &*own.location.to_path_buf();
        if location == path {
            continue;
        }
        let name = location.strip_prefix(folder).ok().and_then(relative);
        let Some(name) = name else {
            let message = format!("`{}` is not in the model's folder", location.display());
            return Err(PART.broken(message).in_source(path.display()));
        };
        all.push((name, location.to_owned()));
    }
    Ok(all)
}

/// Returns an error if files are packed without files that they refer to. `model` is the file by which the
/// model of the folder is opened, if it has one.
///
/// # Errors
/// The same as [`files_named`].
pub(super) fn check_all(
    files: &BTreeMap<String, FileToPack>,
    model: Option<&Path>,
    open: &OpenOptions,
    warnings: &mut Vec<Warning>,
) -> Result<()> {
    for (path, part) in files {
        let Some(from) = part.path() else { continue };
        let name = path.rsplit('/').next().unwrap_or(path);
        let names_others =
            folders::format_by(name).is_some_and(|format| format.external_files.is_some());
        if !names_others && model != Some(from) {
            continue;
        }
        let folder = path.strip_suffix(name).unwrap_or_default();
        for (other, _) in files_named(from, open, false, warnings)? {
            if !files.contains_key(&format!("{folder}{other}")) {
                let message = format!("the file names `{}`, which is not packed", other.shown());
                return Err(PART.broken(message).in_source(from.display()));
            }
        }
    }
    Ok(())
}

/// Returns `true` if an error is about files that another refers to.
fn is_about_files(e: &Error) -> bool {
    let besides = || FORMATS.iter().filter_map(|format| format.external_files);
    e.code().starts_with("shards/")
        || besides().any(|of| of.away.code == e.code() || of.outside.code == e.code())
}

#[cold]
pub(super) fn refused(path: &Path, e: Error) -> Error {
    let message = format!("a file that it names cannot be packed: {}", e.message());
    let hint = "put all files of the model into its folder";
    PART.broken(message).with_hint(hint).in_source(path.display()).because(e)
}

/// Returns a path as plain names separated by `/`, or `None` if it has other components.
fn relative(path: &Path) -> Option<String> {
    let part = |part: Component<'_>| match part {
        Component::Normal(name) => name.to_str().map(str::to_owned),
        _ => None,
    };
    let parts: Option<Vec<String>> = path.components().map(part).collect();
    parts.filter(|parts| !parts.is_empty()).map(|parts| parts.join("/"))
}
