//! Quantizing floats to groups.
//!
//! Each group of neighbours gets the scale and the zero point that represent its minimum, its maximum and 0:
//! `scale = (max - min) / (2^bits - 1)`, `zero = round(-min / scale)`. An element becomes the `q` nearest to
//! `element / scale + zero`. All is computed in `f64`, rounded to nearest, ties to even.

use super::{ATTRIBUTE, BITS, Packing, Quantized, QuantizedParts};
use crate::error::Result;
use crate::layout::NOT_FINITE;
use crate::layout::dense::Dense;
use crate::layout::{DENSE_LIMIT, Decoded, LENGTH, errors_of};
use crate::limits::Limits;
use crate::model::{Attributes, DType, Value, element_count};

/// How elements are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grouping {
    bits: u32,
    /// The elements per group; `None` for one group per row.
    size: Option<u64>,
}

/// A quantized tensor.
#[derive(Debug, Clone)]
pub struct QuantizationResult {
    /// The components of the tensor.
    pub parts: QuantizedParts,
    /// The maximum absolute error of an element.
    pub max_error: f64,
    /// The root mean square error.
    pub rms_error: f64,
}

impl Grouping {
    /// Creates a grouping with elements of `bits` bits, 1 to 8, and groups of `size` elements in row-major order, or
    /// one group per row if `size` is `None`.
    ///
    /// # Errors
    /// Returns [`BITS`] if the bits are out of range, and [`ATTRIBUTE`] if the size is 0.
    pub fn new(bits: u32, size: Option<u64>) -> Result<Grouping> {
        if !(1..=8).contains(&bits) {
            return Err(
                BITS.broken(format!("unsupported elements of {bits} bits; expected 1 to 8"))
            );
        }
        match size {
            Some(size) if size == 0 || i64::try_from(size).is_err() => {
                Err(ATTRIBUTE.broken(format!("invalid `group_size` of {size}")))
            }
            size => Ok(Grouping { bits, size }),
        }
    }

    /// Bits of an element.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the elements of a group, or `None` for one group per row.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Returns how elements are packed into words.
    ///
    /// # Errors
    /// Returns no error, because the bits were checked.
    pub fn packing(&self) -> Result<Packing> {
        Packing::new(self.bits, None, false, WORD)
    }

    /// Returns the attributes of a tensor quantized this way. They replace those in `attributes` that describe another
    /// quantization.
    ///
    /// # Errors
    /// Returns the errors of [`Grouping::packing`].
    pub fn attributes(&self, attributes: &Attributes) -> Result<Attributes> {
        let others =
            attributes.iter().filter(|(key, _)| !super::PARAMETER_ATTRIBUTES.contains(key));
        let mut out: Attributes =
            others.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        out.set("bits", Value::Integer(self.bits.into()));
        out.set("group_size", Value::Integer(self.size.map_or(-1, i128::from)));
        out.set("packing", Value::Text(self.packing()?.to_string()));
        Ok(out)
    }

    /// Returns the bytes of the components of a tensor of this shape: words, scales, zero points.
    ///
    /// # Errors
    /// Returns [`LENGTH`] if they exceed 2^64.
    pub fn lens(&self, shape: &[u64]) -> Result<[u64; 3]> {
        let packing = self.packing()?;
        let sizes = element_count(shape).and_then(|count| {
            let words = count.div_ceil(packing.elements()).checked_mul(packing.words())?;
            let groups = count.div_ceil(self.size_in(shape));
            Some([words.checked_mul(WORD.width())?, groups.checked_mul(4)?, groups])
        });
        sizes.ok_or_else(|| LENGTH.broken(format!("shape {shape:?} requires more than 2^64 bytes")))
    }

    /// Returns the elements of a group in a tensor of this shape.
    pub fn size_in(&self, shape: &[u64]) -> u64 {
        self.size.unwrap_or(shape.last().copied().unwrap_or(1)).max(1)
    }

    /// Quantizes a tensor, and computes the errors that readers will see.
    ///
    /// # Errors
    /// Returns [`NOT_FINITE`] if a number is not finite, the errors of [`Dense::to_f32`], and [`DENSE_LIMIT`] if the
    /// result exceeds the limits.
    pub fn quantize(&self, dense: &Dense, limits: &Limits) -> Result<QuantizationResult> {
        self.quantize_from(dense, 0, limits)
    }

    /// Quantizes a part of a tensor that starts at element `first` and consists of whole groups.
    ///
    /// # Errors
    /// Returns the errors of [`Grouping::quantize`].
    pub fn quantize_from(
        &self,
        dense: &Dense,
        first: u64,
        limits: &Limits,
    ) -> Result<QuantizationResult> {
        let values = dense.to_f32()?;
        if let Some(at) = values.iter().position(|x| !x.is_finite()) {
            let number = first.saturating_add(at as u64);
            return Err(NOT_FINITE.broken(format!(
                "element {number} is {} as f32, which is not finite",
                values[at]
            )));
        }
        let [words, scales, zeros] = self.lens(dense.shape())?;
        if words.max(scales).max(zeros) > limits.decoded_len {
            let most = limits.decoded_len;
            return Err(DENSE_LIMIT
                .broken(format!("{words} bytes of packed words exceed the limit of {most}")));
        }
        let size = usize::try_from(self.size_in(dense.shape())).unwrap_or(usize::MAX);
        let top = f64::from((1u32 << self.bits) - 1);
        let mut q = vec![0u8; values.len()];
        let (mut scales, mut zeros) = (Vec::new(), Vec::new());
        for (group, q) in values.chunks(size).zip(q.chunks_mut(size)) {
            let low = group.iter().copied().fold(0f32, f32::min);
            let high = group.iter().copied().fold(0f32, f32::max);
            let spread = (f64::from(high) - f64::from(low)) / top;
            // With one bit, the spread may exceed an f32. If it is too small for one, all elements are practically
            // equal.
            let scale = (spread as f32).min(f32::MAX);
            let scale = if scale > 0.0 { scale } else { 1.0 };
            let zero = (-f64::from(low) / f64::from(scale)).round_ties_even().clamp(0.0, top);
            for (x, q) in group.iter().zip(q) {
                let nearest = (f64::from(*x) / f64::from(scale)).round_ties_even() + zero;
                *q = nearest.clamp(0.0, top) as u8;
            }
            scales.extend_from_slice(&scale.to_le_bytes());
            zeros.push(zero as u8);
        }
        let packed_weight = Decoded::new(WORD, self.packing()?.pack(&q));
        drop(q);
        let scales = Decoded::new(DType::F32, scales);
        let zeros = Some(Decoded::new(DType::U8, zeros));
        let parts = QuantizedParts { packed_weight, scales, zeros, g_idx: None };
        let attributes = self.attributes(&Attributes::new())?;
        let view = Quantized::new(dense.shape(), &attributes, parts.clone())?;
        let (max_error, rms_error) = errors_of(dense, &view)?;
        Ok(QuantizationResult { parts, max_error, rms_error })
    }
}

/// The type of packed words.
const WORD: DType = DType::I32;
