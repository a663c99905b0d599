//! Recovers models in several files of which some are missing, damaged, or not those that the index names.

use crate::OpenOptions;
use crate::edit::{index_text, is_index};
use holdall_core::error::Escape as _;
use holdall_core::{Error, ErrorKind, Result};
use holdall_formats::shards::{IndexText, PartName, SHARD_MISSING, SHARD_TENSOR, part_of};
use holdall_io::{File, Location};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The existing files of a model, opened as one, and its known missing parts.
pub(super) struct Parts {
    pub(super) file: File,
    pub(super) lost: Vec<Error>,
}

/// The files that a model should have.
struct Named {
    folder: PathBuf,
    /// The files' names, sorted.
    files: Vec<String>,
    /// The index's assignment of tensors to files, if there is an index.
    map: Option<IndexText>,
}

/// Opens the existing files of the model in several files at `path`: a folder, an index, or one of the files.
/// Returns `None` if `path` is not part of such a model. Tensors are taken from whichever file has them,
/// whatever an index says.
///
/// # Errors
/// Returns an `Io` error; an error of the files if none of them opens.
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<Option<Parts>> {
    let Some(Named { folder, files, map }) = named(path)? else { return Ok(None) };
    let (mut paths, mut lost, mut first) = (Vec::new(), Vec::new(), None);
    let (files, missing): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|name| folder.join(name).is_file());
    for name in files {
        let path = folder.join(&name);
        // Each file separately, so that a damaged one does not hide the others.
        let opened = options.unchecked_source_at(&Location::Path(path.clone()));
        match opened.and_then(|(source, name)| options.open_source(source, name)) {
            Ok(_) => paths.push(path),
            Err(e) if e.kind() == ErrorKind::Io => return Err(e),
            Err(e) => {
                lost.push(e.clone());
                first.get_or_insert(e);
            }
        }
    }
    if paths.is_empty() {
        return first.map_or(Ok(None), Err);
    }
    let file = match &*paths {
        // The first part by itself, without the parts that it names.
        [one] => options.open_single_file(one)?,
        all => options.open_all(all)?,
    };
    let mut needed = HashSet::new();
    for (tensor, shard) in map.iter().flat_map(|text| text.map().tensors()) {
        if file.index().get(tensor).is_none() {
            needed.insert(shard);
            let message =
                format!("the index assigns it to `{}`, but no file has it", shard.escaped());
            lost.push(SHARD_TENSOR.broken(message).without_advice().in_tensor(tensor));
        }
    }
    // A file that an index names but whose tensors are in other files is not missing.
    for name in missing.iter().filter(|name| map.is_none() || needed.contains(name.as_str())) {
        let message = format!("`{}` is missing", name.escaped());
        lost.push(SHARD_MISSING.broken(message).without_advice().in_source(folder.display()));
    }
    Ok(Some(Parts { file, lost }))
}

/// Returns an error that lists the other parts of the model if the file, by its contents or its name, is one
/// of several. `None` if it is a whole model.
pub(super) fn others(file: &File, path: &Path) -> Option<Error> {
    if file.files().len() > 1 {
        return None;
    }
    let named = path.file_name().and_then(|name| name.to_str()).and_then(PartName::new);
    let (number, count) = match (part_of(file.index()), &named) {
        // A merged file that still has its part number: all tensors are in it.
        (Some(part), _) if part.index == 0 && part.tensors == Some(file.len() as u32) => {
            return None;
        }
        (Some(part), _) => (part.index.saturating_add(1), part.count),
        (None, Some(part)) => (part.number, part.count),
        (None, None) => return None,
    };
    let named = named.filter(|part| (part.number, part.count) == (number, count));
    let others = (1..=count).filter(|other| *other != number);
    let shown = others.take(MAX_SHOWN).map(|other| match &named {
        Some(part) => format!("`{}`", part.with_number(other).escaped()),
        None => format!("part {other}"),
    });
    let shown: Vec<String> = shown.collect();
    let more = match (count as usize).saturating_sub(shown.len() + 1) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "it is part {number} of {count} of a model, and has only the tensors of that part; not taken: {}{more}",
        shown.join(", ")
    );
    let is_alone = count < 2;
    (!is_alone).then(|| SHARD_MISSING.broken(message).without_advice().in_source(file.name()))
}

/// Maximum number of other parts that an error names.
const MAX_SHOWN: usize = 16;

fn named(path: &Path) -> Result<Option<Named>> {
    if path.is_dir() {
        return in_folder(path);
    }
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(None) };
    let folder = path.parent().unwrap_or(Path::new(""));
    if name.ends_with(".json") {
        return indexed(folder, name);
    }
    Ok(PartName::new(name).map(|part| split(folder, part)))
}

/// Returns the files of a folder: those of its index, or the parts of one split file.
fn in_folder(folder: &Path) -> Result<Option<Named>> {
    let all = names(folder)?;
    let indices: Vec<&String> = all.iter().filter(|name| is_index(&folder.join(name))).collect();
    match *indices {
        [one] => indexed(folder, one),
        _ => Ok(parts_in(folder, &all)),
    }
}

/// Returns the parts of a split file among the files of a folder, if there is exactly one split file.
fn parts_in(folder: &Path, all: &[String]) -> Option<Named> {
    let mut parts = all.iter().filter_map(|name| PartName::new(name));
    let first = parts.next()?;
    let is_of_it = |part: PartName<'_>| PartName { number: first.number, ..part } == first;
    parts.all(is_of_it).then(|| split(folder, first))
}

/// Returns the names of all entries of a folder.
fn names(folder: &Path) -> Result<Vec<String>> {
    let shown = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let failed = |e| holdall_io::error::io(e, "reading the folder").in_source(shown.display());
    let entries = std::fs::read_dir(shown).map_err(failed)?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
}

fn indexed(folder: &Path, name: &str) -> Result<Option<Named>> {
    let text = match index_text(&folder.join(name)) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::Io => return Err(e),
        Err(_) => return Ok(None),
    };
    let mut files = text.map().files().to_vec();
    // The index belongs to another division into files: the tensors are in files that it does not name.
    if files.iter().any(|name| !folder.join(name).is_file())
        && let Some(of_folder) = parts_in(folder, &names(folder)?)
    {
        files.extend(of_folder.files);
        files.sort();
        files.dedup();
    }
    Ok(Some(Named { folder: folder.to_owned(), files, map: Some(text) }))
}

/// Returns all files of the model to which a part belongs, derived from the part's name.
fn split(folder: &Path, part: PartName<'_>) -> Named {
    let files = (1..=part.count).map(|number| part.with_number(number)).collect();
    Named { folder: folder.to_owned(), files, map: None }
}
