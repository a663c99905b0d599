//! The check of bytes that belong to no component, where the format has a rule about them.

use super::State;
use holdall_core::{Result, formats};
use holdall_io::File;
use std::ops::Range;

/// Gaps read at a time.
const BATCH: usize = 1024;

/// Checks that the gaps of the data region are zero. They are bounded by what the format allows, and are
/// looked at whatever tensors were asked for.
pub(super) fn check(file: &File, state: &State) -> Result<()> {
    let Some(rule) = formats::by_name(file.format()).and_then(|f| f.gaps) else { return Ok(()) };
    let mut ranges: Vec<(u64, u64, usize)> = Vec::new();
    for tensor in file.index().tensors() {
        let at = tensor.position();
        let own = tensor.components().filter(|c| c.stored.source == 0);
        ranges.extend(own.map(|c| (c.stored.start, c.stored.end, at)));
    }
    let claimed = file.index().claimed().iter().filter(|extent| extent.source == 0);
    ranges.extend(claimed.map(|extent| (extent.start, extent.end, usize::MAX)));
    ranges.sort_unstable();
    let mut end = file.index().data_range().start;
    let mut gaps: Vec<(Range<u64>, usize)> = Vec::new();
    for (start, own_end, tensor) in ranges {
        gaps.extend((start > end).then_some((end..start, tensor)));
        end = end.max(own_end);
    }
    let source = file.sources().at(0);
    // A few at a time: they are small, and lie far apart.
    for gaps in gaps.chunks(BATCH) {
        let ranges: Vec<Range<u64>> = gaps.iter().map(|(gap, _)| gap.clone()).collect();
        for ((gap, tensor), bytes) in gaps.iter().zip(source.read(&ranges)?) {
            let Some(at) = bytes.iter().position(|b| *b != 0) else { continue };
            let (at, value) = (gap.start + at as u64, bytes[at]);
            let message =
                format!("byte {at} is {value:#04x}, in the gap {}..{}", gap.start, gap.end);
            let name = file.index().at(*tensor).map(|t| t.name().to_owned());
            let e = rule.broken(message).at(gap.clone()).in_tensor(name.unwrap_or_default());
            state.find(*tensor, 0, e)?;
        }
    }
    Ok(())
}
