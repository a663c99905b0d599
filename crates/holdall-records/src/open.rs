//! Finding the records of a tensor, and everything about them that can be checked without looking at
//! one.

use super::rules::{HEAP as HEAP_RULE, KIND as KIND_RULE, SIZE};
use super::store::Store;
use super::{HEAP, Inner, RECORDS, Records, check_layout};
use holdall_core::{Result, Role};
use holdall_io::Tensor;
use holdall_json::parse;
use holdall_schema::{KIND_ATTRIBUTE, Schema, SchemaLimits, normal};
use serde_json::Value;
use std::sync::Arc;

pub(super) fn records(tensor: &Tensor) -> Result<Records> {
    tensor.sound()?;
    check_layout(tensor, RECORDS)?;
    let limits = tensor.file().limits().of_schemas();
    let schema = Schema::compile_record(&kind(tensor, &limits)?, &limits)?;
    let Some(ty) = schema.record() else {
        return Err(KIND_RULE.broken("the schema is not that of a record"));
    };
    let extent = schema.extent(ty)?;
    let count = count(tensor)?;
    let data = Store::open(tensor, &Role::Data)?;
    let (Ok(size), Ok(stride)) = (usize::try_from(extent.size), usize::try_from(extent.stride))
    else {
        return Err(SIZE.broken(format!("records of {} bytes do not fit memory", extent.size)));
    };
    if stride == 0 || count.checked_mul(extent.stride) != Some(data.len()) {
        let message =
            format!("{count} records of {stride} bytes, the component has {}", data.len());
        return Err(SIZE.broken(message).in_component(Role::Data));
    }
    let role = Role::from_name(HEAP);
    let heap = match (schema.ty(ty).heap_align, tensor.component(&role)) {
        (Some(_), Some(_)) => Store::open(tensor, &role)?,
        (None, None) => Store::empty(),
        (Some(_), None) => {
            return Err(HEAP_RULE.broken("the records have entries, and there is no `blob_data`"));
        }
        (None, Some(_)) => {
            return Err(HEAP_RULE.broken("the records have no entries, and there is a `blob_data`"));
        }
    };
    let limits = of_records(&limits, tensor, data.len().saturating_add(heap.len()));
    let tensor = tensor.clone();
    let inner = Inner { tensor, schema, ty, extent, size, stride, count, limits, data, heap };
    Ok(Records(Arc::new(inner)))
}

/// Bytes that the entries of a record may stand for, however little the file has.
const SMALL: u64 = 1 << 20;

/// Limits for the records of a tensor of `len` bytes: entries that share bytes may stand for far more than
/// there is, and each byte of that becomes a value.
fn of_records(limits: &SchemaLimits, tensor: &Tensor, len: u64) -> SchemaLimits {
    let most = len.saturating_mul(tensor.file().limits().expansion).max(SMALL);
    limits.clone().with_decoded_len(limits.decoded_len.min(most))
}

/// The JSON of a tensor's kind.
pub(super) fn kind(tensor: &Tensor, limits: &SchemaLimits) -> Result<Value> {
    let Some(found) = tensor.attributes().get(KIND_ATTRIBUTE) else {
        return Err(KIND_RULE.broken(format!("there is no attribute `{KIND_ATTRIBUTE}`")));
    };
    let Some(text) = found.as_text() else {
        return Err(KIND_RULE.broken(format!("the attribute `{KIND_ATTRIBUTE}` is not text")));
    };
    parse(text.as_bytes(), limits.depth).and_then(normal)
}

/// The one dimension of a dataset or a blob.
pub(super) fn count(tensor: &Tensor) -> Result<u64> {
    match tensor.shape() {
        [count] => Ok(*count),
        shape => Err(SIZE.broken(format!("shape {shape:?} has not one dimension"))),
    }
}
