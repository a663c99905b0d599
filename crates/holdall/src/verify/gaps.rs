//! The check of bytes that belong to no component, where the format has a rule about them.

use super::State;
use crate::file::File;
use holdall_core::{Result, formats};

/// Bytes read at a time.
const STEP: u64 = 64 << 10;

/// Checks that the gaps of the data region are zero. They are bounded by what the format allows, and are
/// looked at whatever tensors were asked for.
pub(super) fn check(file: &File, state: &State) -> Result<()> {
    let Some(rule) = formats::by_name(file.format()).and_then(|f| f.gaps) else { return Ok(()) };
    let mut ranges: Vec<(u64, u64, usize)> = Vec::new();
    for tensor in file.index().tensors() {
        let at = tensor.position();
        ranges.extend(tensor.components().map(|c| (c.stored.start, c.stored.end, at)));
    }
    ranges.sort_unstable();
    let mut end = file.index().data_range().start;
    for (start, own_end, tensor) in ranges {
        for from in (end..start).step_by(STEP as usize) {
            let to = start.min(from + STEP);
            let bytes = file.source().read_range(from..to)?;
            if let Some(at) = bytes.iter().position(|b| *b != 0) {
                let (at, value) = (from + at as u64, bytes[at]);
                let message = format!("byte {at} is {value:#04x}, in the gap {end}..{start}");
                let name = file.index().at(tensor).map(|t| t.name().to_owned());
                let e = rule.broken(message).at(end..start).in_tensor(name.unwrap_or_default());
                state.find(tensor, 0, e)?;
                break;
            }
        }
        end = end.max(own_end);
    }
    Ok(())
}
