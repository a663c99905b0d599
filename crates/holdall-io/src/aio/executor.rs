//! Executing plans over asynchronous sources: reads in any order, parts decoded as they arrive.

use super::File;
use super::source::read;
use crate::buffer::Buffer;
use crate::checked::Check;
use crate::executor::{Tables, check_ranges, give_tables, too_short};
use crate::file::File as Whole;
use crate::load::LoadOptions;
use crate::work::Work;
use bytes::Bytes;
use holdall_core::codec::Checksums;
use holdall_core::read::{
    Assembly, DecodedPart, Extent, FetchPart, FetchSizing, Plan, Purpose, ReadHints, Want, distinct,
};
use holdall_core::{Component, Encoding, Error, Result};
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The number of stored bytes for which a separate decoding task is worthwhile.
const LANE: u64 = 32 << 20;
/// The least number of reads in flight.
const LEAST: usize = 4;
/// Fetches with at most this many stored and decoded bytes are decoded on the current thread, because moving them to
/// another one costs more.
const SMALL: u64 = 128 << 10;

/// The greatest length of one read of a chunked array: the whole array.
const AS_ONE: u64 = (usize::MAX / 2) as u64;

/// Runs `job` on a thread that may block.
pub(super) async fn spawn_blocking<T: Send + 'static>(
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    joined(tokio::task::spawn_blocking(job).await)
}

/// Returns the decoded bytes of each want, in order. Wants with the same result share its bytes.
pub(super) async fn load(
    file: &File,
    wants: Vec<Want>,
    options: &LoadOptions,
) -> Result<Vec<Bytes>> {
    let blocking = &file.0.file;
    let hints = blocking.sources().read_hints();
    let (mut wants, places) = distinct(wants);
    if !hints.is_remote() {
        find_tables(file, &mut wants).await?;
    }
    let is_unchecked = options.check.unwrap_or(blocking.check()) == Check::Off;
    let checksums = if is_unchecked { Checksums::Ignore } else { Checksums::Compare };
    let cut = FetchSizing { hints, align: 1, whole: u64::MAX };
    let all = carry_out(file, wants, cut, checksums, &options.work).await?;
    Ok(places.into_iter().map(|at| all[at].clone()).collect())
}

/// Returns the decoded bytes of ranges of a component, which must ascend without overlap, without checking a digest.
pub(super) async fn ranges(
    file: &File,
    tensor: usize,
    c: &Component,
    ranges: &[Range<u64>],
) -> Result<Vec<Bytes>> {
    check_ranges(c, ranges, file.0.file.limits())?;
    if c.stored.chunked().is_some() {
        // All ranges at once, so that a chunk that several of them need is decoded once.
        let (c, ranges) = (c.clone(), ranges.to_vec());
        let read = move |file: &Whole, _| {
            crate::executor::ranges(file.sources(), file.limits(), &c, &ranges)
        };
        return file.run(read).await;
    }
    let mut wants = vec![Want::new(tensor as u32, c.clone())];
    find_tables(file, &mut wants).await?;
    let is_filled = |range: &&Range<u64>| !range.is_empty();
    let filled = || ranges.iter().filter(is_filled);
    let (first, last) = (filled().map(|r| r.start).min(), filled().map(|r| r.end).max());
    let (Some(first), Some(last)) = (first, last) else {
        return Ok(vec![Bytes::new(); ranges.len()]);
    };
    // A component that can only be decoded from its start is decoded once.
    let is_one = c.encoding != Encoding::Raw && wants[0].table.is_none();
    let span = first..last;
    let asked = if is_one { std::slice::from_ref(&span) } else { ranges };
    let want = |range: &Range<u64>| wants[0].clone().with_range(range.clone());
    let wants = asked.iter().filter(is_filled).map(want).collect();
    // In order, so that nothing after the last requested byte is decoded.
    let cut = FetchSizing { hints: file.0.file.sources().read_hints(), align: 1, whole: 0 };
    let all = carry_out(file, wants, cut, Checksums::Compare, &Work::default()).await?;
    let mut received = all.iter();
    let mut part = |range: &Range<u64>| {
        let bytes = match () {
            () if range.is_empty() => Bytes::new(),
            () if is_one => {
                let at = |n: u64| ((n - first) as usize).min(all[0].len());
                all[0].slice(at(range.start)..at(range.end))
            }
            () => received.next().cloned().unwrap_or_default(),
        };
        match bytes.len() as u64 {
            found if found < range.end - range.start => Err(too_short(c, range, found)),
            _ => Ok(bytes),
        }
    };
    ranges.iter().map(&mut part).collect()
}

/// Reads the seek tables of the wants that may have one, and stores them in the wants.
async fn find_tables(file: &File, wants: &mut [Want]) -> Result<()> {
    let components: Vec<&Component> = wants.iter().map(|want| &want.component).collect();
    let mut tables = Tables::for_components(&components);
    while let Some(extents) = tables.extents() {
        let mut ends = Vec::new();
        for same in extents.chunk_by(|a, b| a.source == b.source) {
            let ranges: Vec<Range<u64>> = same.iter().map(Extent::range).collect();
            ends.append(&mut read(file.source(same[0].source), &ranges).await?);
        }
        tables.take(&components, ends);
    }
    give_tables(wants, tables.into_tables());
    Ok(())
}

/// Executes the plan of all wants, on several threads if there is much to decode.
async fn carry_out(
    file: &File,
    wants: Vec<Want>,
    cut: FetchSizing,
    checksums: Checksums,
    work: &Work,
) -> Result<Vec<Bytes>> {
    let count = wants.len();
    let at_once = cut.hints.at_once.max(LEAST);
    let permits = Arc::new(Semaphore::new(at_once));
    let mut lanes = JoinSet::new();
    for (numbers, wants) in divided(wants, work.threads()) {
        let mut cut = cut;
        if wants.iter().any(is_chunked) {
            // Reading a whole array at once decodes each chunk only once, and its memory is needed anyway.
            cut.hints.piece = AS_ONE;
        }
        let plan = Plan::new(wants, cut);
        work.begin(plan.len());
        let (file, permits, work) = (file.clone(), Arc::clone(&permits), work.clone());
        let lane = Lane { file, permits, at_once, hints: cut.hints, work };
        lanes.spawn(async move { Ok((numbers, lane.run(plan, checksums).await?)) });
    }
    let mut out = vec![Bytes::new(); count];
    while let Some(done) = lanes.join_next().await {
        let (numbers, bytes) = joined(done)?;
        numbers.into_iter().zip(bytes).for_each(|(at, bytes)| out[at] = bytes);
    }
    Ok(out)
}

/// Divides wants, with their indices and sorted by offset, into as many groups as are worth separate tasks. Wants that
/// share bytes stay together, and chunked arrays are in groups of their own.
fn divided(wants: Vec<Want>, threads: usize) -> Vec<(Vec<usize>, Vec<Want>)> {
    let total = wants.iter().fold(0u64, |n, w| n.saturating_add(w.component.stored_len()));
    let most = (total / threads.max(1) as u64).max(LANE);
    let mut all: Vec<(usize, Want)> = wants.into_iter().enumerate().collect();
    all.sort_by_key(|(at, want)| (want.component.stored, *at));
    let mut out: Vec<(Vec<usize>, Vec<Want>)> = Vec::new();
    let (mut len, mut end, mut is_last_chunked) = (0u64, (0, 0), false);
    for (at, want) in all {
        let stored = want.component.stored;
        let is_apart = (stored.source, stored.start) >= end;
        let is_other = stored.chunked().is_some() != is_last_chunked;
        is_last_chunked = stored.chunked().is_some();
        if out.is_empty() || (len >= most && is_apart) || is_other {
            out.push((Vec::new(), Vec::new()));
            len = 0;
        }
        len = len.saturating_add(stored.len());
        end = end.max((stored.source, stored.end));
        if let Some((numbers, wants)) = out.last_mut() {
            numbers.push(at);
            wants.push(want);
        }
    }
    out
}

/// Returns `true` if the want's component is an array assembled from chunks.
fn is_chunked(want: &Want) -> bool {
    want.component.stored.chunked().is_some()
}

/// A task that executes one plan. All tasks share the bound on the number of reads in flight.
struct Lane {
    file: File,
    permits: Arc<Semaphore>,
    at_once: usize,
    hints: ReadHints,
    work: Work,
}

/// The received bytes of a plan, and their destinations.
struct Filling {
    assembly: Assembly,
    /// For each want: the offset of its first requested byte, the number of requested bytes if known, and the received
    /// bytes.
    slots: Vec<(u64, Option<u64>, Slot)>,
    /// Whether all wants are ranges, so that no digests need to be checked.
    ranges: bool,
}

/// The decoded bytes of a want, as far as they were received.
enum Slot {
    Empty,
    /// All bytes, received as one piece.
    Whole(Bytes),
    /// Memory for all bytes, and the number of bytes received.
    Part(Buffer, usize),
    /// Bytes of unknown length, which arrive in order.
    Growing(Vec<u8>),
}

impl Lane {
    async fn run(self, plan: Plan, checksums: Checksums) -> Result<Vec<Bytes>> {
        let mut filling = self.filling(plan, checksums)?;
        let mut to_come = 0..filling.assembly.plan().fetches().len();
        // Fetches that have arrived but must wait for earlier ones, which are in flight.
        let mut held: Vec<usize> = Vec::new();
        let mut reads = JoinSet::new();
        loop {
            while reads.len() + held.len() < self.at_once && !to_come.is_empty() {
                let (plan, first) = (filling.assembly.plan(), to_come.start);
                to_come.start += plan.batch_len(first, &self.hints).max(1);
                let now = first..to_come.start.min(to_come.end);
                let extents: Vec<Extent> = plan.fetches()[now].iter().map(|f| f.extent).collect();
                let (file, permits) = (self.file.clone(), Arc::clone(&self.permits));
                reads.spawn(async move {
                    // Held until the bytes are processed. The semaphore is never closed.
                    let permit = permits.acquire_owned().await.ok();
                    Ok((first, fetch(file, &extents).await?, permit))
                });
            }
            let Some(done) = reads.join_next().await else { break };
            let (first, came, permit) = joined(done)?;
            for (number, bytes) in (first..).zip(came) {
                let len = bytes.len();
                filling = match filling.is_small(number) {
                    true => filling.push(number, bytes)?,
                    false => spawn_blocking(move || filling.push(number, bytes)).await?,
                };
                held.push(number);
                self.work.advance(len as u64)?;
            }
            held.retain(|at| filling.assembly.is_waiting(*at));
            drop(permit);
            if filling.ranges && filling.is_full() {
                break;
            }
        }
        filling.finish()
    }

    fn filling(&self, plan: Plan, checksums: Checksums) -> Result<Filling> {
        let file = self.file.0.file.clone();
        let limits = file.limits().clone();
        let add_context = move |want: &Want, e: Error| match file.index().at(want.tensor as usize) {
            Some(tensor) => want.in_context(e).in_tensor(tensor.name()),
            None => want.in_context(e),
        };
        let slot = |want: &Want| (want.wanted().start, len(want), Slot::Empty);
        let slots = plan.wants().iter().map(slot).collect();
        let ranges = plan.wants().iter().all(|want| want.range.is_some());
        let assembly =
            Assembly::with_context(plan, &limits, add_context)?.with_checksums(checksums);
        Ok(Filling { assembly, slots, ranges })
    }
}

impl Filling {
    /// Returns `true` if a fetch has few bytes, also when decoded.
    fn is_small(&self, number: usize) -> bool {
        let plan = self.assembly.plan();
        let fetch = &plan.fetches()[number];
        let decoded = |part: &FetchPart| match part.purpose {
            // Other fetches may be waiting for this one.
            Purpose::Next => u64::MAX,
            _ => part.decoded.end.saturating_sub(part.decoded.start),
        };
        let parts = plan.parts_of(fetch).iter();
        parts.fold(fetch.extent.len(), |n, part| n.saturating_add(decoded(part))) <= SMALL
    }

    /// Decodes the bytes of a fetch.
    fn push(mut self, number: usize, bytes: Bytes) -> Result<Filling> {
        let Filling { assembly, slots, .. } = &mut self;
        assembly.push(number, 0, bytes, |DecodedPart { want, offset, bytes }| {
            let (start, len, slot) = &mut slots[want as usize];
            slot.take(offset - *start, *len, bytes)
        })?;
        Ok(self)
    }

    /// Returns `true` if all requested bytes were received.
    fn is_full(&self) -> bool {
        self.slots.iter().all(|(_, len, slot)| *len == Some(slot.len() as u64))
    }

    /// Returns all bytes, after checking the digests.
    fn finish(self) -> Result<Vec<Bytes>> {
        if !self.ranges || !self.is_full() {
            self.assembly.finish()?;
        }
        Ok(self.slots.into_iter().map(|(_, _, slot)| slot.bytes()).collect())
    }
}

/// Returns the number of requested decoded bytes, if known.
fn len(want: &Want) -> Option<u64> {
    match &want.range {
        Some(range) => Some(range.end - range.start),
        None if want.is_plain() => Some(want.component.stored_len()),
        None => want.component.decoded_len,
    }
}

impl Slot {
    /// Stores bytes that begin at `at`, of `len` in all.
    fn take(&mut self, at: u64, len: Option<u64>, bytes: Bytes) -> Result<()> {
        if len == Some(bytes.len() as u64) {
            *self = Slot::Whole(bytes);
            return Ok(());
        }
        if let Slot::Empty = self {
            *self = match len {
                Some(len) => Slot::Part(Buffer::new(len as usize)?, 0),
                None => Slot::Growing(Vec::new()),
            };
        }
        match self {
            Slot::Part(buffer, came) => {
                buffer.as_mut()[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
                *came += bytes.len();
            }
            Slot::Growing(all) => all.extend_from_slice(&bytes),
            Slot::Empty | Slot::Whole(_) => {}
        }
        Ok(())
    }

    fn len(&self) -> usize {
        match self {
            Slot::Empty => 0,
            Slot::Whole(bytes) => bytes.len(),
            Slot::Part(_, came) => *came,
            Slot::Growing(all) => all.len(),
        }
    }

    fn bytes(self) -> Bytes {
        match self {
            Slot::Empty => Bytes::new(),
            Slot::Whole(bytes) => bytes,
            // If the component decodes to fewer bytes than requested, returns those.
            Slot::Part(buffer, came) => buffer.freeze().slice(..came),
            Slot::Growing(all) => all.into(),
        }
    }
}

/// Reads extents of one source. Stated bytes and chunked arrays are read one extent at a time.
async fn fetch(file: File, extents: &[Extent]) -> Result<Vec<Bytes>> {
    let Some(&first) = extents.first() else { return Ok(Vec::new()) };
    if first.is_stated() {
        return Ok(vec![file.0.file.sources().read(first)?]);
    }
    if first.chunked().is_some() {
        // Decoding and caching chunks is shared with the blocking executor.
        return Ok(vec![file.run(move |file, _| file.sources().read(first)).await?]);
    }
    let ranges: Vec<Range<u64>> = extents.iter().map(Extent::range).collect();
    read(file.source(first.source), &ranges).await
}

/// Returns the result of a task, or continues its panic.
fn joined<T>(done: std::result::Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    match done {
        Ok(done) => done,
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        // The runtime is shutting down.
        Err(_) => Err(crate::work::cancelled()),
    }
}
