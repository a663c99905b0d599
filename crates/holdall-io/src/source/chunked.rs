//! An array that is assembled from chunks of other sources.

use super::{ByteSource, ReadHints, check_range, outside};
use bytes::Bytes;
use holdall_core::Result;
use holdall_core::read::{Access, Chunk, Chunked, Extent};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of bytes of decoded chunks that are cached for the next read. A longer chunk is cached alone.
const KEPT: usize = 32 << 20;
/// Chunks longer than this are decoded by one thread at a time, so that only one is in memory.
const LARGE: u64 = 8 << 20;
/// The number of stored bytes that are requested at once.
const BATCH: u64 = 8 << 20;

/// A source of the decoded bytes of a [`Chunked`].
pub(crate) struct ChunkedSource {
    sources: Arc<[Arc<dyn ByteSource>]>,
    array: Arc<Chunked>,
    /// The cache, shared by all sources that [`ChunkedSource::over`] creates from this one.
    kept: Arc<Mutex<RecentChunks>>,
}

/// Decoded chunks of which only a part was used, the most recent last.
#[derive(Default)]
struct RecentChunks {
    chunks: VecDeque<(u64, Bytes)>,
    len: usize,
}

impl ChunkedSource {
    pub(crate) fn new(sources: Arc<[Arc<dyn ByteSource>]>, array: Arc<Chunked>) -> ChunkedSource {
        ChunkedSource { sources, array, kept: Arc::default() }
    }

    /// Returns the same array over other sources of the same bytes. Both share the cache of decoded chunks.
    pub(crate) fn over(&self, sources: Arc<[Arc<dyn ByteSource>]>) -> ChunkedSource {
        ChunkedSource { sources, array: Arc::clone(&self.array), kept: Arc::clone(&self.kept) }
    }

    /// Reads the bytes of each extent. Adjacent extents of one source are read in one call. An unknown source number
    /// reads from the first source; it cannot occur, because an index is checked against its sources when both are
    /// combined.
    fn stored(&self, extents: &[Extent]) -> Result<Vec<Bytes>> {
        let mut out = Vec::with_capacity(extents.len());
        for same in extents.chunk_by(|a, b| a.source == b.source) {
            let ranges: Vec<Range<u64>> = same.iter().map(Extent::range).collect();
            let source = self.sources.get(same[0].source as usize).or(self.sources.first());
            let Some(source) = source else { return Err(outside(&ranges[0], 0)) };
            out.append(&mut source.read(&ranges)?);
        }
        Ok(out)
    }

    /// Fills each of the targets with bytes of the array. Each chunk is decoded once, even if several targets need it.
    fn fill(&self, out: &mut [Target<'_>]) -> Result<()> {
        out.iter().try_for_each(|target| check_range(&target.range(), self.len()))?;
        let mut uses: Vec<Use<'_>> = Vec::new();
        for (number, target) in out.iter_mut().enumerate() {
            self.array.clear(target.offset, target.out);
            uses.extend(self.array.covering(target.range()).map(|chunk| (chunk, number)));
        }
        if out.len() > 1 {
            uses.sort_by_key(|(chunk, _)| chunk.number);
        }
        let uses: Vec<_> = uses.chunk_by(|(a, _), (b, _)| a.number == b.number).collect();
        let mut rest = &uses[..];
        while !rest.is_empty() {
            let mut len = 0;
            let fits = |uses: &&&[Use<'_>]| {
                let is_first = len < BATCH;
                len += uses[0].0.stored.len();
                is_first
            };
            let count = rest.iter().take_while(fits).count();
            let (batch, others) = rest.split_at(count);
            self.batch(batch, out)?;
            rest = others;
        }
        Ok(())
    }

    /// Copies chunks to the targets that need them. The uses of each chunk are adjacent.
    fn batch(&self, chunks: &[&[Use<'_>]], out: &mut [Target<'_>]) -> Result<()> {
        let (mut plain, mut others) = (Vec::new(), Vec::new());
        for uses in chunks {
            for (chunk, number) in *uses {
                match self.array.plain(chunk, &out[*number].range()) {
                    Some(part) if part.is_empty() => {}
                    Some(part) => plain.push((*chunk, part, *number)),
                    None => {
                        others.push(*uses);
                        break;
                    }
                }
            }
        }
        let parts: Vec<Extent> =
            plain.iter().map(|(chunk, part, _)| chunk.stored.part(part.clone())).collect();
        for ((chunk, part, number), bytes) in plain.iter().zip(self.stored(&parts)?) {
            let Target { offset, out } = &mut out[*number];
            self.array.copy_chunk(chunk, &bytes, part.start, *offset, out);
        }
        if others.is_empty() {
            return Ok(());
        }
        let mut kept = Some(self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let mut missing = Vec::new();
        for uses in others {
            match kept.as_ref().and_then(|kept| kept.get(uses[0].0.number)) {
                Some(bytes) => self.copy_chunk(uses, &bytes, out),
                None => missing.push(uses),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        if self.array.chunk_len() <= LARGE {
            kept = None;
        }
        let extents: Vec<Extent> = missing.iter().map(|uses| uses[0].0.stored).collect();
        for (uses, stored) in missing.into_iter().zip(self.stored(&extents)?) {
            let chunk = uses[0].0;
            let decoded = self.array.decode(chunk, &stored)?;
            self.copy_chunk(uses, &decoded, out);
            let span = self.array.span(chunk);
            let has_all = |(_, number): &Use<'_>| {
                let range = out[*number].range();
                range.start <= span.start && span.end <= range.end
            };
            if !uses.iter().any(has_all) {
                let keep = |kept: &mut RecentChunks| kept.add(chunk.number, decoded.into());
                match &mut kept {
                    Some(kept) => keep(kept),
                    None => keep(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner)),
                }
            }
        }
        Ok(())
    }

    /// Copies a decoded chunk to the targets that need it.
    fn copy_chunk(&self, uses: &[Use<'_>], decoded: &[u8], out: &mut [Target<'_>]) {
        for (chunk, number) in uses {
            let Target { offset, out } = &mut out[*number];
            self.array.copy_chunk(chunk, decoded, 0, *offset, out);
        }
    }
}

/// A chunk, and the index of a target that needs bytes of it.
type Use<'a> = (&'a Chunk, usize);

/// Memory for a range of the array.
struct Target<'a> {
    /// The offset of the range in the array.
    offset: u64,
    out: &'a mut [u8],
}

impl Target<'_> {
    fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.out.len() as u64)
    }
}

impl ByteSource for ChunkedSource {
    fn len(&self) -> u64 {
        self.array.len()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().try_for_each(|range| check_range(range, self.len()))?;
        let new = |range: &Range<u64>| vec![0; (range.end - range.start) as usize];
        let mut all: Vec<Vec<u8>> = ranges.iter().map(new).collect();
        let target = |(range, out): (&Range<u64>, _)| Target { offset: range.start, out };
        let out = all.iter_mut().map(Vec::as_mut_slice);
        self.fill(&mut ranges.iter().zip(out).map(target).collect::<Vec<_>>())?;
        Ok(all.into_iter().map(Bytes::from).collect())
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.fill(&mut [Target { offset, out }])
    }

    fn read_hints(&self) -> ReadHints {
        let hints = self.sources.iter().map(|source| source.read_hints());
        let mut hints = hints.max_by_key(|hints| hints.at_once).unwrap_or(ReadHints::MEMORY);
        hints.access = Access::Copied;
        hints
    }
}

impl RecentChunks {
    fn get(&self, number: u64) -> Option<Bytes> {
        let found = self.chunks.iter().find(|(kept, _)| *kept == number);
        found.map(|(_, bytes)| bytes.clone())
    }

    fn add(&mut self, number: u64, bytes: Bytes) {
        if self.get(number).is_some() {
            return;
        }
        self.len += bytes.len();
        self.chunks.push_back((number, bytes));
        while self.len > KEPT && self.chunks.len() > 1 {
            let first = self.chunks.pop_front();
            self.len -= first.map_or(0, |(_, bytes)| bytes.len());
        }
    }
}
