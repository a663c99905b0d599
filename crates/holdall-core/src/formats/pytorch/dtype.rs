//! Element types by the names that torch has for them.

use crate::model::{DType, LogicalType};

/// What one element is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Element {
    pub(super) dtype: DType,
    pub(super) logical: Option<LogicalType>,
}

impl Element {
    fn plain(dtype: DType) -> Element {
        Element { dtype, logical: None }
    }

    fn logical(t: LogicalType) -> Option<Element> {
        Some(Element { dtype: t.storage()?, logical: Some(t) })
    }

    /// Bytes of one.
    pub(super) fn width(&self) -> u64 {
        match &self.logical {
            Some(t) => t.bits().unwrap_or(8) / 8,
            None => self.dtype.width(),
        }
    }

    /// Of a storage: `FloatStorage`.
    pub(super) fn of_storage(name: &str) -> Option<Element> {
        Some(Element::plain(match name {
            "DoubleStorage" => DType::F64,
            "FloatStorage" => DType::F32,
            "HalfStorage" => DType::F16,
            "BFloat16Storage" => DType::Bf16,
            "LongStorage" => DType::I64,
            "IntStorage" | "QInt32Storage" => DType::I32,
            "ShortStorage" => DType::I16,
            "CharStorage" | "QInt8Storage" => DType::I8,
            "ByteStorage" | "UntypedStorage" | "QUInt8Storage" => DType::U8,
            "BoolStorage" => DType::Bool,
            "ComplexFloatStorage" => return Element::logical(LogicalType::Complex64),
            "ComplexDoubleStorage" => return Element::logical(LogicalType::Complex128),
            _ => return None,
        }))
    }

    /// Of a dtype: `float32`.
    pub(super) fn of_dtype(name: &str) -> Option<Element> {
        Some(Element::plain(match name {
            "float64" | "double" => DType::F64,
            "float32" | "float" => DType::F32,
            "float16" | "half" => DType::F16,
            "bfloat16" => DType::Bf16,
            "int64" | "long" => DType::I64,
            "int32" | "int" => DType::I32,
            "int16" | "short" => DType::I16,
            "int8" => DType::I8,
            "uint64" => DType::U64,
            "uint32" => DType::U32,
            "uint16" => DType::U16,
            "uint8" => DType::U8,
            "bool" => DType::Bool,
            "complex64" | "cfloat" => return Element::logical(LogicalType::Complex64),
            "complex128" | "cdouble" => return Element::logical(LogicalType::Complex128),
            "float8_e4m3fn" => return Element::logical(LogicalType::F8E4M3Fn),
            "float8_e5m2" => return Element::logical(LogicalType::F8E5M2),
            "float8_e4m3fnuz" => return Element::logical(LogicalType::F8E4M3FnUz),
            "float8_e5m2fnuz" => return Element::logical(LogicalType::F8E5M2FnUz),
            "float8_e8m0fnu" => return Element::logical(LogicalType::F8E8M0),
            _ => return None,
        }))
    }
}

/// Dtypes that torch has and that are values of attributes at most.
pub(crate) fn is_dtype(name: &str) -> bool {
    const OTHERS: [&str; 12] = [
        "complex32",
        "qint8",
        "quint8",
        "qint32",
        "quint4x2",
        "quint2x4",
        "float4_e2m1fn_x2",
        "bits8",
        "bits16",
        "bits1x8",
        "bits2x4",
        "bits4x2",
    ];
    Element::of_dtype(name).is_some() || OTHERS.contains(&name)
}
