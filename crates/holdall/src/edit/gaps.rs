//! Bytes of a file that belong to no tensor: counts them, and overwrites them with zeros.

use holdall_core::{Extent, Index};
use holdall_io::platform;
use std::ops::Range;

/// If the data has at least this many bytes, a page boundary lies between data and manifest.
const PAGED_FROM: u64 = 1 << 20;
/// The page size of that boundary.
const PAGE: u64 = 4096;
/// Maximum alignment that is inferred from offsets, as a power of two.
const MAX_ALIGN_BITS: u32 = 21;

/// Returns the byte ranges of each source between components, before the first and after the last one.
fn gaps(index: &Index) -> Vec<(u32, Range<u64>)> {
    let mut extents: Vec<Extent> = index
        .tensors()
        .flat_map(|t| t.components().map(|c| c.stored).collect::<Vec<_>>())
        .chain(index.claimed().iter().copied())
        .filter(|extent| !extent.is_stated())
        .collect();
    extents.sort_unstable();
    let mut out = Vec::new();
    for (source, data) in index.data_ranges().enumerate() {
        let source = source as u32;
        let mut at = data.start;
        let first = extents.partition_point(|extent| extent.source < source);
        for extent in extents[first..].iter().take_while(|extent| extent.source == source) {
            // An empty component may lie anywhere in the file, and is aligned like others.
            let (start, end) = (extent.start.min(data.end), extent.end.min(data.end));
            if start > at {
                out.push((source, at..start));
            }
            at = at.max(end);
        }
        if at < data.end {
            out.push((source, at..data.end));
        }
    }
    out
}

/// Returns the number of bytes that belong to no component and that rewriting the file would remove: gaps
/// without padding.
pub(super) fn unused(index: &Index) -> u64 {
    let starts = index.tensors().flat_map(|t| {
        let own = t.components().map(|c| c.stored).filter(|stored| !stored.is_stated());
        own.map(|stored| stored.start).collect::<Vec<_>>()
    });
    let bits = starts.fold(0, |all, start| all | start);
    let align = 1u64 << bits.trailing_zeros().min(MAX_ALIGN_BITS);
    let ends: Vec<u64> = index.data_ranges().map(|data| data.end).collect();
    let needed = |source: u32, gap: &Range<u64>| {
        let is_last = ends.get(source as usize) == Some(&gap.end);
        match is_last {
            true if gap.end > PAGED_FROM => gap.start.next_multiple_of(PAGE),
            true => gap.start,
            false => gap.start.next_multiple_of(align),
        }
    };
    let of_gap = |(source, gap): &(u32, Range<u64>)| gap.end.saturating_sub(needed(*source, gap));
    gaps(index).iter().map(of_gap).sum()
}

/// Overwrites the bytes between the components of `target`, a file with the contents `index`, with zeros:
/// bytes of removed tensors and of old manifests. Whole pages become holes, which take no space, if the file
/// system supports them. Bytes that are already zero are not written.
///
/// Readers see the same contents before, during and after this, so a kill does no harm; the next edit
/// completes it.
///
/// # Errors
/// Returns an `Io` error.
pub(super) fn erase(target: &std::fs::File, index: &Index) -> std::io::Result<()> {
    /// Alignment of every component: a shorter gap that ends where a component starts is only padding.
    const ALIGNMENT: u64 = 64;
    for (_, gap) in gaps(index).into_iter().filter(|(source, _)| *source == 0) {
        let is_padding = gap.end - gap.start < ALIGNMENT && gap.end.is_multiple_of(ALIGNMENT);
        if is_padding {
            continue;
        }
        let (first, last) = (gap.start.next_multiple_of(PAGE), gap.end / PAGE * PAGE);
        if first >= last {
            zero(target, gap)?;
            continue;
        }
        zero(target, gap.start..first)?;
        if platform::punch_hole(target, first..last).is_err() {
            zero(target, first..last)?;
        }
        zero(target, last..gap.end)?;
    }
    Ok(())
}

/// Overwrites nonzero bytes with zeros.
fn zero(target: &std::fs::File, range: Range<u64>) -> std::io::Result<()> {
    const PIECE: u64 = 1 << 20;
    let mut bytes = vec![0; (range.end - range.start).min(PIECE) as usize];
    let mut at = range.start;
    while at < range.end {
        let piece = &mut bytes[..(range.end - at).min(PIECE) as usize];
        platform::read_exact_at(target, piece, at)?;
        if piece.iter().any(|byte| *byte != 0) {
            piece.fill(0);
            platform::write_all_at(target, piece, at)?;
        }
        at += piece.len() as u64;
    }
    Ok(())
}
