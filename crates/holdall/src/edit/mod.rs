//! Edits a model: adds, replaces, removes and renames tensors, and sets attributes.
//!
//! No file is changed until [`Edit::commit`], which makes all changes at once. It works in place where
//! possible, and otherwise writes a new file next to the old one; in both cases a kill or a power cut at any
//! instant leaves either the old model or the new one.
//!
//! In-place edits work for zTensor on file systems that can insert a range into a file (ext4, XFS; on Linux alone), if a page
//! boundary lies between the data and the manifest, as in every file of more than 1 MiB that this crate
//! wrote:
//!
//! ```text
//! data | gap | old manifest                            the old file
//! data | gap | hole | old manifest                     still the old file: its footer is at the end
//! data | gap | new data, new manifest | old manifest   still the old file
//! data | gap | new data, new manifest                  the new file: cut off in one step
//! ```
//!
//! Once the new file is on disk, the bytes of removed tensors and all other gaps between components are
//! overwritten with zeros, whole pages by holes: removed data can no longer be read from the file. Readers of
//! the new file do not read these ranges. A reader that still has the old version open finds zeros in the
//! removed tensors, and the old manifest cut off; if it checks digests, it gets an error. A kill during this
//! step leaves some of these bytes; the next edit erases them in the whole file.
//!
//! In-place edits also work for formats with the header at the start (GGUF, safetensors, Metatensor), if no
//! tensor's bytes move and all changed bytes of the header lie in one disk sector of 512 bytes, which is
//! written in one step. All other edits rewrite the file.
//!
//! On Windows a file cannot be replaced while it is open. Its handles are closed right before the new file gets its name; if another
//! process has it open, the edit fails with `write/in-use`, and the old file is unchanged.
//!
//! In a model in several files, only the changed files are written. A single changed file is edited like a
//! file by itself. If several change, or the index file must change as well, the changed shards are written
//! under new names, and renaming the new index over the old one replaces the model: see `several.rs`.

mod catalog;
mod gaps;
mod in_place;
mod journal;
mod many;
mod overwrite;
mod part;
mod several;

use crate::OpenOptions;
use crate::operations::{self, Operation};
use bytes::Bytes;
use catalog::Catalog;
pub(crate) use catalog::{index_text, is_index};
use holdall_core::error::Escape as _;
use holdall_core::model::Warning;
use holdall_core::{
    Attributes, EncodeOptions, Encoding, Error, Layout, Remedy, Result, TensorSpec, Value,
};
use holdall_io::error::{
    CANNOT_EDIT, NEEDED, NO_ATTRIBUTE, NOT_FOUND, NOT_IN_FORMAT, SEVERAL_FILES,
};
use holdall_io::items::{self, ComponentSource, Item};
use holdall_io::select::nearest;
use holdall_io::source::FileSource;
use holdall_io::{File, Tensor, WriteOptions};
use holdall_schema::TENSOR_SCHEMA_ATTRIBUTE;
pub(crate) use part::HEADER_FIRST;
pub(crate) use part::version_to_write;
use part::{EditedFile, Entry, From, InPlace};
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Pending changes to a model.
pub struct Edit {
    path: PathBuf,
    options: OpenOptions,
    /// The model before the changes.
    file: File,
    write: WriteOptions,
    /// The files that hold its tensors.
    parts: Vec<EditedFile>,
    /// The file that lists the parts.
    catalog: Catalog,
    /// For each tensor, its part and its position in the part.
    by_name: HashMap<String, (usize, usize)>,
    /// For each removed tensor, its part: a tensor added under the name goes there.
    removed: HashMap<String, usize>,
}

/// The result of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EditReport {
    /// Whether files were changed in place; otherwise they were rewritten.
    pub in_place: bool,
    /// Number of bytes written.
    pub written: u64,
    /// Length of the model's files in bytes.
    pub len: u64,
    /// Bytes of the files that belong to nothing, without alignment padding; [`compact`] removes them.
    pub unused_len: u64,
    /// The files that were changed or written, for a model in several files.
    pub files: Vec<PathBuf>,
    /// Contents of the old model that were not to be changed but are missing now, because the format cannot
    /// hold them as written here, in words: for example checksums of chunks that are now in one piece.
    pub left_behind: Vec<String>,
    /// Warnings about added or renamed tensors that common readers of the format do not accept.
    pub warnings: Vec<Warning>,
}

impl EditReport {
    /// Turns the report into one about a model in one file.
    fn name_no_files(&mut self) {
        self.files.clear();
        if !self.in_place {
            self.written = self.len;
        }
    }
}

/// The result of writing the edited files.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The file that was changed in place; `None` if files were rewritten.
    pub(super) in_place: Option<InPlace>,
    pub(super) files: Vec<PathBuf>,
    pub(super) left_behind: Vec<String>,
}

impl Edit {
    /// Starts an edit of the model at `path`: a file, a folder with a model, an index file, or the first part
    /// of a split GGUF file.
    ///
    /// # Errors
    /// Returns the same errors as [`crate::open()`]; a `Misuse` error if the format cannot be written; an `Unsupported` error if the place cannot
    /// be written to.
    pub fn open(path: impl AsRef<Path>) -> Result<Edit> {
        Edit::open_with(path, &OpenOptions::new())
    }

    /// Starts an edit with these open options. The file is never mapped, because it changes: options that
    /// request mapping read it instead.
    ///
    /// # Errors
    /// Returns the same errors as [`Edit::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Edit> {
        let path = path.as_ref();
        operations::check(Operation::Edit, path)?;
        let options = options.unmapped();
        let (file, catalog, parts) = catalog::open(path, &options)?;
        let mut by_name = HashMap::new();
        for (number, part) in parts.iter().enumerate() {
            for (at, entry) in part.entries.iter().enumerate() {
                let Some(entry) = entry.as_ref().filter(|e| !part.hidden.contains(&e.spec.name))
                else {
                    continue;
                };
                by_name.insert(entry.spec.name.clone(), (number, at));
            }
        }
        let (path, removed) = (path.to_owned(), HashMap::new());
        let write = WriteOptions::new();
        Ok(Edit { path, options, file, write, parts, catalog, by_name, removed })
    }

    /// Returns the model before the changes.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Sets how new tensors are written (encoding, digest, durability), and how the work is done; format,
    /// version and attributes stay those of the file.
    pub fn with_write(mut self, write: WriteOptions) -> Edit {
        self.write = write;
        self
    }

    /// Sets an attribute of the file. In a model in several files, attributes belong to the first file; in
    /// formats whose files each have attributes, such as HDF5, an existing attribute is set in the file that
    /// has it.
    pub fn set_attribute(&mut self, key: impl Into<String>, value: Value) {
        let key = key.into();
        if let Some(attributes) = self.catalog.attributes_mut() {
            attributes.set(key, value);
            return;
        }
        let merges = self.merges_attributes();
        let own = self.parts.iter().position(|part| merges && part.attributes.get(&key).is_some());
        if let Some(part) = self.parts.get_mut(own.unwrap_or(0)) {
            part.set_attribute(key, value);
        }
    }

    /// Removes an attribute of the file.
    ///
    /// # Errors
    /// Returns a `NotFound` error if there is no such attribute.
    pub fn unset_attribute(&mut self, key: &str) -> Result<()> {
        let is_gone = match self.catalog.attributes_mut() {
            Some(attributes) => attributes.remove(key).is_some(),
            None => {
                let count = if self.merges_attributes() { self.parts.len() } else { 1 };
                let mut is_gone = false;
                for part in self.parts.iter_mut().take(count) {
                    is_gone |= part.unset_attribute(key);
                }
                is_gone
            }
        };
        match is_gone {
            true => Ok(()),
            false => Err(no_attribute(key, self.file.attributes()).in_source(self.path.display())),
        }
    }

    fn merges_attributes(&self) -> bool {
        holdall_formats::by_name(self.file.format()).is_some_and(|f| f.merges_attributes)
    }

    /// Sets an attribute of a tensor.
    ///
    /// # Errors
    /// Returns a `NotFound` error if there is no such tensor.
    pub fn set_tensor_attribute(
        &mut self,
        tensor: &str,
        key: impl Into<String>,
        value: Value,
    ) -> Result<()> {
        let key = key.into();
        self.expect_attribute(tensor, &key)?;
        self.entry(tensor)?.spec.attributes.set(key, value);
        Ok(())
    }

    /// Removes an attribute of a tensor.
    ///
    /// # Errors
    /// Returns a `NotFound` error; a `Misuse` error if the tensor cannot be read without the attribute.
    pub fn unset_tensor_attribute(&mut self, tensor: &str, key: &str) -> Result<()> {
        let spec = &self.entry(tensor)?.spec;
        if needed(&spec.layout).contains(&key) && spec.attributes.get(key).is_some() {
            let (key, layout) = (key.escaped(), spec.layout.as_str().escaped());
            let e = NEEDED.broken(format!(
                "cannot remove `{key}`: a tensor of layout `{layout}` cannot be read without it"
            ));
            return Err(e.in_tensor(tensor).in_source(self.path.display()));
        }
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

    /// Renames a tensor.
    ///
    /// # Errors
    /// Returns a `NotFound` error if there is no tensor `from`; a `Misuse` error if `to` exists.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        if from != to && self.by_name.contains_key(to) {
            return Err(self.taken(to));
        }
        self.check_only_here(from)?;
        let at = self.position(from)?;
        self.entry(from)?.spec.name = to.to_owned();
        self.by_name.remove(from);
        self.by_name.insert(to.to_owned(), at);
        Ok(())
    }

    /// Removes a tensor.
    ///
    /// # Errors
    /// Returns a `NotFound` error if there is no such tensor.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.check_only_here(name)?;
        let (number, at) = self.position(name)?;
        self.by_name.remove(name);
        self.removed.insert(name.to_owned(), number);
        if let Some(part) = self.parts.get_mut(number) {
            part.changed = true;
            if let Some(slot) = part.entries.get_mut(at) {
                *slot = None;
            }
        }
        Ok(())
    }

    /// Adds a tensor from the bytes of its components, in order. It goes into the file from which a tensor of
    /// the same name was removed, otherwise into the last one.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the name exists: to replace a tensor, [`Edit::remove`] it first.
    pub fn add(&mut self, spec: TensorSpec, components: Vec<Bytes>) -> Result<()> {
        let made = |bytes: Bytes| ComponentSource::bytes(move || Ok(bytes));
        self.insert(spec, components.into_iter().map(made).collect())
    }

    /// Adds a tensor of one component from a reader of its decoded bytes.
    ///
    /// # Errors
    /// Returns the same errors as [`Edit::add`].
    pub fn add_from(&mut self, spec: TensorSpec, from: impl Read + Send + 'static) -> Result<()> {
        self.insert(spec, vec![ComponentSource::Reader(Box::new(from))])
    }

    /// Adds a tensor of another open file under `name`.
    ///
    /// # Errors
    /// Returns the same errors as [`Edit::add`].
    pub fn append(&mut self, tensor: &Tensor, name: &str) -> Result<()> {
        let Item { mut spec, feeds, .. } = items::unchanged_item(tensor)?;
        spec.name = name.to_owned();
        self.insert(spec, feeds)
    }

    fn insert(&mut self, spec: TensorSpec, feeds: Vec<ComponentSource>) -> Result<()> {
        if self.by_name.contains_key(&spec.name) {
            return Err(self.taken(&spec.name));
        }
        let last = self.parts.len().saturating_sub(1);
        let number = self.removed.get(&spec.name).copied().unwrap_or(last);
        if let Some(part) = self.parts.get_mut(number) {
            self.by_name.insert(spec.name.clone(), (number, part.entries.len()));
            part.entries.push(Some(Entry { spec, from: From::New(feeds) }));
            part.changed = true;
        }
        Ok(())
    }

    fn position(&self, name: &str) -> Result<(usize, usize)> {
        self.by_name.get(name).copied().ok_or_else(|| {
            let e = NOT_FOUND.broken("there is no tensor of this name").in_tensor(name);
            let e = e.in_source(self.path.display());
            match nearest(name, self.by_name.keys().map(String::as_str)) {
                Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
                None => e,
            }
        })
    }

    /// Records for the ledger that an attribute of a tensor changes.
    fn expect_attribute(&mut self, tensor: &str, key: &str) -> Result<()> {
        let (number, at) = self.position(tensor)?;
        if let Some(part) = self.parts.get_mut(number) {
            part.expect_attribute(at, key);
        }
        Ok(())
    }

    /// Returns the entry of a tensor for changes.
    fn entry(&mut self, name: &str) -> Result<&mut Entry> {
        let (number, at) = self.position(name)?;
        let part = self.parts.get_mut(number);
        match part.and_then(|part| {
            part.changed = true;
            part.entries.get_mut(at)
        }) {
            Some(Some(entry)) => Ok(entry),
            _ => Err(NOT_FOUND.broken("there is no tensor of this name").in_tensor(name)),
        }
    }

    /// Returns an error if the tensor's name also exists in another file, outside the index: the model would
    /// get that tensor instead.
    fn check_only_here(&self, name: &str) -> Result<()> {
        match self.parts.iter().find(|part| part.hidden.contains(name)) {
            None => Ok(()),
            Some(part) => {
                let e = CANNOT_EDIT.broken(format!(
                    "`{}` has a tensor of this name too, which would replace this one in the model",
                    part.path.display()
                ));
                Err(e.in_tensor(name).in_source(self.path.display()))
            }
        }
    }

    #[cold]
    fn taken(&self, name: &str) -> Error {
        CANNOT_EDIT
            .broken("a tensor of this name exists already")
            .with_hint("remove or rename that tensor first")
            .in_tensor(name)
            .in_source(self.path.display())
    }

    /// Makes all changes.
    ///
    /// # Errors
    /// Returns an `Unsupported` error if the format cannot hold a change, or if several files would change that no index lists;
    /// a `Misuse` error; an `Io` error; errors of another file that new tensors are read from. After an error the model is
    /// unchanged.
    pub fn commit(self) -> Result<EditReport> {
        self.commit_until(&mut |_| false)
    }

    /// Adds a tensor that is made when it is written, in place of one of the same name, if there is one.
    ///
    /// # Errors
    /// Returns the same errors as [`Edit::remove`].
    pub(crate) fn put(&mut self, item: Item) -> Result<()> {
        if self.by_name.contains_key(&item.spec.name) {
            self.remove(&item.spec.name.clone())?;
        }
        self.insert(item.spec, item.feeds)
    }

    /// Makes all changes in place, in a model of one file. If that is not possible, returns why, and the file is as it was.
    ///
    /// # Errors
    /// Returns the same errors as [`Edit::commit`].
    pub(crate) fn commit_in_place(self) -> Result<Result<EditReport, &'static str>> {
        let Edit { path, options, file, write, mut parts, catalog, .. } = self;
        drop(file);
        let (Some(part), Catalog::None, true) = (parts.pop(), catalog, parts.is_empty()) else {
            return Ok(Err("it is in several files, which cannot change at the same instant"));
        };
        let files = vec![part.path.clone()];
        let (in_place, left_behind) = match part.prepare(&write)?.replace_in_place()? {
            Ok(done) => done,
            Err(why) => return Ok(Err(why)),
        };
        let outcome = Outcome { in_place: Some(in_place), files, left_behind };
        let (_, mut report) = report(&path, &options, outcome, true)?;
        report.name_no_files();
        Ok(Ok(report))
    }

    /// Makes all changes. In an edit of several files, if `stop` returns `true` after a step, everything is
    /// left as it is at that step.
    fn commit_until(self, stop: &mut dyn FnMut(several::Step) -> bool) -> Result<EditReport> {
        check_encoding(&self.write)?;
        let merges = self.merges_attributes();
        let Edit { path, options, file, write, mut parts, catalog, .. } = self;
        if let Catalog::Index { .. } = &catalog {
            part::hand_on_attributes(&mut parts, merges);
        }
        let changed = parts.iter().filter(|part| part.changed).count();
        if changed == 0 && !catalog.has_new_attributes() {
            let (len, unused_len) = (total_len(&file), unused_len(&file));
            let (files, left_behind, warnings) = (Vec::new(), Vec::new(), Vec::new());
            let (in_place, written) = (true, 0);
            return Ok(EditReport {
                in_place,
                written,
                len,
                unused_len,
                files,
                left_behind,
                warnings,
            });
        }
        let known: HashSet<String> = file.names().map(str::to_owned).collect();
        drop(file);
        let is_alone = parts.len() == 1;
        let is_one_file = is_alone && matches!(catalog, Catalog::None);
        let shards: Vec<_> =
            parts.iter().filter(|part| part.changed).map(|part| part.changed_shard(None)).collect();
        let outcome = match catalog {
            Catalog::None => {
                for part in parts.iter().filter(|part| part.changed) {
                    part.check_alone(&parts)?;
                }
                if changed > 1 {
                    return Err(several_files(&path, &parts));
                }
                write_one(parts, &write)?
            }
            catalog if changed == 1 && !catalog.needs_update_for(&shards, &parts) => {
                let _lock = several::lock_and_sweep(&catalog)?;
                write_one(parts, &write)?
            }
            catalog => several::commit(catalog, parts, &write, &options, stop)?,
        };
        let (file, mut report) = report(&path, &options, outcome, is_one_file)?;
        if is_alone {
            report.name_no_files();
        }
        report.warnings = warnings_of(&file, &known);
        Ok(report)
    }
}

/// Returns warnings about tensors of a file that common readers do not accept, without the tensors in
/// `known`.
fn warnings_of(file: &File, known: &HashSet<String>) -> Vec<Warning> {
    let encode = holdall_formats::by_name(file.format()).and_then(|format| format.encode);
    let Some(Ok(encoder)) = encode.map(|encode| encode(&EncodeOptions::new())) else {
        return Vec::new();
    };
    let new = file.tensors().filter(|t| !known.contains(t.name()));
    let specs: Vec<TensorSpec> = new.map(|t| items::spec_of(&t)).collect();
    items::warnings(&*encoder, &specs)
}

/// Writes the only part that changes.
fn write_one(parts: Vec<EditedFile>, write: &WriteOptions) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for part in parts.into_iter().filter(|part| part.changed) {
        outcome.files.push(part.path.clone());
        (outcome.in_place, outcome.left_behind) = part.prepare(write)?.replace()?;
    }
    Ok(outcome)
}

/// Rewrites the model at `path` without unused bytes, file by file.
///
/// # Errors
/// Returns the same errors as [`Edit::commit`].
pub fn compact(path: impl AsRef<Path>, write: WriteOptions) -> Result<EditReport> {
    compact_with(path, write, &OpenOptions::new())
}

/// The hint of errors for encodings that edits do not write.
const BY_CONVERTING: &str = "`holdall convert` writes all tensors of a file in another encoding";

/// Checks that new tensors can be written in the encoding: planes are made from whole files.
fn check_encoding(write: &WriteOptions) -> Result<()> {
    if write.has_planes() || write.has_smallest() {
        let message = "an edit writes tensors raw or compressed, not in planes";
        return Err(NOT_IN_FORMAT.broken(message).with_hint(BY_CONVERTING));
    }
    Ok(())
}

/// Rewrites the model at `path` without unused bytes, opened as by [`Edit::open_with`].
///
/// # Errors
/// Returns the same errors as [`Edit::commit`].
pub fn compact_with(
    path: impl AsRef<Path>,
    write: WriteOptions,
    options: &OpenOptions,
) -> Result<EditReport> {
    let path = path.as_ref();
    operations::check(Operation::Compact, path)?;
    if write.encoding() != Encoding::Raw || write.has_planes() || write.has_smallest() {
        let message = "compacting keeps the encoding of each tensor";
        return Err(NOT_IN_FORMAT.broken(message).with_hint(BY_CONVERTING));
    }
    let options = options.unmapped();
    let (_, catalog, mut parts) = catalog::open(path, &options)?;
    let is_alone = parts.len() == 1;
    let is_renewed = catalog.names_bytes() || catalog.states_lengths_of(&parts);
    let outcome = match is_renewed {
        // Each file keeps its contents, so the model is the same at every instant.
        false => {
            let _lock = several::lock_and_sweep(&catalog)?;
            let mut outcome = Outcome::default();
            for part in parts {
                outcome.files.push(part.path.clone());
                outcome.left_behind.extend(part.prepare(&write)?.write_anew()?);
            }
            outcome
        }
        true => {
            parts.iter_mut().for_each(|part| part.changed = true);
            several::commit(catalog, parts, &write, &options, &mut |_| false)?
        }
    };
    let (_, mut report) = report(path, &options, outcome, false)?;
    if is_alone {
        report.name_no_files();
    }
    Ok(report)
}

/// Creates the report of an edit. `is_one_file` says that the model is one file without an index.
fn report(
    path: &Path,
    options: &OpenOptions,
    outcome: Outcome,
    is_one_file: bool,
) -> Result<(File, EditReport)> {
    let Outcome { in_place, files, left_behind } = outcome;
    let (written, file) = match (in_place, &files[..]) {
        // The index was decoded before the change took effect.
        (Some(InPlace { written, index }), [own]) if is_one_file => {
            let source = Arc::new(FileSource::open(own)?);
            let file = options.open_index(index, vec![source], path.display().to_string())?;
            (Some(written), file)
        }
        (in_place, _) => (in_place.map(|outcome| outcome.written), options.open(path)?),
    };
    let is_in_place = written.is_some();
    let (len, unused_len) = (total_len(&file), unused_len(&file));
    let written = match written {
        Some(written) => written,
        None => files.iter().filter_map(|path| path.metadata().ok()).map(|meta| meta.len()).sum(),
    };
    let (in_place, warnings) = (is_in_place, Vec::new());
    Ok((file, EditReport { in_place, written, len, unused_len, files, left_behind, warnings }))
}

/// Returns the total length of all files that hold tensors.
fn total_len(file: &File) -> u64 {
    file.index().source_lens().fold(0, u64::saturating_add)
}

/// Returns the number of bytes in the data regions of a model's files that belong to no component and that
/// [`compact`] removes: all except alignment padding.
pub fn unused_len(file: &File) -> u64 {
    gaps::unused(file.index())
}

#[cold]
fn several_files(path: &Path, parts: &[EditedFile]) -> Error {
    let changed = parts.iter().filter(|part| part.changed);
    let names: Vec<String> =
        changed.take(4).map(|part| format!("`{}`", part.path.display())).collect();
    let message =
        format!("cannot change several files ({}) of a model without an index", names.join(", "));
    SEVERAL_FILES.broken(message).in_source(path.display())
}

/// Returns the attributes without which a tensor of the layout cannot be read.
fn needed(layout: &Layout) -> &'static [&'static str] {
    match layout {
        Layout::QuantizedGroup => &["bits", "group_size"],
        Layout::Records | Layout::Blob => &[TENSOR_SCHEMA_ATTRIBUTE],
        _ => &[],
    }
}

#[cold]
fn no_attribute(key: &str, attributes: &Attributes) -> Error {
    let e = NO_ATTRIBUTE.broken(format!("there is no attribute `{}`", key.escaped()));
    match nearest(key, attributes.iter().map(|(key, _)| key)) {
        Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
        None => e,
    }
}
