//! The checks of stored and decoded bytes: digests, compressed data, bool bytes.
//!
//! Components of the same stored bytes are one *unit*, checked once. Small units that lie near each
//! other are one job; big ones are cut into jobs of about 2 MiB, except for what must be done in one
//! go (SHA-256, a zstd frame of any length), and that is begun first.

use super::{Reason, State, VerifyOptions, VerifyReport};
use crate::file::{File, Tensor};
use crate::pieces::{Pieces, check_digest, seek_table};
use crate::source::Access;
use holdall_core::codec::zstd::{self, Frame, SeekTable};
use holdall_core::codec::{Decoder, length_rule};
use holdall_core::error::Shown as _;
use holdall_core::layout::BOOL_BYTE;
use holdall_core::model::{Hasher, crc32c, crc32c_combine};
use holdall_core::{
    Algorithm, Component, DType, Digest, Encoding, Error, Layout, LogicalType, Result, TensorInfo,
};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Bytes in one job: few enough that a second look at them finds them in the processor's cache.
const JOB_LEN: u64 = 2 << 20;
/// Units up to this many bytes, stored and decoded, are checked whole in one job.
const SMALL: u64 = 256 << 10;
/// Small units in one job.
const MAX_BATCH: usize = 512;
/// Bytes between two small units of one job.
const MERGE_GAP: u64 = 16 << 10;
/// The longest frame that is decoded in one go.
const MAX_FRAME: u64 = 16 << 20;

/// A component and the number of the tensor it is of.
struct Member {
    tensor: usize,
    component: Component,
    /// Whether its bytes are bools and nothing else. A packed sparse tensor has indices among them.
    bools: bool,
}

/// Components of the same stored bytes, and what is to be found out about those.
struct Unit {
    stored: Range<u64>,
    /// Places in the list of members.
    members: Range<usize>,
    crc: bool,
    sha: bool,
    /// Whether the bytes as they are stored are those of a bool component.
    stored_bool: bool,
    /// The compressed member that says most: the first that tells what it decodes to, or the first.
    compressed: Option<usize>,
    /// Whether what it decodes to is that of a bool component.
    decoded_bool: bool,
}

/// What was found out about a unit.
#[derive(Default)]
struct Found {
    /// CRC-32C of stretches of the stored bytes: start (relative), length, value.
    sums: Vec<(u64, u64, u32)>,
    sha: Option<Digest>,
    /// The first bytes that are not bool: offset in the stored or decoded bytes, value.
    stored_bool: Option<(u64, u8)>,
    decoded_bool: Option<(u64, u8)>,
    /// The first thing wrong with the compressed data, and where (relative) it was found.
    decode: Option<(u64, Error)>,
    /// Stored bytes that finding this out takes, each counted once.
    read: u64,
}

enum Job {
    /// Everything about these small units.
    Batch(Range<usize>),
    /// CRC-32C and bool bytes of a stretch of a unit's stored bytes.
    Piece { slot: usize, range: Range<u64> },
    /// SHA-256 of a unit's stored bytes.
    Sha { slot: usize },
    /// Decoding these frames of a seekable unit, by number.
    Frames { slot: usize, frames: Range<usize> },
    /// Decoding a unit from start to end.
    Stream { slot: usize },
}

/// What a thread keeps between jobs.
struct Kept {
    decoder: Decoder,
    stored: Vec<u8>,
    decoded: Vec<u8>,
}

/// A unit that is more than one job.
struct Big {
    unit: usize,
    /// Of a unit whose frames are decoded one by one.
    table: Option<SeekTable>,
    /// What was found out so far.
    found: Mutex<Found>,
}

struct Context<'a> {
    file: &'a File,
    options: &'a VerifyOptions,
    state: &'a State,
    members: Vec<Member>,
    units: Vec<Unit>,
    big: Vec<Big>,
    done: Mutex<VerifyReport>,
}

/// Checks the bytes of all components of `tensors`.
pub(super) fn check(
    file: &File,
    tensors: &[Tensor],
    options: &VerifyOptions,
    state: &State,
    report: &mut VerifyReport,
) -> Result<()> {
    let mut members: Vec<Member> = Vec::new();
    for tensor in tensors {
        let at = tensor.position();
        let packed = matches!(tensor.layout(), Layout::PackedCsr | Layout::PackedCoo);
        members.extend(tensor.components().map(|component| {
            let bools = !packed && is_bool(&component);
            Member { tensor: at, component, bools }
        }));
    }
    report.components = members.len() as u64;
    for m in &members {
        note_unverified(file, m, state);
    }
    // In file order, so that a disk is read forwards.
    members.sort_by_key(|m| (m.component.stored.start, m.component.stored.end, m.tensor));
    let units = units(&members);
    report.stored_len = units.iter().map(|u| u.stored.end - u.stored.start).sum();
    let done = Mutex::default();
    let mut context = Context { file, options, state, members, units, big: Vec::new(), done };
    let jobs = context.cut()?;
    options.work.begin(jobs.iter().map(|job| context.cost(job)).sum());
    let kept =
        || Kept { decoder: Decoder::new(file.limits()), stored: Vec::new(), decoded: Vec::new() };
    options.work.for_each(jobs, kept, |kept, job| context.run(kept, job))?;
    let mut last = VerifyReport::default();
    for big in std::mem::take(&mut context.big) {
        let found = big.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        last.read_len += found.read;
        context.judge(&context.units[big.unit], found, &mut last)?;
    }
    report.add(last);
    report.add(context.done.into_inner().unwrap_or_else(PoisonError::into_inner));
    Ok(())
}

fn note_unverified(file: &File, m: &Member, state: &State) {
    let c = &m.component;
    let unknown_type = match &c.logical_type {
        Some(LogicalType::Other(name)) => Some(name),
        _ => None,
    };
    let unknown_digest = match &c.digest {
        Some(Digest::Other(text)) => Some(text),
        _ => None,
    };
    if c.digest.is_some() && unknown_type.is_none() && unknown_digest.is_none() {
        return;
    }
    let tensor = file.index().at(m.tensor);
    let name = tensor.as_ref().map_or("", TensorInfo::name);
    let skip = |reason, message: &dyn Fn() -> String| {
        state.skip(m.tensor, reason, name, Some(c.role.as_str()), message);
    };
    if c.digest.is_none() {
        skip(Reason::NoDigest, &|| "the file has no digest for it".to_owned());
    }
    if let Some(text) = unknown_digest {
        let algorithm = text.split(':').next().unwrap_or_default().shown();
        skip(Reason::UnknownDigest, &|| {
            format!("this version cannot compute digests of the kind `{algorithm}`")
        });
    }
    if let Some(name) = unknown_type {
        let name = name.shown();
        skip(Reason::UnknownLogicalType, &|| {
            format!("logical type `{name}` is not known; its length says nothing about the shape")
        });
    }
}

/// Puts members of equal stored bytes together. They come sorted by those.
fn units(members: &[Member]) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut start = 0;
    for same in members.chunk_by(|a, b| a.component.stored == b.component.stored) {
        let end = start + same.len();
        let any = |test: &dyn Fn(&Component) -> bool| same.iter().any(|m| test(&m.component));
        let has =
            |a: Algorithm| any(&|c| c.digest.as_ref().is_some_and(|d| d.algorithm() == Some(a)));
        let first =
            |test: &dyn Fn(&Component) -> bool| same.iter().position(|m| test(&m.component));
        let of_known_len = first(&|c| is_compressed(c) && c.decoded_len.is_some());
        units.push(Unit {
            stored: same[0].component.stored.clone(),
            members: start..end,
            crc: has(Algorithm::Crc32c),
            sha: has(Algorithm::Sha256),
            stored_bool: same.iter().any(|m| m.bools && m.component.encoding == Encoding::Raw),
            compressed: of_known_len.or_else(|| first(&is_compressed)).map(|at| start + at),
            decoded_bool: same.iter().any(|m| m.bools && is_compressed(&m.component)),
        });
        start = end;
    }
    units
}

fn is_bool(c: &Component) -> bool {
    c.dtype == DType::Bool && c.logical_type.is_none()
}

fn is_compressed(c: &Component) -> bool {
    c.encoding != Encoding::Raw
}

impl Context<'_> {
    /// Cuts all units into jobs: what cannot be cut first, the longest before the others, then
    /// everything else in file order.
    fn cut(&mut self) -> Result<Vec<Job>> {
        let (mut whole, mut jobs): (Vec<Job>, Vec<Job>) = (Vec::new(), Vec::new());
        for at in 0..self.units.len() {
            let unit = &self.units[at];
            let len = unit.stored.end - unit.stored.start;
            if !(unit.crc || unit.sha || unit.stored_bool || unit.compressed.is_some()) {
                continue;
            }
            if self.is_small(unit) {
                match jobs.last_mut() {
                    Some(Job::Batch(batch)) if self.joins(batch, at) => batch.end = at + 1,
                    _ => jobs.push(Job::Batch(at..at + 1)),
                }
                continue;
            }
            let slot = self.big.len();
            if unit.sha {
                whole.push(Job::Sha { slot });
            }
            let (mut table, mut refused) = (None, None);
            if let Some(first) = unit.compressed {
                let c = &self.members[first].component;
                let short = |f: &Frame| f.decoded.end - f.decoded.start <= MAX_FRAME;
                // Frames are short of a limit that all of them together may be over.
                let checked = c.decoded_len.map_or(Ok(()), |decoded| {
                    zstd::check_decoded_len(decoded, len, self.file.limits())
                });
                match checked {
                    Ok(()) => {
                        table = seek_table(self.file, c)?.filter(|t| t.frames().iter().all(short))
                    }
                    Err(e) => refused = Some((0, e)),
                }
                match &table {
                    Some(t) => {
                        jobs.extend(groups(t.frames()).map(|frames| Job::Frames { slot, frames }))
                    }
                    None if refused.is_none() => whole.push(Job::Stream { slot }),
                    None => {}
                }
            }
            // What follows the frames, the table itself, belongs to the digest too. Bytes that are
            // also those of a raw bool component are summed in pieces of their own.
            let frames_end = table.as_ref().and_then(|t| t.frames().last()).map(|f| f.stored.end);
            let summed = frames_end.filter(|_| !unit.stored_bool).unwrap_or(0);
            if unit.crc || unit.stored_bool {
                let starts = (summed..len).step_by(JOB_LEN as usize);
                jobs.extend(
                    starts.map(|start| Job::Piece { slot, range: start..len.min(start + JOB_LEN) }),
                );
            }
            // All of the bytes are read for a digest or for bools, else those of the frames.
            let read = if unit.crc || unit.sha || unit.stored_bool { len } else { 0 };
            let read = read.max(frames_end.unwrap_or(0));
            let found = Mutex::new(Found { decode: refused, read, ..Found::default() });
            self.big.push(Big { unit: at, table, found });
        }
        whole.sort_by_key(|job| std::cmp::Reverse(self.cost(job)));
        whole.append(&mut jobs);
        Ok(whole)
    }

    fn is_small(&self, unit: &Unit) -> bool {
        let decoded = match unit.compressed {
            Some(first) => self.members[first].component.decoded_len.unwrap_or(u64::MAX),
            None => 0,
        };
        unit.stored.end - unit.stored.start <= SMALL && decoded <= SMALL
    }

    /// Whether a small unit goes into the same job as those before it.
    fn joins(&self, batch: &Range<usize>, at: usize) -> bool {
        let (first, last) = (&self.units[batch.start].stored, &self.units[batch.end - 1].stored);
        let new = &self.units[at].stored;
        batch.end == at
            && batch.len() < MAX_BATCH
            && new.start.saturating_sub(last.end) <= MERGE_GAP
            && new.end - first.start <= JOB_LEN / 2
    }

    /// Bytes that a job reads.
    fn cost(&self, job: &Job) -> u64 {
        let len = |range: &Range<u64>| range.end - range.start;
        match job {
            Job::Batch(units) => self.units[units.clone()].iter().map(|u| len(&u.stored)).sum(),
            Job::Piece { range, .. } => len(range),
            Job::Sha { slot } | Job::Stream { slot } => len(&self.unit(*slot).stored),
            Job::Frames { slot, frames } => len(&self.frames_of(*slot, frames).1),
        }
    }

    fn unit(&self, slot: usize) -> &Unit {
        &self.units[self.big[slot].unit]
    }

    /// These frames of a seekable unit, and their stored bytes relative to it.
    fn frames_of(&self, slot: usize, frames: &Range<usize>) -> (&[Frame], Range<u64>) {
        let all = self.big[slot].table.as_ref().map_or(&[][..], |t| t.frames());
        let some = all.get(frames.clone()).unwrap_or(&[]);
        match (some.first(), some.last()) {
            (Some(first), Some(last)) => (some, first.stored.start..last.stored.end),
            _ => (some, 0..0),
        }
    }

    fn run(&self, kept: &mut Kept, job: Job) -> Result<()> {
        let cost = self.cost(&job);
        match job {
            Job::Batch(units) => self.batch(kept, units)?,
            Job::Piece { slot, range } => self.piece(kept, slot, range)?,
            Job::Sha { slot } => self.sha(kept, slot)?,
            Job::Frames { slot, frames } => self.frames(kept, slot, frames)?,
            Job::Stream { slot } => self.stream(slot)?,
        }
        self.options.work.advance(cost)
    }

    /// Hands the stored bytes `range` of the file to `work`, from where they lie or read into
    /// `memory`.
    fn with_bytes<T>(
        &self,
        range: Range<u64>,
        memory: &mut Vec<u8>,
        work: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let source = self.file.source();
        if source.access() == Access::Borrowed {
            source.expect(range.clone());
            return source.read_range(range).map(|bytes| work(&bytes));
        }
        memory.resize((range.end - range.start) as usize, 0);
        source.read_into(range.start, memory)?;
        Ok(work(memory))
    }

    fn batch(&self, kept: &mut Kept, range: Range<usize>) -> Result<()> {
        let units = &self.units[range];
        let Some(first) = units.first() else { return Ok(()) };
        // An empty component may lie inside another, so the last need not end last.
        let end = units.iter().map(|u| u.stored.end).max().unwrap_or(first.stored.start);
        let span = first.stored.start..end;
        let Kept { decoder, stored, decoded } = kept;
        let read_len = units.iter().map(|u| u.stored.end - u.stored.start).sum();
        let mut counts = VerifyReport { read_len, ..VerifyReport::default() };
        self.with_bytes(span.clone(), stored, |bytes| {
            for unit in units {
                let from = (unit.stored.start - span.start) as usize;
                let to = (unit.stored.end - span.start) as usize;
                let found = self.small(unit, &bytes[from..to], decoder, decoded);
                self.judge(unit, found, &mut counts)?;
            }
            Ok(())
        })??;
        self.done.lock().unwrap_or_else(PoisonError::into_inner).add(counts);
        Ok(())
    }

    /// Finds out everything about a small unit.
    fn small(&self, unit: &Unit, bytes: &[u8], decoder: &mut Decoder, out: &mut Vec<u8>) -> Found {
        let mut found = Found::default();
        if unit.crc {
            found.sums.push((0, bytes.len() as u64, crc32c(bytes)));
        }
        if unit.sha {
            let mut hasher = Hasher::new(Algorithm::Sha256);
            hasher.update(bytes);
            found.sha = Some(hasher.finish());
        }
        if unit.stored_bool {
            found.stored_bool = not_bool(bytes, 0);
        }
        if let Some(first) = unit.compressed {
            let c = &self.members[first].component;
            let len = c.decoded_len.unwrap_or(0);
            let checked = zstd::check_decoded_len(len, bytes.len() as u64, self.file.limits());
            let decoded = checked.and_then(|()| {
                out.resize(len as usize, 0);
                decoder.decode_into(c.encoding, bytes, out)
            });
            match decoded {
                Err(e) => found.decode = Some((0, e)),
                Ok(()) if unit.decoded_bool => found.decoded_bool = not_bool(out, 0),
                Ok(()) => {}
            }
        }
        found
    }

    fn piece(&self, kept: &mut Kept, slot: usize, range: Range<u64>) -> Result<()> {
        let unit = self.unit(slot);
        let absolute = unit.stored.start + range.start..unit.stored.start + range.end;
        let (crc, bad) = self.with_bytes(absolute, &mut kept.stored, |bytes| {
            let bad = if unit.stored_bool { not_bool(bytes, range.start) } else { None };
            (unit.crc.then(|| crc32c(bytes)), bad)
        })?;
        self.found(slot, |found| {
            found.sums.extend(crc.map(|crc| (range.start, range.end - range.start, crc)));
            first_of(&mut found.stored_bool, bad);
        });
        Ok(())
    }

    fn sha(&self, kept: &mut Kept, slot: usize) -> Result<()> {
        let stored = self.unit(slot).stored.clone();
        let mut hasher = Hasher::new(Algorithm::Sha256);
        for start in stored.clone().step_by(JOB_LEN as usize) {
            let range = start..stored.end.min(start + JOB_LEN);
            self.with_bytes(range, &mut kept.stored, |bytes| hasher.update(bytes))?;
        }
        self.found(slot, |found| found.sha = Some(hasher.finish()));
        Ok(())
    }

    fn frames(&self, kept: &mut Kept, slot: usize, frames: Range<usize>) -> Result<()> {
        let unit = self.unit(slot);
        let (frames, stored) = self.frames_of(slot, &frames);
        let absolute = unit.stored.start + stored.start..unit.stored.start + stored.end;
        let Kept { decoder, stored: memory, decoded: out } = kept;
        let sums = unit.crc && !unit.stored_bool;
        let (mut bad, mut broken) = (None, None);
        let crc = self.with_bytes(absolute, memory, |bytes| {
            for frame in frames {
                let from = (frame.stored.start - stored.start) as usize;
                let to = (frame.stored.end - stored.start) as usize;
                out.resize((frame.decoded.end - frame.decoded.start) as usize, 0);
                // Only zstd has frames.
                match decoder.decode_into(Encoding::Zstd, &bytes[from..to], out) {
                    Err(e) => first_of(&mut broken, Some((frame.stored.start, e))),
                    Ok(()) if unit.decoded_bool => {
                        first_of(&mut bad, not_bool(out, frame.decoded.start));
                    }
                    Ok(()) => {}
                }
            }
            sums.then(|| crc32c(bytes))
        })?;
        self.found(slot, |found| {
            found.sums.extend(crc.map(|crc| (stored.start, stored.end - stored.start, crc)));
            first_of(&mut found.decoded_bool, bad);
            first_of(&mut found.decode, broken);
        });
        Ok(())
    }

    fn stream(&self, slot: usize) -> Result<()> {
        let unit = self.unit(slot);
        let Some(first) = unit.compressed.map(|at| &self.members[at]) else { return Ok(()) };
        let Some(tensor) = self.file.index().at(first.tensor) else { return Ok(()) };
        let mut at = 0;
        let mut bad = None;
        let mut broken = None;
        let mut pieces = Pieces::hashed(self.file, &tensor, first.component.clone(), None);
        for piece in pieces.by_ref() {
            match piece {
                Err(e) if e.kind() == holdall_core::Kind::Io => return Err(e),
                Err(e) => broken = Some((at, e)),
                Ok(piece) => {
                    if unit.decoded_bool && bad.is_none() {
                        bad = not_bool(&piece, at);
                    }
                    at += piece.len() as u64;
                }
            }
        }
        self.found(slot, |found| {
            found.read = found.read.max(pieces.fetched());
            first_of(&mut found.decoded_bool, bad);
            first_of(&mut found.decode, broken);
        });
        Ok(())
    }

    fn found(&self, slot: usize, add: impl FnOnce(&mut Found)) {
        add(&mut self.big[slot].found.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Holds what was found out about a unit against what each member says.
    fn judge(&self, unit: &Unit, mut found: Found, counts: &mut VerifyReport) -> Result<()> {
        found.sums.sort_unstable();
        let joined = found.sums.iter().map(|&(_, len, crc)| (crc, len));
        let joined = joined.reduce(|(a, n), (b, len)| (crc32c_combine(a, b, len), n + len));
        let crc = joined.map(|(crc, _)| Digest::Crc32c(crc));
        let decoded_len =
            unit.compressed.and_then(|first| self.members[first].component.decoded_len);
        for (order, m) in self.members[unit.members.clone()].iter().enumerate() {
            let c = &m.component;
            let order = c.stored.start.saturating_add(order as u64);
            let fault = |e: Error| {
                let e = match self.file.index().at(m.tensor) {
                    Some(tensor) => e.in_tensor(tensor.name()),
                    None => e,
                };
                let e = e.in_component(&c.role).at(c.stored.clone());
                self.state.find(m.tensor, order, e)
            };
            let algorithm = c.digest.as_ref().and_then(Digest::algorithm);
            let digest = match algorithm {
                Some(Algorithm::Crc32c) => crc.clone(),
                Some(_) => found.sha.clone(),
                None => None,
            };
            if let (Some(algorithm), Some(digest)) = (algorithm, digest) {
                match check_digest(c, digest) {
                    Ok(()) => counts.count_digest(algorithm, 1),
                    Err(e) => {
                        // Whatever else is wrong with these bytes follows from it.
                        fault(e)?;
                        continue;
                    }
                }
            }
            let mut bad = found.stored_bool;
            if is_compressed(c) {
                bad = found.decoded_bool;
                if let Some((_, e)) = &found.decode {
                    // The error may name another tensor of the same bytes.
                    fault(e.rule().broken(e.message().to_owned()))?;
                    continue;
                }
                if let (Some(own), Some(other)) = (c.decoded_len, decoded_len)
                    && own != other
                {
                    fault(length_rule(c.encoding).broken(format!(
                        "declares {own} decoded bytes, another component of the same bytes {other}"
                    )))?;
                    continue;
                }
                counts.decoded += 1;
            }
            if m.bools {
                match bad {
                    Some((at, value)) => fault(
                        BOOL_BYTE.broken(format!("element {at} is {value}; a bool is 0 or 1")),
                    )?,
                    None => counts.bools += 1,
                }
            }
        }
        Ok(())
    }
}

/// Keeps whichever lies first.
fn first_of<T>(kept: &mut Option<(u64, T)>, new: Option<(u64, T)>) {
    if let Some(new) = new
        && kept.as_ref().is_none_or(|old| new.0 < old.0)
    {
        *kept = Some(new);
    }
}

/// The first byte that is neither 0 nor 1, if there is one. The bytes start at `start` of all.
fn not_bool(bytes: &[u8], start: u64) -> Option<(u64, u8)> {
    for (i, chunk) in bytes.chunks(4096).enumerate() {
        if chunk.iter().fold(0, |all, b| all | b) > 1 {
            let at = chunk.iter().position(|&b| b > 1)?;
            return Some((start + (i * 4096 + at) as u64, chunk[at]));
        }
    }
    None
}

/// Runs of frames that decode to about [`JOB_LEN`] bytes, by number.
fn groups(frames: &[Frame]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut start = 0;
    std::iter::from_fn(move || {
        let limit = frames.get(start)?.decoded.start.saturating_add(JOB_LEN);
        let end = frames.partition_point(|f| f.decoded.end <= limit).max(start + 1);
        let group = start..end;
        start = end;
        Some(group)
    })
}
