//! Versions: folders with an index, and files with differences of bytes or a whole model.

use super::step::{Change, Content, Step};
use super::{VERSION, WEIGHT_MAP};
use holdall_core::error::Escape as _;
use holdall_core::layout::update::{
    CHECKSUM, DIFF_LENGTH, DeltaIndex, VersionIndex, version_of_folder,
};
use holdall_core::{DType, Layout, Result, Role, Value};
use holdall_formats::shards::MAX_INDEX;
use holdall_io::error::io;
use holdall_io::{File, OpenOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The name of the index.
const INDEX: &str = "model.safetensors.index.json";
/// The name of the only file of a model without an index.
const ONLY: &str = "model.safetensors";

/// Returns the number of the version in this folder, if it has an index of differences.
pub(super) fn version_in(folder: &Path) -> Result<Option<u64>> {
    let Ok(text) = read_index(folder) else { return Ok(None) };
    let named = folder.file_name().and_then(|name| version_of_folder(name.to_str()?));
    match VersionIndex::read(&text) {
        Ok(index) if index.delta.is_some() => Ok(index.version),
        Ok(_) => Ok(named),
        Err(_) if named.is_none() => Ok(None),
        Err(e) => Err(e.in_source(folder.join(INDEX).display())),
    }
}

fn read_index(folder: &Path) -> Result<Vec<u8>> {
    let path = folder.join(INDEX);
    let failed = |e| io(e, "reading").in_source(path.display());
    let len = path.metadata().map_err(failed)?.len();
    if len > MAX_INDEX {
        let message = format!("the index has {len} bytes, at most {MAX_INDEX} are allowed");
        let e = holdall_core::layout::update::INDEX.broken(message);
        return Err(e.in_source(path.display()));
    }
    std::fs::read(&path).map_err(failed)
}

/// Reads version `version` in `folder`.
pub(super) fn read(folder: &Path, version: u64, options: &OpenOptions) -> Result<Step> {
    let name = folder.display().to_string();
    let step = |base, content| Step { name: name.clone(), version, base, content };
    if !folder.join(INDEX).is_file() {
        if folder.join(ONLY).is_file() {
            return Ok(step(None, Content::Whole(options.open(folder.join(ONLY))?)));
        }
        let message = format!("version {version} has no `{INDEX}`: it may be unfinished");
        return Err(VERSION.broken(message).in_source(&name));
    }
    let index = VersionIndex::read(&read_index(folder)?)
        .map_err(|e| e.in_source(folder.join(INDEX).display()))?;
    if let Some(stated) = index.version.filter(|stated| *stated != version) {
        let message = format!("the index says version {stated}, the folder {version}");
        return Err(VERSION.broken(message).in_source(&name));
    }
    let Some(delta) = &index.delta else {
        return Ok(step(None, Content::Whole(options.open(folder)?)));
    };
    let changes = read_changes(folder, &index, delta, options)?;
    let content = Content::Bytes { delta: delta.clone(), changes };
    Ok(step(Some(delta.base_version), content))
}

fn read_changes(
    folder: &Path,
    index: &VersionIndex,
    delta: &DeltaIndex,
    options: &OpenOptions,
) -> Result<BTreeMap<String, Change>> {
    let broken = |message: String| WEIGHT_MAP.broken(message).in_source(folder.display());
    let mut changes = BTreeMap::new();
    for path in files(folder)? {
        let file = options.open(&path)?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        for tensor in file.tensors() {
            let own = tensor.name().to_owned();
            match index.weight_map.get(&own) {
                Some(wanted) if wanted == name => {}
                Some(wanted) => {
                    return Err(broken(format!(
                        "`{}` is in `{name}`, but `weight_map` says `{}`",
                        own.escaped(),
                        wanted.escaped()
                    )));
                }
                None => {
                    let message =
                        format!("`{}` is in `{name}`, but not in `weight_map`", own.escaped());
                    return Err(broken(message));
                }
            }
            let placed = |e: holdall_core::Error| e.in_tensor(&own).in_source(path.display());
            let is_bytes = *tensor.sound()?.layout() == Layout::Dense
                && tensor.shape().len() == 1
                && tensor
                    .component(&Role::Data)
                    .is_some_and(|c| c.dtype == DType::U8 && c.logical_type.is_none());
            if !is_bytes {
                let message = "the difference is not a one-dimensional tensor of bytes";
                return Err(placed(DIFF_LENGTH.broken(message)));
            }
            let checksum = file.attributes().get(&own).and_then(Value::as_text);
            let checksum = checksum.ok_or_else(|| {
                placed(CHECKSUM.broken("the metadata of the file has no checksum of the tensor"))
            })?;
            let change = Change::Bytes {
                encoding: delta.encoding,
                checksums: delta.checksums,
                checksum: checksum.to_owned(),
                tensor,
            };
            changes.insert(own, change);
        }
        check_no_more_checksums(&file)?;
    }
    for (tensor, file) in &index.weight_map {
        if !changes.contains_key(tensor) {
            let (tensor, file) = (tensor.escaped(), file.escaped());
            return Err(broken(format!("`weight_map` has `{tensor}` in `{file}`, which lacks it")));
        }
    }
    Ok(changes)
}

/// Checks that each checksum in the metadata belongs to a tensor. `format` is a key that other writers add.
fn check_no_more_checksums(file: &File) -> Result<()> {
    let more =
        file.attributes().iter().find(|(key, _)| *key != "format" && file.tensor(key).is_err());
    match more {
        Some((key, _)) => {
            let message =
                format!("there is a checksum of `{}`, which the file lacks", key.escaped());
            Err(CHECKSUM.broken(message).in_source(file.name()))
        }
        None => Ok(()),
    }
}

/// Returns the safetensors files of a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e| io(e, "reading the folder").in_source(folder.display());
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            out.push(path);
        }
    }
    out.sort();
    Ok(out)
}
