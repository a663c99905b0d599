//! Writes a model in several files: assigns tensors to shards and writes their folder.

use super::refusals::target_error;
use super::{
    ConvertReport, Prepared, ledger, len_of, report, report_changes, report_stored, write_items,
};
#[cfg(feature = "ztensor2")]
use bytes::Bytes;
#[cfg(feature = "ztensor2")]
use holdall_core::Limits;
use holdall_core::ledger::Record;
use holdall_core::{Algorithm, Attributes, Digest, Result};
use holdall_formats::shards::index_text;
#[cfg(feature = "ztensor2")]
use holdall_formats::ztensor2::Root;
use holdall_formats::{Format, Shards as Bound};
use holdall_io::error::{SHARDS_COUNT, SHARDS_FORMAT, SHARDS_TARGET};
#[cfg(feature = "ztensor2")]
use holdall_io::external;
use holdall_io::items::Item;
use holdall_io::sink::{DigestSink, FileSink, FolderSink, Sink as _};
#[cfg(feature = "ztensor2")]
use holdall_io::source::FileSource;
use holdall_io::{File, WriteOptions, part_name};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

/// The usual prefix of the files' names.
const STEM: &str = "model";
/// The largest number with five digits.
const MAX_SHARDS: usize = 99_999;

/// The assignment of tensors to files.
pub(crate) struct Shards {
    /// The prefix of the files' names.
    stem: String,
    /// The index of each tensor's file, from 0.
    numbers: Vec<usize>,
    count: usize,
    bound: Bound,
    extension: &'static str,
}

/// Checks that a folder can be written at `path`. Returns the options with the format of its files.
pub(crate) fn check(file: &File, path: &Path, write: WriteOptions) -> Result<WriteOptions> {
    FolderSink::check(path, write.overwrite, &SHARDS_TARGET)?;
    if let (Ok(source), Ok(folder)) = (Path::new(file.name()).canonicalize(), path.canonicalize())
        && source.starts_with(folder)
    {
        let e = SHARDS_TARGET.broken("the source is in this folder, which would be replaced");
        return Err(e.in_source(path.display()));
    }
    let Some(format) = write.format_for(path).ok().or_else(with_index) else {
        return Err(SHARDS_FORMAT.broken("this build writes no format with an index of shards"));
    };
    if format.shards.is_none() {
        let e = SHARDS_FORMAT.broken(format!("{} cannot be split into several files", format.name));
        return Err(e.in_source(path.display()));
    }
    Ok(write.with_format(format))
}

/// Returns the default format of a folder: the first that needs only an index of its files.
fn with_index() -> Option<&'static Format> {
    let has_index = |format: &&Format| matches!(format.shards, Some(Bound::Index));
    holdall_formats::writable().find(has_index)
}

impl Shards {
    /// Assigns the items to files of at most the given bytes and tensors, greedily in `order`, which has the
    /// items' names. A larger item has a file of its own, before the file that is being filled; an item that
    /// shares the bytes of another follows that one.
    pub(crate) fn new(
        order: &[String],
        items: &[Item],
        (most, most_tensors): (u64, u64),
        format: &'static Format,
    ) -> Result<Shards> {
        let indices: HashMap<&str, usize> =
            items.iter().enumerate().map(|(at, item)| (item.spec.name.as_str(), at)).collect();
        let owner = |at: usize| {
            let shared = items[at].spec.components.iter().find_map(|c| c.shares.as_ref());
            shared.and_then(|owner| indices.get(owner.tensor.as_str()).copied()).unwrap_or(at)
        };
        let mut files: Vec<Vec<usize>> = Vec::new();
        let (mut filling, mut filled, mut tensors) = (Vec::new(), 0u64, 0u64);
        let mut together = vec![0u64; items.len()];
        (0..items.len()).for_each(|at| together[owner(at)] += 1);
        let mut seen = HashSet::new();
        for at in order.iter().filter_map(|name| indices.get(name.as_str())) {
            let at = owner(*at);
            if !seen.insert(at) {
                continue;
            }
            let len = len_of(&items[at]);
            if len > most {
                files.push(vec![at]);
                continue;
            }
            let is_full =
                filled.saturating_add(len) > most || tensors + together[at] > most_tensors;
            if is_full && !filling.is_empty() {
                files.push(std::mem::take(&mut filling));
                (filled, tensors) = (0, 0);
            }
            filling.push(at);
            filled += len;
            tensors += together[at];
        }
        if !filling.is_empty() || files.is_empty() {
            files.push(filling);
        }
        let bound = format.shards.unwrap_or(Bound::Index);
        let limit = if let Bound::Parts(_) = bound { usize::from(u16::MAX) } else { MAX_SHARDS };
        let count = files.len();
        if count > limit {
            return Err(SHARDS_COUNT.broken(format!(
                "{count} files would be written, but at most {limit} are supported"
            )));
        }
        let mut numbers = vec![0; items.len()];
        for (number, file) in files.iter().enumerate() {
            file.iter().for_each(|at| numbers[*at] = number);
        }
        let numbers = (0..items.len()).map(|at| numbers[owner(at)]).collect();
        let extension = format.extensions.first().copied().unwrap_or_default();
        Ok(Shards { stem: STEM.to_owned(), numbers, count, bound, extension })
    }

    /// Sets the prefix of the files' names.
    pub(crate) fn with_stem(mut self, stem: String) -> Shards {
        self.stem = stem;
        self
    }

    /// Returns the name of a file.
    fn name(&self, number: usize) -> String {
        match self.count {
            1 => format!("{}.{}", self.stem, self.extension),
            // At most five digits: see [`MAX_SHARDS`].
            count => part_name(&self.stem, number as u32 + 1, count as u32, self.extension),
        }
    }

    /// Returns the name of the index file, if the format has one.
    fn index(&self) -> Option<String> {
        let has_index = self.count > 1 && matches!(self.bound, Bound::Index);
        has_index.then(|| format!("{}.{}.index.json", self.stem, self.extension))
    }

    /// Returns the name of the root file that lists the shards, if the format has one.
    fn root(&self) -> Option<String> {
        let has_root = self.count > 1 && matches!(self.bound, Bound::Root);
        has_root.then(|| format!("{}.{}", self.stem, self.extension))
    }

    /// Returns the names of all files that are written.
    pub(crate) fn files(&self) -> Vec<String> {
        let others = self.index().into_iter().chain(self.root());
        (0..self.count).map(|number| self.name(number)).chain(others).collect()
    }

    /// Returns the attributes of a file. Each file has all of them, except GGUF parts, which say which part
    /// they are, and after the first have nothing else.
    fn attributes(&self, all: &Attributes, number: usize, tensors: usize) -> Attributes {
        if self.root().is_some() {
            return Attributes::new();
        }
        let mut own = all.clone();
        if let Bound::Parts(parts) = self.bound {
            if number > 0 {
                own = Attributes::new();
            }
            (parts.remove)(&mut own);
            if self.count > 1 {
                // The count was checked to fit a u16.
                let part = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
                let tensors = i32::try_from(tensors).unwrap_or(i32::MAX);
                (parts.set)(&mut own, part(number), part(self.count), tensors);
            }
        }
        own
    }
}

/// Writes the folder.
pub(super) fn write(file: &File, folder: &Path, prepared: Prepared) -> Result<ConvertReport> {
    let Prepared { items, write, casts, forming, warnings, shards, expected, .. } = prepared;
    let Some(shards) = shards else { return Err(SHARDS_TARGET.broken("it is not a folder")) };
    let mut report = report(file.index().source_len(), warnings, &items, 0);
    write.work.begin(report.decoded_len);
    let written = write_files(file, folder, &shards, items, &write, report.decoded_len)?;
    report.target_len = written.len;
    report.left_behind = ledger::close(file, &written.record, &expected)?;
    report_stored(&mut report, &written.record);
    written.folder.finish(write.durability)?;
    report_changes(&mut report, casts, forming);
    report.files = shards.files();
    Ok(report)
}

/// The files of a folder, which is not in its place yet.
pub(crate) struct WrittenFiles {
    pub(crate) folder: FolderSink,
    /// Their length in bytes.
    pub(crate) len: u64,
    pub(crate) record: Record,
}

/// Writes the files of a folder, with `decoded_len` bytes of tensors. The folder is not in its place yet.
pub(crate) fn write_files(
    file: &File,
    folder: &Path,
    shards: &Shards,
    items: Vec<Item>,
    write: &WriteOptions,
    decoded_len: u64,
) -> Result<WrittenFiles> {
    let format = write.format_for(folder)?;
    let sink = FolderSink::create(folder, write.overwrite, &SHARDS_TARGET)?;
    let mut target_len = 0u64;
    let all = items.len();
    let mut index = shards.index().map(|name| (name, BTreeMap::new()));
    let mut of_file: Vec<Vec<Item>> = (0..shards.count).map(|_| Vec::new()).collect();
    for (item, number) in items.into_iter().zip(&shards.numbers) {
        // Readers of the index do not know tensors that only share the bytes of another.
        let is_own = item.spec.components.iter().all(|c| c.shares.is_none());
        if let Some((_, map)) = index.as_mut().filter(|_| is_own) {
            map.insert(item.spec.name.clone(), shards.name(*number));
        }
        of_file[*number].push(item);
    }
    let algorithm = match write.requested_digest() {
        Some(Algorithm::Sha256) => Algorithm::Sha256,
        _ => Algorithm::Xxh3,
    };
    let mut summaries: Vec<Summary> = Vec::new();
    let mut record = Record::new(None);
    for (number, items) in of_file.into_iter().enumerate() {
        let own = write.clone();
        let own = own.with_attributes(shards.attributes(&write.attributes, number, all));
        let name = shards.name(number);
        let to = FileSink::create(&sink.path().join(&name), false, write.durability)?;
        let encoder = own.encoder(format)?;
        let refused = |e| target_error(e, &own).in_source(file.name());
        let (len, written) = match shards.root() {
            Some(_) => {
                let to = DigestSink::new(to, algorithm);
                let finished =
                    write_items(file, to, encoder, &own, items)?.close().map_err(refused)?;
                let len = finished.len();
                let (((), digest), written) = finished.publish_with_record()?;
                summaries.push((name, len, digest));
                (len, written)
            }
            None => {
                let finished =
                    write_items(file, to, encoder, &own, items)?.close().map_err(refused)?;
                let len = finished.len();
                (len, finished.publish_with_record()?.1)
            }
        };
        target_len = target_len.saturating_add(len);
        record.merge(written);
    }
    #[cfg(feature = "ztensor2")]
    if let Some(name) = shards.root() {
        let bytes = root(sink.path(), shards, &summaries, &write.attributes)?;
        let mut to = FileSink::create(&sink.path().join(name), false, write.durability)?;
        to.append(&bytes)?;
        to.finish()?;
        target_len = target_len.saturating_add(bytes.len() as u64);
    }
    if let Some((name, map)) = index {
        let text = index_text(&map, decoded_len);
        let mut to = FileSink::create(&sink.path().join(name), false, write.durability)?;
        to.append(text.as_bytes())?;
        to.finish()?;
        target_len = target_len.saturating_add(text.len() as u64);
    }
    if shards.root().is_some() {
        // The model's attributes are in the root file.
        record.merge(Record::new(Some(write.attributes.clone())));
    }
    Ok(WrittenFiles { folder: sink, len: target_len, record })
}

/// Returns the root file, which lists the shards with their lengths and digests.
#[cfg(feature = "ztensor2")]
fn root(
    folder: &Path,
    shards: &Shards,
    summaries: &[Summary],
    attributes: &Attributes,
) -> Result<Bytes> {
    let mut root = Root::default();
    for (file, len, digest) in summaries {
        // `model-NAME.zt` is the shard NAME of `model.zt`.
        let name = file.strip_prefix(&*shards.stem).unwrap_or(file).trim_start_matches('-');
        let name = name.trim_end_matches(shards.extension).trim_end_matches('.');
        let source = FileSource::open(&folder.join(file))?;
        let objects = external::shard_objects(&source, &Limits::default(), name)?;
        root.add(name, *len, digest, objects);
    }
    root.finish(attributes)
}

/// A written file: its name, length and digest.
type Summary = (String, u64, Digest);
