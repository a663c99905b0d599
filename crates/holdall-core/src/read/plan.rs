//! Which bytes to fetch, merged how, in what order, and what each of them is for.

use crate::codec::{Frame, SeekTable};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::model::Encoding;
use crate::read::{Extent, ReadHints, Want};
use holdall_collections::sort_by;
use std::ops::Range;

/// Compressed components of up to so many decoded bytes are decoded at once; longer ones piece by piece,
/// where nothing says where their frames are.
const AT_ONCE: u64 = 16 << 20;

/// What to fetch for a number of [`Want`]s.
///
/// Fetches are in the order of groups, sources and offsets, and what is wanted twice is fetched once. A fetch
/// holds whole parts, except that parts that can be decoded from any byte on are cut where fetches end.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    wants: Vec<Want>,
    fetches: Vec<Fetch>,
    parts: Vec<FetchPart>,
}

/// One run of bytes to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// Where they are.
    pub extent: Extent,
    /// Numbers of the parts in it, in the plan's list.
    pub parts: Range<usize>,
}

/// Stored bytes of one component inside one [`Fetch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchPart {
    /// The number of the want.
    pub want: u32,
    /// What they are for.
    pub purpose: Purpose,
    /// Where they are in the source.
    pub stored: Range<u64>,
    /// What they decode to, counted from the start of the component's decoded bytes; empty for
    /// [`Purpose::Next`], which only decoding tells.
    pub decoded: Range<u64>,
}

/// What the bytes of a [`Part`] are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be decoded alone: elements as they are, whole frames, or all of a component.
    Alone,
    /// To be decoded after the part of the same want before it. Such a part has a fetch of its own.
    Next,
    /// For the digest and nothing else: what follows the last frame.
    Digest,
}

/// How reads are cut.
#[derive(Debug, Clone, Copy)]
pub struct FetchSizing {
    /// What the source says.
    pub terms: ReadHints,
    /// Offsets of fetches of plain bytes are multiples of this, counted from the start of the source.
    pub align: u64,
    /// Compressed components of up to so many decoded bytes, of which nothing says where the frames are, are
    /// decoded at once; longer ones in order, piece by piece.
    pub whole: u64,
}

impl From<ReadHints> for FetchSizing {
    fn from(terms: ReadHints) -> FetchSizing {
        FetchSizing { terms, align: 1, whole: AT_ONCE }
    }
}

/// A part before fetches are cut, and whether they may cut it.
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

    /// Plans the reads for some of `wants`, by their numbers; quickest where those come in the order of their stored
    /// bytes.
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
        let place = |r: &Run| (r.group, r.source, r.part.stored.start, r.part.stored.end);
        sort_by(&mut runs, |a, b| place(a).cmp(&place(b)));
        let (fetches, groups) = merge(&runs, &cut);
        let mut plan = Plan { wants, fetches, parts: Vec::new() };
        plan.assign(&runs, &groups);
        plan
    }

    /// What is wanted.
    pub fn wants(&self) -> &[Want] {
        &self.wants
    }

    /// What to fetch, in order.
    pub fn fetches(&self) -> &[Fetch] {
        &self.fetches
    }

    /// All parts, those of one fetch after those of another.
    pub fn parts(&self) -> &[FetchPart] {
        &self.parts
    }

    /// The parts of a fetch, in the order of their bytes.
    pub fn parts_of(&self, fetch: &Fetch) -> &[FetchPart] {
        self.parts.get(fetch.parts.clone()).unwrap_or_default()
    }

    /// The want whose bytes a fetch holds, where those are decoded after those of the fetch before it.
    pub fn in_order(&self, fetch: &Fetch) -> Option<u32> {
        match self.parts_of(fetch) {
            [part] if part.purpose == Purpose::Next => Some(part.want),
            _ => None,
        }
    }

    /// The group of what is wanted of a fetch.
    pub fn group(&self, fetch: &Fetch) -> Option<u32> {
        Some(self.want(self.parts_of(fetch).first()?).group)
    }

    /// How many fetches from number `first` on are good to be asked for together, where a source says `terms` and groups need not come one
    /// after the other: one, or of a source that is far away short ones, as many as come to a piece.
    pub fn together(&self, first: usize, terms: &ReadHints) -> usize {
        let rest = self.fetches.get(first..).unwrap_or_default();
        let mut len = 0u64;
        let is_more = |fetch: &&Fetch| {
            let Extent { source, .. } = fetch.extent;
            len = len.saturating_add(fetch.extent.len());
            len <= terms.piece && source == rest[0].extent.source && self.in_order(fetch).is_none()
        };
        let is_apart = |extent: Extent| extent.is_stated() || extent.chunked().is_some();
        match rest.first() {
            Some(fetch) if terms.is_remote() && !is_apart(fetch.extent) => {
                rest.iter().take_while(is_more).count().max(1)
            }
            _ => rest.len().min(1),
        }
    }

    /// The want that a part is of.
    pub fn want(&self, part: &FetchPart) -> &Want {
        &self.wants[part.want as usize]
    }

    /// Bytes that will be fetched, gaps included.
    pub fn len(&self) -> u64 {
        self.fetches.iter().fold(0, |n, f| n.saturating_add(f.extent.len()))
    }

    /// Whether there is nothing to fetch.
    pub fn is_empty(&self) -> bool {
        self.fetches.is_empty()
    }

    /// Checks the wants for which nothing is fetched, because their components have no stored bytes: they may have
    /// a digest all the same, or declare that they decode to something. `place` says in an error which want it is about.
    ///
    /// # Errors
    /// As [`ComponentDecoder::next`](super::ComponentDecoder::next).
    pub fn check_empty(
        &self,
        limits: &Limits,
        place: impl Fn(&Want, Error) -> Error,
    ) -> Result<()> {
        for want in self.wants.iter().filter(|w| w.component.stored.is_empty()) {
            want.decoder(limits)
                .and_then(|mut decoder| decoder.next())
                .map_err(|e| place(want, e))?;
        }
        Ok(())
    }

    /// Cuts plain runs where fetches end, and notes which parts are in which fetch.
    fn assign(&mut self, runs: &[Run], groups: &[u32]) {
        let mut parts: Vec<FetchPart> = Vec::with_capacity(runs.len());
        // The fetch that each is in.
        let mut of: Vec<u32> = Vec::with_capacity(runs.len());
        // Runs rise, so the fetch that each begins in does too.
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
                    // Of plain bytes, which are decoded as they are stored.
                    false => {
                        let base = part.decoded.start;
                        base + (from - part.stored.start)..base + (upto - part.stored.start)
                    }
                };
                parts.push(FetchPart { stored: from..upto, decoded, ..part.clone() });
                of.push(at as u32);
                from = upto;
                if from >= part.stored.end {
                    break;
                }
            }
        }
        if !of.is_sorted() {
            // Wants share bytes.
            let mut both: Vec<(u32, FetchPart)> = of.into_iter().zip(parts).collect();
            sort_by(&mut both, |(a, _), (b, _)| a.cmp(b));
            (of, parts) = both.into_iter().unzip();
        }
        let mut at = 0;
        for (number, fetch) in self.fetches.iter_mut().enumerate() {
            let count = of[at..].partition_point(|of| *of == number as u32);
            fetch.parts = at..at + count;
            at += count;
        }
        self.parts = parts;
    }
}

/// The fetches that hold all runs, which come sorted, and the group of each.
fn merge(runs: &[Run], cut: &FetchSizing) -> (Vec<Fetch>, Vec<u32>) {
    let ReadHints { piece, gap, .. } = cut.terms;
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
            Some((of, extent))
                if of == *group
                    && extent.source == *source
                    && start <= extent.end.saturating_add(gap)
                    && (part.purpose != Purpose::Next || start < extent.end) =>
            {
                extent
            }
            Some((of, extent)) => {
                close(of, extent);
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
            // What is decoded in order has fetches of its own.
            Purpose::Next => close(*group, extent),
            _ => open = Some((*group, extent)),
        }
    }
    if let Some((group, extent)) = open {
        close(group, extent);
    }
    (fetches, groups)
}

/// The runs of stored bytes that a want is made of.
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
    let piece = cut.terms.piece.max(1);
    let wanted = match &want.range {
        // A compressed component of unknown length has no end that could be told.
        None => 0..c.decoded_len.unwrap_or(u64::MAX),
        Some(range) => range.clone(),
    };
    if want.is_divisible() {
        if want.is_plain() {
            add(true, Purpose::Alone, wanted.start..wanted.end.min(len), wanted);
            return;
        }
        if c.encoding == Encoding::Raw {
            // Whole elements or blocks, because they are turned round.
            let width = c.turned_len();
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
        // What may have frames is compared with its table when it is decoded in order.
        _ if cut.terms.is_remote() => len <= piece && c.table_extent().is_none(),
        _ => true,
    };
    // What decoding gives is digested by who decodes in order.
    let in_order = want.digests.is_of_decoded() && c.encoding != Encoding::Raw;
    let at_once = |decoded: &u64| *decoded <= cut.whole && is_short && !in_order;
    if let Some(decoded) = c.decoded_len.filter(at_once) {
        return add(false, Purpose::Alone, 0..len, 0..decoded);
    }
    for start in (0..len).step_by(usize::try_from(piece).unwrap_or(1)) {
        add(false, Purpose::Next, start..len.min(start.saturating_add(piece)), 0..0);
    }
}

/// Where the last frame ends.
fn frames_end(table: &SeekTable) -> u64 {
    table.frames().last().map_or(0, |f| f.stored.end)
}

/// Runs of frames that decode to about `len` bytes.
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
