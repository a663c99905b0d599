//! Recognising weight updates at a path.

use super::{UpdateLayout, Updates, VERSION};
use holdall_core::Result;
use holdall_core::error::Escape as _;
use holdall_core::layout::update::sparse::SparseHead;
use holdall_core::layout::update::{step_of_file, version_of_folder};
use holdall_io::OpenOptions;
use holdall_io::error::io;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file that names the newest version of a run.
const POINTER: &str = "latest";
/// The most bytes of a pointer.
const POINTER_LEN: u64 = 4096;

pub(super) fn find(path: &Path, options: &OpenOptions) -> Result<Option<Updates>> {
    let updates = |layout, found: BTreeMap<u64, Vec<PathBuf>>, is_single| Updates {
        name: path.display().to_string(),
        layout,
        found,
        latest: None,
        is_single,
        options: options.clone(),
    };
    if !path.is_dir() {
        let is_candidate = path.is_file()
            && path
                .extension()
                .is_some_and(|extension| extension.eq_ignore_ascii_case("safetensors"));
        if !is_candidate {
            return Ok(None);
        }
        let head = SparseHead::read(options.open(path)?.attributes());
        let head = head.map_err(|e| e.in_source(path.display()))?;
        return Ok(head.map(|head| {
            let found = [(head.model_version, vec![path.to_owned()])].into();
            updates(UpdateLayout::Steps, found, true)
        }));
    }
    for folder in [path.to_owned(), path.join("updates")] {
        let found =
            numbered(&folder, |path, name| version_of_folder(name).filter(|_| path.is_dir()))?;
        if !found.is_empty() {
            let mut updates = updates(UpdateLayout::Versions, found, false);
            updates.latest = pointer(path, &folder)?;
            return Ok(Some(updates));
        }
    }
    if let Some(version) = super::version::version_in(path)? {
        let found = [(version, vec![path.to_owned()])].into();
        return Ok(Some(updates(UpdateLayout::Versions, found, true)));
    }
    let mut found = BTreeMap::<u64, Vec<PathBuf>>::new();
    for folder in [path.to_owned(), path.join("anchors"), path.join("deltas")] {
        for (step, paths) in numbered(&folder, |_, name| step_of_file(name))? {
            found.entry(step).or_default().extend(paths);
        }
    }
    Ok((!found.is_empty()).then(|| updates(UpdateLayout::Steps, found, false)))
}

/// Returns the entries of a folder whose names have a number. Returns nothing if there is no such folder.
fn numbered(
    folder: &Path,
    number: impl Fn(&Path, &str) -> Option<u64>,
) -> Result<BTreeMap<u64, Vec<PathBuf>>> {
    let mut out = BTreeMap::<u64, Vec<PathBuf>>::new();
    if !folder.is_dir() {
        return Ok(out);
    }
    let failed = |e| io(e, "reading the folder").in_source(folder.display());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = entry.path();
        if let Some(number) = number(&path, &name) {
            let same = out.entry(number).or_default();
            if !same.is_empty() {
                let message =
                    format!("`{}` and another entry have the number {number}", name.escaped());
                return Err(VERSION.broken(message).in_source(folder.display()));
            }
            same.push(path);
        }
    }
    Ok(out)
}

/// Returns the version that a pointer next to the versions names, or above their folder.
fn pointer(path: &Path, folder: &Path) -> Result<Option<u64>> {
    let is_inner = folder.file_name().is_some_and(|name| name == "updates");
    let above = folder.parent().filter(|_| is_inner);
    for place in [Some(path), Some(folder), above].into_iter().flatten() {
        let file = place.join(POINTER);
        if !file.is_file() {
            continue;
        }
        let failed = |e| io(e, "reading").in_source(file.display());
        if file.metadata().map_err(failed)?.len() > POINTER_LEN {
            return Err(VERSION.broken("it names no version").in_source(file.display()));
        }
        let text = std::fs::read_to_string(&file).map_err(failed)?;
        let name = text.trim().rsplit('/').next().unwrap_or_default();
        let version = version_of_folder(name);
        let version = version.ok_or_else(|| {
            let message = format!("it names no version: `{}`", text.trim().escaped());
            VERSION.broken(message).in_source(file.display())
        })?;
        return Ok(Some(version));
    }
    Ok(None)
}
