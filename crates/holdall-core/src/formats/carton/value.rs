//! What goes into a model and comes out of it: tensors by value.

use bytes::Bytes;

/// The type of a tensor's elements, as `carton.toml` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueType {
    /// 32-bit IEEE 754.
    Float32,
    /// 64-bit IEEE 754.
    Float64,
    /// UTF-8 texts.
    String,
    /// 8 bits, signed.
    Int8,
    /// 16 bits, signed.
    Int16,
    /// 32 bits, signed.
    Int32,
    /// 64 bits, signed.
    Int64,
    /// 8 bits, unsigned.
    Uint8,
    /// 16 bits, unsigned.
    Uint16,
    /// 32 bits, unsigned.
    Uint32,
    /// 64 bits, unsigned.
    Uint64,
}

impl ValueType {
    /// All of them.
    pub const ALL: [ValueType; 11] = [
        ValueType::Float32,
        ValueType::Float64,
        ValueType::String,
        ValueType::Int8,
        ValueType::Int16,
        ValueType::Int32,
        ValueType::Int64,
        ValueType::Uint8,
        ValueType::Uint16,
        ValueType::Uint32,
        ValueType::Uint64,
    ];

    /// The name in `carton.toml` and `index.toml`.
    pub const fn as_str(self) -> &'static str {
        match self {
            ValueType::Float32 => "float32",
            ValueType::Float64 => "float64",
            ValueType::String => "string",
            ValueType::Int8 => "int8",
            ValueType::Int16 => "int16",
            ValueType::Int32 => "int32",
            ValueType::Int64 => "int64",
            ValueType::Uint8 => "uint8",
            ValueType::Uint16 => "uint16",
            ValueType::Uint32 => "uint32",
            ValueType::Uint64 => "uint64",
        }
    }

    /// The type of that name.
    pub fn by_name(name: &str) -> Option<ValueType> {
        ValueType::ALL.into_iter().find(|ty| ty.as_str() == name)
    }

    /// Bytes of one element; `None` for strings.
    pub const fn width(self) -> Option<u64> {
        Some(match self {
            ValueType::String => return None,
            ValueType::Int8 | ValueType::Uint8 => 1,
            ValueType::Int16 | ValueType::Uint16 => 2,
            ValueType::Float32 | ValueType::Int32 | ValueType::Uint32 => 4,
            ValueType::Float64 | ValueType::Int64 | ValueType::Uint64 => 8,
        })
    }
}

/// One tensor by value. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Numbers, little-endian, in C order: `product(shape)` elements.
    Numbers {
        /// Not [`ValueType::String`].
        ty: ValueType,
        /// Elements along each dimension; empty for a scalar.
        shape: Vec<u64>,
        /// The elements.
        data: Bytes,
    },
    /// Texts in C order: `product(shape)` of them.
    Strings {
        /// Elements along each dimension; empty for a scalar.
        shape: Vec<u64>,
        /// The elements.
        data: Vec<String>,
    },
    /// Tensors of one type and rank whose shapes differ; none of them is nested.
    Nested(Vec<Value>),
}
