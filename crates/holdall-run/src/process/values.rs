//! Values in frames. The header describes them; their elements are in the frame's data or in shared memory. Section 3
//! of `docs/spec/runner.md`.

use crate::rules::FRAME;
use crate::runner::NamedValues;
use holdall::carton::{TensorValue, ValueType};
use holdall::error::Escape as _;
use holdall::{Bytes, Result};
use serde_json::{Map, Value as Json, json};

/// Tensors with more bytes than this are passed through shared memory, unless the caller chooses another limit.
pub const SHARED_FROM: usize = 1 << 20;
/// Tensors that would make a frame's data longer than this are passed through shared memory, too.
const DATA_TARGET: usize = 16 << 20;
/// Alignment of elements in the data, in bytes.
const ALIGN: usize = 64;
/// Maximum number of dimensions of a value, as in NumPy.
const RANK_MAX: usize = 64;

/// Encodes values: returns the content of `values` in a frame's header, and the frame's data. Tensors with more than
/// `shared_from` bytes are passed to `share`, which writes them to a file and returns its number.
///
/// # Errors
/// Returns the errors of `share`.
pub fn pack(
    values: &NamedValues,
    shared_from: usize,
    share: &mut dyn FnMut(&[u8]) -> Result<u64>,
) -> Result<(Json, Vec<u8>)> {
    let mut data = Vec::new();
    let mut all = Vec::with_capacity(values.len());
    for (name, value) in values {
        let mut row = pack_one(value, &mut data, shared_from, share)?;
        row.insert("name".to_owned(), json!(name));
        all.push(Json::Object(row));
    }
    Ok((Json::Array(all), data))
}

fn pack_one(
    value: &TensorValue,
    data: &mut Vec<u8>,
    shared_from: usize,
    share: &mut dyn FnMut(&[u8]) -> Result<u64>,
) -> Result<Map<String, Json>> {
    let mut row = Map::new();
    match value {
        TensorValue::Numbers { ty, shape, data: bytes } => {
            row.insert("dtype".to_owned(), json!(ty.as_str()));
            row.insert("shape".to_owned(), json!(shape));
            row.insert("len".to_owned(), json!(bytes.len()));
            if bytes.len() > shared_from || data.len() + bytes.len() > DATA_TARGET {
                row.insert("file".to_owned(), json!(share(bytes)?));
            } else {
                data.resize(data.len().next_multiple_of(ALIGN), 0);
                row.insert("at".to_owned(), json!(data.len()));
                data.extend_from_slice(bytes);
            }
        }
        TensorValue::Strings { shape, data } => {
            row.insert("dtype".to_owned(), json!("string"));
            row.insert("shape".to_owned(), json!(shape));
            row.insert("strings".to_owned(), json!(data));
        }
        TensorValue::Nested(inner) => {
            let rows: Result<Vec<Json>> = inner
                .iter()
                .map(|v| Ok(Json::Object(pack_one(v, data, shared_from, share)?)))
                .collect();
            row.insert("nested".to_owned(), Json::Array(rows?));
        }
    }
    Ok(row)
}

/// Decodes the values in a frame. `shared` returns the content of a shared file, given its number and expected length.
///
/// # Errors
/// Returns [`FRAME`] if the header is invalid, and the errors of `shared`.
pub fn unpack(
    header: &Json,
    data: Vec<u8>,
    shared: &mut dyn FnMut(u64, u64) -> Result<Bytes>,
) -> Result<NamedValues> {
    let data = Bytes::from(data);
    let Some(rows) = header.get("values").and_then(Json::as_array) else {
        return Err(FRAME.broken("`values` is missing in the header of a frame"));
    };
    rows.iter()
        .map(|row| {
            let Some(name) = row.get("name").and_then(Json::as_str) else {
                return Err(FRAME.broken("a value without a name"));
            };
            let value =
                unpack_one(row, &data, shared, Depth::Outer).map_err(|e| e.in_tensor(name))?;
            Ok((name.to_owned(), value))
        })
        .collect()
}

/// The nesting level of a value: only an outer one may be a nested tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Outer,
    Inner,
}

fn unpack_one(
    row: &Json,
    data: &Bytes,
    shared: &mut dyn FnMut(u64, u64) -> Result<Bytes>,
    depth: Depth,
) -> Result<TensorValue> {
    let number = |name: &str| row.get(name).and_then(Json::as_u64);
    if let Some(inner) = row.get("nested") {
        let (Some(inner), Depth::Outer) = (inner.as_array(), depth) else {
            return Err(FRAME.broken("a nested value is not a list, or is inside another"));
        };
        let inner: Result<Vec<TensorValue>> =
            inner.iter().map(|row| unpack_one(row, data, shared, Depth::Inner)).collect();
        return fits(TensorValue::nested(inner?));
    }
    let shape: Option<Vec<u64>> = row
        .get("shape")
        .and_then(Json::as_array)
        .filter(|s| s.len() <= RANK_MAX)
        .and_then(|s| s.iter().map(Json::as_u64).collect());
    let dtype = row.get("dtype").and_then(Json::as_str);
    let (Some(shape), Some(dtype)) = (shape, dtype) else {
        return Err(FRAME.broken("a value without a dtype or a shape"));
    };
    let Some(ty) = ValueType::by_name(dtype) else {
        return Err(FRAME.broken(format!("unknown dtype `{}`", dtype.escaped())));
    };
    if ty == ValueType::String {
        let texts: Option<Vec<String>> = row
            .get("strings")
            .and_then(Json::as_array)
            .and_then(|t| t.iter().map(|t| t.as_str().map(str::to_owned)).collect());
        let Some(texts) = texts else {
            return Err(FRAME.broken("`strings` is not a list of strings"));
        };
        return fits(TensorValue::strings(shape, texts));
    }
    let Some(len) = number("len") else { return Err(FRAME.broken("a value without `len`")) };
    let bytes = match (number("file"), number("at")) {
        (Some(file), None) => shared(file, len)?,
        (None, Some(at)) => {
            let end = at.checked_add(len).filter(|end| *end <= data.len() as u64);
            let Some(end) = end else {
                let have = data.len();
                return Err(FRAME.broken(format!(
                    "{len} bytes at offset {at} are outside the data of {have} bytes"
                )));
            };
            data.slice(at as usize..end as usize)
        }
        _ => return Err(FRAME.broken("expected either `file` or `at` for numbers")),
    };
    fits(TensorValue::numbers(ty, shape, bytes))
}

/// A value that does not fit its shape makes the frame invalid.
fn fits(value: Result<TensorValue>) -> Result<TensorValue> {
    value.map_err(|e| e.with_rule(&FRAME))
}
