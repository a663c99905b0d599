//! The journal of an edit of several files: the files that the edit adds and removes. It is in the model's folder while
//! the edit is in progress, and remains if the edit was killed.

use holdall_core::Result;
use holdall_formats::shards::check_names;
use holdall_json::Reader;
use std::path::{Path, PathBuf};

/// The suffix of a journal's name, which is a dot and the name of the file that names the others before it.
const SUFFIX: &str = ".holdall-edit";
/// The greatest length of a journal in bytes: it has two names for each file that an index names.
const MAX_LEN: u64 = 32 << 20;

/// Returns the path of the journal for edits of the model that the file at `path` describes.
pub fn path_for(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{SUFFIX}"))
}

/// Returns the paths of the files that the journal of a model lists, which are in its folder or below it. An incomplete
/// journal lists none, because the edit had not written any file yet.
pub fn files_for(path: &Path) -> Vec<PathBuf> {
    let journal = path_for(path);
    if journal.metadata().is_ok_and(|meta| meta.len() > MAX_LEN) {
        return Vec::new();
    }
    let names = std::fs::read(journal).ok().and_then(|text| names(&text).ok());
    let names = names.filter(|names| check_names(names).is_ok()).unwrap_or_default();
    names.into_iter().map(|name| path.with_file_name(name)).collect()
}

/// Removes from the names of a folder's files those that edits in progress add or remove. The model's files are named
/// by the file that describes it.
pub(crate) fn leave_out(folder: &Path, all: &mut Vec<String>) {
    let journals = all.iter().filter_map(|name| name.strip_prefix('.')?.strip_suffix(SUFFIX));
    let models = journals.filter(|name| all.iter().any(|other| other == name));
    let passing: Vec<PathBuf> = models.flat_map(|name| files_for(&folder.join(name))).collect();
    all.retain(|name| !passing.contains(&folder.join(name)));
}

fn names(text: &[u8]) -> Result<Vec<String>> {
    let mut reader = Reader::new(text, 0, 2)?;
    let (mut all, mut name) = (Vec::new(), String::new());
    reader.begin_array()?;
    while reader.next_item()? {
        all.push(reader.string(&mut name)?.to_owned());
    }
    reader.end()?;
    Ok(all)
}
