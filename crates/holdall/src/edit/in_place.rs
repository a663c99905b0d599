//! Edits a file in place: see [`crate::edit`] for why that is safe at any instant.

use super::gaps;
use super::part::{Entry, From, HEADER_FIRST};
use holdall_core::ledger::Record;
use holdall_core::{ByteOrder, Component, Encode, Error, Index, Result, Stored};
use holdall_io::error::io;
use holdall_io::items::{self, CopyMode, Item, Sharing};
use holdall_io::ledger;
use holdall_io::platform;
use holdall_io::sink::{Durability, Sink, folder, sweep};
use holdall_io::source::{ByteSource, FileSource, SliceSource};
use holdall_io::{File, Tensor};
use holdall_io::{WriteOptions, Writer};
use std::path::Path;
use std::sync::Arc;

/// File systems require that inserted ranges are multiples of this.
const PAGE: u64 = 4096;
/// The hole grows at least by its present length, and by at most this many bytes more than needed.
const MAX_SURPLUS: u64 = 256 << 20;

/// A hole in the file between its data and its old manifest, which stays valid at the end of the file. New
/// data is written into the hole. If it is dropped before it is published, the hole is removed.
pub(crate) struct Hole {
    file: std::fs::File,
    name: String,
    /// Start of the hole: a page boundary after the data.
    start: u64,
    /// End of the hole and start of the old manifest.
    end: u64,
    /// End of the bytes written so far.
    len: u64,
    published: bool,
}

impl Hole {
    /// Opens a hole in `file`. If an edit with these entries cannot be made in place, returns why.
    ///
    /// # Errors
    /// Returns an `Io` error.
    pub(crate) fn open(
        file: &File,
        path: &Path,
        target: &std::fs::File,
        entries: &[Entry],
    ) -> Result<Result<Hole, &'static str>> {
        // Only a footer at the very end keeps the old file valid until the end is cut off.
        if !holdall_formats::by_name(file.format()).is_some_and(|format| format.ends_in_manifest) {
            return Ok(Err(HEADER_FIRST));
        }
        let data = file.index().data_range();
        let of_file = |c: &Component| !c.stored.is_stated();
        let end = |t: Tensor| t.components().filter(of_file).map(|c| c.stored.end).max();
        let claimed = file.index().claimed().iter().map(|extent| extent.end);
        let ends = file.tensors().flat_map(end).chain(claimed);
        let start = ends.max().unwrap_or(0).max(data.start).next_multiple_of(PAGE);
        // Whether a new manifest can describe bytes that stay as they are.
        let sayable = |c: &Component| {
            c.byte_order == ByteOrder::Little && c.decoded_len.is_some() && !c.stored.is_stated()
        };
        let kept = entries.iter().filter_map(|e| match &e.from {
            From::Kept(tensor) => Some(tensor),
            From::New(_) => None,
        });
        let sayable = kept.flat_map(|t| t.components().collect::<Vec<_>>()).all(|c| sayable(&c));
        if !sayable {
            return Ok(Err("the manifest cannot describe its big-endian components"));
        }
        if start > data.end {
            return Ok(Err("there is no page boundary between its data and its manifest"));
        }
        if platform::insert_range(target, start, PAGE).is_err() {
            return Ok(Err("its file system cannot insert a range into a file"));
        }
        // Removes temporary files of other processes from the folder, as when a file is rewritten.
        sweep(folder(path));
        let name = path.display().to_string();
        let end = start + PAGE;
        let target = target.try_clone().map_err(|e| io(e, "opening").in_source(&name))?;
        Ok(Ok(Hole { file: target, name, start, end, len: start, published: false }))
    }

    /// Writes new tensors and the new manifest into the hole, then cuts the old manifest off, unless `check`
    /// fails because the new manifest lacks something. Returns the number of bytes written, the new index,
    /// and the result of `check`.
    pub(crate) fn commit<T>(
        self,
        entries: Vec<Entry>,
        mut encoder: Box<dyn Encode>,
        write: &WriteOptions,
        check: impl FnOnce(&Record) -> Result<T>,
    ) -> Result<(u64, Index, T)> {
        // The file already has its first bytes.
        encoder.begin(&write.attributes, &[])?;
        let mut items = Vec::new();
        let mut record = Record::new(Some(write.attributes.clone()));
        for Entry { spec, from } in entries {
            match from {
                From::New(feeds) => items.push(Item { spec, feeds, keep: CopyMode::Encoding }),
                From::Kept(tensor) => {
                    let spec = Arc::new(spec);
                    record.add(Arc::clone(&spec));
                    for (at, c) in tensor.components().enumerate() {
                        let (range, encoding, digest) = (c.stored.range(), c.encoding, c.digest);
                        let stored = Stored { range, encoding, digest };
                        record.store(&spec, at, &stored);
                        encoder.component_written(&spec, at, stored)?;
                    }
                }
            }
        }
        let items = items::arrange(items, &*encoder, Sharing::Keep)?;
        let components = items.iter().flat_map(|i| &i.spec.components);
        write.work.begin(components.fold(0, |n, c| n.saturating_add(c.decoded_len)));
        let mut writer = Writer::resumed(self, encoder, record, write);
        items::write(&mut writer, items, &write.work)?;
        let (hole, mut encoder, mut record) = writer.into_parts()?;
        let data_end = hole.len.next_multiple_of(PAGE);
        // A multiple of the page size needs no padding, so this is only the manifest and the footer.
        let tail = encoder.finish(data_end)?;
        let checked = check(&record)?;
        let read_back = |source: &dyn ByteSource| ledger::read_back(source, &mut record, &*encoder);
        let (written, index) = hole.publish(data_end, &tail, write.durability, read_back)?;
        Ok((written, index, checked))
    }

    fn publish(
        mut self,
        data_end: u64,
        tail: &[u8],
        durability: Durability,
        read_back: impl FnOnce(&dyn ByteSource) -> Result<Index>,
    ) -> Result<(u64, Index)> {
        let tail_len = tail.len() as u64;
        let new_end = data_end + tail_len.next_multiple_of(PAGE);
        self.grow(new_end)?;
        let at = new_end - tail_len;
        platform::write_all_at(&self.file, tail, at).map_err(|e| self.failed(e))?;
        let file = self.file.try_clone().map_err(|e| self.failed(e))?;
        // The new file ends here, and the old manifest follows.
        let whole: Arc<dyn ByteSource> =
            Arc::new(FileSource::from_file(file, Path::new(&self.name))?);
        let index = read_back(&SliceSource::new(whole, 0..new_end)?)?;
        // The unused rest of the hole lies between the new footer and the old manifest, and is cut off with
        // it.
        if durability == Durability::Disk {
            self.file.sync_all().map_err(|e| self.failed(e))?;
        }
        // This call replaces the old file by the new one.
        self.file.set_len(new_end).map_err(|e| self.failed(e))?;
        self.published = true;
        if durability == Durability::Disk {
            self.file.sync_all().map_err(|e| self.failed(e))?;
        }
        // The new file is valid now, and no bytes of the old one are needed.
        gaps::erase(&self.file, &index).map_err(|e| self.failed(e))?;
        Ok((self.len - self.start + tail_len, index))
    }

    /// Extends the hole to at least `end`.
    fn grow(&mut self, end: u64) -> Result<()> {
        if end <= self.end {
            return Ok(());
        }
        let needed = (end - self.end).next_multiple_of(PAGE);
        let surplus = (self.end - self.start).min(MAX_SURPLUS);
        let more = needed.max(surplus);
        platform::insert_range(&self.file, self.end, more).map_err(|e| self.failed(e))?;
        self.end += more;
        Ok(())
    }

    #[cold]
    fn failed(&self, e: std::io::Error) -> Error {
        io(e, "writing").in_source(&self.name)
    }
}

impl Sink for Hole {
    type Done = ();

    fn len(&self) -> u64 {
        self.len
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.len + bytes.len() as u64;
        self.grow(end)?;
        platform::write_all_at(&self.file, bytes, self.len).map_err(|e| self.failed(e))?;
        self.len = end;
        Ok(())
    }

    fn finish(self) -> Result<()> {
        Ok(())
    }
}

impl Drop for Hole {
    fn drop(&mut self) {
        if !self.published {
            // The old file is valid with the hole; removing the hole restores it exactly.
            let len = self.end - self.start;
            let _ = platform::collapse_range(&self.file, self.start, len);
        }
    }
}
