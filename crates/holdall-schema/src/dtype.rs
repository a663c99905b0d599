//! Element types of tensors: the 22 names of safetensors.

use std::fmt;

/// The element type of a tensor, by its name in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The variants are their own names.
#[allow(non_camel_case_types)]
pub enum TensorDType {
    Bool,
    F4,
    F6_E2M3,
    F6_E3M2,
    U8,
    I8,
    F8_E5M2,
    F8_E4M3,
    F8_E8M0,
    F8_E4M3Fnuz,
    F8_E5M2Fnuz,
    I16,
    U16,
    F16,
    Bf16,
    I32,
    U32,
    F32,
    C64,
    F64,
    I64,
    U64,
}

impl TensorDType {
    /// All types, by ascending alignment, which is the order that writers of safetensors use.
    pub const ALL: [TensorDType; 22] = [
        TensorDType::Bool,
        TensorDType::F4,
        TensorDType::F6_E2M3,
        TensorDType::F6_E3M2,
        TensorDType::U8,
        TensorDType::I8,
        TensorDType::F8_E5M2,
        TensorDType::F8_E4M3,
        TensorDType::F8_E8M0,
        TensorDType::F8_E4M3Fnuz,
        TensorDType::F8_E5M2Fnuz,
        TensorDType::I16,
        TensorDType::U16,
        TensorDType::F16,
        TensorDType::Bf16,
        TensorDType::I32,
        TensorDType::U32,
        TensorDType::F32,
        TensorDType::C64,
        TensorDType::F64,
        TensorDType::I64,
        TensorDType::U64,
    ];

    /// Returns the name in a header: `F32`, `F8_E4M3FNUZ`.
    pub const fn as_str(self) -> &'static str {
        match self {
            TensorDType::Bool => "BOOL",
            TensorDType::F4 => "F4",
            TensorDType::F6_E2M3 => "F6_E2M3",
            TensorDType::F6_E3M2 => "F6_E3M2",
            TensorDType::U8 => "U8",
            TensorDType::I8 => "I8",
            TensorDType::F8_E5M2 => "F8_E5M2",
            TensorDType::F8_E4M3 => "F8_E4M3",
            TensorDType::F8_E8M0 => "F8_E8M0",
            TensorDType::F8_E4M3Fnuz => "F8_E4M3FNUZ",
            TensorDType::F8_E5M2Fnuz => "F8_E5M2FNUZ",
            TensorDType::I16 => "I16",
            TensorDType::U16 => "U16",
            TensorDType::F16 => "F16",
            TensorDType::Bf16 => "BF16",
            TensorDType::I32 => "I32",
            TensorDType::U32 => "U32",
            TensorDType::F32 => "F32",
            TensorDType::C64 => "C64",
            TensorDType::F64 => "F64",
            TensorDType::I64 => "I64",
            TensorDType::U64 => "U64",
        }
    }

    /// Returns the element type with this name.
    pub fn from_name(name: &str) -> Option<TensorDType> {
        TensorDType::ALL.into_iter().find(|d| d.as_str() == name)
    }

    /// Returns the number of bits of an element.
    pub const fn bits(self) -> u64 {
        match self {
            TensorDType::F4 => 4,
            TensorDType::F6_E2M3 | TensorDType::F6_E3M2 => 6,
            TensorDType::Bool
            | TensorDType::U8
            | TensorDType::I8
            | TensorDType::F8_E5M2
            | TensorDType::F8_E4M3
            | TensorDType::F8_E8M0
            | TensorDType::F8_E4M3Fnuz
            | TensorDType::F8_E5M2Fnuz => 8,
            TensorDType::I16 | TensorDType::U16 | TensorDType::F16 | TensorDType::Bf16 => 16,
            TensorDType::I32 | TensorDType::U32 | TensorDType::F32 => 32,
            TensorDType::C64 | TensorDType::F64 | TensorDType::I64 | TensorDType::U64 => 64,
        }
    }

    /// Returns the alignment of a tensor in memory in bytes: the size of an element; 1 for elements of less than a
    /// byte; half the size for complex numbers (section 3.8).
    pub const fn align(self) -> u32 {
        match self.bits() {
            16 => 2,
            32 => 4,
            64 if matches!(self, TensorDType::C64) => 4,
            64 => 8,
            _ => 1,
        }
    }
}

impl fmt::Display for TensorDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
