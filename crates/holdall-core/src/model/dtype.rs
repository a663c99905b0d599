//! Storage dtypes, logical types, byte order and encoding.

use std::fmt;
use std::sync::Arc;

/// Storage element type: one of zTensor's 13 types. It alone determines how many bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // The variants are their own names.
pub enum DType {
    F64,
    F32,
    F16,
    Bf16,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
}

impl DType {
    /// All dtypes, widest floats first, in the order of the specification.
    pub const ALL: [DType; 13] = [
        DType::F64,
        DType::F32,
        DType::F16,
        DType::Bf16,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U64,
        DType::U32,
        DType::U16,
        DType::U8,
        DType::Bool,
    ];

    /// Returns the size of an element in bytes.
    pub const fn width(self) -> u64 {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::Bf16 | DType::I16 | DType::U16 => 2,
            DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// Returns the name in zTensor 1.2, which Holdall uses everywhere: `f32`, `bf16`, `bool`.
    pub const fn as_str(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::I16 => "i16",
            DType::I8 => "i8",
            DType::U64 => "u64",
            DType::U32 => "u32",
            DType::U16 => "u16",
            DType::U8 => "u8",
            DType::Bool => "bool",
        }
    }

    /// Returns the dtype with this name (in zTensor 1.2), or `None`.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.as_str() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The meaning of stored elements beyond their storage dtype.
///
/// The set is open: an unknown name is kept as [`LogicalType::Other`]. Elements of an unknown type can be read as
/// stored bytes, but not as numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogicalType {
    /// `f8_e4m3fn`: OCP FP8, no infinities, one NaN per sign.
    F8E4M3Fn,
    /// `f8_e5m2`: OCP FP8 with infinities.
    F8E5M2,
    /// `f8_e4m3fnuz`: FP8 with bias 8 and a single NaN, 0x80.
    F8E4M3FnUz,
    /// `f8_e5m2fnuz`: FP8 with bias 16 and a single NaN, 0x80.
    F8E5M2FnUz,
    /// `f8_e8m0`: a power-of-two scale, 2^(x-127), NaN at 0xFF.
    F8E8M0,
    /// `f6_e2m3`: OCP MX FP6, 6 bits per element, packed from the lowest bit.
    F6E2M3,
    /// `f6_e3m2`: OCP MX FP6, 6 bits per element, packed from the lowest bit.
    F6E3M2,
    /// `f4_e2m1`: OCP MX FP4, two elements per byte, the low nibble first.
    F4E2M1,
    /// `complex32`: pairs of f16, real then imaginary.
    Complex32,
    /// `complex64`: pairs of f32, real then imaginary.
    Complex64,
    /// `complex128`: pairs of f64, real then imaginary.
    Complex128,
    /// A type this version does not know.
    Other(Arc<str>),
}

impl LogicalType {
    /// The types that this version knows.
    pub const KNOWN: [LogicalType; 11] = [
        LogicalType::F8E4M3Fn,
        LogicalType::F8E5M2,
        LogicalType::F8E4M3FnUz,
        LogicalType::F8E5M2FnUz,
        LogicalType::F8E8M0,
        LogicalType::F6E2M3,
        LogicalType::F6E3M2,
        LogicalType::F4E2M1,
        LogicalType::Complex32,
        LogicalType::Complex64,
        LogicalType::Complex128,
    ];

    /// Returns the name in zTensor's `type` field and in all of Holdall's output.
    pub fn as_str(&self) -> &str {
        match self {
            LogicalType::F8E4M3Fn => "f8_e4m3fn",
            LogicalType::F8E5M2 => "f8_e5m2",
            LogicalType::F8E4M3FnUz => "f8_e4m3fnuz",
            LogicalType::F8E5M2FnUz => "f8_e5m2fnuz",
            LogicalType::F8E8M0 => "f8_e8m0",
            LogicalType::F6E2M3 => "f6_e2m3",
            LogicalType::F6E3M2 => "f6_e3m2",
            LogicalType::F4E2M1 => "f4_e2m1",
            LogicalType::Complex32 => "complex32",
            LogicalType::Complex64 => "complex64",
            LogicalType::Complex128 => "complex128",
            LogicalType::Other(name) => name,
        }
    }

    /// Returns the type with this name. Unknown names become [`LogicalType::Other`].
    pub fn from_name(name: &str) -> LogicalType {
        LogicalType::KNOWN
            .into_iter()
            .find(|t| t.as_str() == name)
            .unwrap_or_else(|| LogicalType::Other(name.into()))
    }

    /// Returns `true` if the type has the name of the storage dtype, which is the same as no logical type (zTensor 1.2,
    /// section 1).
    pub fn is_plain(&self, dtype: DType) -> bool {
        matches!(self, LogicalType::Other(name) if **name == *dtype.as_str())
    }

    /// Returns the storage dtype that this type is defined over, or `None` for an unknown type.
    pub fn storage(&self) -> Option<DType> {
        match self {
            LogicalType::Complex32 => Some(DType::F16),
            LogicalType::Complex64 => Some(DType::F32),
            LogicalType::Complex128 => Some(DType::F64),
            LogicalType::Other(_) => None,
            _ => Some(DType::U8),
        }
    }

    /// Bits of one logical element; `None` for an unknown type.
    pub fn bits(&self) -> Option<u64> {
        match self {
            LogicalType::F8E4M3Fn
            | LogicalType::F8E5M2
            | LogicalType::F8E4M3FnUz
            | LogicalType::F8E5M2FnUz
            | LogicalType::F8E8M0 => Some(8),
            LogicalType::F6E2M3 | LogicalType::F6E3M2 => Some(6),
            LogicalType::F4E2M1 => Some(4),
            LogicalType::Complex32 => Some(32),
            LogicalType::Complex64 => Some(64),
            LogicalType::Complex128 => Some(128),
            LogicalType::Other(_) => None,
        }
    }

    /// Returns `true` if an element is a complex number, stored as two numbers.
    pub fn is_complex(&self) -> bool {
        matches!(self, LogicalType::Complex32 | LogicalType::Complex64 | LogicalType::Complex128)
    }
}

impl fmt::Display for LogicalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The order of the bytes in one stored element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ByteOrder {
    /// Least significant byte first: every format except old zTensor 0.1 files that state otherwise.
    #[default]
    Little,
    /// Most significant byte first; swapped when decoded.
    Big,
    /// Most significant byte first in the fields of blocks. The number is the block type's index in
    /// [`BLOCK_TYPES`](super::block::BLOCK_TYPES).
    BigBlocks(u8),
}

impl ByteOrder {
    /// Returns a number that differs between byte orders that read the same bytes differently: for numeric elements the
    /// bytes that are swapped, or 1 if nothing is swapped.
    pub fn unit(self, dtype: DType) -> u64 {
        match self {
            ByteOrder::Little => 1,
            ByteOrder::Big => dtype.width(),
            ByteOrder::BigBlocks(number) => 256 + u64::from(number),
        }
    }
}
