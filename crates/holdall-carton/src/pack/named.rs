//! Finds the files that a model's file refers to, such as shards. Packing is refused unless all of them are packed,
//! too.

use super::parts::FileToPack;
use crate::rules::UNREAD;
use holdall_core::error::Escape as _;
use holdall_core::model::Warning;
use holdall_core::{Error, Result};
use holdall_formats::{FORMATS, folders};
use holdall_io::OpenOptions;
use holdall_io::package::rules::PART;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Returns the files that the model's file at `path` refers to: for each, its path relative to the folder of
/// `path`, and its location. The list is empty if the file at `path` is not a model's file. A damaged file cannot be
/// searched for references, which adds a warning.
///
/// # Errors
/// Returns `package/part` if a file is missing, outside of the folder, or a link out of it; and, with `is_alone`, if the file
/// at `path` is a damaged index, which is useless without the files that it lists.
pub(super) fn referenced_files(
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
                    format!("`{}` is packed as it is, but does not open: {e}", name.escaped());
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

/// Checks that all files to which packed files refer are packed, too. `model` is the file by which the model of the
/// folder is opened, if it has one.
///
/// # Errors
/// Returns the same errors as [`referenced_files`].
pub(super) fn check_complete(
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
        for (other, _) in referenced_files(from, open, false, warnings)? {
            if !files.contains_key(&format!("{folder}{other}")) {
                let message =
                    format!("the file refers to `{}`, which is not packed", other.escaped());
                return Err(PART.broken(message).in_source(from.display()));
            }
        }
    }
    Ok(())
}

/// Returns `true` if an error concerns a file that another file refers to.
fn is_about_files(e: &Error) -> bool {
    let external_files = || FORMATS.iter().filter_map(|format| format.external_files);
    e.code().starts_with("shards/")
        || external_files()
            .any(|external| external.missing.code == e.code() || external.outside.code == e.code())
}

#[cold]
pub(super) fn refused(path: &Path, e: Error) -> Error {
    let message = format!("a file that it refers to cannot be packed: {}", e.message());
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
