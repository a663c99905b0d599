//! An array that is put together of chunks of other sources.

use super::{ByteSource, Terms, check_range, outside};
use bytes::Bytes;
use holdall_core::Result;
use holdall_core::read::{Access, Chunk, Chunked, Extent};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Decoded chunks that are kept for the next read, in bytes; a longer one is kept alone.
const KEPT: usize = 32 << 20;
/// Chunks of more bytes are decoded by one thread at a time, so that no two have one in memory.
const LARGE: u64 = 8 << 20;
/// Stored bytes that are asked for at once.
const BATCH: u64 = 8 << 20;

/// The decoded bytes of a [`Chunked`].
pub(crate) struct ChunkedSource {
    of: Arc<[Arc<dyn ByteSource>]>,
    array: Arc<Chunked>,
    kept: Mutex<Kept>,
}

/// Chunks of which only a part was wanted, the last at the end.
#[derive(Default)]
struct Kept {
    chunks: VecDeque<(u64, Bytes)>,
    len: usize,
}

impl ChunkedSource {
    pub(crate) fn new(of: Arc<[Arc<dyn ByteSource>]>, array: Arc<Chunked>) -> ChunkedSource {
        ChunkedSource { of, array, kept: Mutex::default() }
    }

    /// The bytes of each extent, those of one source in one call. A number that no source has stands for the first: an index is checked
    /// against its sources when they come together.
    fn stored(&self, extents: &[Extent]) -> Result<Vec<Bytes>> {
        let mut out = Vec::with_capacity(extents.len());
        for same in extents.chunk_by(|a, b| a.source == b.source) {
            let ranges: Vec<Range<u64>> = same.iter().map(Extent::range).collect();
            let source = self.of.get(same[0].source as usize).or(self.of.first());
            let Some(source) = source else { return Err(outside(&ranges[0], 0)) };
            out.append(&mut source.read(&ranges)?);
        }
        Ok(out)
    }

    /// Puts these chunks, which are one after the other, to where they belong in `out`.
    fn batch(&self, chunks: &[&Chunk], offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset + out.len() as u64;
        let (mut plain, mut others) = (Vec::new(), Vec::new());
        for chunk in chunks {
            match self.array.plain(chunk, &(offset..end)) {
                Some(part) => plain.push((*chunk, part)),
                None => others.push(*chunk),
            }
        }
        let parts: Vec<Extent> =
            plain.iter().map(|(chunk, part)| chunk.stored.part(part.clone())).collect();
        for ((chunk, part), bytes) in plain.iter().zip(self.stored(&parts)?) {
            self.array.place(chunk, &bytes, part.start, offset, out);
        }
        if others.is_empty() {
            return Ok(());
        }
        let mut kept = Some(self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let mut missing = Vec::new();
        for chunk in others {
            match kept.as_ref().and_then(|kept| kept.get(chunk.number)) {
                Some(bytes) => self.array.place(chunk, &bytes, 0, offset, out),
                None => missing.push(chunk),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        if self.array.chunk_len() <= LARGE {
            kept = None;
        }
        let extents: Vec<Extent> = missing.iter().map(|chunk| chunk.stored).collect();
        for (chunk, stored) in missing.into_iter().zip(self.stored(&extents)?) {
            let decoded = self.array.decode(chunk, &stored)?;
            self.array.place(chunk, &decoded, 0, offset, out);
            let span = self.array.span(chunk);
            if span.start < offset || span.end > end {
                let keep = |kept: &mut Kept| kept.add(chunk.number, decoded.into());
                match &mut kept {
                    Some(kept) => keep(kept),
                    None => keep(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner)),
                }
            }
        }
        Ok(())
    }
}

impl ByteSource for ChunkedSource {
    fn len(&self) -> u64 {
        self.array.len()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = |range: &Range<u64>| {
            check_range(range, self.len())?;
            let mut out = vec![0; (range.end - range.start) as usize];
            self.read_into(range.start, &mut out)?;
            Ok(Bytes::from(out))
        };
        ranges.iter().map(read).collect()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(out.len() as u64);
        check_range(&range, self.len())?;
        self.array.clear(offset, out);
        let mut chunks = self.array.covering(range).peekable();
        while chunks.peek().is_some() {
            let (mut batch, mut len) = (Vec::new(), 0);
            while let Some(chunk) = chunks.next_if(|_| len < BATCH) {
                len += chunk.stored.len();
                batch.push(chunk);
            }
            self.batch(&batch, offset, out)?;
        }
        Ok(())
    }

    fn terms(&self) -> Terms {
        let terms = self.of.iter().map(|source| source.terms());
        let mut terms = terms.max_by_key(|terms| terms.at_once).unwrap_or(Terms::MEMORY);
        terms.access = Access::Copied;
        terms
    }
}

impl Kept {
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
