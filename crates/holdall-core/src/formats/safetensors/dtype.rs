//! The names of element types in a header, and what they are here.

use crate::model::{DType, LogicalType};

/// One element type of the format.
#[derive(Debug)]
pub(super) struct ElementType {
    /// Its name in a header.
    pub(super) name: &'static str,
    pub(super) dtype: DType,
    pub(super) logical_type: Option<LogicalType>,
    /// Bits of one element.
    pub(super) bits: u64,
}

impl ElementType {
    const fn plain(name: &'static str, dtype: DType) -> ElementType {
        ElementType { name, dtype, logical_type: None, bits: dtype.width().saturating_mul(8) }
    }

    const fn logical(name: &'static str, bits: u64, dtype: DType, t: LogicalType) -> ElementType {
        ElementType { name, dtype, logical_type: Some(t), bits }
    }

    /// Where it stands in [`ELEMENT_TYPES`]: writers put the last first.
    pub(super) fn rank(&self) -> usize {
        ELEMENT_TYPES.iter().position(|t| t.name == self.name).unwrap_or_default()
    }
}

/// All of them, in the reference's order of rising alignment.
#[rustfmt::skip]
pub(super) static ELEMENT_TYPES: [ElementType; 22] = [
    ElementType::plain("BOOL", DType::Bool),
    ElementType::logical("F4", 4, DType::U8, LogicalType::F4E2M1),
    ElementType::logical("F6_E2M3", 6, DType::U8, LogicalType::F6E2M3),
    ElementType::logical("F6_E3M2", 6, DType::U8, LogicalType::F6E3M2),
    ElementType::plain("U8", DType::U8),
    ElementType::plain("I8", DType::I8),
    ElementType::logical("F8_E5M2", 8, DType::U8, LogicalType::F8E5M2),
    ElementType::logical("F8_E4M3", 8, DType::U8, LogicalType::F8E4M3Fn),
    ElementType::logical("F8_E8M0", 8, DType::U8, LogicalType::F8E8M0),
    ElementType::logical("F8_E4M3FNUZ", 8, DType::U8, LogicalType::F8E4M3FnUz),
    ElementType::logical("F8_E5M2FNUZ", 8, DType::U8, LogicalType::F8E5M2FnUz),
    ElementType::plain("I16", DType::I16),
    ElementType::plain("U16", DType::U16),
    ElementType::plain("F16", DType::F16),
    ElementType::plain("BF16", DType::Bf16),
    ElementType::plain("I32", DType::I32),
    ElementType::plain("U32", DType::U32),
    ElementType::plain("F32", DType::F32),
    ElementType::logical("C64", 64, DType::F32, LogicalType::Complex64),
    ElementType::plain("F64", DType::F64),
    ElementType::plain("I64", DType::I64),
    ElementType::plain("U64", DType::U64),
];

/// The element type of that name in a header.
pub(super) fn by_name(name: &str) -> Option<&'static ElementType> {
    ELEMENT_TYPES.iter().find(|t| t.name == name)
}

/// The element type that says the same.
pub(super) fn by_meaning(
    dtype: DType,
    logical: Option<&LogicalType>,
) -> Option<&'static ElementType> {
    ELEMENT_TYPES.iter().find(|t| t.dtype == dtype && t.logical_type.as_ref() == logical)
}
