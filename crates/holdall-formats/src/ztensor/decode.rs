//! Decodes the index of a file of any generation before 2.

use super::footer::{self, Footer, Generation};
use super::respell::respell;
use super::{FORMAT, lost_end, v0, v1};
use holdall_core::error::Result;
use holdall_core::limits::Limits;
use holdall_core::model::{Index, IndexBuilder};
use holdall_core::window::{Stop, Window};
use holdall_core::wire::cbor::{ITEM_KIND, KEY, Reader};

pub(super) fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let found = if limits.salvage { lost_end::find(window, limits)? } else { None };
    let Footer { generation, manifest } = match found {
        Some(found) => found,
        None => footer::find(window, limits)?,
    };
    let bytes = window.bytes(manifest.clone())?;
    let builder = || {
        let data = footer::WORD..manifest.start;
        IndexBuilder::new(FORMAT.id, "0.1.0", window.len(), data, limits).with_overlap_faults()
    };
    let read = |reader: Reader<'_>, builder: IndexBuilder| match generation {
        Generation::V0 => v0::decode(reader, builder, limits),
        _ => v1::decode(reader, generation, builder, limits),
    };
    let e = match read(Reader::new(&bytes, manifest.start, limits), builder()) {
        Err(e) if [&ITEM_KIND, &KEY].contains(&e.rule()) => e,
        done => return Ok(done?),
    };
    let is_v0 = generation == Generation::V0;
    let Ok(Some(plain)) = respell(&bytes, is_v0, limits) else { return Err(e.into()) };
    let mut builder = builder();
    plain.unrepresented.into_iter().for_each(|words| builder.unrepresented(|| words));
    Ok(read(Reader::from_copy(&plain.bytes, manifest, limits), builder)?)
}
