//! The one place where byte ranges are decided: which to fetch, in what order, merged how.

use std::ops::Range;

/// Ranges to fetch from one file, in offset order, neighbours merged, and which of the wanted
/// ranges each one serves. Local loads, remote reads and conversions all run plans.
#[derive(Debug, Clone, Default)]
pub struct ReadPlan {
    reads: Vec<Read>,
}

/// One contiguous fetch of a [`ReadPlan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Bytes of the file, half-open.
    pub range: Range<u64>,
    /// The wanted ranges inside it, by the number under which they were asked for, in offset order.
    pub parts: Vec<Part>,
}

/// One wanted range inside a [`Read`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The number of the wanted range: its place in the list given to [`ReadPlan::new`].
    pub wanted: usize,
    /// Its bytes of the file, half-open.
    pub range: Range<u64>,
}

impl ReadPlan {
    /// Plans the fetch of `wanted`. Two neighbours become one read when the gap between them is at
    /// most `merge_gap` bytes and the whole at most `max_read`; a wanted range is never split, so one
    /// that is longer than `max_read` is a read of its own. Equal ranges are fetched once; empty ones
    /// belong to no read.
    pub fn new(
        wanted: impl IntoIterator<Item = Range<u64>>,
        merge_gap: u64,
        max_read: u64,
    ) -> ReadPlan {
        let mut parts: Vec<Part> = wanted
            .into_iter()
            .enumerate()
            .filter(|(_, range)| range.start < range.end)
            .map(|(wanted, range)| Part { wanted, range })
            .collect();
        parts.sort_by_key(|p| (p.range.start, p.range.end));
        let mut reads: Vec<Read> = Vec::new();
        for part in parts {
            if let Some(last) = reads.last_mut() {
                let end = last.range.end.max(part.range.end);
                let near = part.range.start <= last.range.end.saturating_add(merge_gap);
                let inside = part.range.end <= last.range.end;
                if inside || (near && end - last.range.start <= max_read) {
                    last.range.end = end;
                    last.parts.push(part);
                    continue;
                }
            }
            reads.push(Read { range: part.range.clone(), parts: vec![part] });
        }
        ReadPlan { reads }
    }

    /// The fetches, in offset order.
    pub fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// Bytes that running the plan fetches, gaps included.
    pub fn len(&self) -> u64 {
        self.reads.iter().map(|r| r.range.end - r.range.start).sum()
    }

    /// Whether there is nothing to fetch.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }
}
