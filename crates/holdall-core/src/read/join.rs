//! Merging ranges of one source into fewer reads.

use std::ops::Range;

/// A read that covers one or more ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedRead {
    /// The bytes of the source to read, half-open.
    pub range: Range<u64>,
    /// The indices of the covered ranges, in the order of their starts.
    pub ranges: Vec<usize>,
}

/// Merges ranges whose gaps are at most `gap` bytes into reads of at most `max_len` bytes, sorted by offset. No range is
/// split: a longer one becomes a read of its own. Equal ranges are read once; empty ones are in no read.
pub fn join(ranges: &[Range<u64>], gap: u64, max_len: u64) -> Vec<MergedRead> {
    let mut order: Vec<usize> = (0..ranges.len()).filter(|&i| !ranges[i].is_empty()).collect();
    order.sort_by_key(|&i| (ranges[i].start, ranges[i].end));
    let mut out: Vec<MergedRead> = Vec::new();
    for i in order {
        let Range { start, end } = ranges[i];
        if let Some(last) = out.last_mut() {
            let joined = end.max(last.range.end);
            let near = start <= last.range.end.saturating_add(gap);
            if end <= last.range.end || (near && joined - last.range.start <= max_len) {
                last.range.end = joined;
                last.ranges.push(i);
                continue;
            }
        }
        out.push(MergedRead { range: start..end, ranges: vec![i] });
    }
    out
}
