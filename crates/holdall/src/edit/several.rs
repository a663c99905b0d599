//! Changes several files of a model at once, if one file lists the others.
//!
//! ```text
//! journal written                       the old model: the index names what it named
//! changed shards written, new names     the old model
//! the new index takes the old's name    the new model
//! old shards removed                    the new model
//! journal removed                       the new model, and nothing besides
//! ```
//!
//! A program that opens the model between two of these steps gets either the old one or the new one. The next
//! edit removes the files of a killed edit: see `journal.rs`.

use super::Outcome;
use super::catalog::Catalog;
use super::journal::{self, Journal};
use super::part::{EditedFile, Prepared};
use crate::OpenOptions;
#[cfg(feature = "ztensor2")]
use holdall_core::Digest;
use holdall_core::{Error, Index, Result};
use holdall_formats::shards::{ChangedShard, IndexText, Map, Shard};
#[cfg(feature = "ztensor2")]
use holdall_formats::ztensor2::Root;
#[cfg(feature = "ztensor2")]
use holdall_io::sink::DigestSink;
use holdall_io::sink::{FileSink, Sink as _};
use holdall_io::{WriteOptions, lock, platform};
use std::path::{Path, PathBuf};

/// The steps of an edit, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Journal,
    Shard,
    /// All but the catalog is written.
    Shards,
    Index,
    Removed,
}

/// A shard that replaces another.
struct Change {
    shard: ChangedShard,
    prepared: Prepared,
    /// The old shard's index.
    old: Index,
    old_path: PathBuf,
    path: PathBuf,
}

/// Locks the catalog until the returned file is dropped, and removes the files of a killed edit.
///
/// # Errors
/// Returns an `Io` error if it is locked or has changed.
pub(super) fn lock_and_sweep(catalog: &Catalog) -> Result<Option<std::fs::File>> {
    let Some((path, stamp)) = catalog.file() else { return Ok(None) };
    let lock = lock::open(path, stamp)?;
    journal::sweep(catalog)?;
    Ok(Some(lock))
}

/// Writes the changed parts under new names, and the new catalog. If `stop` returns `true` after a step, it
/// stops there and leaves everything as it is, as a kill does.
///
/// # Errors
/// Returns the same errors as [`super::Edit::commit`]. After an error nothing has changed.
pub(super) fn commit(
    mut catalog: Catalog,
    parts: Vec<EditedFile>,
    write: &WriteOptions,
    options: &OpenOptions,
    stop: &mut dyn FnMut(Step) -> bool,
) -> Result<Outcome> {
    let mut lock = lock_and_sweep(&catalog)?;
    let (mut changes, mut kept, mut emptied) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        if !part.changed {
            kept.push((part.name.clone(), part.file.index().clone()));
            continue;
        }
        if part.entries.iter().flatten().next().is_none() {
            // The shard has no tensors left.
            emptied.push(part.changed_shard(None));
            continue;
        }
        let name = catalog.free_name(&part.name);
        let (shard, old) = (part.changed_shard(Some(&name)), part.file.index().clone());
        let (old_path, path) = (part.path.clone(), catalog.shard(&name));
        let prepared = part.prepare(write)?;
        changes.push(Change { shard, prepared, old, old_path, path });
    }
    let changed = changes.iter().flat_map(|c| [c.shard.old.clone(), c.shard.new.clone()]);
    let names: Vec<String> = changed.chain(emptied.iter().map(|shard| shard.old.clone())).collect();
    let Some(journal) = Journal::begin(&catalog, &names, write.durability)? else {
        return Ok(Outcome::default());
    };
    let mut stopped = stop(Step::Journal);
    let mut outcome = Outcome::default();
    if !stopped {
        let mut each = |step| {
            if step == Step::Shards {
                // The catalog is replaced next. Then only the removal of old files is left, which another edit completes.
                lock = lock.take().filter(|_| platform::REPLACES_OPEN_FILES);
            }
            stop(step)
        };
        let written = write_all(&mut catalog, changes, emptied, &kept, write, options, &mut each);
        match written {
            Ok(Some(written)) => outcome = written,
            Ok(None) => stopped = true,
            Err(e) => {
                // No catalog lists the new files.
                let _ = journal.remove_unnamed(&catalog);
                return Err(e);
            }
        }
    }
    if stopped {
        return Ok(outcome);
    }
    journal.remove_unnamed(&catalog)?;
    stop(Step::Removed);
    Ok(outcome)
}

/// Writes the shards and the catalog; returns `None` if `stop` returned `true`.
fn write_all(
    catalog: &mut Catalog,
    changes: Vec<Change>,
    emptied: Vec<ChangedShard>,
    kept: &[(String, Index)],
    write: &WriteOptions,
    options: &OpenOptions,
    stop: &mut dyn FnMut(Step) -> bool,
) -> Result<Option<Outcome>> {
    let mut outcome = Outcome::default();
    let mut written = Vec::new();
    // Keeps the locks of the old shards.
    let mut locked = Vec::new();
    for Change { mut shard, mut prepared, old, old_path, path } in changes {
        let sink = FileSink::create(&path, false, write.durability)?;
        #[cfg(feature = "ztensor2")]
        if let Catalog::Root { root, .. } = catalog {
            let sink = DigestSink::new(sink, root.algorithm(&shard.old));
            let (((), digest), left_behind) = prepared.write_to(sink)?;
            outcome.left_behind.extend(left_behind);
            keep_mode(&old_path, &path);
            replace_shard(root, &shard, &path, &digest, options)?;
            outcome.files.push(path);
            locked.push(prepared);
            if stop(Step::Shard) {
                return Ok(None);
            }
            continue;
        }
        let ((), left_behind) = prepared.write_to(sink)?;
        outcome.left_behind.extend(left_behind);
        keep_mode(&old_path, &path);
        let new = options.open_single_file(&path)?.index().clone();
        shard.bytes = stored_len(&new) - stored_len(&old);
        outcome.files.push(path);
        locked.push(prepared);
        written.push((shard, new));
        if stop(Step::Shard) {
            return Ok(None);
        }
    }
    let (path, bytes) = match catalog {
        Catalog::Index { path, text, .. } => {
            let (mut shards, indices): (Vec<ChangedShard>, Vec<Index>) =
                written.into_iter().unzip();
            let new: Vec<String> = shards.iter().map(|shard| shard.new.clone()).collect();
            shards.extend(emptied);
            let bytes = text.with(&shards).into_bytes();
            check_index(path, &bytes, new.into_iter().zip(indices), kept)?;
            (path.clone(), bytes)
        }
        #[cfg(feature = "ztensor2")]
        Catalog::Root { path, root, attributes, .. } => {
            emptied.iter().for_each(|shard| root.remove(&shard.old));
            (path.clone(), std::mem::take(root).finish(attributes)?.to_vec())
        }
        Catalog::None => return Ok(Some(outcome)),
    };
    let mut to = FileSink::create(&path, true, write.durability)?;
    to.append(&bytes)?;
    if stop(Step::Shards) {
        return Ok(None);
    }
    if !platform::REPLACES_OPEN_FILES {
        locked.clear();
    }
    to.finish()?;
    outcome.files.push(path);
    Ok((!stop(Step::Index)).then_some(outcome))
}

/// Replaces the entry of an old shard by a new one.
#[cfg(feature = "ztensor2")]
fn replace_shard(
    root: &mut Root,
    shard: &ChangedShard,
    path: &Path,
    digest: &Digest,
    options: &OpenOptions,
) -> Result<()> {
    use holdall_io::source::{ByteSource as _, FileSource};
    let source = FileSource::open(path).map_err(|e| e.in_source(path.display()))?;
    let objects = holdall_io::external::shard_objects(&source, options.limits(), &shard.new)?;
    root.remove(&shard.old);
    root.add(&shard.new, source.len(), digest, objects);
    Ok(())
}

/// Checks that the new index and the shards agree, before the index replaces the old one.
fn check_index(
    path: &Path,
    text: &[u8],
    changed: impl Iterator<Item = (String, Index)>,
    kept: &[(String, Index)],
) -> Result<()> {
    let named = |e: Error| e.in_source(path.display());
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Map::check_len(text.len() as u64).map_err(named)?;
    let map = IndexText::read(text, name).map_err(named)?;
    let map = map.map();
    let all: Vec<(String, Index)> = changed.chain(kept.iter().cloned()).collect();
    let (mut shards, mut checked) = (Vec::new(), Vec::new());
    for (number, file) in map.files().iter().enumerate() {
        let Some((_, index)) = all.iter().find(|(name, _)| name == file) else { continue };
        let mut shard = Shard::new(file, index.clone());
        checked.push(map.check(number, &mut shard, name));
        shards.push(shard);
    }
    let shards: Vec<&Shard> = shards.iter().collect();
    map.check_all(&shards, checked, name).map_err(named).map(drop)
}

/// Returns the bytes of all components in files; bytes shared by several count once.
fn stored_len(index: &Index) -> i128 {
    let mut all: Vec<_> = index
        .tensors()
        .flat_map(|t| t.components().collect::<Vec<_>>())
        .map(|c| c.stored)
        .collect();
    all.sort_unstable();
    all.dedup();
    all.iter().map(|stored| i128::from(stored.len())).sum()
}

/// Copies the permissions of a shard to its replacement, as far as the system allows it.
fn keep_mode(old: &Path, new: &Path) {
    if let Ok(meta) = old.metadata() {
        let _ = std::fs::set_permissions(new, meta.permissions());
    }
}

#[cfg(all(test, feature = "safetensors", feature = "ztensor2"))]
mod tests {
    use super::*;
    use crate::{Convert, DType, Edit, File, TensorSpec, Value, Writer, convert, diff};
    use std::collections::BTreeSet;

    fn write_whole(path: &Path) -> File {
        let mut writer = Writer::create(path, &WriteOptions::new()).unwrap();
        let specs: Vec<TensorSpec> =
            (0..6).map(|i| TensorSpec::dense(format!("w{i}"), DType::F32, [4 + i])).collect();
        writer.declare(&specs).unwrap();
        for (at, spec) in specs.into_iter().enumerate() {
            writer.add(spec, &[&(at as f32).to_le_bytes().repeat(4 + at)]).unwrap();
        }
        writer.finish().unwrap();
        crate::open(path).unwrap()
    }

    fn names(folder: &Path) -> BTreeSet<String> {
        let entries = folder.read_dir().unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn is_same(a: &File, b: &File) -> bool {
        diff(a, b, &Default::default()).unwrap().is_same()
    }

    fn change(edit: &mut Edit) {
        edit.rename("w0", "first").unwrap();
        edit.remove("w3").unwrap();
        edit.add(TensorSpec::dense("w5", DType::I8, [3]), vec![vec![1, 2, 3].into()]).unwrap_err();
        edit.remove("w5").unwrap();
        edit.add(TensorSpec::dense("w5", DType::I8, [3]), vec![vec![1, 2, 3].into()]).unwrap();
    }

    /// After whatever step an edit of several files stops, either the old model or the new one opens, by its
    /// folder and by its index; and the next edit removes the remaining files.
    #[test]
    fn a_stop_after_any_step_leaves_the_old_model_or_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let whole = write_whole(&dir.path().join("whole.safetensors"));
        for format in ["safetensors", "ztensor2"] {
            let write = WriteOptions::new().with_format(crate::formats::by_name(format).unwrap());
            let options = Convert::new(write.with_overwrite(true)).with_max_shard_len(40);
            let model = dir.path().join(format);
            let mut seen = Vec::new();
            for at in 0.. {
                convert(&whole, &model, &options).unwrap();
                let before = names(&model);
                let index =
                    if format == "ztensor2" { "model.zt" } else { "model.safetensors.index.json" };
                let index = model.join(index);
                // Not every system replaces a file that is open, so the old model is a copy.
                let copy = tempfile::tempdir().unwrap();
                for file in model.read_dir().unwrap().map(Result::unwrap) {
                    std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
                }
                let old = OpenOptions::new().open(copy.path().join(index.file_name().unwrap()));
                let old = old.unwrap();
                let mut edit = Edit::open(if at % 2 == 0 { &model } else { &index }).unwrap();
                change(&mut edit);
                let mut steps = Vec::new();
                let done = edit.commit_until(&mut |step| {
                    steps.push(step);
                    steps.len() > at
                });
                done.unwrap();
                seen.clone_from(&steps);
                let is_new = steps.contains(&Step::Index);
                for path in [&model, &index] {
                    let file = crate::open(path).unwrap();
                    assert_eq!(file.warnings(), [], "{format} {steps:?}");
                    assert_eq!(is_same(&file, &old), !is_new, "{format} {steps:?}");
                    assert_eq!(file.index().get("first").is_some(), is_new, "{format} {steps:?}");
                    assert!(crate::verify(&file, &Default::default()).unwrap().is_sound());
                }
                let mut edit = Edit::open(&index).unwrap();
                edit.set_attribute("after", Value::Text("1".into()));
                edit.commit().unwrap();
                let now = names(&model);
                let file = crate::open(&model).unwrap();
                assert_eq!(now.len(), file.files().len(), "{format} {steps:?}: {now:?}");
                assert_eq!(file.attributes().get("after"), Some(&Value::Text("1".into())));
                if !is_new && format == "safetensors" {
                    assert_eq!(now, before, "{steps:?}");
                }
                if steps.len() <= at {
                    break;
                }
            }
            assert_eq!(seen.last(), Some(&Step::Removed), "{format}");
            assert!(seen.iter().filter(|step| **step == Step::Shard).count() > 1, "{format}");
        }
    }

    /// A journal lists only files below the model's folder, and files that a catalog lists stay.
    #[test]
    fn a_journal_removes_no_other_files() {
        let dir = tempfile::tempdir().unwrap();
        let whole = write_whole(&dir.path().join("whole.safetensors"));
        let model = dir.path().join("model");
        convert(&whole, &model, &Convert::new(WriteOptions::new()).with_max_shard_len(40)).unwrap();
        let index = model.join("model.safetensors.index.json");
        let journal = model.join(".model.safetensors.index.json.holdall-edit");
        let shard = names(&model).into_iter().find(|name| name.contains("-of-")).unwrap();
        let texts =
            ["", "[\"../whole.safetensors\"]", &format!("[\"{shard}\", \"stray\"]"), "[\"/x\"]"];
        for text in texts {
            std::fs::write(&journal, text).unwrap();
            std::fs::write(model.join("stray"), "").unwrap();
            let mut edit = Edit::open(&index).unwrap();
            edit.set_attribute("n", Value::Text(text.len().to_string()));
            edit.commit().unwrap();
            assert!(!journal.exists() && dir.path().join("whole.safetensors").exists());
            assert_eq!(model.join("stray").exists(), !text.contains("stray"), "{text}");
            assert_eq!(crate::open(&model).unwrap().len(), 6);
        }
    }
}
