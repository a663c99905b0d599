//! Values that the user provides: `.npy` files, raw bytes, JSON.

use crate::exit::{Failure, INPUT_NAME, INPUT_SHAPE, INPUT_VALUE, LENGTH};
use holdall::carton::{DimSpec, ShapeSpec, TensorValue, ValueSpec, ValueType, signature};
use holdall::error::Escape as _;
use holdall::{ByteOrder, DType, Error, Result, element_count, npy};
use serde_json::Value as Json;
use std::path::Path;

/// Parses inputs: from `NAME=VALUE`, from values in the declared order if none has a name, and from a JSON object.
pub(super) fn inputs(
    declared: &[ValueSpec],
    given: &[String],
    object: Option<&str>,
) -> Result<Vec<(String, TensorValue)>, Failure> {
    let mut out = Vec::new();
    let mut unnamed = 0;
    for text in given {
        let is_name = |name: &str| declared.is_empty() || declared.iter().any(|d| d.name == name);
        let named =
            text.split_once('=').filter(|(name, _)| is_name(name) || !Path::new(text).exists());
        let (name, what) = match named {
            Some((name, what)) => (name.to_owned(), what),
            None => {
                let Some(spec) = declared.get(unnamed) else {
                    if !declared.is_empty() {
                        // Report too many inputs in the same way as the library.
                        let all =
                            given.iter().map(|_| TensorValue::from_elements(vec![0], &[0u8; 0]));
                        let all = all.collect::<Result<Vec<_>>>()?;
                        signature::assign_names(declared, all)?;
                    }
                    let e = INPUT_NAME.broken(format!("`{}` has no name", text.escaped()));
                    return Err(e.with_hint("write NAME=FILE or NAME=JSON").into());
                };
                unnamed += 1;
                (spec.name.clone(), text.as_str())
            }
        };
        let spec = declared.iter().find(|d| d.name == name);
        out.push((name.clone(), one(&name, what, spec)?));
    }
    if unnamed > 0 && unnamed < given.len() {
        let e = "only some inputs have names";
        return Err(INPUT_NAME.broken(e).with_hint("write NAME= before each").into());
    }
    if let Some(text) = object {
        let wrong = |e: String| INPUT_VALUE.broken(e);
        let all: Json = serde_json::from_str(text)
            .map_err(|e| wrong(format!("the inputs are not JSON: {e}")))?;
        let Json::Object(all) = all else {
            return Err(
                wrong("the inputs are not a JSON object of names and values".to_owned()).into()
            );
        };
        for (name, json) in &all {
            let spec = declared.iter().find(|d| d.name == *name);
            let value =
                read_json(json, spec.map(|s| s.ty)).map_err(|e| e.in_tensor(name.as_str()))?;
            out.push((name.clone(), value));
        }
    }
    Ok(out)
}

/// Parses a value: the name of a file, or JSON.
pub(crate) fn one(name: &str, what: &str, spec: Option<&ValueSpec>) -> Result<TensorValue> {
    let path = Path::new(what);
    if value_file_kind(path).is_none()
        && let Ok(json) = serde_json::from_str::<Json>(what)
    {
        return read_json(&json, spec.map(|s| s.ty)).map_err(|e| e.in_tensor(name));
    }
    if value_file_kind(path).is_some() || path.exists() {
        read_file(path, spec)
    } else if let Some(why) = out_of_range(what) {
        Err(INPUT_VALUE.broken(why).in_tensor(name))
    } else {
        let e = INPUT_VALUE.broken(format!("`{}` is neither a file nor JSON", what.escaped()));
        Err(e.in_tensor(name).with_hint(
            "write the name of a file, or JSON such as `x=[[1, 2], [3, 4]]`; strings are quoted: `'x=\"text\"'`",
        ))
    }
}

/// The kind of a value's file, by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueFileKind {
    Npy,
    Json,
}

pub(crate) fn value_file_kind(path: &Path) -> Option<ValueFileKind> {
    let extension = path.extension()?;
    [("npy", ValueFileKind::Npy), ("json", ValueFileKind::Json)]
        .into_iter()
        .find_map(|(own, form)| extension.eq_ignore_ascii_case(own).then_some(form))
}

/// Reads the value in a file: `.npy`, `.json`, or raw elements.
pub(crate) fn read_file(path: &Path, spec: Option<&ValueSpec>) -> Result<TensorValue> {
    let read = || {
        let bytes = std::fs::read(path).map_err(|e| holdall::error::io(e, "opening"))?;
        if bytes.starts_with(b"\x93NUMPY") {
            return read_npy(&bytes);
        }
        match value_file_kind(path) {
            Some(ValueFileKind::Npy) => read_npy(&bytes),
            Some(ValueFileKind::Json) => {
                let json = serde_json::from_slice(&bytes);
                let json = json.map_err(|e| {
                    LENGTH
                        .broken("the file's extension is `.json`, but it is not valid JSON")
                        .because(e)
                })?;
                read_json(&json, spec.map(|s| s.ty))
            }
            None => read_raw(bytes, spec),
        }
    };
    read().map_err(|e| e.in_source(path.display()))
}

/// Describes the error of JSON with a number that is out of range.
fn out_of_range(what: &str) -> Option<String> {
    let e = serde_json::from_str::<Json>(what).err()?;
    let is_range = e.to_string().starts_with("number out of range");
    is_range.then(|| {
        format!(
            "`{}`: a number at column {} is too large for a float; write \"Infinity\" for infinity",
            what.escaped(),
            e.column()
        )
    })
}

/// Parses an `.npy` file.
fn read_npy(bytes: &[u8]) -> Result<TensorValue> {
    let header = npy::read(bytes)?;
    let ty = match (&header.logical_type, header.dtype) {
        (None, DType::F32) => ValueType::Float32,
        (None, DType::F64) => ValueType::Float64,
        (None, DType::I8) => ValueType::Int8,
        (None, DType::I16) => ValueType::Int16,
        (None, DType::I32) => ValueType::Int32,
        (None, DType::I64) => ValueType::Int64,
        // Models use uint8 for booleans.
        (None, DType::U8 | DType::Bool) => ValueType::Uint8,
        (None, DType::U16) => ValueType::Uint16,
        (None, DType::U32) => ValueType::Uint32,
        (None, DType::U64) => ValueType::Uint64,
        (logical, dtype) => {
            let name = logical.as_ref().map_or(dtype.as_str(), |l| l.as_str());
            let e = INPUT_VALUE
                .broken(format!("elements of type {} are not supported", name.escaped()));
            return Err(e.with_hint(
                "models accept float32, float64 and integers: convert the array with NumPy",
            ));
        }
    };
    let start = usize::try_from(header.len).unwrap_or(usize::MAX);
    let mut data = bytes.get(start..).unwrap_or_default().to_vec();
    let width = header.dtype.width() as usize;
    if header.byte_order == ByteOrder::Big {
        data.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    let count = element_count(&header.shape).and_then(|n| n.checked_mul(width as u64));
    if header.fortran_order && count == Some(data.len() as u64) {
        data = row_major(&data, &header.shape, width);
    }
    TensorValue::numbers(ty, header.shape, data.into())
}

/// Rearranges elements from column-major to row-major order.
fn row_major(data: &[u8], shape: &[u64], width: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    let mut index = vec![0u64; shape.len()];
    for _ in 0..data.len() / width {
        let (mut at, mut step) = (0, 1);
        for (i, size) in index.iter().zip(shape) {
            at += i * step;
            step *= size;
        }
        let from = at as usize * width;
        out.extend_from_slice(&data[from..from + width]);
        for (i, size) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < *size {
                break;
            }
            *i = 0;
        }
    }
    out
}

/// Returns a value with these raw elements; the declaration gives the type and the shape.
fn read_raw(data: Vec<u8>, spec: Option<&ValueSpec>) -> Result<TensorValue> {
    let hint = "save it as `.npy`, which contains the type and the shape";
    let broken = |e: String| INPUT_SHAPE.broken(e).with_hint(hint);
    let Some(spec) = spec else {
        return Err(broken("raw bytes for an undeclared input".to_owned()));
    };
    let (Some(width), ShapeSpec::Dims(dims)) = (spec.ty.width(), &spec.shape) else {
        return Err(broken("raw bytes for an input without a declared shape".to_owned()));
    };
    let known = dims.iter().filter_map(|d| match d {
        DimSpec::Size(size) => Some(*size),
        _ => None,
    });
    let known: Vec<u64> = known.collect();
    let each = element_count(&known).and_then(|n| n.checked_mul(width)).unwrap_or(0);
    let len = data.len() as u64;
    let open = match (dims.len() - known.len(), len.checked_rem(each)) {
        (0, _) => 0,
        (1, Some(0)) => len / each,
        (1, _) => {
            return Err(broken(format!("{len} bytes, expected a multiple of {each}")));
        }
        (more, _) => return Err(broken(format!("{more} dimensions have no declared size"))),
    };
    let shape = dims.iter().map(|d| match d {
        DimSpec::Size(size) => *size,
        _ => open,
    });
    TensorValue::numbers(spec.ty, shape.collect(), data.into())
}

/// Parses numbers or strings in nested lists. Without a declared type, integers are `int64` and other numbers
/// `float32`.
fn read_json(json: &Json, ty: Option<ValueType>) -> Result<TensorValue> {
    let mut flat = Vec::new();
    if let Some(shape) = flatten(json, &mut flat) {
        let ty = ty.unwrap_or_else(|| match flat.first() {
            Some(Json::String(_)) => ValueType::String,
            _ if flat.iter().all(|x| x.is_i64()) => ValueType::Int64,
            _ => ValueType::Float32,
        });
        return elements(ty, shape, &flat);
    }
    // Lists of different lengths: a nested tensor.
    let Json::Array(parts) = json else { unreachable!("a value that is not a list has a shape") };
    let parts: Result<Vec<TensorValue>> = parts
        .iter()
        .map(|part| {
            let mut flat = Vec::new();
            let shape = flatten(part, &mut flat).ok_or_else(|| {
                INPUT_VALUE
                    .broken("lists of different lengths are allowed only in the outermost list")
            })?;
            elements(ty.unwrap_or(ValueType::Float32), shape, &flat)
        })
        .collect();
    TensorValue::nested(parts?)
}

/// Collects the elements of nested lists, and returns their shape; `None` if lists on the same level have different
/// lengths.
fn flatten<'a>(json: &'a Json, flat: &mut Vec<&'a Json>) -> Option<Vec<u64>> {
    let Json::Array(parts) = json else {
        flat.push(json);
        return Some(Vec::new());
    };
    let mut inner: Option<Vec<u64>> = None;
    for part in parts {
        let shape = flatten(part, flat)?;
        if *inner.get_or_insert_with(|| shape.clone()) != shape {
            return None;
        }
    }
    let mut shape = vec![parts.len() as u64];
    shape.extend(inner.unwrap_or_default());
    Some(shape)
}

fn elements(ty: ValueType, shape: Vec<u64>, flat: &[&Json]) -> Result<TensorValue> {
    macro_rules! integers {
        ($ty:ty) => {{
            let each = |x: &&Json| {
                let whole = x.as_i64().map(i128::from).or(x.as_u64().map(i128::from));
                whole.and_then(|n| <$ty>::try_from(n).ok()).ok_or_else(|| wrong(x, ty))
            };
            let all: Result<Vec<$ty>> = flat.iter().map(each).collect();
            TensorValue::from_elements(shape, &all?)
        }};
    }
    match ty {
        ValueType::String => {
            let each = |x: &&Json| x.as_str().map(str::to_owned).ok_or_else(|| wrong(x, ty));
            TensorValue::strings(shape, flat.iter().map(each).collect::<Result<_>>()?)
        }
        ValueType::Float64 => {
            let all: Result<Vec<f64>> = flat.iter().map(|x| float(x, ty)).collect();
            TensorValue::from_elements(shape, &all?)
        }
        ValueType::Float32 => {
            let each = |x: &&Json| {
                let wide = float(x, ty)?;
                let near = wide as f32;
                match near.is_infinite() && wide.is_finite() {
                    true => Err(too_large(x, ty)),
                    false => Ok(near),
                }
            };
            let all: Result<Vec<f32>> = flat.iter().map(each).collect();
            TensorValue::from_elements(shape, &all?)
        }
        ValueType::Int8 => integers!(i8),
        ValueType::Int16 => integers!(i16),
        ValueType::Int32 => integers!(i32),
        ValueType::Int64 => integers!(i64),
        ValueType::Uint8 => integers!(u8),
        ValueType::Uint16 => integers!(u16),
        ValueType::Uint32 => integers!(u32),
        ValueType::Uint64 => integers!(u64),
        other => {
            Err(INPUT_VALUE
                .broken(format!("elements of type {} are not supported", other.as_str())))
        }
    }
}

/// Infinities and NaN are strings, because JSON numbers cannot express them.
fn float(json: &Json, ty: ValueType) -> Result<f64> {
    match json.as_str() {
        Some("NaN") => Ok(f64::NAN),
        Some("Infinity") => Ok(f64::INFINITY),
        Some("-Infinity") => Ok(f64::NEG_INFINITY),
        Some(_) => Err(wrong(json, ty)),
        None => json.as_f64().ok_or_else(|| wrong(json, ty)),
    }
}

#[cold]
fn too_large(json: &Json, ty: ValueType) -> Error {
    let (shown, ty) = (json.to_string(), ty.as_str());
    let e = INPUT_VALUE.broken(format!("`{shown}` is too large for {ty}"));
    e.with_hint("write \"Infinity\" or \"-Infinity\" for infinity")
}

fn wrong(json: &Json, ty: ValueType) -> Error {
    let shown: String = json.to_string().chars().take(40).collect();
    INPUT_VALUE.broken(format!("`{}` is not a {}", shown.escaped(), ty.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str, ty: Option<ValueType>) -> Result<TensorValue, &'static str> {
        read_json(&serde_json::from_str(text).unwrap(), ty).map_err(|e| e.code())
    }

    #[test]
    fn json_is_read_in_the_declared_type() {
        let f32 = Some(ValueType::Float32);
        assert_eq!(
            json("[[1, 2.5]]", f32).ok(),
            TensorValue::from_elements(vec![1, 2], &[1f32, 2.5]).ok()
        );
        assert_eq!(
            json("3", Some(ValueType::Uint8)).ok(),
            TensorValue::from_elements(vec![], &[3u8]).ok()
        );
        assert_eq!(json("[1, 2]", None).ok(), TensorValue::from_elements(vec![2], &[1i64, 2]).ok());
        assert_eq!(
            json("[1, 2.5]", None).ok(),
            TensorValue::from_elements(vec![2], &[1f32, 2.5]).ok()
        );
        assert_eq!(json("[]", f32).ok(), TensorValue::from_elements(vec![0], &[0f32; 0]).ok());
        assert_eq!(
            json("\"a\"", None).ok(),
            TensorValue::strings(vec![], vec!["a".to_owned()]).ok()
        );
        let big = TensorValue::from_elements(vec![1], &[u64::MAX]).ok();
        assert_eq!(json("[18446744073709551615]", Some(ValueType::Uint64)).ok(), big);
        let inf = TensorValue::from_elements(vec![1], &[f64::NEG_INFINITY]).ok();
        assert_eq!(json("[\"-Infinity\"]", Some(ValueType::Float64)).ok(), inf);
        // The largest f32, and a number that is rounded to it.
        let most = TensorValue::from_elements(vec![2], &[f32::MAX, f32::MIN]).ok();
        assert_eq!(json("[3.4028235e38, -3.4028235677e38]", f32).ok(), most);
        let ragged = json("[[1, 2], [3]]", f32).unwrap();
        assert!(matches!(ragged, TensorValue::Nested(parts) if parts.len() == 2));
        for (text, ty) in [
            ("[300]", ValueType::Uint8),
            ("[1.5]", ValueType::Int32),
            ("[\"a\"]", ValueType::Float32),
            ("[1]", ValueType::String),
            ("[null]", ValueType::Float32),
            ("[1e39]", ValueType::Float32),
            ("[-1e39]", ValueType::Float32),
            ("[[1], [2, 3.5e38]]", ValueType::Float32),
            ("[[[1], [2, 3]], [[1], [2]]]", ValueType::Float32),
        ] {
            assert_eq!(json(text, Some(ty)), Err("input/value"), "{text}");
        }
    }

    #[test]
    fn npy_is_read_in_both_orders() {
        let file = |descr: &str, fortran: &str, shape: &str, data: &[u8]| {
            let dict =
                format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
            let mut out = b"\x93NUMPY\x01\x00".to_vec();
            out.extend_from_slice(&(dict.len() as u16).to_le_bytes());
            out.extend_from_slice(dict.as_bytes());
            out.extend_from_slice(data);
            read_npy(&out).map_err(|e| e.code())
        };
        let want = TensorValue::from_elements(vec![2, 3], &[1i16, 2, 3, 4, 5, 6]).unwrap();
        let le = [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0];
        assert_eq!(file("<i2", "False", "(2, 3)", &le), Ok(want.clone()));
        let columns = [0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6];
        assert_eq!(file(">i2", "True", "(2, 3)", &columns), Ok(want));
        assert_eq!(
            file("|b1", "False", "(1,)", &[1]),
            Ok(TensorValue::from_elements(vec![1], &[1u8]).unwrap())
        );
        assert_eq!(file("<i2", "False", "(2, 3)", &le[1..]), Err("signature/value"));
        assert_eq!(file("<f2", "False", "(1,)", &[0, 0]), Err("input/value"));
    }

    #[test]
    fn raw_bytes_take_the_declared_shape() {
        let spec =
            |dims: Vec<DimSpec>| ValueSpec::new("x", ValueType::Int16, ShapeSpec::Dims(dims));
        let n = || DimSpec::Symbol("n".to_owned());
        let read =
            |dims, len: usize| read_raw(vec![0; len], Some(&spec(dims))).map_err(|e| e.code());
        assert_eq!(read(vec![n(), DimSpec::Size(3)], 12).unwrap().shape(), Some(&[2, 3][..]));
        assert_eq!(read(vec![DimSpec::Size(2)], 4).unwrap().shape(), Some(&[2][..]));
        assert_eq!(read(vec![DimSpec::Size(2)], 5), Err("signature/value"));
        assert_eq!(read(vec![n(), DimSpec::Size(3)], 11), Err("input/raw-shape"));
        assert_eq!(read(vec![n(), n()], 12), Err("input/raw-shape"));
        assert_eq!(read(vec![n(), DimSpec::Size(0)], 0), Err("input/raw-shape"));
        assert_eq!(read_raw(Vec::new(), None).unwrap_err().code(), "input/raw-shape");
    }
}
