//! One file of the model that is edited: what becomes of it, and how it is written.

#[cfg(target_os = "linux")]
use super::in_place::Hole;
#[cfg(unix)]
use super::overwrite::Patch;
use holdall_core::error::list;
use holdall_core::ledger::Expected;
use holdall_core::{Attributes, Encode, Encoding, Error, Extent, Index, Result, TensorSpec, Value};
use holdall_formats::shards::ChangedShard;
use holdall_formats::{Format, Shards};
use holdall_io::error::{CANNOT_EDIT, NAMED_ELSEWHERE, SEVERAL_FILES, UNKEPT};
use holdall_io::items::{self, ComponentSource, CopyMode, Item, Sharing};
use holdall_io::ledger;
use holdall_io::lock::{self, Stamp};
use holdall_io::sink::{FileSink, Sink};
use holdall_io::{File, OpenOptions, Tensor, WriteOptions, Writer};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// A file that holds tensors, and what it is to become.
pub(super) struct EditedFile {
    pub(super) path: PathBuf,
    /// The name that the file which names the parts has for it; empty where there is none.
    pub(super) name: String,
    stamp: Stamp,
    /// The file by itself, whatever it is a part of.
    pub(super) file: File,
    pub(super) attributes: Attributes,
    /// Tensors in the order in which they will be listed by formats that keep an order.
    pub(super) entries: Vec<Option<Entry>>,
    /// Tensors that the model has from another file.
    pub(super) hidden: HashSet<String>,
    pub(super) changed: bool,
    /// The index file that names a file which was opened by itself, or the file of the model that it belongs to.
    pub(super) named_by: Option<PathBuf>,
    /// The attributes that were set and removed, for the ledger.
    pub(super) expected: Expected,
}

/// A tensor of the file to be.
pub(crate) struct Entry {
    pub(crate) spec: TensorSpec,
    pub(crate) from: From,
}

/// Where its bytes are.
pub(crate) enum From {
    /// In the file already.
    Kept(Tensor),
    New(Vec<ComponentSource>),
}

impl EditedFile {
    /// The file at `path`, opened by itself.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub(super) fn open(path: &Path, name: String, options: &OpenOptions) -> Result<EditedFile> {
        let stamp = Stamp::from_path(path)?;
        Ok(EditedFile::new(path, name, stamp, options.open_alone(path)?))
    }

    /// A file that is open, and had that stamp before.
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

    /// The shard that it becomes, under that name or its own. Lengths and counts are as far as they are known before it is written.
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

    /// Whether tensors are stored encoded or in chunks: how long they are shows only when they are written.
    pub(super) fn is_encoded(&self) -> bool {
        let mut components = self.file.tensors().flat_map(|t| t.components().collect::<Vec<_>>());
        components.any(|c| c.encoding != Encoding::Raw || c.stored.source >= Extent::CHUNKED)
    }

    /// Whether the names of its tensors are others than before.
    fn has_other_names(&self) -> bool {
        let new: HashSet<&str> =
            self.entries.iter().flatten().map(|entry| entry.spec.name.as_str()).collect();
        let old: HashSet<&str> = self.file.names().collect();
        new != old
    }

    /// Refuses changes after which another file would say something wrong of this one, which no edit of one file can set right.
    /// `all` are the files of the model.
    ///
    /// # Errors
    /// [`NAMED_ELSEWHERE`], [`SEVERAL_FILES`].
    pub(super) fn check_alone(&self, all: &[EditedFile]) -> Result<()> {
        let format = holdall_formats::by_name(self.file.format());
        let shards = format.and_then(|format| format.shards);
        if let Some(by) = &self.named_by
            && (self.has_other_names() || matches!(shards, Some(Shards::Root)))
        {
            let message = format!("`{}` says what is in this file", by.display());
            return Err(NAMED_ELSEWHERE.broken(message).in_source(self.path.display()));
        }
        let Some(Shards::Parts(parts)) = shards else { return Ok(()) };
        let Some(old) = (parts.read)(self.file.attributes()) else { return Ok(()) };
        if all.len() > 1 && (parts.read)(&self.attributes) != Some(old) {
            let e = CANNOT_EDIT.broken("the keys that say which part of a model a file is stay");
            return Err(e.in_source(self.path.display()));
        }
        let count = self.entries.iter().flatten().count();
        if old.tensors.is_some() && count != self.file.len() {
            let message = format!(
                "{} parts say how many tensors they have together, and one would have {count} instead of {}",
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

    /// Removes an attribute of the file; returns whether it was there.
    pub(super) fn unset_attribute(&mut self, key: &str) -> bool {
        let is_gone = self.attributes.remove(key).is_some();
        if is_gone {
            self.expected.change_attribute(key);
            self.changed = true;
        }
        is_gone
    }

    /// Notes for the ledger that an attribute of the tensor at `at` changes.
    pub(super) fn expect_attribute(&mut self, at: usize, key: &str) {
        if let Some(Some(Entry { from: From::Kept(tensor), .. })) = self.entries.get(at) {
            let source = tensor.name().to_owned();
            self.expected.tensor(&source).attributes.push(key.to_owned());
        }
    }

    /// Notes for the ledger which tensors of the file stay, under which names.
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

    /// Decides how it is written, and refuses what cannot be.
    ///
    /// # Errors
    /// Unsupported for what the format cannot hold, Misuse, Io; what is wrong with a tensor that is kept.
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
        let entries = entries.into_iter().flatten().collect();
        expected.set_ties(Sharing::Keep.tie_rule(&*encoder));
        Ok(Prepared { path, file, target, entries, write, encoder, expected })
    }
}

/// Gives the attributes of files that will have no tensor, and are then no files of the model, to the next: all of those of the first file,
/// or, where files have attributes of their own, those that others lack.
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

/// A file that was changed in place.
#[derive(Debug)]
pub(crate) struct InPlace {
    /// How many bytes were written.
    pub(crate) written: u64,
    /// What the file contains now: it was decoded before the change took effect.
    pub(crate) index: Index,
}

/// A file that can be written, and is locked until this is dropped.
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
    /// Changes the file in place, and returns what was written; or writes it anew. Also returns what was left behind.
    ///
    /// # Errors
    /// Io, and what reading the bytes of tensors fails with.
    pub(super) fn replace(self) -> Result<(Option<InPlace>, Vec<String>)> {
        let Prepared { path, file, target, entries, write, encoder, expected } = self;
        #[cfg(target_os = "linux")]
        if let Some(hole) = Hole::open(&file, &path, &target, &entries)? {
            let check = |record: &_| ledger::close(&file, record, &expected);
            let (written, index, left_behind) = hole.commit(entries, encoder, &write, check)?;
            return Ok((Some(InPlace { written, index }), left_behind));
        }
        let items = items_of(entries, &*encoder)?;
        #[cfg(unix)]
        if let Some(mut patch) = Patch::plan(&file, &target, &items, encoder, &write) {
            let index = patch.read_back(&target, &path)?;
            let left_behind = ledger::close(&file, &patch.record, &expected)?;
            let name = path.display().to_string();
            let written = patch.apply(&target, &name, write.durability)?;
            return Ok((Some(InPlace { written, index }), left_behind));
        }
        let sink = FileSink::create(&path, true, write.durability)?;
        let ((), left_behind) = rewrite(&file, sink, items, &write, &expected)?;
        drop(target);
        Ok((None, left_behind))
    }

    /// Writes the file anew. Returns what was left behind.
    ///
    /// # Errors
    /// As [`Prepared::replace`].
    pub(super) fn write_anew(self) -> Result<Vec<String>> {
        let items = items_of(self.entries, &*self.encoder)?;
        let sink = FileSink::create(&self.path, true, self.write.durability)?;
        let ((), left_behind) = rewrite(&self.file, sink, items, &self.write, &self.expected)?;
        Ok(left_behind)
    }

    /// Writes what the file is to become to another place. Returns what the sink returns, and what was left behind.
    ///
    /// # Errors
    /// As [`Prepared::replace`].
    pub(super) fn write_to<S: Sink>(&mut self, sink: S) -> Result<(S::Done, Vec<String>)> {
        let items = items_of(std::mem::take(&mut self.entries), &*self.encoder)?;
        rewrite(&self.file, sink, items, &self.write, &self.expected)
    }
}

/// What the file to be is made of, in the order in which it is written.
fn items_of(entries: Vec<Entry>, encoder: &dyn Encode) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for Entry { spec, from } in entries {
        items.push(match from {
            From::New(feeds) => (None, Item { spec, feeds, keep: CopyMode::Encoding }),
            From::Kept(tensor) => {
                let mut item = items::as_it_is(&tensor)?;
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

fn rewrite<S: Sink>(
    file: &File,
    sink: S,
    items: Vec<Item>,
    write: &WriteOptions,
    expected: &Expected,
) -> Result<(S::Done, Vec<String>)> {
    let encoder = write.encoder(writable(file)?)?;
    let specs: Vec<TensorSpec> = items.iter().map(|i| i.spec.clone()).collect();
    let total = specs.iter().flat_map(|s| &s.components).filter(|c| c.shares.is_none());
    write.work.begin(total.fold(0, |n, c| n.saturating_add(c.decoded_len)));
    let mut writer = Writer::new(sink, encoder, write);
    // What cannot be written is in the file that it comes from.
    writer.declare(&specs).map_err(|e| e.in_source(file.name()))?;
    items::write(&mut writer, items, &write.work)?;
    let finished = writer.close()?;
    let left_behind = ledger::close(file, finished.record(), expected)?;
    Ok((finished.publish()?, left_behind))
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

/// The version a file is written in again: its own, in its own words.
pub(crate) fn version_to_write(file: &File) -> Option<String> {
    Some(file.version()).filter(|version| !version.is_empty()).map(str::to_owned)
}

/// Refuses what would lose something that the file says and this version does not know.
pub(super) fn check_kept(file: &File) -> Result<()> {
    let unkept = file.index().unkept();
    if unkept.is_empty() {
        return Ok(());
    }
    let message = format!("the file would lose what is not known here: {}", list(unkept));
    Err(UNKEPT.broken(message).in_source(file.name()))
}

/// The alignment that is asked for, or that a file was written with, as far as its offsets show where it does not say: more than the
/// format's own only when all of several components have it.
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
