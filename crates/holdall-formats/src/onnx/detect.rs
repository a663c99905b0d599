//! Whether a file is an ONNX model, which nothing marks.

use holdall_core::window::{Stop, Window};
use holdall_core::wire::protobuf::{Item, Scan};
use std::ops::Range;

/// Texts before the graph that a model may have, for one to be taken for a model.
const MAX_TEXT: u64 = 64 << 10;

/// Fields before the graph.
const MAX_FIELDS: usize = 256;

/// Whether this is a model: known fields alone up to a graph, texts among them.
///
/// # Errors
/// What the window needs.
pub fn detect(window: &Window) -> Result<bool, Stop> {
    let head = window.head(16)?;
    // The version comes first, as a rule; without one, something that is long enough.
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
            // A graph that is cut short is one, where a version came before it.
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

/// Whether the first field is one of a graph.
fn is_graph(window: &Window, place: Range<u64>) -> Result<bool, Stop> {
    match Scan::new(window, place).next()? {
        None | Some((1 | 2 | 5 | 10..=16, Item::Bytes(_))) => Ok(true),
        _ => Ok(false),
    }
}
