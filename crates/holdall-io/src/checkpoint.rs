//! Distributed checkpoints of PyTorch, opened as one model.

use crate::file::File;
use crate::location::{Folder, FoundFile, Location};
use crate::model::{FileRole, ModelFile};
use crate::options::OpenOptions;
use crate::shards::MANY;
use crate::source::{ByteSource, read_now};
use holdall_core::{Index, Limits, Result, Stop, Window};
use holdall_formats::pytorch::checkpoint::{Checkpoint, Item, NAME};
use holdall_formats::pytorch::{CHECKPOINT, FORMAT};
use holdall_formats::shards::{SHARD_OUTSIDE, check_names};
use std::ops::Range;
use std::sync::Arc;

/// The number of items that are decoded together.
const TOGETHER: usize = 4096;
/// The number of bytes fetched first from each end of an item, where most have their whole description.
const FIRST: u64 = 1 << 10;

impl OpenOptions {
    /// Opens the checkpoint in a folder.
    pub(crate) fn open_checkpoint(&self, folder: &Folder) -> Result<File> {
        let FoundFile { source, name: shown, .. } = folder.find(self, NAME, false)?;
        let limits = self.limits();
        let checkpoint = self.read_checkpoint(&*source).map_err(|e| e.in_source(&shown))?;
        folder.check_links(NAME, checkpoint.files(), &SHARD_OUTSIDE)?;
        let is_many = checkpoint.files().len() > MANY;
        let mut items: Vec<Option<Index>> = vec![None; checkpoint.items().len()];
        let mut of_file: Vec<Vec<(usize, &Item)>> = vec![Vec::new(); checkpoint.files().len()];
        for (at, item) in checkpoint.items().iter().enumerate() {
            of_file[item.file].push((at, item));
        }
        let files = checkpoint.files().iter().zip(of_file).collect();
        let opened = folder.each(files, |(name, own)| {
            let FoundFile { source, name: shown, .. } = folder.find(self, name, is_many)?;
            let mut found = Vec::with_capacity(own.len());
            for some in own.chunks(TOGETHER) {
                let ranges: Vec<Range<u64>> =
                    some.iter().map(|(_, item)| item.range.clone()).collect();
                let all = indices(&*source, &ranges, limits).map_err(|e| e.in_source(&shown))?;
                found.extend(some.iter().map(|(at, _)| *at).zip(all));
            }
            Ok((source, found))
        })?;
        let mut sources: Vec<Arc<dyn ByteSource>> = Vec::with_capacity(opened.len());
        for (source, found) in opened {
            found.into_iter().for_each(|(at, index)| items[at] = Some(index));
            sources.push(source);
        }
        let lens: Vec<u64> = sources.iter().map(|source| source.len()).collect();
        let items: Option<Vec<Index>> = items.into_iter().collect();
        let items =
            items.ok_or_else(|| CHECKPOINT.broken("an item does not belong to any file"))?;
        let index =
            checkpoint.join(&lens, &items, limits).and_then(|index| self.check_faults(index));
        let shown = folder.display_name();
        let mut all = ModelFile::shards(checkpoint.files().iter().map(|name| folder.locate(name)));
        all.insert(0, ModelFile::new(FileRole::Index, folder.locate(NAME), None));
        let file = self.open_index(index.map_err(|e| e.in_source(&shown))?, sources, shown)?;
        Ok(file.with_files(all))
    }
}

impl OpenOptions {
    /// Reads the metadata file of a checkpoint.
    pub(crate) fn read_checkpoint(&self, source: &dyn ByteSource) -> Result<Checkpoint> {
        let (len, most) = (source.len(), self.limits().header_len);
        if len > most {
            let message = format!("`{NAME}` has {len} bytes, more than the limit of {most}");
            return Err(CHECKPOINT.broken(message));
        }
        let checkpoint = Checkpoint::read(&source.read_range(0..len)?, self.limits())?;
        check_names(checkpoint.files())?;
        Ok(checkpoint)
    }
}

/// Returns `true` if a file is the metadata file of a checkpoint, by its name.
pub(crate) fn is_metadata(location: &Location) -> bool {
    location.file_name() == NAME
}

/// Returns the index of each of these items of a file. The ranges that the items need are fetched together.
fn indices(source: &dyn ByteSource, ranges: &[Range<u64>], limits: &Limits) -> Result<Vec<Index>> {
    let len = source.len();
    if let Some(range) = ranges.iter().find(|range| range.end > len) {
        let message = format!("an item is outside of a file of {len} bytes");
        return Err(CHECKPOINT.broken(message).at(range.clone()));
    }
    let mut windows: Vec<Window> = ranges.iter().map(|r| Window::new(r.end - r.start)).collect();
    let mut found: Vec<Option<Index>> = vec![None; ranges.len()];
    // Pairs of an item and a range of its bytes.
    let ends = windows.iter().enumerate().flat_map(|(at, window)| {
        let len = window.len();
        let head = len.min(FIRST);
        [(at, 0..head), (at, head.max(len.saturating_sub(FIRST))..len)]
    });
    let mut needs: Vec<(usize, Range<u64>)> = ends.collect();
    while !needs.is_empty() {
        let shifted = |(at, need): &(usize, Range<u64>)| {
            let start = ranges[*at].start;
            start + need.start..start + need.end
        };
        let bytes = read_now(source, &needs.iter().map(shifted).collect::<Vec<_>>())?;
        for ((at, need), bytes) in needs.drain(..).zip(bytes) {
            windows[at].add(need.start, bytes);
        }
        for (at, (window, found)) in windows.iter().zip(&mut found).enumerate() {
            if found.is_some() {
                continue;
            }
            match (FORMAT.decode)(window, limits) {
                Ok(index) => *found = Some(index),
                Err(Stop::Need(more)) => needs.extend(more.into_iter().map(|range| (at, range))),
                Err(Stop::Fail(e)) => {
                    let Range { start, end } = &ranges[at];
                    return Err(e.within(format!("in the item at {start}..{end}")));
                }
            }
        }
    }
    Ok(found.into_iter().flatten().collect())
}
