//! Reading a component's decoded bytes from the first to the last, in bounded memory.

use crate::buffer::Buffer;
use crate::executor::{Sources, table_of};
use crate::workers;
use bytes::Bytes;
use holdall_core::codec::{Frame, SeekTable};
use holdall_core::model::Hasher;
use holdall_core::read::{
    Access, ComponentDecoder, Decoded, Digests, PIECE_LEN, PartDecoder, Want, check_digest,
};
use holdall_core::{Algorithm, Component, Encoding, Error, Limits, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The number of stored bytes read at a time from a compressed component.
const FETCH_LEN: u64 = 1 << 20;
/// The number of decoded bytes of frames that are decoded at the same time.
const WINDOW_LEN: u64 = 16 << 20;

/// The decoded bytes of one component, in order: pieces of up to 4 MiB, each a whole number of elements except
/// perhaps the last. Memory use is a piece or two plus the codec's window; for a component with many frames, which are
/// decoded on all cores, 16 MiB of decoded bytes; for a remote source as many of its reads as are in flight at once.
///
/// After an error there are no more pieces. If the digest differs, the error comes after the last piece, so the bytes
/// can only be trusted once the iterator has ended without an error.
pub struct Pieces {
    sources: Sources,
    limits: Limits,
    context: ErrorContext,
    component: Component,
    way: Decoding,
    /// The number of stored bytes fetched so far.
    fetched: u64,
    /// Stored bytes that were fetched and are not decoded yet.
    waiting: VecDeque<Bytes>,
    /// The requested range of decoded bytes. The next piece starts at `at`.
    range: Range<u64>,
    at: u64,
    done: bool,
}

/// The way a component is decoded.
enum Decoding {
    /// A stream that is decoded from the start.
    Stream(Box<ComponentDecoder>),
    /// By frames, many at once.
    Frames(Box<Frames>),
}

struct Frames {
    table: Arc<SeekTable>,
    /// The number of frames that are decoded.
    done: usize,
    hasher: Option<Hasher>,
    ready: VecDeque<Bytes>,
}

/// The tensor and the file that errors name. The default names none.
#[derive(Debug, Clone, Default)]
pub struct ErrorContext(Option<(String, String)>);

impl ErrorContext {
    /// Creates the context for errors about this tensor of this file.
    pub fn new(tensor: impl Into<String>, file: impl Into<String>) -> ErrorContext {
        ErrorContext(Some((tensor.into(), file.into())))
    }

    #[cold]
    fn add_to(&self, e: Error, c: &Component) -> Error {
        match &self.0 {
            Some((tensor, file)) => {
                e.in_tensor(tensor).in_component(&c.role).at(c.stored.range()).in_source(file)
            }
            None => e,
        }
    }
}

impl Pieces {
    /// Returns the pieces of a component, checked against the digest of this algorithm if given.
    ///
    /// # Errors
    /// Returns an `Io` error if the table of its frames cannot be read; a `Limit` error if it decodes to more bytes than allowed.
    pub fn new(
        sources: Sources,
        limits: Limits,
        context: ErrorContext,
        component: Component,
        digest: Option<Algorithm>,
    ) -> Result<Pieces> {
        // Over a network the frames arrive one after the other anyway.
        let table = match sources.read_hints().is_remote() {
            true => None,
            // A CRC-32 of the decoded bytes must be computed in order.
            false if component.decoded_crc().is_some() => None,
            false => table_of(&sources, &component).map_err(|e| context.add_to(e, &component))?,
        };
        Pieces::with_table(sources, limits, context, component, digest, table)
    }

    /// Returns the pieces of a component whose seek table, if any, was already read.
    pub fn with_table(
        sources: Sources,
        limits: Limits,
        context: ErrorContext,
        component: Component,
        digest: Option<Algorithm>,
        table: Option<SeekTable>,
    ) -> Result<Pieces> {
        let decoder = ComponentDecoder::new(&component, Digests::from(digest), &limits)
            .map_err(|e| context.add_to(e, &component))?;
        // The stream decoder computes digests of decoded bytes.
        let way = match table.filter(|_| !digest.is_some_and(Algorithm::covers_decoded_bytes)) {
            Some(table) => Decoding::Frames(Box::new(Frames {
                table: Arc::new(table),
                done: 0,
                hasher: digest.map(Hasher::new),
                ready: VecDeque::new(),
            })),
            None => Decoding::Stream(Box::new(decoder)),
        };
        let (fetched, waiting) = (0, VecDeque::new());
        let (range, at, done) = (0..u64::MAX, 0, false);
        Ok(Pieces { sources, limits, context, component, way, fetched, waiting, range, at, done })
    }

    /// Returns the pieces of the decoded bytes `range`, without checking a digest. Of a raw component only those bytes
    /// are read, with a seek table only the frames that contain them, otherwise everything from the start.
    ///
    /// # Errors
    /// Returns the same errors as [`Pieces::new`].
    pub(crate) fn for_range(
        sources: &Sources,
        limits: &Limits,
        context: ErrorContext,
        c: Component,
        range: Range<u64>,
    ) -> Result<Pieces> {
        let (own_sources, own_limits) = (sources.clone(), limits.clone());
        let is_plain = Want::new(0, c.clone()).is_plain();
        if is_plain {
            let stored = c.stored.part(range);
            let decoded_len = Some(stored.len());
            let part = Component { stored, decoded_len, ..c };
            return Pieces::new(own_sources, own_limits, context, part, None);
        }
        let table = table_of(sources, &c).map_err(|e| context.add_to(e, &c))?;
        let mut pieces = Pieces::with_table(own_sources, own_limits, context, c, None, table)?;
        if let Decoding::Frames(frames) = &mut pieces.way {
            let all = frames.table.frames();
            frames.done = all.partition_point(|f| f.decoded.end <= range.start);
            pieces.at = all.get(frames.done).map_or(range.end, |f| f.decoded.start);
        }
        pieces.range = range;
        Ok(pieces)
    }

    /// Returns the next piece, cut to the requested range.
    fn wanted(&mut self) -> Result<Option<Bytes>> {
        while self.at < self.range.end {
            let Some(piece) = self.piece()? else { return Ok(None) };
            let (start, end) = (self.at, self.at + piece.len() as u64);
            self.at = end;
            let from = self.range.start.clamp(start, end);
            let upto = self.range.end.clamp(from, end);
            if from < upto {
                return Ok(Some(piece.slice((from - start) as usize..(upto - start) as usize)));
            }
        }
        Ok(None)
    }

    /// Returns the component whose bytes these are.
    pub fn component(&self) -> &Component {
        &self.component
    }

    fn piece(&mut self) -> Result<Option<Bytes>> {
        if let Decoding::Frames(_) = &self.way {
            return self.next_frame_piece();
        }
        loop {
            let Decoding::Stream(decoder) = &mut self.way else { return Ok(None) };
            match decoder.next()? {
                Decoded::Piece(bytes) => return Ok(Some(bytes)),
                Decoded::End => return Ok(None),
                Decoded::Need => {
                    let bytes = self.stored()?;
                    if let Decoding::Stream(decoder) = &mut self.way {
                        decoder.push(bytes);
                    }
                }
            }
        }
    }

    /// Returns the next stored bytes; empty at the end.
    fn stored(&mut self) -> Result<Bytes> {
        if let Some(bytes) = self.waiting.pop_front() {
            return Ok(bytes);
        }
        let hints = self.sources.read_hints();
        let step = match (self.component.encoding, hints.access) {
            _ if hints.is_remote() => hints.piece,
            (Encoding::Raw, _) => PIECE_LEN as u64,
            _ => FETCH_LEN,
        };
        let mut extents = Vec::new();
        for _ in 0..hints.in_order() {
            let next = self.component.stored.part(self.fetched..self.fetched.saturating_add(step));
            if !next.is_empty() {
                self.fetched += next.len();
                extents.push(next);
            }
        }
        if extents.is_empty() {
            return Ok(Bytes::new());
        }
        if hints.access == Access::Borrowed
            && let Some(local) = self.sources.at(self.component.stored.source).local()
            && self.component.encoding != Encoding::Raw
        {
            extents.iter().for_each(|extent| local.populate(extent.range()));
        }
        self.waiting = self.sources.read_all(&extents)?.into();
        Ok(self.waiting.pop_front().unwrap_or_default())
    }

    /// Returns the next decoded bytes of a component with a seek table.
    fn next_frame_piece(&mut self) -> Result<Option<Bytes>> {
        let Decoding::Frames(frames) = &mut self.way else { return Ok(None) };
        if let Some(bytes) = frames.ready.pop_front() {
            return Ok(Some(bytes));
        }
        let rest = &frames.table.frames()[frames.done..];
        let Some(first) = rest.first() else {
            self.end_of_frames()?;
            return Ok(None);
        };
        let limit = first.decoded.start.saturating_add(WINDOW_LEN);
        let count = rest.partition_point(|f| f.decoded.end <= limit).max(1);
        let window = &rest[..count];
        let last = window.last().unwrap_or(first);
        let extent = self.component.stored.part(first.stored.start..last.stored.end);
        if let Some(local) = self.sources.at(extent.source).local() {
            local.populate(extent.range());
        }
        let stored = self.sources.read(extent)?;
        if let Some(hasher) = &mut frames.hasher {
            hasher.update(&stored);
        }
        let mut out = Buffer::new((last.decoded.end - first.decoded.start) as usize)?;
        let want = Want::new(0, self.component.clone());
        decode(&self.limits, &want, window, &stored, out.as_mut())?;
        let out = out.freeze();
        frames.ready = (0..out.len())
            .step_by(PIECE_LEN)
            .map(|at| out.slice(at..out.len().min(at + PIECE_LEN)))
            .collect();
        frames.done += count;
        Ok(frames.ready.pop_front())
    }

    /// Checks the digest at the end. The seek table is part of the stored bytes, and so of their digest.
    fn end_of_frames(&mut self) -> Result<()> {
        let Decoding::Frames(frames) = &mut self.way else { return Ok(()) };
        let Some(mut hasher) = frames.hasher.take() else { return Ok(()) };
        let end = frames.table.frames().last().map_or(0, |f| f.stored.end);
        let rest = self.component.stored.part(end..self.component.stored.len());
        hasher.update(&self.sources.read(rest)?);
        check_digest(&self.component, &hasher.finish())
    }

    fn name(&self, e: Error) -> Error {
        self.context.add_to(e, &self.component)
    }
}

/// Decodes frames on all cores. `stored` and `out` both begin with the first frame.
fn decode(
    limits: &Limits,
    want: &Want,
    frames: &[Frame],
    stored: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let start = frames.first().map_or(0, |f| f.stored.start);
    let mut jobs = Vec::new();
    let mut rest = out;
    for frame in frames {
        let (own, tail) = rest.split_at_mut((frame.decoded.end - frame.decoded.start) as usize);
        rest = tail;
        let Range { start: from, end: upto } = frame.stored;
        jobs.push((&stored[(from - start) as usize..(upto - start) as usize], own));
    }
    let decoder = || PartDecoder::new(limits);
    workers::for_each(workers::threads(None), jobs, decoder, |decoder, (stored, out)| {
        decoder.decode(want, stored, out)
    })
}

impl Iterator for Pieces {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        if self.done {
            return None;
        }
        match self.wanted() {
            Ok(Some(piece)) => Some(Ok(piece)),
            Ok(None) => {
                self.done = true;
                None
            }
            Err(e) => {
                self.done = true;
                Some(Err(self.name(e)))
            }
        }
    }
}

/// The stored bytes of a component, which are also decoded to check that they can be. For copying compressed bytes
/// without re-encoding them: damage that no digest covers would be copied unnoticed. Each item is a chunk of stored
/// bytes and the number of bytes that were decoded from it. As with [`Pieces`], an error ends the iteration.
pub(crate) struct StoredPieces(Pieces);

impl StoredPieces {
    pub(crate) fn new(
        sources: Sources,
        limits: Limits,
        context: ErrorContext,
        component: Component,
        digest: Option<Algorithm>,
    ) -> Result<StoredPieces> {
        Pieces::with_table(sources, limits, context, component, digest, None).map(StoredPieces)
    }

    fn run(&mut self) -> Result<Option<(Bytes, u64)>> {
        let stored = self.0.stored()?;
        let Decoding::Stream(decoder) = &mut self.0.way else { return Ok(None) };
        decoder.push(stored.clone());
        let mut decoded = 0;
        loop {
            match decoder.next()? {
                Decoded::Piece(bytes) => decoded += bytes.len() as u64,
                Decoded::End if stored.is_empty() => return Ok(None),
                Decoded::Need | Decoded::End => return Ok(Some((stored, decoded))),
            }
        }
    }
}

impl Iterator for StoredPieces {
    type Item = Result<(Bytes, u64)>;

    fn next(&mut self) -> Option<Result<(Bytes, u64)>> {
        if self.0.done {
            return None;
        }
        let next = self.run();
        self.0.done = !matches!(next, Ok(Some(_)));
        next.map_err(|e| self.0.name(e)).transpose()
    }
}
