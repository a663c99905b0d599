//! Opens the records of a tensor and checks everything that can be checked without reading a record.

use super::compared::Compared;
use super::store::Store;
use super::{HEAP, Inner, RECORDS, Records, check_layout};
use holdall_core::layout::records::{Dataset, limits_of, schema_text};
use holdall_core::{Result, Role};
use holdall_io::{Check, Tensor};
use holdall_json::parse;
use holdall_schema::{Schema, SchemaLimits, normalize};
use serde_json::Value;
use std::sync::Arc;

pub(super) fn records(tensor: &Tensor) -> Result<Records> {
    tensor.sound()?;
    check_layout(tensor, RECORDS)?;
    let all = tensor.file().limits();
    let limits = all.schema_limits();
    let schema = Schema::compile_record(&schema_of(tensor, &limits)?, &limits)?;
    let dataset = Dataset::new(tensor.info(), schema)?;
    let data = Store::open(tensor, &Role::Data)?;
    dataset.check_len(data.len())?;
    let heap = match dataset.has_heap(tensor.info())? {
        true => Store::open(tensor, &Role::from_name(HEAP))?,
        false => Store::empty(),
    };
    let limits = limits_of(all, data.len().saturating_add(heap.len()));
    let tensor = tensor.clone();
    let Dataset { schema, ty, extent, size, stride, count } = dataset;
    let compared = Compared::default();
    let inner =
        Inner { tensor, schema, ty, extent, size, stride, count, limits, data, heap, compared };
    let records = Records(Arc::new(inner));
    // Compares all bytes with the digests now, so that single records come from verified bytes.
    if records.tensor().file().check() == Check::All {
        records.compare()?;
    }
    Ok(records)
}

/// Returns the normalized JSON of a tensor's kind.
pub(super) fn schema_of(tensor: &Tensor, limits: &SchemaLimits) -> Result<Value> {
    parse(schema_text(tensor.info())?.as_bytes(), limits.depth).and_then(normalize)
}
