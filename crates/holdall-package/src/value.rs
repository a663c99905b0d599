//! Inputs and outputs of a model: tensors by value.

use bytes::Bytes;
use holdall_core::error::Result;
use holdall_core::model::{DType, element_count};

/// The type of a tensor's elements, as `carton.toml` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueType {
    /// 32-bit IEEE 754 float.
    Float32,
    /// 64-bit IEEE 754 float.
    Float64,
    /// UTF-8 texts.
    String,
    /// 8-bit signed integer.
    Int8,
    /// 16-bit signed integer.
    Int16,
    /// 32-bit signed integer.
    Int32,
    /// 64-bit signed integer.
    Int64,
    /// 8-bit unsigned integer.
    Uint8,
    /// 16-bit unsigned integer.
    Uint16,
    /// 32-bit unsigned integer.
    Uint32,
    /// 64-bit unsigned integer.
    Uint64,
}

impl ValueType {
    /// All types.
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

    /// Returns the storage type of numbers; `None` for texts.
    pub const fn dtype(self) -> Option<DType> {
        Some(match self {
            ValueType::Float32 => DType::F32,
            ValueType::Float64 => DType::F64,
            ValueType::Int8 => DType::I8,
            ValueType::Int16 => DType::I16,
            ValueType::Int32 => DType::I32,
            ValueType::Int64 => DType::I64,
            ValueType::Uint8 => DType::U8,
            ValueType::Uint16 => DType::U16,
            ValueType::Uint32 => DType::U32,
            ValueType::Uint64 => DType::U64,
            ValueType::String => return None,
        })
    }

    /// Returns the name in `carton.toml` and `index.toml`.
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

    /// Returns the type with this name.
    pub fn by_name(name: &str) -> Option<ValueType> {
        ValueType::ALL.into_iter().find(|ty| ty.as_str() == name)
    }

    /// Returns the bytes of one element; `None` for strings.
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

/// A tensor by value. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub enum TensorValue {
    /// Numbers, little-endian, in C order: `product(shape)` elements.
    Numbers {
        /// The type of the elements, not [`ValueType::String`].
        ty: ValueType,
        /// Elements along each dimension; empty for a scalar.
        shape: Vec<u64>,
        /// The elements' bytes.
        data: Bytes,
    },
    /// Texts in C order: `product(shape)` elements.
    Strings {
        /// Elements along each dimension; empty for a scalar.
        shape: Vec<u64>,
        /// The elements.
        data: Vec<String>,
    },
    /// Tensors of one type and rank with different shapes; none of them is nested.
    Nested(Vec<TensorValue>),
}

/// A Rust type that can be an element of a numeric tensor.
pub trait Number: bytemuck::Pod {
    /// The type in `carton.toml`.
    const TYPE: ValueType;
    /// Appends the bytes, least significant first.
    fn push_le(self, out: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($rust:ty: $ty:ident),*) => {$(
        impl Number for $rust {
            const TYPE: ValueType = ValueType::$ty;
            fn push_le(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
numbers!(f32: Float32, f64: Float64, i8: Int8, i16: Int16, i32: Int32, i64: Int64, u8: Uint8);
numbers!(u16: Uint16, u32: Uint32, u64: Uint64);

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The parts of a value do not fit each other.
    pub VALUE: Misuse "signature/value"
        "A tensor has as many elements as its shape says. The tensors inside a nested one share one type and one rank, and are not nested.";
}

impl TensorValue {
    /// Creates a numeric tensor from the bytes of `product(shape)` elements, little-endian.
    ///
    /// # Errors
    /// Returns [`VALUE`]
    pub fn numbers(ty: ValueType, shape: Vec<u64>, data: Bytes) -> Result<TensorValue> {
        let Some(width) = ty.width() else {
            return Err(VALUE.broken("strings given as bytes of numbers"));
        };
        let wanted = element_count(&shape).and_then(|n| n.checked_mul(width));
        if wanted != u64::try_from(data.len()).ok() {
            let (found, name) = (data.len(), ty.as_str());
            return Err(VALUE.broken(match wanted {
                Some(wanted) => {
                    format!("{found} bytes for {name} of shape {shape:?}, which takes {wanted}")
                }
                None => format!("{name} of shape {shape:?} has more than 2^64 bytes"),
            }));
        }
        Ok(TensorValue::Numbers { ty, shape, data })
    }

    /// Creates a numeric tensor from `product(shape)` elements.
    ///
    /// # Errors
    /// Returns [`VALUE`]
    pub fn from_elements<T: Number>(shape: Vec<u64>, elements: &[T]) -> Result<TensorValue> {
        let data = if cfg!(target_endian = "little") {
            Bytes::copy_from_slice(bytemuck::cast_slice(elements))
        } else {
            let mut out = Vec::new();
            elements.iter().for_each(|x| x.push_le(&mut out));
            out.into()
        };
        TensorValue::numbers(T::TYPE, shape, data)
    }

    /// Creates a string tensor from `product(shape)` texts.
    ///
    /// # Errors
    /// Returns [`VALUE`]
    pub fn strings(shape: Vec<u64>, data: Vec<String>) -> Result<TensorValue> {
        match element_count(&shape) {
            Some(n) if u64::try_from(data.len()) == Ok(n) => {
                Ok(TensorValue::Strings { shape, data })
            }
            _ => {
                let found = data.len();
                Err(VALUE.broken(format!("{found} strings for shape {shape:?}")))
            }
        }
    }

    /// Creates a nested tensor from tensors of one type and rank.
    ///
    /// # Errors
    /// Returns [`VALUE`]
    pub fn nested(inner: Vec<TensorValue>) -> Result<TensorValue> {
        let kind = |v: &TensorValue| Some((v.ty()?, v.shape()?.len()));
        let mut kinds = inner.iter().map(kind);
        if let Some(first) = kinds.next() {
            if first.is_none() || inner.iter().any(|v| matches!(v, TensorValue::Nested(_))) {
                return Err(VALUE.broken("a nested tensor inside a nested one"));
            }
            if kinds.any(|other| other != first) {
                return Err(VALUE.broken("tensors of several types or ranks inside a nested one"));
            }
        }
        Ok(TensorValue::Nested(inner))
    }

    /// Returns the type of the elements; `None` for an empty nested tensor.
    pub fn ty(&self) -> Option<ValueType> {
        match self {
            TensorValue::Numbers { ty, .. } => Some(*ty),
            TensorValue::Strings { .. } => Some(ValueType::String),
            TensorValue::Nested(inner) => inner.first().and_then(TensorValue::ty),
        }
    }

    /// Returns the elements along each dimension; `None` for a nested tensor, whose inner tensors have their
    /// own shapes.
    pub fn shape(&self) -> Option<&[u64]> {
        match self {
            TensorValue::Numbers { shape, .. } | TensorValue::Strings { shape, .. } => Some(shape),
            TensorValue::Nested(_) => None,
        }
    }
}
