//! Checks bytes that belong to no component, if the format has a rule about them.

use super::State;
use holdall_core::{Result, Warning};
use holdall_io::File;
use holdall_io::select::Select;
use std::ops::Range;

/// Number of gaps read at a time.
const BATCH: usize = 1024;
/// The minimum alignment of components, in bytes.
const LEAST_ALIGN: u64 = 64;
/// The maximum alignment that files are written with, in bytes.
const MAX_ALIGN: u64 = 2 << 20;

/// Checks that the gaps of the data region are zero. The format limits their length, and they are checked for
/// any selection of tensors.
pub(super) fn check(file: &File, state: &State) -> Result<()> {
    let Some(rule) = holdall_formats::by_name(file.format()).and_then(|f| f.gaps) else {
        return Ok(());
    };
    let gaps: Vec<(Range<u64>, usize)> = gaps(file);
    let source = file.sources().at(0);
    // In batches, since gaps are small and far apart.
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

/// Returns the gaps of the data region before each component, and the index of the tensor that follows.
fn gaps(file: &File) -> Vec<(Range<u64>, usize)> {
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
    gaps
}

/// Returns a warning if alignment padding is not zero, if the format has that warning. Longer gaps may hold
/// the bytes of removed tensors, and are not checked. Padding of a remote file is not read, since each read
/// would cost a round trip.
pub(super) fn padding(file: &File, select: &Select) -> Result<Option<Warning>> {
    let code = holdall_formats::by_name(file.format()).and_then(|f| f.padding?(file.version()));
    let Some(code) = code.filter(|_| !file.sources().read_hints().is_remote()) else {
        return Ok(None);
    };
    let starts = file.tensors().flat_map(|t| t.components().collect::<Vec<_>>());
    let starts = starts.filter(|c| c.stored.source == 0 && !c.stored.is_empty());
    let bits = starts.fold(MAX_ALIGN, |all, c| all | c.stored.start);
    let align = (1u64 << bits.trailing_zeros()).max(LEAST_ALIGN);
    let padding = |(gap, tensor): (Range<u64>, usize)| {
        let next = gap.start.next_multiple_of(align);
        // Unused bytes start at a multiple of the minimum alignment at the earliest.
        let end = if next == gap.end { next } else { gap.start.next_multiple_of(LEAST_ALIGN) };
        (gap.start..end.min(gap.end), tensor)
    };
    let gaps: Vec<_> = gaps(file).into_iter().map(padding).collect();
    let mut warning: Option<Warning> = None;
    let source = file.sources().at(0);
    for gaps in gaps.chunks(BATCH) {
        let ranges: Vec<Range<u64>> = gaps.iter().map(|(gap, _)| gap.clone()).collect();
        for ((gap, tensor), bytes) in gaps.iter().zip(source.read(&ranges)?) {
            let Some(at) = bytes.iter().position(|b| *b != 0) else { continue };
            if !select.is_all()
                && !file.index().at(*tensor).is_some_and(|t| select.selects(t.name()))
            {
                continue;
            }
            if let Some(warning) = &mut warning {
                warning.count += 1;
                continue;
            }
            let (at, value) = (gap.start + at as u64, bytes[at]);
            let message = format!(
                "byte {at} is {value:#04x}, in padding {}..{} that writers set to zero",
                gap.start, gap.end
            );
            let found = Warning::new(code, message);
            let name = file.index().at(*tensor).map(|t| t.name().to_owned());
            warning = Some(match name {
                Some(name) => found.in_tensor(name),
                None => found,
            });
        }
    }
    Ok(warning)
}
