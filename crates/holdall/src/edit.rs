//! Changing a file: adding, replacing, removing and renaming tensors, setting attributes.
//!
//! Nothing touches the file until [`Edit::commit`], which does all changes at once. It works in place
//! where it can, and otherwise writes a new file beside the old one; either way a kill or a power cut
//! at any instant leaves the old file or the new one.
//!
//! In place works for zTensor on file systems that can insert a range into a file (ext4, XFS), when a
//! page boundary lies between the data and the manifest, as in every file of more than 1 MiB that
//! this crate wrote:
//!
//! ```text
//! data | gap | old manifest                            the old file
//! data | gap | hole | old manifest                     still the old file: its footer is at the end
//! data | gap | new data, new manifest | old manifest   still the old file
//! data | gap | new data, new manifest                  the new file: cut off in one step
//! ```
//!
//! And for formats whose header comes first (GGUF, safetensors, Metatensor), where no tensor's bytes move, and all that differs in the
//! header lies in one sector of a disk, 512 bytes: those are written in one step.

use crate::OpenOptions;
#[cfg(unix)]
use crate::overwrite::Patch;
use bytes::Bytes;
use holdall_core::error::{Shown as _, list};
use holdall_core::ledger::Expected;
use holdall_core::{Attributes, Encode, Error, Layout, Remedy, Result, TensorSpec, Value};
use holdall_formats::Format;
use holdall_io::error::{CANNOT_EDIT, NEEDED, NO_ATTRIBUTE, NOT_FOUND, UNKEPT};
use holdall_io::items::{self, Feed, Item, Keep, Sharing};
use holdall_io::ledger;
use holdall_io::lock::{self, Stamp};
use holdall_io::select::nearest;
use holdall_io::sink::{FileSink, check_local};
use holdall_io::{File, Tensor};
use holdall_io::{WriteOptions, Writer};
use holdall_schema::KIND_ATTRIBUTE;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Changes to a file, collected.
pub struct Edit {
    path: PathBuf,
    stamp: Stamp,
    options: OpenOptions,
    file: File,
    write: WriteOptions,
    attributes: Attributes,
    /// Tensors in the order in which they will be listed by formats that keep an order.
    entries: Vec<Option<Entry>>,
    by_name: HashMap<String, usize>,
    changed: bool,
    /// The attributes that were set and removed, for the ledger.
    expected: Expected,
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
    New(Vec<Feed>),
}

/// What an edit did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EditReport {
    /// Whether the file was changed in place; else it was written anew.
    pub in_place: bool,
    /// Bytes written.
    pub written: u64,
    /// Bytes of the file.
    pub len: u64,
    /// Bytes of the file that belong to nothing, padding included; [`compact`] gives them back.
    pub dead: u64,
    /// What the file contained before, was not asked to lose, and lacks now because its format has no place for it as it is
    /// written here, in words: checksums of chunks that are now in one piece.
    pub left_behind: Vec<String>,
}

impl Edit {
    /// Begins changes to the file at `path`.
    ///
    /// # Errors
    /// As [`crate::open()`]; Misuse for a format that cannot be written; Unsupported for an address.
    pub fn open(path: impl AsRef<Path>) -> Result<Edit> {
        Edit::open_with(path, &OpenOptions::new())
    }

    /// As [`Edit::open`], with these options. The file is never mapped, because it changes under the
    /// map: where they ask for that, it is read.
    ///
    /// # Errors
    /// As [`Edit::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Edit> {
        let path = path.as_ref();
        check_local(path)?;
        let options = options.unmapped();
        let stamp = Stamp::of(path)?;
        let file = options.open(path)?;
        let entries: Vec<Option<Entry>> = file
            .tensors()
            .map(|t| Some(Entry { spec: holdall_io::items::spec_of(&t), from: From::Kept(t) }))
            .collect();
        let by_name = file.names().enumerate().map(|(at, n)| (n.to_owned(), at)).collect();
        let attributes = file.attributes().clone();
        let write = WriteOptions::new();
        let path = path.to_owned();
        let (changed, expected) = (false, Expected::new());
        Ok(Edit {
            path,
            stamp,
            options,
            file,
            write,
            attributes,
            entries,
            by_name,
            changed,
            expected,
        })
    }

    /// The file as it is.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// How new tensors are written (encoding, digest, durability), and how the work is done; format, version and
    /// attributes stay the file's.
    pub fn with_write(mut self, write: WriteOptions) -> Edit {
        self.write = write;
        self
    }

    /// Sets an attribute of the file.
    pub fn set_attribute(&mut self, key: impl Into<String>, value: Value) {
        let key = key.into();
        self.expected.change_attribute(key.clone());
        self.attributes.set(key, value);
        self.changed = true;
    }

    /// Takes an attribute of the file away.
    ///
    /// # Errors
    /// NotFound.
    pub fn unset_attribute(&mut self, key: &str) -> Result<()> {
        self.changed = true;
        self.expected.change_attribute(key);
        match self.attributes.remove(key) {
            Some(_) => Ok(()),
            None => Err(no_attribute(key, &self.attributes).in_source(self.path.display())),
        }
    }

    /// Sets an attribute of a tensor.
    ///
    /// # Errors
    /// NotFound.
    pub fn set_tensor_attribute(
        &mut self,
        tensor: &str,
        key: impl Into<String>,
        value: Value,
    ) -> Result<()> {
        let key = key.into();
        self.expect_attribute(tensor, &key)?;
        self.entry(tensor)?.spec.attributes.set(key, value);
        self.changed = true;
        Ok(())
    }

    /// Takes an attribute of a tensor away.
    ///
    /// # Errors
    /// NotFound; Misuse for one without which the tensor cannot be read.
    pub fn unset_tensor_attribute(&mut self, tensor: &str, key: &str) -> Result<()> {
        let spec = &self.entry(tensor)?.spec;
        if needed(&spec.layout).contains(&key) && spec.attributes.get(key).is_some() {
            let (key, layout) = (key.shown(), spec.layout.as_str().shown());
            let e =
                NEEDED.broken(format!("`{key}` says how a tensor of layout `{layout}` is read"));
            return Err(e.in_tensor(tensor).in_source(self.path.display()));
        }
        self.changed = true;
        self.expect_attribute(tensor, key)?;
        let attributes = &mut self.entry(tensor)?.spec.attributes;
        match attributes.remove(key) {
            Some(_) => Ok(()),
            None => {
                let e = no_attribute(key, attributes).in_tensor(tensor);
                Err(e.in_source(self.path.display()))
            }
        }
    }

    /// Gives a tensor another name.
    ///
    /// # Errors
    /// NotFound; Misuse when the name is taken.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        if from != to && self.by_name.contains_key(to) {
            return Err(self.taken(to));
        }
        let at = self.position(from)?;
        self.entry(from)?.spec.name = to.to_owned();
        self.by_name.remove(from);
        self.by_name.insert(to.to_owned(), at);
        self.changed = true;
        Ok(())
    }

    /// Takes a tensor out.
    ///
    /// # Errors
    /// NotFound.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        let at = self.position(name)?;
        self.by_name.remove(name);
        if let Some(slot) = self.entries.get_mut(at) {
            *slot = None;
        }
        self.changed = true;
        Ok(())
    }

    /// Adds a tensor from the bytes of its components, in order.
    ///
    /// # Errors
    /// Misuse when the name is taken: [`Edit::remove`] the tensor first to replace it.
    pub fn add(&mut self, spec: TensorSpec, components: Vec<Bytes>) -> Result<()> {
        let made = |bytes: Bytes| Feed::bytes(move || Ok(bytes));
        self.insert(spec, components.into_iter().map(made).collect())
    }

    /// Adds a tensor of one component from a reader that gives its decoded bytes.
    ///
    /// # Errors
    /// As [`Edit::add`].
    pub fn add_from(&mut self, spec: TensorSpec, from: impl Read + Send + 'static) -> Result<()> {
        self.insert(spec, vec![Feed::Reader(Box::new(from))])
    }

    /// Adds a tensor of another open file under `name`.
    ///
    /// # Errors
    /// As [`Edit::add`].
    pub fn append(&mut self, tensor: &Tensor, name: &str) -> Result<()> {
        let Item { mut spec, feeds, .. } = holdall_io::items::as_it_is(tensor)?;
        spec.name = name.to_owned();
        self.insert(spec, feeds)
    }

    fn insert(&mut self, spec: TensorSpec, feeds: Vec<Feed>) -> Result<()> {
        if self.by_name.contains_key(&spec.name) {
            return Err(self.taken(&spec.name));
        }
        self.by_name.insert(spec.name.clone(), self.entries.len());
        self.entries.push(Some(Entry { spec, from: From::New(feeds) }));
        self.changed = true;
        Ok(())
    }

    fn position(&self, name: &str) -> Result<usize> {
        self.by_name.get(name).copied().ok_or_else(|| {
            let e = NOT_FOUND.broken("there is no tensor of this name").in_tensor(name);
            let e = e.in_source(self.path.display());
            match nearest(name, self.by_name.keys().map(String::as_str)) {
                Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
                None => e,
            }
        })
    }

    fn entry(&mut self, name: &str) -> Result<&mut Entry> {
        let at = self.position(name)?;
        match self.entries.get_mut(at) {
            Some(Some(entry)) => Ok(entry),
            _ => Err(NOT_FOUND.broken("there is no tensor of this name").in_tensor(name)),
        }
    }

    /// Notes for the ledger that an attribute of a tensor changes.
    fn expect_attribute(&mut self, name: &str, key: &str) -> Result<()> {
        if let From::Kept(tensor) = &self.entry(name)?.from {
            let source = tensor.name().to_owned();
            self.expected.tensor(&source).attributes.push(key.to_owned());
        }
        Ok(())
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

    #[cold]
    fn taken(&self, name: &str) -> Error {
        CANNOT_EDIT
            .broken("the name is taken")
            .with_hint("remove or rename the tensor that has it first")
            .in_tensor(name)
            .in_source(self.path.display())
    }

    /// Makes all changes.
    ///
    /// # Errors
    /// Unsupported for what the format cannot hold, Misuse, Io, and for new tensors from another file
    /// what is wrong with that. The file is then as it was.
    pub fn commit(mut self) -> Result<EditReport> {
        if !self.changed {
            let (len, dead) = (self.file.index().source_len(), dead_bytes(&self.file));
            return Ok(EditReport {
                in_place: true,
                written: 0,
                len,
                dead,
                left_behind: Vec::new(),
            });
        }
        self.expect_names();
        let format = writable(&self.file)?;
        check_kept(&self.file)?;
        let target = lock::open(&self.path, &self.stamp)?;
        let mut write = self.write.clone().with_overwrite(true).with_format(format);
        write.attributes = self.attributes.clone();
        (write.encode.version, write.encode.stated) = (None, version_to_write(&self.file));
        write.encode.align = alignment(&self.file, &write)?;
        let encoder = write.encoder(format)?;
        encoder.check_attributes(&write.attributes).map_err(|e| e.in_source(self.file.name()))?;
        for entry in self.entries.iter().flatten() {
            if let From::Kept(tensor) = &entry.from {
                tensor.sound()?;
            }
            encoder.check_tensor(&entry.spec).map_err(|e| e.in_source(self.file.name()))?;
        }
        self.expected.set_ties(Sharing::Keep.tie_rule(&*encoder));
        let expected = self.expected;
        let entries: Vec<Entry> = self.entries.into_iter().flatten().collect();
        #[cfg(target_os = "linux")]
        if let Some(hole) = crate::in_place::Hole::open(&self.file, &self.path, &target, &entries)?
        {
            let check = |record: &_| ledger::close(&self.file, record, &expected);
            let (written, left_behind) = hole.commit(entries, encoder, &write, check)?;
            return report(&self.path, &self.options, Some(written), left_behind);
        }
        let items = items_of(entries, &*encoder)?;
        #[cfg(unix)]
        if let Some(mut patch) = Patch::of(&self.file, &target, &items, encoder, &write) {
            patch.read_back(&target, &self.path)?;
            let left_behind = ledger::close(&self.file, &patch.record, &expected)?;
            let name = self.path.display().to_string();
            let written = patch.apply(&target, &name, write.durability)?;
            return report(&self.path, &self.options, Some(written), left_behind);
        }
        let left_behind = rewrite(&self.file, &self.path, items, &write, &expected)?;
        drop(target);
        report(&self.path, &self.options, None, left_behind)
    }
}

/// Writes the file at `path` anew without the bytes that belong to nothing.
///
/// # Errors
/// As [`Edit::commit`].
pub fn compact(path: impl AsRef<Path>, write: WriteOptions) -> Result<EditReport> {
    compact_with(path, write, &OpenOptions::new())
}

/// As [`compact`], opening the file as [`Edit::open_with`] does.
///
/// # Errors
/// As [`Edit::commit`].
pub fn compact_with(
    path: impl AsRef<Path>,
    write: WriteOptions,
    options: &OpenOptions,
) -> Result<EditReport> {
    let path = path.as_ref();
    let options = options.unmapped();
    let stamp = Stamp::of(path)?;
    let file = options.open(path)?;
    check_kept(&file)?;
    let target = lock::open(path, &stamp)?;
    let format = writable(&file)?;
    let mut write = write.with_overwrite(true).with_format(format);
    write.attributes = file.attributes().clone();
    (write.encode.version, write.encode.stated) = (None, version_to_write(&file));
    write.encode.align = alignment(&file, &write)?;
    let entries = file
        .tensors()
        .map(|t| Entry { spec: holdall_io::items::spec_of(&t), from: From::Kept(t) })
        .collect();
    let encoder = write.encoder(format)?;
    let mut expected = Expected::new();
    expected.set_ties(Sharing::Keep.tie_rule(&*encoder));
    let items = items_of(entries, &*encoder)?;
    let left_behind = rewrite(&file, path, items, &write, &expected)?;
    drop(target);
    report(path, &options, None, left_behind)
}

/// What there is after an edit that wrote `in_place` bytes in place, or the file anew.
fn report(
    path: &Path,
    options: &OpenOptions,
    in_place: Option<u64>,
    left_behind: Vec<String>,
) -> Result<EditReport> {
    let file = options.open(path)?;
    let (len, dead) = (file.index().source_len(), dead_bytes(&file));
    let written = in_place.unwrap_or(len);
    Ok(EditReport { in_place: in_place.is_some(), written, len, dead, left_behind })
}

/// Bytes of the file's data region that belong to no component.
pub fn dead_bytes(file: &File) -> u64 {
    let mut ranges: Vec<(u64, u64)> = file
        .tensors()
        .flat_map(|t| t.components().collect::<Vec<_>>())
        .filter(|c| !c.stored.is_stated())
        .map(|c| (c.stored.start, c.stored.end))
        .collect();
    ranges.sort_unstable();
    ranges.dedup();
    let data = file.index().data_range();
    let live: u64 = ranges.iter().map(|(start, end)| end - start).sum();
    (data.end - data.start).saturating_sub(live)
}

/// What the file to be is made of, in the order in which it is written.
fn items_of(entries: Vec<Entry>, encoder: &dyn Encode) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for Entry { spec, from } in entries {
        items.push(match from {
            From::New(feeds) => (None, Item { spec, feeds, keep: Keep::Encoding }),
            From::Kept(tensor) => {
                let mut item = items::as_it_is(&tensor)?;
                (item.spec.name, item.spec.attributes) = (spec.name, spec.attributes);
                item.keep = Keep::All;
                (tensor.components().next().map(|c| c.stored.start), item)
            }
        });
    }
    // Kept tensors in the order of their bytes, new ones after them.
    items.sort_by_key(|(start, _)| start.unwrap_or(u64::MAX));
    let items = items.into_iter().map(|(_, item)| item).collect();
    let mut items = items::arrange(items, encoder, Sharing::Keep)?;
    if !encoder.can_compress() {
        items.iter_mut().for_each(|item| item.keep = Keep::Nothing);
    }
    Ok(items)
}

fn rewrite(
    file: &File,
    path: &Path,
    items: Vec<Item>,
    write: &WriteOptions,
    expected: &Expected,
) -> Result<Vec<String>> {
    let encoder = write.encoder(writable(file)?)?;
    let specs: Vec<TensorSpec> = items.iter().map(|i| i.spec.clone()).collect();
    let total = specs.iter().flat_map(|s| &s.components).filter(|c| c.shares.is_none());
    write.work.begin(total.fold(0, |n, c| n.saturating_add(c.decoded_len)));
    let sink = FileSink::create(path, true, write.durability)?;
    let mut writer = Writer::new(sink, encoder, write);
    // What cannot be written is in the file that it comes from.
    writer.declare(&specs).map_err(|e| e.in_source(file.name()))?;
    items::write(&mut writer, items, &write.work)?;
    let finished = writer.close()?;
    let left_behind = ledger::close(file, finished.record(), expected)?;
    finished.publish()?;
    Ok(left_behind)
}

fn writable(file: &File) -> Result<&'static Format> {
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
fn check_kept(file: &File) -> Result<()> {
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

/// The attributes without which a tensor of that layout cannot be read.
fn needed(layout: &Layout) -> &'static [&'static str] {
    match layout {
        Layout::QuantizedGroup => &["bits", "group_size"],
        Layout::Records | Layout::Blob => &[KIND_ATTRIBUTE],
        _ => &[],
    }
}

#[cold]
fn no_attribute(key: &str, attributes: &Attributes) -> Error {
    let e = NO_ATTRIBUTE.broken(format!("there is no attribute `{}`", key.shown()));
    match nearest(key, attributes.iter().map(|(key, _)| key)) {
        Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
        None => e,
    }
}
