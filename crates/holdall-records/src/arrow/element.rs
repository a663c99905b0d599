//! The Arrow types of numbers, booleans and times.

use arrow_schema::{DataType, Field, TimeUnit};
use holdall_schema::{Scalar, TensorDType};
use std::collections::HashMap;

/// The type of a number in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    /// An element type of tensors.
    Of(TensorDType),
    Complex128,
    Timestamp,
}

impl Element {
    pub(super) fn from_scalar(scalar: Scalar) -> Element {
        match scalar.dtype() {
            Some(dtype) => Element::Of(dtype),
            None if scalar == Scalar::Complex128 => Element::Complex128,
            None => Element::Timestamp,
        }
    }

    /// Returns the bits of an element as it is stored.
    pub(super) fn bits(self) -> usize {
        match self {
            Element::Of(dtype) => dtype.bits() as usize,
            Element::Complex128 => 128,
            Element::Timestamp => 64,
        }
    }

    /// Returns the bytes of an element in a column. Elements of less than a byte take one byte.
    pub(super) fn width(self) -> usize {
        self.bits().div_ceil(8)
    }

    /// Returns the Arrow type, or `None` if Arrow has no such type.
    pub(super) fn own_type(self) -> Option<DataType> {
        Some(match self {
            Element::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            Element::Of(dtype) => match dtype {
                TensorDType::Bool => DataType::Boolean,
                TensorDType::I8 => DataType::Int8,
                TensorDType::I16 => DataType::Int16,
                TensorDType::I32 => DataType::Int32,
                TensorDType::I64 => DataType::Int64,
                TensorDType::U8 => DataType::UInt8,
                TensorDType::U16 => DataType::UInt16,
                TensorDType::U32 => DataType::UInt32,
                TensorDType::U64 => DataType::UInt64,
                TensorDType::F16 => DataType::Float16,
                TensorDType::F32 => DataType::Float32,
                TensorDType::F64 => DataType::Float64,
                _ => return None,
            },
            Element::Complex128 => return None,
        })
    }

    /// Returns the field of a column of these elements. If Arrow has no such type, they are bytes with the name of the
    /// type in the metadata.
    pub(super) fn field(self, name: &str, is_optional: bool) -> Field {
        match self.own_type() {
            Some(own) => Field::new(name, own, is_optional),
            None => {
                // At most 16.
                let bytes = DataType::FixedSizeBinary(self.width() as i32);
                let said = HashMap::from([(DTYPE.to_owned(), self.name().to_owned())]);
                Field::new(name, bytes, is_optional).with_metadata(said)
            }
        }
    }

    /// Returns the element type with this name, among those that Arrow has no type for.
    pub(super) fn named(name: &str) -> Option<Element> {
        let all = TensorDType::ALL.into_iter().map(Element::Of).chain([Element::Complex128]);
        all.filter(|e| e.own_type().is_none()).find(|e| e.name() == name)
    }

    /// Returns the name of the type in NumPy and `ml_dtypes`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Element::Complex128 => "complex128",
            Element::Timestamp => "datetime64[ns]",
            Element::Of(dtype) => match dtype {
                TensorDType::F4 => "float4_e2m1fn",
                TensorDType::F6_E2M3 => "float6_e2m3fn",
                TensorDType::F6_E3M2 => "float6_e3m2fn",
                TensorDType::F8_E5M2 => "float8_e5m2",
                TensorDType::F8_E4M3 => "float8_e4m3fn",
                TensorDType::F8_E8M0 => "float8_e8m0fnu",
                TensorDType::F8_E4M3Fnuz => "float8_e4m3fnuz",
                TensorDType::F8_E5M2Fnuz => "float8_e5m2fnuz",
                TensorDType::Bf16 => "bfloat16",
                TensorDType::C64 => "complex64",
                other => other.as_str(),
            },
        }
    }
}

/// The key in the metadata of a column under which the name of the element type is stored.
pub(super) const DTYPE: &str = "holdall.dtype";
