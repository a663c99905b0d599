//! Dense tensors: which element types can be widened, and the tensor that a `default` describes (8.4.5).

use super::widen::is_widening;
use crate::dtype::TensorDType;
use crate::error::{Error, Result};
use crate::extent::in_memory;
use crate::kinds::{Dim, Scalar, TensorType};
use crate::limits::SchemaLimits;
use crate::record::Encoder;
use crate::record::rules::TOO_LARGE;
use crate::rules::{OPEN_SHAPE, SIZE_OVERFLOW, TENSOR};
use crate::schema::Schema;
use holdall_collections::DebugUnwrap;
use serde_json::{Value, json};

/// The tensor that a `default` describes: its bytes are a repeated pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filled {
    /// The element type.
    pub dtype: TensorDType,
    /// The dimensions.
    pub shape: Vec<u64>,
    /// The bytes that are repeated.
    pub pattern: Vec<u8>,
    /// Length of the tensor in bytes.
    pub len: u64,
}

impl Filled {
    /// Fills `out` with the tensor's bytes from offset `start` on.
    pub fn read(&self, start: u64, out: &mut [u8]) {
        let Some(skip) = start.checked_rem(self.pattern.len() as u64) else { return };
        let skip = usize::try_from(skip).debug_unwrap();
        for (slot, byte) in out.iter_mut().zip(self.pattern.iter().cycle().skip(skip)) {
            *slot = *byte;
        }
    }
}

impl TensorDType {
    /// Returns the kind of number of the elements, if records have one.
    pub const fn scalar(self) -> Option<Scalar> {
        Some(match self {
            TensorDType::Bool => Scalar::Boolean,
            TensorDType::U8 => Scalar::Uint8,
            TensorDType::I8 => Scalar::Int8,
            TensorDType::F8_E5M2 => Scalar::Float8E5M2,
            TensorDType::F8_E4M3 => Scalar::Float8E4M3,
            TensorDType::I16 => Scalar::Int16,
            TensorDType::U16 => Scalar::Uint16,
            TensorDType::F16 => Scalar::Float16,
            TensorDType::Bf16 => Scalar::BFloat16,
            TensorDType::I32 => Scalar::Int32,
            TensorDType::U32 => Scalar::Uint32,
            TensorDType::F32 => Scalar::Float32,
            TensorDType::C64 => Scalar::Complex64,
            TensorDType::F64 => Scalar::Float64,
            TensorDType::I64 => Scalar::Int64,
            TensorDType::U64 => Scalar::Uint64,
            _ => return None,
        })
    }

    /// Returns `true` if every value of this type is a value of `to`, and the types differ (8.2).
    pub fn widens_to(self, to: TensorDType) -> bool {
        matches!((self.scalar(), to.scalar()), (Some(a), Some(b)) if is_widening(a, b))
    }
}

impl Scalar {
    /// Returns `true` if every value of this kind is a value of `to`, and the kinds differ (8.2).
    pub fn widens_to(self, to: Scalar) -> bool {
        is_widening(self, to)
    }
}

impl TensorType {
    /// Returns the dimensions, if the schema gives a number for each.
    pub fn known_shape(&self) -> Option<Vec<u64>> {
        let number = |dim: &Dim| match dim {
            Dim::Known(n) => Some(*n),
            Dim::Any | Dim::Symbol(_) => None,
        };
        self.shape.as_ref()?.iter().map(number).collect()
    }

    /// Returns the number of elements, if the schema gives a number for each dimension and it is below 2^64.
    pub fn known_count(&self) -> Option<u64> {
        self.known_shape()?.iter().try_fold(1u64, |count, dim| count.checked_mul(*dim))
    }

    /// Returns the tensor that a `default` describes. The default is the JSON of 3.8, or one element that is repeated.
    ///
    /// # Errors
    /// Returns `schema/open-shape` if the dtype or shape is not fixed; `schema/size-overflow` or `schema/tensor` if the
    /// size is invalid; or an error of the `record/…` rules if the value is invalid.
    pub fn filled(&self, default: &Value, limits: &SchemaLimits) -> Result<Filled> {
        let (Some(dtype), Some(shape)) = (self.dtype, self.known_shape()) else {
            return Err(OPEN_SHAPE.broken("a tensor with a `default` has one dtype and one shape"));
        };
        let Some(bits) = self.known_count().and_then(|n| n.checked_mul(dtype.bits())) else {
            return Err(SIZE_OVERFLOW.broken("the tensor has 2^64 bits or more"));
        };
        if !bits.is_multiple_of(8) {
            return Err(TENSOR.broken(format!("{bits} bits of elements are not whole bytes")));
        }
        let is_each = default.get("data").is_none();
        // Eight elements take whole bytes, whatever their type.
        let (shape_of_pattern, value) = match is_each {
            true => (vec![8], json!({"data": vec![default; 8]})),
            false => (shape.clone(), default.clone()),
        };
        let kind = json!({"TypeDef:Tensor": {"dtype": dtype.as_str(), "shape": shape_of_pattern}});
        let in_default = |e: Error| e.within("the default");
        let schema = Schema::compile_record(&kind, limits).map_err(in_default)?;
        let Some(ty) = schema.record() else {
            return Err(TENSOR.broken("the tensor has no type"));
        };
        let size = schema.extent(ty)?.size;
        if size > limits.decoded_len {
            return Err(TOO_LARGE.broken(format!("the default takes {size} bytes")));
        }
        let mut pattern = vec![0; in_memory(size)?];
        Encoder::new(&schema, ty, limits)?
            .value(&value, &mut pattern, &mut Vec::new())
            .map_err(in_default)?;
        Ok(Filled { dtype, shape, pattern, len: bits / 8 })
    }
}
