//! The element types in headers of safetensors and Metatensor, and their dtypes and logical types.

use holdall_core::model::{DType, LogicalType};
use holdall_schema::TensorDType as T;

/// An element type.
#[derive(Debug)]
pub(super) struct ElementType {
    /// The name in a header.
    #[cfg(any(feature = "metatensor", feature = "safetensors"))]
    pub(super) name: &'static str,
    /// The name in a schema.
    pub(super) named: T,
    pub(super) dtype: DType,
    pub(super) logical_type: Option<LogicalType>,
    /// The number of bits of one element.
    #[cfg(feature = "safetensors")]
    pub(super) bits: u64,
}

impl ElementType {
    const fn plain(named: T, dtype: DType) -> ElementType {
        ElementType::new(named, dtype, None)
    }

    const fn logical(named: T, dtype: DType, t: LogicalType) -> ElementType {
        ElementType::new(named, dtype, Some(t))
    }

    const fn new(named: T, dtype: DType, logical_type: Option<LogicalType>) -> ElementType {
        ElementType {
            #[cfg(any(feature = "metatensor", feature = "safetensors"))]
            name: named.as_str(),
            named,
            dtype,
            logical_type,
            #[cfg(feature = "safetensors")]
            bits: named.bits(),
        }
    }

    /// Returns the index in [`ELEMENT_TYPES`]. Writers of safetensors put tensors with the highest index first.
    #[cfg(feature = "safetensors")]
    pub(super) fn rank(&self) -> usize {
        ELEMENT_TYPES.iter().position(|t| t.name == self.name).unwrap_or_default()
    }
}

/// All element types, in the order of the reference implementation: by rising alignment.
#[rustfmt::skip]
pub(super) static ELEMENT_TYPES: [ElementType; 22] = [
    ElementType::plain(T::Bool, DType::Bool),
    ElementType::logical(T::F4, DType::U8, LogicalType::F4E2M1),
    ElementType::logical(T::F6_E2M3, DType::U8, LogicalType::F6E2M3),
    ElementType::logical(T::F6_E3M2, DType::U8, LogicalType::F6E3M2),
    ElementType::plain(T::U8, DType::U8),
    ElementType::plain(T::I8, DType::I8),
    ElementType::logical(T::F8_E5M2, DType::U8, LogicalType::F8E5M2),
    ElementType::logical(T::F8_E4M3, DType::U8, LogicalType::F8E4M3Fn),
    ElementType::logical(T::F8_E8M0, DType::U8, LogicalType::F8E8M0),
    ElementType::logical(T::F8_E4M3Fnuz, DType::U8, LogicalType::F8E4M3FnUz),
    ElementType::logical(T::F8_E5M2Fnuz, DType::U8, LogicalType::F8E5M2FnUz),
    ElementType::plain(T::I16, DType::I16),
    ElementType::plain(T::U16, DType::U16),
    ElementType::plain(T::F16, DType::F16),
    ElementType::plain(T::Bf16, DType::Bf16),
    ElementType::plain(T::I32, DType::I32),
    ElementType::plain(T::U32, DType::U32),
    ElementType::plain(T::F32, DType::F32),
    ElementType::logical(T::C64, DType::F32, LogicalType::Complex64),
    ElementType::plain(T::F64, DType::F64),
    ElementType::plain(T::I64, DType::I64),
    ElementType::plain(T::U64, DType::U64),
];

/// Returns the schema's name for elements of this dtype and logical type, if schemas have one.
pub fn schema_dtype(dtype: DType, logical: Option<&LogicalType>) -> Option<T> {
    let same = |t: &&ElementType| t.dtype == dtype && t.logical_type.as_ref() == logical;
    ELEMENT_TYPES.iter().find(same).map(|t| t.named)
}

/// Returns the dtype and the logical type of a schema's element type.
pub fn stored_as(named: T) -> (DType, Option<LogicalType>) {
    let found = ELEMENT_TYPES.iter().find(|t| t.named == named);
    found.map_or((DType::U8, None), |t| (t.dtype, t.logical_type.clone()))
}

/// Returns the element type with this name in a header.
#[cfg(any(feature = "metatensor", feature = "safetensors"))]
pub(super) fn by_name(name: &str) -> Option<&'static ElementType> {
    ELEMENT_TYPES.iter().find(|t| t.name == name)
}

/// Returns the element type with this dtype and logical type.
#[cfg(any(feature = "metatensor", feature = "safetensors"))]
pub(super) fn by_meaning(
    dtype: DType,
    logical: Option<&LogicalType>,
) -> Option<&'static ElementType> {
    ELEMENT_TYPES.iter().find(|t| t.dtype == dtype && t.logical_type.as_ref() == logical)
}
