//! Bytes of records at a list of indices, copied into memory of the caller.

use super::at::{HEAP, RECORDS};
use super::rules::BUFFER;
use super::{Records, placed};
use holdall_core::{Result, Role};
use std::ops::Range;
use std::sync::Arc;

/// A run of bytes that every record has, and the memory that they are copied to: see [`Records::copy_bytes`].
#[derive(Debug)]
pub struct RecordBytes<'o> {
    /// The range of bytes in a record.
    pub range: Range<usize>,
    /// Memory for as many of these runs as there are records, one after the other.
    pub out: &'o mut [u8],
}

impl Records {
    /// Copies runs of bytes of the records at these indices, such as members of fixed size, into memory of the caller: the
    /// fastest way to read batches of records in any order. The bytes are not checked. Records that are neither mapped nor
    /// in memory are read with as few requests as possible.
    ///
    /// # Errors
    /// Returns `records/index` if a record does not exist, `records/buffer` if a run lies outside of a record or its memory
    /// has another length, and the errors of [`Tensor::bytes_ranges`](holdall_io::Tensor::bytes_ranges).
    pub fn copy_bytes(&self, places: &[u64], runs: &mut [RecordBytes<'_>]) -> Result<()> {
        let inner = &*self.0;
        for RecordBytes { range, out } in &*runs {
            let len = range.end.saturating_sub(range.start).checked_mul(places.len());
            if range.start > range.end || range.end > inner.size || len != Some(out.len()) {
                let message = format!(
                    "{} bytes for the bytes {}..{} of {} records of {} bytes",
                    out.len(),
                    range.start,
                    range.end,
                    places.len(),
                    inner.size
                );
                return Err(placed(BUFFER.broken(message), self.tensor()));
            }
        }
        if let Some(place) = places.iter().find(|place| **place >= inner.count) {
            return Err(self.outside(*place..place.saturating_add(1)));
        }
        let is_run =
            (places.first().copied().unwrap_or(0)..).zip(places).all(|(at, place)| at == *place);
        if let (true, Some(first)) = (is_run, places.first()) {
            let bytes = self.run(*first..first + places.len() as u64)?;
            copy(places.iter().map(|place| slice(&bytes, place - first, inner.stride)), 0, runs);
        } else if let Some(all) = inner.data.whole() {
            copy(places.iter().map(|place| slice(all, *place, inner.stride)), 0, runs);
        } else {
            // As many at a time as fit a bounded number of bytes.
            let most = usize::try_from(HEAP / inner.stride.max(1) as u64).unwrap_or(1);
            let mut first = 0;
            for group in places.chunks(most.clamp(1, RECORDS)) {
                self.copy_group(group, first, runs)?;
                first += group.len();
            }
        }
        Ok(())
    }

    /// Copies records that are not in memory. `first` is the number of those that were copied before.
    fn copy_group(&self, places: &[u64], first: usize, runs: &mut [RecordBytes<'_>]) -> Result<()> {
        let (stride, size) = (self.0.stride as u64, self.0.size as u64);
        let mut sorted = places.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let ranges = sorted.iter().map(|place| place * stride..place * stride + size);
        let ranges: Vec<Range<u64>> = ranges.collect();
        let found = self.0.data.read(&ranges).map_err(|e| placed(e, self.tensor()))?;
        let bytes = |place: &u64| {
            let at = sorted.binary_search(place).unwrap_or(usize::MAX);
            found.get(at).map(|bytes| &bytes[..]).unwrap_or_default()
        };
        copy(places.iter().map(bytes), first, runs);
        Ok(())
    }

    /// Starts to read all records into a cache, if they are in a local file that is not in the system's cache, or in a
    /// remote file with a cache folder. Returns at once: a thread reads until it is done or the records are dropped. For
    /// callers that are about to read all records in random order. `part` of `parts` callers begins at its part.
    pub fn fill_cache(&self, part: u64, parts: u64) {
        let Ok(found) = self.tensor().require(&Role::Data) else { return };
        let stored = found.stored;
        let (tensor, alive) = (self.tensor().clone(), Arc::downgrade(&self.0));
        let range = stored.range();
        let first = range.start + (range.end - range.start) / parts.max(1) * part.min(parts);
        let fill = move || {
            let source = tensor.file().sources().at(stored.source);
            source.fill_cache(range, first, &|| alive.strong_count() > 0);
        };
        // Without a thread, the records are read when they are used.
        let _ = std::thread::Builder::new().name("holdall-fill".into()).spawn(fill);
    }
}

/// Returns the bytes from a record on.
fn slice(bytes: &[u8], at: u64, stride: usize) -> &[u8] {
    // The record lies in the bytes, so the product does not overflow.
    bytes.get((at as usize).wrapping_mul(stride)..).unwrap_or_default()
}

/// Copies the runs of each record to their positions, `first` records after the start.
fn copy<'r>(records: impl Iterator<Item = &'r [u8]>, first: usize, runs: &mut [RecordBytes<'_>]) {
    for (at, record) in (first..).zip(records) {
        for RecordBytes { range, out } in runs.iter_mut() {
            let len = range.end - range.start;
            if let (Some(to), Some(from)) =
                (out.get_mut(at * len..(at + 1) * len), record.get(range.clone()))
            {
                to.copy_from_slice(from);
            }
        }
    }
}
