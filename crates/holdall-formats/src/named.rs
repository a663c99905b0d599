//! Element types by their names in torch, NumPy and JAX.

use holdall_core::model::{DType, LogicalType};

/// An element type.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Element {
    pub(super) dtype: DType,
    pub(super) logical: Option<LogicalType>,
}

/// A type: dtype, logical type, name of torch's storage class if there is one for this type, name of torch's dtype,
/// alias of the dtype.
type Named = (DType, Option<LogicalType>, Option<&'static str>, &'static str, &'static str);

const TYPES: [Named; 21] = [
    (DType::F64, None, Some("DoubleStorage"), "float64", "double"),
    (DType::F32, None, Some("FloatStorage"), "float32", "float"),
    (DType::F16, None, Some("HalfStorage"), "float16", "half"),
    (DType::Bf16, None, Some("BFloat16Storage"), "bfloat16", ""),
    (DType::I64, None, Some("LongStorage"), "int64", "long"),
    (DType::I32, None, Some("IntStorage"), "int32", "int"),
    (DType::I16, None, Some("ShortStorage"), "int16", "short"),
    (DType::I8, None, Some("CharStorage"), "int8", ""),
    (DType::U64, None, None, "uint64", ""),
    (DType::U32, None, None, "uint32", ""),
    (DType::U16, None, None, "uint16", ""),
    (DType::U8, None, Some("ByteStorage"), "uint8", ""),
    (DType::Bool, None, Some("BoolStorage"), "bool", ""),
    (DType::F16, Some(LogicalType::Complex32), None, "complex32", "chalf"),
    (DType::F32, Some(LogicalType::Complex64), Some("ComplexFloatStorage"), "complex64", "cfloat"),
    (
        DType::F64,
        Some(LogicalType::Complex128),
        Some("ComplexDoubleStorage"),
        "complex128",
        "cdouble",
    ),
    (DType::U8, Some(LogicalType::F8E4M3Fn), None, "float8_e4m3fn", ""),
    (DType::U8, Some(LogicalType::F8E5M2), None, "float8_e5m2", ""),
    (DType::U8, Some(LogicalType::F8E4M3FnUz), None, "float8_e4m3fnuz", ""),
    (DType::U8, Some(LogicalType::F8E5M2FnUz), None, "float8_e5m2fnuz", ""),
    (DType::U8, Some(LogicalType::F8E8M0), None, "float8_e8m0fnu", ""),
];

/// The name of torch's type for two 4-bit floats in one byte, which torch counts as one element.
pub(super) const PAIRS: &str = "float4_e2m1fn_x2";

impl Element {
    pub(super) const BYTE: Element = Element { dtype: DType::U8, logical: None };
    /// The element type of [`PAIRS`].
    pub(super) const PAIR: Element =
        Element { dtype: DType::U8, logical: Some(LogicalType::F4E2M1) };

    /// Returns the number of bytes of one element. A pair of [`PAIRS`] is one byte.
    pub(super) fn width(&self) -> u64 {
        match &self.logical {
            Some(t) => t.bits().unwrap_or(8).div_ceil(8),
            None => self.dtype.width(),
        }
    }

    /// Returns `true` for complex elements, which are two numbers.
    pub(super) fn is_complex(&self) -> bool {
        self.logical.as_ref().is_some_and(LogicalType::is_complex)
    }

    /// Swaps the byte order of each number. A complex element is two numbers.
    pub(super) fn swap(&self, bytes: &mut [u8]) {
        let width = usize::try_from(self.dtype.width()).unwrap_or(1);
        bytes.chunks_exact_mut(width.max(1)).for_each(<[u8]>::reverse);
    }

    /// Returns the element type of a storage class: `FloatStorage`.
    pub(super) fn from_storage(name: &str) -> Option<Element> {
        // Quantized integers are stored as plain integers.
        let name = match name {
            "QInt32Storage" => "IntStorage",
            "QInt8Storage" => "CharStorage",
            "QUInt8Storage" | "UntypedStorage" => "ByteStorage",
            name => name,
        };
        Element::find(|_, storage, _, _| storage == Some(name))
    }

    /// Returns the element type of a dtype: `float32`.
    pub(super) fn from_dtype(name: &str) -> Option<Element> {
        Element::find(|_, _, dtype, other| name == dtype || (name == other && !name.is_empty()))
    }

    fn find(is_it: impl Fn(&Element, Option<&str>, &str, &str) -> bool) -> Option<Element> {
        TYPES.iter().find_map(|(dtype, logical, storage, name, other)| {
            let element = Element { dtype: *dtype, logical: logical.clone() };
            is_it(&element, *storage, name, other).then_some(element)
        })
    }

    /// Returns torch's storage class for this element type, if there is one: `FloatStorage`.
    pub(super) fn storage(&self) -> Option<&'static str> {
        self.names().and_then(|(storage, _)| storage)
    }

    /// Returns torch's name of the type, if torch has it: `float32`.
    pub(super) fn dtype_name(&self) -> Option<&'static str> {
        if *self == Element::PAIR {
            return Some(PAIRS);
        }
        self.names().map(|(_, name)| name)
    }

    fn names(&self) -> Option<(Option<&'static str>, &'static str)> {
        let is_it = |(dtype, logical): (&DType, &Option<LogicalType>)| {
            (*dtype, logical) == (self.dtype, &self.logical)
        };
        TYPES
            .iter()
            .find(|(dtype, logical, ..)| is_it((dtype, logical)))
            .map(|(_, _, storage, name, _)| (*storage, *name))
    }
}
/// Returns `true` for names of dtypes that torch has. Some of them can only be values of attributes.
pub(crate) fn is_dtype(name: &str) -> bool {
    const OTHERS: [&str; 11] = [
        "qint8", "quint8", "qint32", "quint4x2", "quint2x4", PAIRS, "bits8", "bits16", "bits1x8",
        "bits2x4", "bits4x2",
    ];
    Element::from_dtype(name).is_some() || OTHERS.contains(&name)
}
