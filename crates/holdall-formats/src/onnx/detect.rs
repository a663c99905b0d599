//! Recognises an ONNX model, which has no magic number.

use holdall_core::window::{Stop, Window};
use holdall_core::wire::protobuf::{Item, Scan};
use std::ops::Range;

/// The maximum length of a string before the graph of a model.
const MAX_TEXT: u64 = 64 << 10;

/// The maximum number of fields before the graph.
const MAX_FIELDS: usize = 256;

/// Returns `true` for a model: all fields up to a graph are known ones.
///
/// # Errors
/// Returns [`Stop::Need`] if bytes are missing.
pub fn detect(window: &Window) -> Result<bool, Stop> {
    let head = window.head(16)?;
    // The version usually comes first; without it, the first field must be long.
    if !matches!(head.first(), Some(0x08 | 0x12 | 0x1a | 0x3a | 0x42)) {
        return Ok(false);
    }
    match is_model(window) {
        Err(Stop::Fail(_)) => Ok(false),
        found => found,
    }
}

fn is_model(window: &Window) -> Result<bool, Stop> {
    let mut scan = Scan::new(window, 0..window.len());
    for _ in 0..MAX_FIELDS {
        let at = scan.position();
        let found = match scan.next() {
            // A graph that is cut short is accepted if a version came before it.
            Err(Stop::Fail(_)) => {
                return Ok(at > 0 && window.bytes(at..at.saturating_add(1))?.as_ref() == [0x3a]);
            }
            found => found?,
        };
        match found {
            Some((1 | 5, Item::Varint(_))) => {}
            Some((7, Item::Bytes(run))) => return is_graph(window, run),
            Some((2 | 3 | 4 | 6 | 8 | 14, Item::Bytes(run))) => {
                let len = run.end.saturating_sub(run.start);
                if len > MAX_TEXT || std::str::from_utf8(&window.bytes(run)?).is_err() {
                    return Ok(false);
                }
            }
            Some((20 | 25 | 26, Item::Bytes(_))) => {}
            _ => return Ok(false),
        }
    }
    Ok(false)
}

/// Returns `true` if the first field is one of a graph.
fn is_graph(window: &Window, place: Range<u64>) -> Result<bool, Stop> {
    match Scan::new(window, place).next()? {
        None | Some((1 | 2 | 5 | 10..=16, Item::Bytes(_))) => Ok(true),
        _ => Ok(false),
    }
}
