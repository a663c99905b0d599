//! The types in which tensors are written.

use super::SHAPE;
use super::mix::{MIXES, Mix};
use super::node::float;
use bytes::Bytes;
use half::f16;
use holdall_core::error::Result;
use holdall_core::layout::Computed as _;
use holdall_core::layout::blocks::{Blocks, quantize};
use holdall_core::layout::float::decode_f32;
use holdall_core::layout::number::ElementType;
use holdall_core::model::{BlockType, DType};

/// The type in which the matrices of a model are written. Vectors, and the tensors that a recipe names, stay F32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OutType {
    /// F16 if the first matrix of the source is F16, and BF16 otherwise.
    #[default]
    Auto,
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// Floats with the 8-bit exponent of F32 and 8 bits of precision.
    Bf16,
    /// Blocks of 32 numbers of 8 bits with a scale; F16 for rows that are not a multiple of 32.
    Q8_0,
    /// Blocks of several types.
    Mix(&'static Mix),
}

impl OutType {
    /// The types that are not mixes.
    const PLAIN: [OutType; 5] =
        [OutType::Auto, OutType::F32, OutType::F16, OutType::Bf16, OutType::Q8_0];

    /// Returns all types.
    pub fn all() -> impl Iterator<Item = OutType> {
        OutType::PLAIN.into_iter().chain(MIXES.iter().map(OutType::Mix))
    }

    /// Returns `true` if matrices are quantized.
    pub const fn is_quantized(self) -> bool {
        matches!(self, OutType::Q8_0 | OutType::Mix(_))
    }

    /// Returns the name, such as `bf16`.
    pub const fn as_str(self) -> &'static str {
        match self {
            OutType::Auto => "auto",
            OutType::F32 => "f32",
            OutType::F16 => "f16",
            OutType::Bf16 => "bf16",
            OutType::Q8_0 => "q8_0",
            OutType::Mix(mix) => mix.name,
        }
    }

    /// Returns the type with this name, in upper or lower case.
    pub fn from_name(name: &str) -> Option<OutType> {
        let mix = || Mix::by_name(&name.to_ascii_lowercase()).map(OutType::Mix);
        let plain = OutType::PLAIN.into_iter().find(|t| t.as_str().eq_ignore_ascii_case(name));
        plain.or_else(mix)
    }

    /// Returns the number of the type as `general.file_type` of GGUF.
    pub(super) const fn file_type(self) -> i128 {
        match self {
            OutType::F32 => 0,
            OutType::F16 => 1,
            OutType::Q8_0 => 7,
            OutType::Mix(mix) => mix.file_type,
            OutType::Bf16 | OutType::Auto => 32,
        }
    }
}

/// The form in which a tensor is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Elements of this float type.
    Float(DType),
    /// Blocks of this type.
    Blocks(&'static BlockType),
    /// Blocks of this type, which hold the values exactly because the source stores them in such blocks.
    SameBlocks(&'static BlockType),
    /// The elements of the source.
    AsItIs,
}

impl Form {
    /// Returns the form of a matrix with rows of this length.
    pub(super) fn of_matrix(outtype: OutType, row: u64) -> Form {
        match outtype {
            OutType::F32 => Form::Float(DType::F32),
            // The types of a mix are set when all tensors are known.
            OutType::F16 | OutType::Mix(_) => Form::Float(DType::F16),
            OutType::Bf16 | OutType::Auto => Form::Float(DType::Bf16),
            OutType::Q8_0 => match BlockType::by_name("q8_0") {
                Some(of) if row.is_multiple_of(of.elements) => Form::Blocks(of),
                _ => Form::Float(DType::F16),
            },
        }
    }

    /// Converts elements of the type `from`, little-endian, to this form.
    ///
    /// # Errors
    /// Returns the errors of [`decode_f32`] and of [`quantize`].
    pub fn encode(self, from: &ElementType, bytes: Vec<u8>) -> Result<Bytes> {
        let to = match self {
            Form::AsItIs => return Ok(bytes.into()),
            Form::Float(to) if *from == float(to) => return Ok(bytes.into()),
            Form::Float(to) => to,
            Form::Blocks(_) | Form::SameBlocks(_) => DType::F32,
        };
        let mut out = Vec::new();
        let mut numbers = Vec::new();
        decode_f32(from.dtype, from.logical_type.as_ref(), &bytes, |chunk| match (self, to) {
            (Form::Blocks(_) | Form::SameBlocks(_), _) => numbers.extend_from_slice(chunk),
            (_, DType::F16) => {
                chunk.iter().for_each(|x| out.extend_from_slice(&f16::from_f32(*x).to_le_bytes()));
            }
            (_, DType::Bf16) => {
                chunk.iter().for_each(|x| out.extend_from_slice(&rounded_to_bf16(*x)));
            }
            _ => chunk.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        })?;
        if let Some(of) = self.blocks() {
            quantize(of, &numbers, &mut out)?;
        }
        let out = Bytes::from(out);
        if let Form::SameBlocks(of) = self {
            let count = numbers.len() as u64;
            let mut values = vec![0.0; numbers.len()];
            let blocks = Blocks::new(of, &[count], out.clone())?;
            blocks.dequantize_range(0..count, &mut values)?;
            if values != numbers {
                let message =
                    format!("blocks of {} along its rows do not hold its values", of.as_str());
                return Err(SHAPE.broken(message));
            }
        }
        Ok(out)
    }

    /// Returns the type of the blocks, if there are any.
    pub const fn blocks(self) -> Option<&'static BlockType> {
        match self {
            Form::Blocks(of) | Form::SameBlocks(of) => Some(of),
            Form::Float(_) | Form::AsItIs => None,
        }
    }
}

/// Rounds to nearest, ties to even. NaN becomes quiet, and keeps the upper bits of its payload.
fn rounded_to_bf16(x: f32) -> [u8; 2] {
    let bits = x.to_bits();
    let rounded = match x.is_nan() {
        true => bits | 0x0040_0000,
        false => bits.wrapping_add(0x7fff).wrapping_add(bits >> 16 & 1),
    };
    let [_, _, low, high] = rounded.to_le_bytes();
    [low, high]
}
