//! One file of an edited model: its pending changes, and how it is written.

use super::in_place::Hole;
use super::overwrite::Patch;
use holdall_core::error::list;
use holdall_core::ledger::Expected;
use holdall_core::{Attributes, Encode, Encoding, Error, Extent, Index, Result, TensorSpec, Value};
use holdall_formats::shards::ChangedShard;
use holdall_formats::{Format, Shards};
use holdall_io::error::{CANNOT_EDIT, NAMED_ELSEWHERE, SEVERAL_FILES, UNREPRESENTED};
use holdall_io::items::{self, ComponentSource, CopyMode, Item, Sharing};
use holdall_io::ledger;
use holdall_io::lock::{self, Stamp};
use holdall_io::sink::{FileSink, Sink};
use holdall_io::{File, Finished, OpenOptions, Tensor, WriteOptions, Writer};
use holdall_io::{check_described, platform};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// A file that holds tensors, and its pending changes.
pub(super) struct EditedFile {
    pub(super) path: PathBuf,
    /// The part's name in the catalog; empty if there is no catalog.
    pub(super) name: String,
    stamp: Stamp,
    /// The file opened by itself, not as a part of the model.
    pub(super) file: File,
    pub(super) attributes: Attributes,
    /// Tensors in the order in which formats that keep an order list them; `None` for removed ones.
    pub(super) entries: Vec<Option<Entry>>,
    /// Tensors of this file that the model takes from another file.
    pub(super) hidden: HashSet<String>,
    pub(super) changed: bool,
    /// The index file that lists a file that was opened by itself, or the root file of its model.
    pub(super) named_by: Option<PathBuf>,
    /// The attributes that were set and removed, for the ledger.
    pub(super) expected: Expected,
}

/// A tensor of the edited file.
pub(crate) struct Entry {
    pub(crate) spec: TensorSpec,
    pub(crate) from: From,
}

/// The source of a tensor's bytes.
pub(crate) enum From {
    /// A tensor of the file, kept.
    Kept(Tensor),
    New(Vec<ComponentSource>),
}

impl EditedFile {
    /// Opens the file at `path` by itself.
    ///
    /// # Errors
    /// Returns the same errors as [`OpenOptions::open`].
    pub(super) fn open(path: &Path, name: String, options: &OpenOptions) -> Result<EditedFile> {
        let stamp = Stamp::from_path(path)?;
        Ok(EditedFile::new(path, name, stamp, options.open_single_file(path)?))
    }

    /// Creates the part for an open file, whose stamp was taken before it was opened.
    pub(super) fn new(path: &Path, name: String, stamp: Stamp, file: File) -> EditedFile {
        let kept = |t: Tensor| Some(Entry { spec: items::spec_of(&t), from: From::Kept(t) });
        EditedFile {
            path: path.to_owned(),
            name,
            stamp,
            attributes: file.attributes().clone(),
            entries: file.tensors().map(kept).collect(),
            file,
            hidden: HashSet::new(),
            changed: false,
            named_by: None,
            expected: Expected::new(),
        }
    }

    /// Returns the new shard under `name`, or under its present name. Lengths and counts are included as far
    /// as they are known before writing.
    pub(super) fn changed_shard(&self, name: Option<&str>) -> ChangedShard {
        let tensors = self.entries.iter().flatten().map(|entry| {
            let old = match &entry.from {
                From::Kept(tensor) => Some(tensor.name().to_owned()),
                From::New(_) => None,
            };
            (old, entry.spec.name.clone())
        });
        let new = || self.entries.iter().flatten().map(|entry| &entry.spec);
        let old: Vec<TensorSpec> = self.file.tensors().map(|t| items::spec_of(&t)).collect();
        ChangedShard {
            old: self.name.clone(),
            new: name.unwrap_or(&self.name).to_owned(),
            tensors: tensors.collect(),
            bytes: bytes(new()) - bytes(old.iter()),
            elements: elements(new()) - elements(old.iter()),
        }
    }

    /// Returns `true` if tensors are stored encoded or in chunks, so that their lengths are known only after
    /// writing.
    pub(super) fn is_encoded(&self) -> bool {
        let mut components = self.file.tensors().flat_map(|t| t.components().collect::<Vec<_>>());
        components.any(|c| c.encoding != Encoding::Raw || c.stored.source >= Extent::CHUNKED)
    }

    /// Returns `true` if the names of its tensors change.
    fn has_other_names(&self) -> bool {
        let new: HashSet<&str> =
            self.entries.iter().flatten().map(|entry| entry.spec.name.as_str()).collect();
        let old: HashSet<&str> = self.file.names().collect();
        new != old
    }

    /// Returns an error if another file would become wrong about this one, which an edit of one file cannot
    /// correct. `all` are the files of the model.
    ///
    /// # Errors
    /// Returns [`NAMED_ELSEWHERE`], [`SEVERAL_FILES`].
    pub(super) fn check_alone(&self, all: &[EditedFile]) -> Result<()> {
        let format = holdall_formats::by_name(self.file.format());
        let shards = format.and_then(|format| format.shards);
        if let Some(by) = &self.named_by
            && (self.has_other_names() || matches!(shards, Some(Shards::Root)))
        {
            let message =
                format!("this file is listed in `{}`, which would become wrong", by.display());
            return Err(NAMED_ELSEWHERE.broken(message).in_source(self.path.display()));
        }
        let Some(Shards::Parts(parts)) = shards else { return Ok(()) };
        let Some(old) = (parts.read)(self.file.attributes()) else { return Ok(()) };
        if all.len() > 1 && (parts.read)(&self.attributes) != Some(old) {
            let e =
                CANNOT_EDIT.broken("cannot change the keys that give the file's part of the model");
            return Err(e.in_source(self.path.display()));
        }
        let count = self.entries.iter().flatten().count();
        if old.tensors.is_some() && count != self.file.len() {
            let message = format!(
                "each of the {} parts states the total number of tensors, and one part would have {count} instead of {} tensors",
                old.count,
                self.file.len()
            );
            return Err(SEVERAL_FILES.broken(message).in_source(self.path.display()));
        }
        Ok(())
    }

    /// Sets an attribute of the file.
    pub(super) fn set_attribute(&mut self, key: String, value: Value) {
        self.expected.change_attribute(key.clone());
        self.attributes.set(key, value);
        self.changed = true;
    }

    /// Removes an attribute of the file; returns `true` if it existed.
    pub(super) fn unset_attribute(&mut self, key: &str) -> bool {
        let is_gone = self.attributes.remove(key).is_some();
        if is_gone {
            self.expected.change_attribute(key);
            self.changed = true;
        }
        is_gone
    }

    /// Records for the ledger that an attribute of the tensor at `at` changes.
    pub(super) fn expect_attribute(&mut self, at: usize, key: &str) {
        if let Some(Some(Entry { from: From::Kept(tensor), .. })) = self.entries.get(at) {
            let source = tensor.name().to_owned();
            self.expected.tensor(&source).attributes.push(key.to_owned());
        }
    }

    /// Records for the ledger which tensors of the file stay, under which names.
    fn expect_names(&mut self) {
        let mut names: HashMap<&str, &str> = HashMap::new();
        for Entry { spec, from } in self.entries.iter().flatten() {
            if let From::Kept(tensor) = from {
                names.insert(tensor.name(), &spec.name);
            }
        }
        for name in self.file.names() {
            match names.get(name) {
                Some(new) if *new == name => {}
                Some(new) => self.expected.tensor(name).name = Some((*new).to_owned()),
                None => self.expected.tensor(name).left_out = true,
            }
        }
    }

    /// Decides how the file is written, and checks that it can be.
    ///
    /// # Errors
    /// Returns an `Unsupported` error if the format cannot hold a change; a `Misuse` error; an `Io` error; errors of kept tensors.
    pub(super) fn prepare(mut self, write: &WriteOptions) -> Result<Prepared> {
        self.expect_names();
        let EditedFile { path, stamp, file, attributes, entries, mut expected, .. } = self;
        let format = writable(&file)?;
        check_kept(&file)?;
        let target = lock::open(&path, &stamp)?;
        let mut write = write.clone().with_overwrite(true).with_format(format);
        write.attributes = attributes;
        (write.encode.version, write.encode.stated) = (None, version_to_write(&file));
        write.encode.align = alignment(&file, &write)?;
        let encoder = write.encoder(format)?;
        let named = |e: Error| e.in_source(file.name());
        encoder.check_attributes(&write.attributes).map_err(named)?;
        for entry in entries.iter().flatten() {
            if let From::Kept(tensor) = &entry.from {
                tensor.sound()?;
            }
            encoder.check_tensor(&entry.spec).map_err(named)?;
        }
        let specs = entries.iter().flatten().map(|entry| &entry.spec);
        let specs = specs.map(|spec| (spec.name.as_str(), &spec.layout, &spec.attributes));
        check_described(specs, &write.attributes).map_err(named)?;
        let entries = entries.into_iter().flatten().collect();
        expected.set_ties(Sharing::Keep.tie_rule(&*encoder));
        Ok(Prepared { path, file, target, entries, write, encoder, expected })
    }
}

/// Moves the attributes of files that will have no tensors, and will then no longer be part of the model, to
/// the next file: all of those of the first file, or, if each file has its own attributes, those that other
/// files lack.
pub(super) fn hand_on_attributes(parts: &mut [EditedFile], merges: bool) {
    let is_empty =
        |part: &EditedFile| part.changed && part.entries.iter().flatten().next().is_none();
    let Some(next) = parts.iter().position(|part| !is_empty(part)) else { return };
    let handed: Vec<Attributes> = parts
        .iter()
        .enumerate()
        .filter(|(at, part)| is_empty(part) && (merges || *at == 0))
        .map(|(_, part)| part.attributes.clone())
        .collect();
    for attributes in handed {
        let known =
            |key: &str| parts.iter().any(|p| !is_empty(p) && p.attributes.get(key).is_some());
        let more: Vec<(String, Value)> = attributes
            .iter()
            .filter(|(key, _)| !known(key))
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect();
        let Some(next) = parts.get_mut(next) else { return };
        if merges {
            next.changed |= !more.is_empty();
            for (key, value) in more {
                next.expected.change_attribute(key.clone());
                next.attributes.push(key, value);
            }
        } else if next.attributes != attributes {
            let keys =
                next.attributes.iter().chain(attributes.iter()).map(|(key, _)| key.to_owned());
            for key in keys.collect::<Vec<_>>() {
                next.expected.change_attribute(key);
            }
            (next.attributes, next.changed) = (attributes, true);
        }
    }
}

/// Why a file cannot be changed in place so that its old contents stay valid until the end.
pub(crate) const HEADER_FIRST: &str =
    "its header is before its data, and would not fit the data while that changes";

/// The result of changing a file in place.
#[derive(Debug)]
pub(crate) struct InPlace {
    /// Number of bytes written.
    pub(crate) written: u64,
    /// The new index: it was decoded before the change took effect.
    pub(crate) index: Index,
}

/// A file that is ready to be written, and is locked until this is dropped.
pub(super) struct Prepared {
    path: PathBuf,
    file: File,
    target: std::fs::File,
    entries: Vec<Entry>,
    write: WriteOptions,
    encoder: Box<dyn Encode>,
    expected: Expected,
}

impl Prepared {
    /// Changes the file in place, or rewrites it. Returns the in-place result, if any, and what was left
    /// behind.
    ///
    /// # Errors
    /// Returns an `Io` error, and errors of reading the bytes of tensors.
    pub(super) fn replace(self) -> Result<(Option<InPlace>, Vec<String>)> {
        let Prepared { path, file, target, entries, write, encoder, expected } = self;
        if let Ok(hole) = Hole::open(&file, &path, &target, &entries)? {
            let check = |record: &_| ledger::close(&file, record, &expected);
            let (written, index, left_behind) = hole.commit(entries, encoder, &write, check)?;
            return Ok((Some(InPlace { written, index }), left_behind));
        }
        let items = items_of(entries, &*encoder)?;
        if let Some(mut patch) = Patch::plan(&file, &target, &items, encoder, &write) {
            let index = patch.read_back(&target, &path)?;
            let left_behind = ledger::close(&file, &patch.record, &expected)?;
            let name = path.display().to_string();
            let written = patch.apply(&target, &name, write.durability)?;
            return Ok((Some(InPlace { written, index }), left_behind));
        }
        let sink = FileSink::create(&path, true, write.durability)?;
        let left_behind = replace_whole(file, target, sink, items, &write, &expected)?;
        Ok((None, left_behind))
    }

    /// Changes the file in place. If that is not possible, returns why, and the file is as it was.
    ///
    /// # Errors
    /// Returns the same errors as [`Prepared::replace`].
    pub(super) fn replace_in_place(self) -> Result<Result<(InPlace, Vec<String>), &'static str>> {
        #[cfg(target_os = "linux")]
        {
            let Prepared { path, file, target, entries, write, encoder, expected } = self;
            let hole = match Hole::open(&file, &path, &target, &entries)? {
                Ok(hole) => hole,
                Err(why) => return Ok(Err(why)),
            };
            let check = |record: &_| ledger::close(&file, record, &expected);
            let (written, index, left_behind) = hole.commit(entries, encoder, &write, check)?;
            Ok(Ok((InPlace { written, index }, left_behind)))
        }
        #[cfg(not(target_os = "linux"))]
        Ok(Err("this system cannot insert a range into a file"))
    }

    /// Rewrites the file. Returns what was left behind.
    ///
    /// # Errors
    /// Returns the same errors as [`Prepared::replace`].
    pub(super) fn write_anew(self) -> Result<Vec<String>> {
        let items = items_of(self.entries, &*self.encoder)?;
        let sink = FileSink::create(&self.path, true, self.write.durability)?;
        replace_whole(self.file, self.target, sink, items, &self.write, &self.expected)
    }

    /// Writes the edited file to `sink`. Returns the sink's result, and what was left behind.
    ///
    /// # Errors
    /// Returns the same errors as [`Prepared::replace`].
    pub(super) fn write_to<S: Sink>(&mut self, sink: S) -> Result<(S::Done, Vec<String>)> {
        let items = items_of(std::mem::take(&mut self.entries), &*self.encoder)?;
        let written = rewrite(&self.file, sink, items, &self.write, &self.expected)?;
        let (finished, left_behind) = written;
        Ok((finished.publish()?, left_behind))
    }
}

/// Returns the items of the edited file, in the order in which they are written.
fn items_of(entries: Vec<Entry>, encoder: &dyn Encode) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for Entry { spec, from } in entries {
        items.push(match from {
            From::New(feeds) => (None, Item { spec, feeds, keep: CopyMode::Encoding }),
            From::Kept(tensor) => {
                let mut item = items::unchanged_item(&tensor)?;
                (item.spec.name, item.spec.attributes) = (spec.name, spec.attributes);
                item.keep = CopyMode::All;
                (tensor.components().next().map(|c| c.stored.start), item)
            }
        });
    }
    // Kept tensors in the order of their bytes, new ones after them.
    items.sort_by_key(|(start, _)| start.unwrap_or(u64::MAX));
    let items = items.into_iter().map(|(_, item)| item).collect();
    let mut items = items::arrange(items, encoder, Sharing::Keep)?;
    if !encoder.can_compress() {
        items.iter_mut().for_each(|item| item.keep = CopyMode::Nothing);
    }
    Ok(items)
}

/// Writes the edited file and replaces `file` by it, whose lock is `target`. Returns the contents that the format cannot hold.
fn replace_whole(
    file: File,
    target: std::fs::File,
    sink: FileSink,
    items: Vec<Item>,
    write: &WriteOptions,
    expected: &Expected,
) -> Result<Vec<String>> {
    let (finished, left_behind) = rewrite(&file, sink, items, write, expected)?;
    // The lock is held until the file is replaced, where that is possible.
    let lock = Some(target).filter(|_| platform::REPLACES_OPEN_FILES);
    drop(file);
    finished.publish()?;
    drop(lock);
    Ok(left_behind)
}

/// Writes the edited file. Returns it, not yet published, and the contents that the format cannot hold.
fn rewrite<S: Sink>(
    file: &File,
    sink: S,
    items: Vec<Item>,
    write: &WriteOptions,
    expected: &Expected,
) -> Result<(Finished<S>, Vec<String>)> {
    let encoder = write.encoder(writable(file)?)?;
    let specs: Vec<TensorSpec> = items.iter().map(|i| i.spec.clone()).collect();
    let total = specs.iter().flat_map(|s| &s.components).filter(|c| c.shares.is_none());
    write.work.begin(total.fold(0, |n, c| n.saturating_add(c.decoded_len)));
    let mut writer = Writer::new(sink, encoder, write);
    // An error about a tensor that cannot be written names the source file.
    writer.declare(&specs).map_err(|e| e.in_source(file.name()))?;
    items::write(&mut writer, items, &write.work)?;
    let finished = writer.close()?;
    let left_behind = ledger::close(file, finished.record(), expected)?;
    Ok((finished, left_behind))
}

fn bytes<'s>(specs: impl Iterator<Item = &'s TensorSpec>) -> i128 {
    specs.flat_map(|spec| &spec.components).map(|c| i128::from(c.decoded_len)).sum()
}

fn elements<'s>(specs: impl Iterator<Item = &'s TensorSpec>) -> i128 {
    let count = |spec: &TensorSpec| crate::element_count(&spec.shape).unwrap_or(0);
    specs.map(|spec| i128::from(count(spec))).sum()
}

pub(super) fn writable(file: &File) -> Result<&'static Format> {
    match holdall_formats::by_name(file.format()) {
        Some(format) if format.encode.is_some() => Ok(format),
        _ => Err(CANNOT_EDIT
            .broken(format!("{} files cannot be written", file.format()))
            .in_source(file.name())),
    }
}

/// Returns the version in which a file is rewritten: its own version, as the file spells it.
pub(crate) fn version_to_write(file: &File) -> Option<String> {
    Some(file.version()).filter(|version| !version.is_empty()).map(str::to_owned)
}

/// Returns an error if rewriting would lose data of the file that this version does not know.
pub(super) fn check_kept(file: &File) -> Result<()> {
    let unrepresented = file.index().unrepresented();
    if unrepresented.is_empty() {
        return Ok(());
    }
    let message = format!(
        "cannot edit this file: it has data that this version does not know and would drop: {}",
        list(unrepresented)
    );
    Err(UNREPRESENTED.broken(message).in_source(file.name()))
}

/// Returns the requested alignment, or the alignment that the file was written with, as far as it is stated
/// or shown by the offsets: more than the format's own only if all of several components have it.
fn alignment(file: &File, write: &WriteOptions) -> Result<Option<u64>> {
    let format = writable(file)?;
    if write.encode.align.is_some() || !format.aligns || write.encoder(format)?.states_align() {
        return Ok(write.encode.align);
    }
    let offsets: Vec<u64> = file
        .tensors()
        .flat_map(|t| t.components().collect::<Vec<_>>())
        .filter(|c| !c.stored.is_stated())
        .map(|c| c.stored.start)
        .collect();
    let bits = offsets.iter().fold(0, |all, offset| all | offset);
    let align = 1u64 << bits.trailing_zeros().min(16);
    Ok((offsets.len() > 1 && align > 64).then_some(align))
}
