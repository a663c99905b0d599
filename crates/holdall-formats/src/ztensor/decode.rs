//! The index of a file, of whatever generation.

use super::footer::{self, Footer, Generation};
use super::{FORMAT, lost_end, v0, v1};
use holdall_core::limits::Limits;
use holdall_core::model::{Index, IndexBuilder};
use holdall_core::window::{Stop, Window};
use holdall_core::wire::cbor::Reader;

pub(super) fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let found = if limits.salvage { lost_end::find(window, limits)? } else { None };
    let Footer { generation, manifest } = match found {
        Some(found) => found,
        None => footer::find(window, limits)?,
    };
    let bytes = window.bytes(manifest.clone())?;
    let reader = Reader::new(&bytes, manifest.start, limits);
    let data = footer::WORD..manifest.start;
    let builder = IndexBuilder::new(FORMAT.id, "0.1.0", window.len(), data, limits);
    Ok(match generation {
        Generation::V0 => v0::decode(reader, builder, limits)?,
        _ => v1::decode(reader, generation, builder, limits)?,
    })
}
