//! Planning reads: which bytes to fetch, how to merge them, in what order, and the purpose of each.

use crate::codec::{Frame, SeekTable};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::model::Encoding;
use crate::read::{Extent, ReadHints, Want};
use holdall_collections::DebugUnwrap;
use holdall_collections::sort_by;
use std::ops::Range;

/// Compressed components of up to this many decoded bytes are decoded at once; longer ones piece by piece, unless a
/// seek table is known.
const AT_ONCE: u64 = 16 << 20;

/// The fetches for a number of [`Want`]s.
///
/// Fetches are ordered by group, source and offset, and bytes that are wanted twice are fetched once. A fetch contains
/// whole parts, except that parts that can be decoded from any byte on are split at the ends of fetches.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    wants: Vec<Want>,
    fetches: Vec<Fetch>,
    parts: Vec<FetchPart>,
}

/// A contiguous run of bytes to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The location of the bytes.
    pub extent: Extent,
    /// The indices of the fetch's parts in the plan's list of parts.
    pub parts: Range<usize>,
}

/// Stored bytes of one component inside one [`Fetch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchPart {
    /// The index of the want.
    pub want: u32,
    /// The purpose of the bytes.
    pub purpose: Purpose,
    /// The range in the source.
    pub stored: Range<u64>,
    /// The range of decoded bytes, counted from the start of the component's decoded bytes. Empty for
    /// [`Purpose::Next`], whose range is only known after decoding.
    pub decoded: Range<u64>,
}

/// The purpose of the bytes of a [`FetchPart`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be decoded independently: raw elements, whole frames, or the whole component.
    Alone,
    /// To be decoded after the previous part of the same want. Such a part has a fetch of its own.
    Next,
    /// Only for the digest: the bytes after the last frame.
    Digest,
}

/// How reads are sized.
#[derive(Debug, Clone, Copy)]
pub struct FetchSizing {
    /// The hints of the source.
    pub hints: ReadHints,
    /// The alignment of fetches of plain bytes, in bytes from the start of the source.
    pub align: u64,
    /// Compressed components without a known seek table that decode to at most this many bytes are decoded at once;
    /// longer ones in order, piece by piece.
    pub whole: u64,
}

impl From<ReadHints> for FetchSizing {
    fn from(hints: ReadHints) -> FetchSizing {
        FetchSizing { hints, align: 1, whole: AT_ONCE }
    }
}

/// A part before it is assigned to fetches, and whether it may be split.
struct Run {
    group: u32,
    source: u32,
    is_plain: bool,
    part: FetchPart,
}

impl Plan {
    /// Plans the reads for `wants`.
    pub fn new(wants: Vec<Want>, cut: impl Into<FetchSizing>) -> Plan {
        let all = 0..wants.len() as u32;
        Plan::for_subset(wants, all, cut)
    }

    /// Plans the reads for some of `wants`, given by their indices. Fastest if the indices are in the order of the
    /// stored bytes.
    pub fn for_subset(
        wants: Vec<Want>,
        numbers: impl ExactSizeIterator<Item = u32>,
        cut: impl Into<FetchSizing>,
    ) -> Plan {
        let cut = cut.into();
        let mut runs = Vec::with_capacity(numbers.len());
        for number in numbers {
            divide(number, &wants[number as usize], &cut, &mut runs);
        }
        let sort_key = |r: &Run| (r.group, r.source, r.part.stored.start, r.part.stored.end);
        sort_by(&mut runs, |a, b| sort_key(a).cmp(&sort_key(b)));
        let (fetches, groups) = merge(&runs, &cut);
        let mut plan = Plan { wants, fetches, parts: Vec::new() };
        plan.assign(&runs, &groups);
        plan
    }

    /// Returns the wants.
    pub fn wants(&self) -> &[Want] {
        &self.wants
    }

    /// Returns the fetches, in order.
    pub fn fetches(&self) -> &[Fetch] {
        &self.fetches
    }

    /// Returns all parts, in the order of the fetches.
    pub fn parts(&self) -> &[FetchPart] {
        &self.parts
    }

    /// Returns the parts of a fetch, in the order of their bytes.
    pub fn parts_of(&self, fetch: &Fetch) -> &[FetchPart] {
        self.parts.get(fetch.parts.clone()).debug_unwrap()
    }

    /// Returns the want of a fetch whose bytes must be decoded after those of the previous fetch, or `None` for other
    /// fetches.
    pub fn in_order(&self, fetch: &Fetch) -> Option<u32> {
        match self.parts_of(fetch) {
            [part] if part.purpose == Purpose::Next => Some(part.want),
            _ => None,
        }
    }

    /// Returns the group of a fetch's wants.
    pub fn group(&self, fetch: &Fetch) -> Option<u32> {
        Some(self.want(self.parts_of(fetch).first()?).group)
    }

    /// Returns how many fetches, starting at index `first`, should be sent as one request, if the order of groups does
    /// not matter. This is one, except that short fetches from a remote source are combined up to a piece.
    pub fn batch_len(&self, first: usize, hints: &ReadHints) -> usize {
        let rest = self.fetches.get(first..).debug_unwrap();
        let mut len = 0u64;
        let is_more = |fetch: &&Fetch| {
            let Extent { source, .. } = fetch.extent;
            len = len.saturating_add(fetch.extent.len());
            len <= hints.piece && source == rest[0].extent.source && self.in_order(fetch).is_none()
        };
        let is_apart = |extent: Extent| extent.is_stated() || extent.chunked().is_some();
        match rest.first() {
            Some(fetch) if hints.is_remote() && !is_apart(fetch.extent) => {
                rest.iter().take_while(is_more).count().max(1)
            }
            _ => rest.len().min(1),
        }
    }

    /// Returns the want of a part.
    pub fn want(&self, part: &FetchPart) -> &Want {
        &self.wants[part.want as usize]
    }

    /// Returns the number of bytes that will be fetched, including gaps.
    pub fn len(&self) -> u64 {
        self.fetches.iter().fold(0, |n, f| n.saturating_add(f.extent.len()))
    }

    /// Returns `true` if there is nothing to fetch.
    pub fn is_empty(&self) -> bool {
        self.fetches.is_empty()
    }

    /// Checks the wants for which nothing is fetched because their components have no stored bytes. Such a component
    /// may still have a digest, or declare a decoded length. `add_context` adds the want's location to an error.
    ///
    /// # Errors
    /// Returns the errors of [`ComponentDecoder::next`](super::ComponentDecoder::next).
    pub fn check_empty(
        &self,
        limits: &Limits,
        add_context: impl Fn(&Want, Error) -> Error,
    ) -> Result<()> {
        for want in self.wants.iter().filter(|w| w.component.stored.is_empty()) {
            want.decoder(limits)
                .and_then(|mut decoder| decoder.next())
                .map_err(|e| add_context(want, e))?;
        }
        Ok(())
    }

    /// Splits plain runs at the ends of fetches, and records the parts of each fetch.
    fn assign(&mut self, runs: &[Run], groups: &[u32]) {
        let mut parts: Vec<FetchPart> = Vec::with_capacity(runs.len());
        // The fetch of each part.
        let mut owners: Vec<u32> = Vec::with_capacity(runs.len());
        // Runs are sorted, so their first fetches are in ascending order too.
        let mut first = 0;
        for Run { group, source, part, .. } in runs {
            let key = (*group, *source, part.stored.start);
            let ends_before = |at: usize| {
                let Fetch { extent, .. } = &self.fetches[at];
                (groups[at], extent.source, extent.end) <= key
            };
            while ends_before(first) {
                first += 1;
            }
            let mut from = part.stored.start;
            for (at, fetch) in self.fetches.iter().enumerate().skip(first) {
                let upto = part.stored.end.min(fetch.extent.end);
                let is_whole = (from..upto) == part.stored;
                let decoded = match is_whole {
                    true => part.decoded.clone(),
                    // Only plain bytes are split; their decoded bytes are their stored ones.
                    false => {
                        let base = part.decoded.start;
                        base + (from - part.stored.start)..base + (upto - part.stored.start)
                    }
                };
                parts.push(FetchPart { stored: from..upto, decoded, ..part.clone() });
                owners.push(at as u32);
                from = upto;
                if from >= part.stored.end {
                    break;
                }
            }
        }
        if !owners.is_sorted() {
            // Wants share bytes.
            let mut both: Vec<(u32, FetchPart)> = owners.into_iter().zip(parts).collect();
            sort_by(&mut both, |(a, _), (b, _)| a.cmp(b));
            (owners, parts) = both.into_iter().unzip();
        }
        let mut at = 0;
        for (number, fetch) in self.fetches.iter_mut().enumerate() {
            let count = owners[at..].partition_point(|owners| *owners == number as u32);
            fetch.parts = at..at + count;
            at += count;
        }
        self.parts = parts;
    }
}

/// Returns the fetches that contain all runs, which are sorted, and the group of each fetch.
fn merge(runs: &[Run], cut: &FetchSizing) -> (Vec<Fetch>, Vec<u32>) {
    let ReadHints { piece, gap, .. } = cut.hints;
    let piece = piece.max(1).next_multiple_of(cut.align.max(1));
    let (mut fetches, mut groups) = (Vec::new(), Vec::new());
    let mut close = |group: u32, extent: Extent| {
        if !extent.is_empty() {
            fetches.push(Fetch { extent, parts: 0..0 });
            groups.push(group);
        }
    };
    let mut open: Option<(u32, Extent)> = None;
    for Run { group, source, is_plain, part } in runs {
        let Range { start, end } = part.stored;
        let aligned = if *is_plain { start / cut.align.max(1) * cut.align.max(1) } else { start };
        let fresh = Extent::new(*source, aligned..aligned);
        let mut extent = match open.take() {
            Some((owners, extent))
                if owners == *group
                    && extent.source == *source
                    && start <= extent.end.saturating_add(gap)
                    && (part.purpose != Purpose::Next || start < extent.end) =>
            {
                extent
            }
            Some((owners, extent)) => {
                close(owners, extent);
                fresh
            }
            None => fresh,
        };
        if *is_plain {
            while end > extent.start.saturating_add(piece) {
                let at = extent.start + piece;
                close(*group, Extent { end: at.max(extent.end), ..extent });
                let at = at.max(extent.end);
                extent = Extent { start: at, end: at, ..extent };
            }
        } else if end > extent.start.saturating_add(piece) && start >= extent.end {
            close(*group, extent);
            extent = fresh;
        }
        extent.end = extent.end.max(end);
        match part.purpose {
            // Parts that are decoded in order have fetches of their own.
            Purpose::Next => close(*group, extent),
            _ => open = Some((*group, extent)),
        }
    }
    if let Some((group, extent)) = open {
        close(group, extent);
    }
    (fetches, groups)
}

/// Appends the runs of stored bytes that a want consists of.
fn divide(number: u32, want: &Want, cut: &FetchSizing, out: &mut Vec<Run>) {
    let c = &want.component;
    let len = c.stored_len();
    if len == 0 {
        return;
    }
    let mut add = |is_plain: bool, purpose: Purpose, stored: Range<u64>, decoded: Range<u64>| {
        if stored.is_empty() {
            return;
        }
        let at = |n: u64| c.stored.start.saturating_add(n).min(c.stored.end);
        let stored = at(stored.start)..at(stored.end);
        let part = FetchPart { want: number, purpose, stored, decoded };
        out.push(Run { group: want.group, source: c.stored.source, is_plain, part });
    };
    let piece = cut.hints.piece.max(1);
    let wanted = match &want.range {
        // A compressed component of unknown length has no known end.
        None => 0..c.decoded_len.unwrap_or(u64::MAX),
        Some(range) => range.clone(),
    };
    if want.is_divisible() {
        if want.is_plain() {
            add(true, Purpose::Alone, wanted.start..wanted.end.min(len), wanted);
            return;
        }
        if c.encoding == Encoding::Raw {
            // Whole elements or blocks, because their bytes are swapped.
            let width = c.swap_unit_len();
            let whole = wanted.start / width * width..wanted.end.next_multiple_of(width).min(len);
            let step = piece.next_multiple_of(width);
            for start in (whole.start..whole.end).step_by(usize::try_from(step).unwrap_or(1)) {
                let run = start..whole.end.min(start + step);
                add(false, Purpose::Alone, run.clone(), run);
            }
            return;
        }
        let Some(table) = want.table.as_deref() else { return };
        for frames in groups(table.covering(wanted), piece) {
            let (Some(first), Some(last)) = (frames.first(), frames.last()) else { continue };
            let stored = first.stored.start..last.stored.end;
            add(false, Purpose::Alone, stored, first.decoded.start..last.decoded.end);
        }
        if want.digests.in_shares() && want.range.is_none() {
            add(false, Purpose::Digest, frames_end(table)..len, 0..0);
        }
        return;
    }
    let is_short = match c.encoding {
        Encoding::Raw => len <= piece,
        // Components that may have frames are compared with their seek table when they are decoded in order.
        _ if cut.hints.is_remote() => len <= piece && c.table_extent().is_none(),
        _ => true,
    };
    // Digests of decoded bytes are computed when decoding in order.
    let in_order = want.digests.covers_decoded_bytes() && c.encoding != Encoding::Raw;
    let at_once = |decoded: &u64| *decoded <= cut.whole && is_short && !in_order;
    if let Some(decoded) = c.decoded_len.filter(at_once) {
        return add(false, Purpose::Alone, 0..len, 0..decoded);
    }
    for start in (0..len).step_by(usize::try_from(piece).unwrap_or(1)) {
        add(false, Purpose::Next, start..len.min(start.saturating_add(piece)), 0..0);
    }
}

/// Returns the end of the last frame.
fn frames_end(table: &SeekTable) -> u64 {
    table.frames().last().map_or(0, |f| f.stored.end)
}

/// Returns runs of frames that decode to about `len` bytes each.
fn groups(frames: &[Frame], len: u64) -> impl Iterator<Item = &[Frame]> {
    let mut rest = frames;
    std::iter::from_fn(move || {
        let limit = rest.first()?.decoded.start.saturating_add(len);
        let count = rest.partition_point(|f| f.decoded.end <= limit).max(1);
        let (group, tail) = rest.split_at(count);
        rest = tail;
        Some(group)
    })
}
