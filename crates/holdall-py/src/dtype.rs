//! Names of element types in Python's tensor libraries.

use holdall::{DType, LogicalType};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// Returns the name of a component's elements: `float32`, `bfloat16`, `float8_e4m3fn`. An unknown
/// logical type keeps its name.
pub(crate) fn name(dtype: DType, logical: Option<&LogicalType>) -> String {
    let Some(logical) = logical else { return storage(dtype).to_owned() };
    match LOGICAL.iter().find(|(known, _)| known == logical) {
        Some((_, name)) => (*name).to_owned(),
        None => logical.as_str().to_owned(),
    }
}

/// Returns the name as a Python string, interned for storage types.
pub(crate) fn py_name<'py>(
    py: Python<'py>,
    dtype: DType,
    logical: Option<&LogicalType>,
) -> Bound<'py, PyString> {
    static STORAGE: [PyOnceLock<Py<PyString>>; DType::ALL.len()] =
        [const { PyOnceLock::new() }; DType::ALL.len()];
    match STORAGE.get(dtype as usize).filter(|_| logical.is_none()) {
        Some(known) => {
            let made = || PyString::intern(py, storage(dtype)).unbind();
            known.get_or_init(py, made).bind(py).clone()
        }
        None => PyString::new(py, &name(dtype, logical)),
    }
}

/// Parses an element type, in Python's or in Holdall's spelling.
pub(crate) fn from_name(name: &str) -> Option<(DType, Option<LogicalType>)> {
    if let Some((logical, _)) = LOGICAL.iter().find(|(t, n)| *n == name || t.as_str() == name) {
        return Some((logical.storage()?, Some(logical.clone())));
    }
    let dtype = DType::ALL.into_iter().find(|&d| storage(d) == name || d.as_str() == name)?;
    Some((dtype, None))
}

/// Returns the name of a storage element type.
pub(crate) fn storage(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "float64",
        DType::F32 => "float32",
        DType::F16 => "float16",
        DType::Bf16 => "bfloat16",
        DType::I64 => "int64",
        DType::I32 => "int32",
        DType::I16 => "int16",
        DType::I8 => "int8",
        DType::U64 => "uint64",
        DType::U32 => "uint32",
        DType::U16 => "uint16",
        DType::U8 => "uint8",
        DType::Bool => "bool",
    }
}

static LOGICAL: [(LogicalType, &str); 11] = [
    (LogicalType::F8E4M3Fn, "float8_e4m3fn"),
    (LogicalType::F8E5M2, "float8_e5m2"),
    (LogicalType::F8E4M3FnUz, "float8_e4m3fnuz"),
    (LogicalType::F8E5M2FnUz, "float8_e5m2fnuz"),
    (LogicalType::F8E8M0, "float8_e8m0fnu"),
    (LogicalType::F6E2M3, "float6_e2m3fn"),
    (LogicalType::F6E3M2, "float6_e3m2fn"),
    (LogicalType::F4E2M1, "float4_e2m1fn"),
    (LogicalType::Complex32, "complex32"),
    (LogicalType::Complex64, "complex64"),
    (LogicalType::Complex128, "complex128"),
];
