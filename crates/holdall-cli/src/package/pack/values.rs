//! Tensors for self-tests and examples, as users bring them.

use holdall::carton::{Value, ValueType};
use holdall::wire::npy;
use holdall::{ByteOrder, DType, Error, Result};
use std::path::{Path, PathBuf};

/// `NAME=FILE`.
pub(super) fn pair(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("write NAME=FILE, as `x=x.npy`")?;
    Ok((name.to_owned(), path.into()))
}

/// The tensor in an `.npy` file, or the texts in a `.json` file.
pub(super) fn read(path: &Path) -> Result<Value> {
    let failed = |e: std::io::Error| {
        let rule = &holdall::error::IO;
        rule.broken(format!("opening: {e}")).with_io(e)
    };
    let read = || {
        let bytes = std::fs::read(path).map_err(failed)?;
        match path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json")) {
            true => texts(&bytes),
            false => numbers(&bytes),
        }
    };
    read().map_err(|e: Error| e.in_source(path.display()))
}

fn refused(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    crate::exit::LENGTH.broken(what)
}

/// A list of texts, or lists of lists of them that are equally long.
fn texts(bytes: &[u8]) -> Result<Value> {
    let json: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|e| refused(format!("this is no JSON: {e}")))?;
    let mut shape = Vec::new();
    let mut at = &json;
    while let serde_json::Value::Array(items) = at {
        shape.push(items.len() as u64);
        match items.first() {
            Some(first) => at = first,
            None => break,
        }
    }
    let mut data = Vec::new();
    collect(&json, &shape, &mut data)?;
    Value::strings(shape, data)
}

fn collect(json: &serde_json::Value, shape: &[u64], out: &mut Vec<String>) -> Result<()> {
    match (json, shape) {
        (serde_json::Value::String(text), []) => out.push(text.clone()),
        (serde_json::Value::Array(items), [len, rest @ ..]) if items.len() as u64 == *len => {
            items.iter().try_for_each(|item| collect(item, rest, out))?;
        }
        _ => return Err(refused("this is no list of texts, or lists in it differ in length")),
    }
    Ok(())
}

fn numbers(bytes: &[u8]) -> Result<Value> {
    let header = npy::read(bytes)?;
    let ty = match (&header.logical_type, header.dtype) {
        (None, DType::F32) => ValueType::Float32,
        (None, DType::F64) => ValueType::Float64,
        (None, DType::I8) => ValueType::Int8,
        (None, DType::I16) => ValueType::Int16,
        (None, DType::I32) => ValueType::Int32,
        (None, DType::I64) => ValueType::Int64,
        (None, DType::U8) => ValueType::Uint8,
        (None, DType::U16) => ValueType::Uint16,
        (None, DType::U32) => ValueType::Uint32,
        (None, DType::U64) => ValueType::Uint64,
        (_, dtype) => {
            let e = refused(format!("a package has no tensors of {}", dtype.as_str()));
            return Err(e.with_hint("convert it in NumPy: float32, float64 and integers work"));
        }
    };
    let is_plain = header.shape.len() < 2 || !header.fortran_order;
    if !is_plain || header.byte_order == ByteOrder::Big {
        let e = refused("the array is in Fortran order, or big-endian");
        return Err(e.with_hint("save it with `np.save(path, np.ascontiguousarray(array))`"));
    }
    let start = usize::try_from(header.len).unwrap_or(usize::MAX);
    let data = bytes.get(start..).unwrap_or_default().to_vec();
    Value::numbers(ty, header.shape, data.into())
}
