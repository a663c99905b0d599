//! Reading ranges of a component's decoded bytes, fetching and decoding no more than necessary.

use crate::buffer::Buffer;
use crate::executor::{DecodedBytes, ErrorContext, Executor, FetchTarget, Pieces, Sources};
use crate::source::read_part;
use crate::work::Work;
use bytes::Bytes;
use holdall_core::codec::{FRAME_LEN, Frame, SeekTable, StreamDecoder, check_decoded_len};
use holdall_core::read::{Extent, Plan, Want};
use holdall_core::{Component, Encoding, Error, Limits, Result, window};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of stored bytes read at a time from a frame of which possibly only the start is needed.
const STEP_LEN: u64 = 128 << 10;
/// Up to this many frames are decoded one after the other, the last only as far as needed.
const FEW_FRAMES: usize = 2;

/// Returns the decoded bytes `range` of a component.
pub fn range(
    sources: &Sources,
    limits: &Limits,
    c: &Component,
    range: Range<u64>,
) -> Result<Bytes> {
    check_inside(c, &range)?;
    // Swapping byte order needs whole elements, or whole blocks.
    let width = c.swap_unit_len();
    let whole = range.start / width * width..range.end.next_multiple_of(width);
    let mut bytes = match c.encoding {
        encoding if encoding != Encoding::Raw => return compressed(sources, limits, c, range),
        _ => {
            let Extent { source, start, end } = c.stored.part(whole.clone());
            read_part(sources.at(source), start..end)?
        }
    };
    if width > 1 {
        let mut swapped = Vec::from(bytes);
        c.make_little_endian(&mut swapped);
        bytes = swapped.into();
    }
    let from = (range.start - whole.start) as usize;
    Ok(bytes.slice(from..from + (range.end - range.start) as usize))
}

/// Checks that a range lies within the decoded bytes of a component.
pub(crate) fn check_inside(c: &Component, range: &Range<u64>) -> Result<()> {
    if range.start > range.end || c.decoded_len.is_some_and(|len| range.end > len) {
        let len = c.decoded_len.unwrap_or(0);
        let message = format!(
            "the requested range {}..{} is outside the {len} decoded bytes",
            range.start, range.end
        );
        return Err(window::OUTSIDE.broken(message));
    }
    Ok(())
}

/// Checks that ranges lie within the decoded bytes of a component, and that each is within the limits.
pub(crate) fn check_ranges(c: &Component, ranges: &[Range<u64>], limits: &Limits) -> Result<()> {
    for range in ranges {
        check_inside(c, range)?;
        if c.encoding != Encoding::Raw {
            check_decoded_len(range.end - range.start, c.stored_len(), limits)?;
        }
    }
    Ok(())
}

/// Returns the error for a component that decodes to only `found` bytes of a range.
#[cold]
pub(crate) fn too_short(c: &Component, range: &Range<u64>, found: u64) -> Error {
    let at = range.start + found;
    let message = format!("decodes to {at} bytes, expected at least {}", range.end);
    c.encoding.length_rule().broken(message)
}

/// Returns decoded bytes of a compressed component. With a seek table only the frames that contain them are decoded,
/// otherwise everything from the start up to their end.
fn compressed(
    sources: &Sources,
    limits: &Limits,
    c: &Component,
    range: Range<u64>,
) -> Result<Bytes> {
    check_decoded_len(range.end - range.start, c.stored_len(), limits)?;
    if let Some(table) = table_of(sources, c)? {
        return frames_range(sources, limits, c, &Arc::new(table), range);
    }
    let (mut out, wanted) = (Vec::new(), range.end - range.start);
    let context = ErrorContext::default();
    for piece in Pieces::for_range(sources, limits, context, c.clone(), range.clone())? {
        out.extend_from_slice(&piece?);
    }
    if (out.len() as u64) < wanted {
        return Err(too_short(c, &range, out.len() as u64));
    }
    Ok(out.into())
}

/// Returns the decoded bytes of several ranges of a component, which must ascend without overlap. Raw ranges are read
/// in one call, each frame is decoded at most once, and a component without a seek table is decoded once.
pub(crate) fn ranges(
    sources: &Sources,
    limits: &Limits,
    c: &Component,
    all: &[Range<u64>],
) -> Result<Vec<Bytes>> {
    if let [one] = all {
        return Ok(vec![range(sources, limits, c, one.clone())?]);
    }
    check_ranges(c, all, limits)?;
    if c.encoding == Encoding::Raw {
        // Swapping byte order needs whole elements, or whole blocks.
        let width = c.swap_unit_len();
        let whole = |r: &Range<u64>| r.start / width * width..r.end.next_multiple_of(width);
        let extents: Vec<Extent> = all.iter().map(|r| c.stored.part(whole(r))).collect();
        let mut read = sources.read_all(&extents)?;
        if width > 1 {
            for (bytes, range) in read.iter_mut().zip(all) {
                let mut turned = Vec::from(std::mem::take(bytes));
                c.make_little_endian(&mut turned);
                let from = (range.start - whole(range).start) as usize;
                let len = (range.end - range.start) as usize;
                *bytes = Bytes::from(turned).slice(from..from + len);
            }
        }
        return Ok(read);
    }
    if let Some(table) = table_of(sources, c)? {
        return framed(sources, limits, c, &Arc::new(table), all);
    }
    let (first, last) = (all.first().map_or(0, |r| r.start), all.last().map_or(0, |r| r.end));
    let mut out: Vec<Vec<u8>> = vec![Vec::new(); all.len()];
    let mut at = first;
    let context = ErrorContext::default();
    for piece in Pieces::for_range(sources, limits, context, c.clone(), first..last)? {
        let piece = piece?;
        let end = at + piece.len() as u64;
        for (range, out) in all.iter().zip(&mut out) {
            let (from, to) = (range.start.clamp(at, end) - at, range.end.clamp(at, end) - at);
            out.extend_from_slice(&piece[from as usize..to as usize]);
        }
        at = end;
    }
    let whole = |(range, out): (&Range<u64>, Vec<u8>)| match out.len() as u64 {
        found if found < range.end - range.start => Err(too_short(c, range, found)),
        _ => Ok(Bytes::from(out)),
    };
    all.iter().zip(out).map(whole).collect()
}

/// Returns the decoded bytes of several ranges of a component with a seek table. The ranges must ascend without
/// overlap; each frame is decoded once.
fn framed(
    sources: &Sources,
    limits: &Limits,
    c: &Component,
    table: &Arc<SeekTable>,
    all: &[Range<u64>],
) -> Result<Vec<Bytes>> {
    // Ranges that have a frame in common become one want.
    let mut stretches: Vec<(Range<u64>, u64)> = Vec::new();
    for range in all.iter().filter(|range| !range.is_empty()) {
        let frames = table.covering(range.clone());
        let (Some(first), Some(last)) = (frames.first(), frames.last()) else { continue };
        match stretches.last_mut().filter(|(_, end)| first.decoded.start < *end) {
            Some((stretch, end)) => (stretch.end, *end) = (range.end, last.decoded.end),
            None => stretches.push((range.clone(), last.decoded.end)),
        }
    }
    let want = |(range, _): (Range<u64>, u64)| {
        Want::new(0, c.clone()).with_range(range).with_table(Some(Arc::clone(table)))
    };
    let plan = Plan::new(stretches.into_iter().map(want).collect(), sources.read_hints());
    let memory = |range: &Range<u64>| Buffer::new((range.end - range.start) as usize);
    let out = Mutex::new(all.iter().map(memory).collect::<Result<Vec<_>>>()?);
    let silent = Work::default();
    Executor::new(sources, limits, &silent).run(
        &plan,
        Vec::new(),
        |DecodedBytes { offset: start, decoded, .. }| {
            let decoded = decoded?;
            let end = start + decoded.len() as u64;
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            let first = all.partition_point(|range| range.end <= start);
            for (range, out) in all.iter().zip(&mut *out).skip(first) {
                if range.start >= end {
                    break;
                }
                let (from, upto) = (range.start.max(start), range.end.min(end));
                out.as_mut()[(from - range.start) as usize..(upto - range.start) as usize]
                    .copy_from_slice(&decoded[(from - start) as usize..(upto - start) as usize]);
            }
            Ok(())
        },
    )?;
    let out = out.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(out.into_iter().map(Buffer::freeze).collect())
}

/// Returns the decoded bytes `range` of a component with a seek table. A few frames are decoded one after the other,
/// only up to the last byte needed; many frames are decoded whole, on all cores.
pub fn frames_range(
    sources: &Sources,
    limits: &Limits,
    c: &Component,
    table: &Arc<SeekTable>,
    range: Range<u64>,
) -> Result<Bytes> {
    let frames = table.covering(range.clone());
    let (Some(first), Some(last)) = (frames.first(), frames.last()) else {
        return Ok(Bytes::new());
    };
    let out = if frames.len() <= FEW_FRAMES {
        let mut out = Buffer::new((range.end - first.decoded.start) as usize)?;
        few_frames(sources, limits, c, frames, out.as_mut())?;
        out
    } else {
        let mut out = Buffer::new((last.decoded.end - first.decoded.start) as usize)?;
        let want =
            Want::new(0, c.clone()).with_range(range.clone()).with_table(Some(table.clone()));
        let mut hints = sources.read_hints();
        if !hints.is_remote() {
            // One fetch for each frame, so that no core waits for another.
            hints.piece = FRAME_LEN;
        }
        let plan = Plan::new(vec![want], hints);
        let mut rest = out.as_mut();
        let outs = plan.fetches().iter().map(|fetch| {
            let parts = plan.parts_of(fetch).iter().map(|part| {
                let len = (part.decoded.end - part.decoded.start) as usize;
                let (own, tail) = std::mem::take(&mut rest).split_at_mut(len);
                rest = tail;
                own
            });
            FetchTarget::Parts(parts.collect())
        });
        let outs = outs.collect();
        let silent = Work::default();
        Executor::new(sources, limits, &silent)
            .run(&plan, outs, |visit| visit.decoded.map(drop))?;
        out
    };
    let from = (range.start - first.decoded.start) as usize;
    Ok(out.freeze().slice(from..from + (range.end - range.start) as usize))
}

/// Decodes frames from the start of the first one until `out` is full, and reads no more than that needs.
fn few_frames(
    sources: &Sources,
    limits: &Limits,
    c: &Component,
    frames: &[Frame],
    out: &mut [u8],
) -> Result<()> {
    let (Some(start), Some(end)) = (frames.first(), frames.last()) else { return Ok(()) };
    let stored = c.stored.part(start.stored.start..end.stored.end);
    let source = sources.at(stored.source);
    let mut fetched = None;
    match source.local() {
        // The system reads ahead while earlier bytes are decoded.
        Some(local) if local.is_mostly_uncached(stored.range()) => {
            local.fetch_ahead(stored.range())
        }
        Some(_) => {}
        // One request for all frames, even if only a small part of them is needed.
        None => fetched = Some(sources.read(stored)?),
    }
    let mut filled = 0;
    for frame in frames {
        let wanted = (frame.decoded.end - frame.decoded.start).min((out.len() - filled) as u64);
        let out = &mut out[filled..filled + wanted as usize];
        filled += out.len();
        let is_whole = wanted == frame.decoded.end - frame.decoded.start;
        let len = frame.stored.end - frame.stored.start;
        let next = |from: u64| match &fetched {
            Some(bytes) => {
                let start = frame.stored.start - start.stored.start;
                Ok(bytes.slice((start + from) as usize..(start + len) as usize))
            }
            None => {
                let first = c.stored.start + frame.stored.start;
                let upto = len.min(from + STEP_LEN);
                read_part(source, first + from..first + upto)
            }
        };
        let stream = c.encoding.stream(c.dtype.width(), limits);
        // Only encodings with a codec have frames.
        let Some(stream) = stream else { return Ok(()) };
        frame_start(c.encoding, stream, len, next, out, is_whole)?;
    }
    Ok(())
}

/// Decodes the first bytes of a frame of `len` stored bytes, or the whole frame if `is_whole`. `next` returns stored
/// bytes of the frame from an offset on.
fn frame_start(
    encoding: Encoding,
    mut stream: Box<dyn StreamDecoder>,
    len: u64,
    next: impl Fn(u64) -> Result<Bytes>,
    out: &mut [u8],
    is_whole: bool,
) -> Result<()> {
    let mut input = Bytes::new();
    let (mut at, mut filled) = (0, 0);
    while is_whole || filled < out.len() {
        if input.is_empty() && at < len {
            input = next(at)?;
            at += input.len() as u64;
        }
        let (read, mut written) = stream.decode(&input, &mut out[filled..])?;
        input = input.slice(read..);
        if (read, written) == (0, 0) && input.is_empty() && at >= len {
            written = stream.flush(&mut out[filled..])?;
        }
        filled += written;
        if (read, written) != (0, 0) || (input.is_empty() && at < len) {
            continue;
        }
        let wanted = out.len();
        return if filled < wanted {
            let found = format!(
                "decodes to {filled} bytes, expected at least {wanted} according to its seek table"
            );
            Err(encoding.length_rule().broken(format!("a frame {found}")))
        } else if !input.is_empty() {
            let found =
                format!("decodes to more than {wanted} bytes, the length in its seek table");
            Err(encoding.length_rule().broken(format!("a frame {found}")))
        } else {
            stream.end()
        };
    }
    Ok(())
}

/// Reads the seek table of a component. Returns `None` if it has none, or one that does not match the component.
pub fn table_of(sources: &Sources, c: &Component) -> Result<Option<SeekTable>> {
    Ok(tables_of(sources, std::slice::from_ref(&c))?.pop().flatten())
}

/// Reads the seek tables of components. One read requests the ends of all components that may have a table, and a
/// second one the rest of tables that are longer than most.
pub fn tables_of(sources: &Sources, components: &[&Component]) -> Result<Vec<Option<SeekTable>>> {
    let mut tables = Tables::for_components(components);
    while let Some(extents) = tables.extents() {
        let ends = match extents[..] {
            [one] => vec![read_part(sources.at(one.source), one.range())?],
            _ => sources.read_all(&extents)?,
        };
        tables.take(components, ends);
    }
    Ok(tables.into_tables())
}

/// A search for the seek tables of components, independent of how bytes are read.
pub(crate) struct Tables {
    found: Vec<Option<SeekTable>>,
    /// Components whose table is still to be read, with the range to read.
    asked: Vec<(usize, Extent)>,
}

impl Tables {
    pub(crate) fn for_components(components: &[&Component]) -> Tables {
        let asked = components.iter().enumerate();
        let asked = asked.filter_map(|(i, c)| Some((i, c.table_extent()?))).collect();
        Tables { found: components.iter().map(|_| None).collect(), asked }
    }

    /// Returns the ranges to read next, or `None` if the search is complete.
    pub(crate) fn extents(&self) -> Option<Vec<Extent>> {
        let extents = self.asked.iter().map(|(_, extent)| *extent);
        (!self.asked.is_empty()).then(|| extents.collect())
    }

    /// Processes the bytes of the ranges that [`Tables::extents`] returned.
    pub(crate) fn take(&mut self, components: &[&Component], ends: Vec<Bytes>) {
        for ((i, _), end) in std::mem::take(&mut self.asked).into_iter().zip(ends) {
            match components[i].seek_table(&end) {
                Ok(table) => self.found[i] = table,
                Err(extent) => self.asked.push((i, extent)),
            }
        }
    }

    /// Returns the tables: one entry for each component, `None` if it has no table.
    pub(crate) fn into_tables(self) -> Vec<Option<SeekTable>> {
        self.found
    }
}

/// Reads the seek tables of the wants that may have one, and stores them in the wants.
pub(crate) fn find_tables(sources: &Sources, wants: &mut [Want]) -> Result<()> {
    let components: Vec<&Component> = wants.iter().map(|want| &want.component).collect();
    let tables = tables_of(sources, &components)?;
    give_tables(wants, tables);
    Ok(())
}

/// Stores the seek tables in the wants.
pub(crate) fn give_tables(wants: &mut [Want], tables: Vec<Option<SeekTable>>) {
    for (want, table) in wants.iter_mut().zip(tables) {
        if let Some(table) = table {
            want.table = Some(Arc::new(table));
        }
    }
}

/// Returns the plan for `wants`, ordered by group, and within a group by offset.
///
/// # Errors
/// Returns an `Io` error if the seek tables of a local file cannot be read.
pub fn plan(sources: &Sources, mut wants: Vec<Want>) -> Result<Plan> {
    let hints = sources.read_hints();
    if !hints.is_remote() {
        find_tables(sources, &mut wants)?;
    }
    Ok(Plan::new(wants, hints))
}
