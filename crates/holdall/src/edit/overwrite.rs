//! Edits a header in place: see [`crate::edit`] for when that is safe at any instant.

use bytes::Bytes;
use holdall_core::ledger::Record;
use holdall_core::{ByteOrder, Encode, Encoding, Index, Result, Stored};
use holdall_io::error::io;
use holdall_io::items::{ComponentSource, Item};
use holdall_io::sink::Durability;
use holdall_io::source::{ByteSource, FileSource};
use holdall_io::{File, WriteOptions, ledger, platform};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes that a disk, and the operating system, write completely or not at all.
const SECTOR: u64 = 512;

/// The bytes that an edit changes in a file with the header at the start, if they can be written in one step
/// and the bytes of all tensors stay where they are.
pub(crate) struct Patch {
    at: u64,
    bytes: Vec<u8>,
    /// The tensors and attributes that were passed to the encoder.
    pub(crate) record: Record,
    encoder: Box<dyn Encode>,
}

impl Patch {
    /// Returns the patch that turns `target`, the file `file`, into what `encoder` writes for these arranged
    /// items; `None` if the file must be rewritten instead.
    pub(crate) fn plan(
        file: &File,
        target: &std::fs::File,
        items: &[Item],
        mut encoder: Box<dyn Encode>,
        write: &WriteOptions,
    ) -> Option<Patch> {
        if !encoder.header_first()
            || encoder.needs_digest().is_some()
            || file.index().source_lens().len() != 1
        {
            return None;
        }
        let mut record = Record::new(Some(write.attributes.clone()));
        let specs: Vec<_> = items.iter().map(|item| item.spec.clone()).collect();
        // Rewriting the file returns the error.
        let header = encoder.begin(&write.attributes, &specs).ok()?;
        let mut end = header.len() as u64;
        for (Item { feeds, .. }, spec) in items.iter().zip(&specs) {
            let spec = Arc::new(spec.clone());
            record.add(Arc::clone(&spec));
            for (at, (c, feed)) in spec.components.iter().zip(feeds).enumerate() {
                let ComponentSource::Component(component) = feed else { return None };
                let (tensor, old) = &**component;
                let stays = tensor.file().identity() == file.identity()
                    && old.encoding == Encoding::Raw
                    && old.byte_order == ByteOrder::Little;
                let range = old.stored.range();
                let start = match c.shares {
                    // It was arranged to keep its bytes.
                    Some(_) => range.start,
                    None => encoder.next_offset(end, &spec, at).ok()?,
                };
                if !stays || start != range.start || old.stored.len() != c.decoded_len {
                    return None;
                }
                end = end.max(range.end);
                let stored = Stored { range, encoding: Encoding::Raw, digest: None };
                record.store(&spec, at, &stored);
                encoder.component_written(&spec, at, stored).ok()?;
            }
        }
        let tail = encoder.finish(end).ok()?.len() as u64;
        if end.checked_add(tail)? != file.index().source_len() {
            return None;
        }
        let mut old = vec![0; header.len()];
        platform::read_exact_at(target, &mut old, 0).ok()?;
        let differs = |(at, (a, b)): (usize, (&u8, &u8))| (a != b).then_some(at);
        let both = || old.iter().zip(&header).enumerate();
        let first = both().find_map(differs).unwrap_or_default();
        let last = both().rev().find_map(differs).map_or(first, |last| last + 1);
        let is_one_step = last <= first || first as u64 / SECTOR == (last as u64 - 1) / SECTOR;
        is_one_step.then(|| {
            let bytes = header[first..last].to_vec();
            Patch { at: first as u64, bytes, record, encoder }
        })
    }

    /// Compares what a reader would find in the patched `target` with what was passed to the encoder, and
    /// returns the index that was read.
    ///
    /// # Errors
    /// Returns the same errors as [`ledger::read_back`].
    pub(crate) fn read_back(&mut self, target: &std::fs::File, path: &Path) -> Result<Index> {
        let failed = |e| io(e, "reading").in_source(path.display());
        let file = target.try_clone().map_err(failed)?;
        let file = FileSource::from_file(file, path)?;
        let patched = Patched { file, at: self.at, bytes: &self.bytes };
        ledger::read_back(&patched, &mut self.record, &*self.encoder)
    }

    /// Writes the patch. Returns the number of bytes written.
    pub(crate) fn apply(
        self,
        target: &std::fs::File,
        name: &str,
        durability: Durability,
    ) -> Result<u64> {
        let failed = |e| io(e, "writing").in_source(name);
        platform::write_all_at(target, &self.bytes, self.at).map_err(failed)?;
        if durability == Durability::Disk {
            target.sync_all().map_err(failed)?;
        }
        Ok(self.bytes.len() as u64)
    }
}

/// A file with one range of its bytes replaced.
struct Patched<'a> {
    file: FileSource,
    at: u64,
    bytes: &'a [u8],
}

impl ByteSource for Patched<'_> {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let one = |range: &Range<u64>| {
            let mut bytes = self.file.read_range(range.clone())?.to_vec();
            let start = range.start.max(self.at);
            let end = range.end.min(self.at + self.bytes.len() as u64);
            if start < end {
                let new = &self.bytes[(start - self.at) as usize..(end - self.at) as usize];
                bytes[(start - range.start) as usize..(end - range.start) as usize]
                    .copy_from_slice(new);
            }
            Ok(bytes.into())
        };
        ranges.iter().map(one).collect()
    }
}
