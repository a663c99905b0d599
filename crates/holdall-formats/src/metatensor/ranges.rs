//! The position of ranges relative to each other: sections 6.6 and 6.7.

use super::rules::{GAP, TRAILING_DATA, TRUNCATED};
use holdall_collections::sort_by;
use holdall_core::error::{Error, Result};
use holdall_core::model::Index;
use std::ops::Range;

/// The ranges of references, in the order of the header.
#[derive(Default)]
pub(super) struct Ranges(Vec<Placed>);

struct Placed {
    /// The byte range in the file.
    range: Range<u64>,
    align: u64,
    /// The number of the tensor.
    tensor: usize,
}

impl Ranges {
    pub(super) fn push(&mut self, range: Range<u64>, align: u64, tensor: usize) {
        self.0.push(Placed { range, align, tensor });
    }

    /// Checks the gaps, and that the file ends where the last range ends. Overlaps are detected when the index is
    /// built.
    pub(super) fn check(mut self, data: Range<u64>, index: &Index) -> Result<()> {
        let key = |p: &Placed| (p.range.start, p.range.end);
        sort_by(&mut self.0, |a, b| key(a).cmp(&key(b)));
        let mut end = data.start;
        let mut rest = self.0.as_slice();
        while let Some(first) = rest.first() {
            // Tied ranges may have different alignments.
            let count = rest.iter().take_while(|p| p.range.start == first.range.start).count();
            let (same, after) = rest.split_at(count);
            let align = same.iter().map(|p| p.align).max().unwrap_or(1);
            let gap = first.range.start.saturating_sub(end);
            if gap >= align && gap > 0 {
                let message = format!(
                    "a gap of {gap} bytes before data that is aligned to {align}: {}..{} of the data",
                    end.saturating_sub(data.start),
                    first.range.start.saturating_sub(data.start)
                );
                return Err(named(GAP.broken(message), first, index).at(end..first.range.start));
            }
            end = same.iter().map(|p| p.range.end).fold(end, u64::max);
            rest = after;
        }
        let (described, found) =
            (end.saturating_sub(data.start), data.end.saturating_sub(data.start));
        if end > data.end {
            let message = format!(
                "the header describes {described} bytes of data, but the file has {found}: {} are missing",
                described.saturating_sub(found)
            );
            return Err(TRUNCATED.broken(message).at(data.end..end));
        }
        if end < data.end {
            let message = format!(
                "the header describes {described} bytes of data, but the file has {found}: {} too many",
                found.saturating_sub(described)
            );
            return Err(TRAILING_DATA.broken(message).at(end..data.end));
        }
        Ok(())
    }
}

fn named(e: Error, placed: &Placed, index: &Index) -> Error {
    match index.at(placed.tensor) {
        Some(tensor) => e.in_tensor(tensor.name()),
        None => e,
    }
}
