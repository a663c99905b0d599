//! ggml's blocks, as in GGUF files: each block holds 32 to 256 neighbours of a row, with their scales.
//!
//! [`BlockType`] lists the types. The formula of each type is at the function that decodes it. Decoded numbers are bit
//! for bit those of `gguf` 0.19; the types that `gguf` does not decode (Q8_1, Q8_K, Q1_0) follow the formulas given
//! there. NaN, such as from the scale of a damaged block, stays NaN.

mod begin;
mod grids;
mod iq;
mod k;
mod quantize;
mod quantize_k;
mod search;
mod small;

pub use quantize::{can_quantize, quantize};

use super::dense::Dense;
use super::{Computed, ROWS, WRONG_LAYOUT, check_room};
use crate::error::{Escape as _, Result};
use crate::model::block::BlockType;
use crate::model::builder::SIZE;
use crate::model::{Layout, Role, TensorInfo, element_count};
use bytes::Bytes;
use half::f16;
use holdall_collections::DebugUnwrap;
use std::ops::Range;

/// The maximum number of elements in a block.
const MAX_BLOCK_ELEMENTS: usize = 256;

/// A tensor stored in blocks, whose length was checked.
#[derive(Debug, Clone)]
pub struct Blocks {
    block_type: &'static BlockType,
    shape: Vec<u64>,
    count: u64,
    bytes: Bytes,
}

impl Blocks {
    /// Creates the view of a tensor whose layout is a block type. `get` returns decoded components.
    ///
    /// # Errors
    /// Returns [`WRONG_LAYOUT`] if the layout is not a block type, the errors of `get`, and those of [`Blocks::new`].
    pub fn from_tensor(info: &TensorInfo, get: impl Fn(&Role) -> Result<Bytes>) -> Result<Blocks> {
        let Layout::Blocks(block_type) = info.layout() else {
            let layout = info.layout().as_str().escaped();
            return Err(
                WRONG_LAYOUT.broken(format!("expected a layout of blocks, found `{layout}`"))
            );
        };
        Blocks::new(block_type, info.shape(), get(&Role::Data)?)
    }

    /// Creates a view of a tensor's blocks.
    ///
    /// # Errors
    /// Returns [`SIZE`] if the number of bytes does not match the shape, or if the rows are not whole blocks.
    pub fn new(block_type: &'static BlockType, shape: &[u64], bytes: Bytes) -> Result<Blocks> {
        if block_type.stored_len(shape) != Some(bytes.len() as u64) {
            let found = bytes.len();
            let message = format!("{found} bytes do not match shape {shape:?} of {block_type}");
            return Err(SIZE.broken(message));
        }
        let count = element_count(shape).unwrap_or_default();
        Ok(Blocks { block_type, shape: shape.to_vec(), count, bytes })
    }

    /// Quantizes the elements of a dense tensor to blocks of this type.
    ///
    /// # Errors
    /// Returns the errors of [`quantize`] and of [`Dense::to_f32`], and [`SIZE`] if the rows are not whole blocks.
    pub fn quantize(block_type: &'static BlockType, dense: &Dense) -> Result<Blocks> {
        let mut bytes = Vec::new();
        quantize(block_type, &dense.to_f32()?, &mut bytes)?;
        Blocks::new(block_type, dense.shape(), bytes.into())
    }

    /// Returns the stored blocks.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the type of the blocks.
    pub fn block_type(&self) -> &'static BlockType {
        self.block_type
    }
}

impl Computed for Blocks {
    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn dequantize_range(&self, elements: Range<u64>, out: &mut [f32]) -> Result<()> {
        check_room(self.count, &elements, out)?;
        let of_block = self.block_type.elements;
        let mut at = elements.start;
        let mut left = out;
        while !left.is_empty() {
            let (block, within) = (at / of_block, at % of_block);
            // The offset is inside the bytes in memory, so it fits `usize`.
            let start = (block * self.block_type.bytes) as usize;
            let bytes = self.bytes.get(start..).debug_unwrap();
            let whole = left.len() - left.len() % of_block as usize;
            let run = if within == 0 && whole > 0 {
                let (now, later) = left.split_at_mut(whole);
                decode(self.block_type, bytes, now)?;
                left = later;
                whole
            } else {
                let mut scratch = [0.0; MAX_BLOCK_ELEMENTS];
                let one = scratch.get_mut(..of_block as usize).debug_unwrap();
                decode(self.block_type, bytes, one)?;
                let inside = one.get(within as usize..).debug_unwrap();
                let run = inside.len().min(left.len());
                let (now, later) = left.split_at_mut(run);
                now.copy_from_slice(&inside[..run]);
                left = later;
                run
            };
            at += run as u64;
        }
        Ok(())
    }
}

/// Returns the grid in which a type's elements are looked up, as a shader needs it: line after line, of 8 numbers each
/// for IQ1 and IQ2, of 4 for IQ3. Returns `None` for types without a grid.
pub fn grid(block_type: &BlockType) -> Option<&'static [i8]> {
    iq::grid(block_type.as_str())
}

/// Decodes whole blocks until `out` is full.
fn decode(block_type: &BlockType, bytes: &[u8], out: &mut [f32]) -> Result<()> {
    match block_type.as_str() {
        "q4_0" => each(bytes, out, small::q4_0),
        "q4_1" => each(bytes, out, small::q4_1),
        "q5_0" => each(bytes, out, small::q5_0),
        "q5_1" => each(bytes, out, small::q5_1),
        "q8_0" => each(bytes, out, small::q8_0),
        "q8_1" => each(bytes, out, small::q8_1),
        "iq4_nl" => each(bytes, out, small::iq4_nl),
        "mxfp4" => each(bytes, out, small::mxfp4),
        "nvfp4" => each(bytes, out, small::nvfp4),
        "q1_0" => each(bytes, out, small::q1_0),
        "q2_0" => each(bytes, out, small::q2_0),
        "q2_k" => each(bytes, out, k::q2_k),
        "q3_k" => each(bytes, out, k::q3_k),
        "q4_k" => each(bytes, out, k::q4_k),
        "q5_k" => each(bytes, out, k::q5_k),
        "q6_k" => each(bytes, out, k::q6_k),
        "q8_k" => each(bytes, out, k::q8_k),
        "tq1_0" => each(bytes, out, k::tq1_0),
        "tq2_0" => each(bytes, out, k::tq2_0),
        "iq2_xxs" => each(bytes, out, iq::iq2_xxs),
        "iq2_xs" => each(bytes, out, iq::iq2_xs),
        "iq2_s" => each(bytes, out, iq::iq2_s),
        "iq3_xxs" => each(bytes, out, iq::iq3_xxs),
        "iq3_s" => each(bytes, out, iq::iq3_s),
        "iq1_s" => each(bytes, out, iq::iq1_s),
        "iq1_m" => each(bytes, out, iq::iq1_m),
        "iq4_xs" => each(bytes, out, small::iq4_xs),
        // All types of the list are above: a test covers them.
        other => return Err(ROWS.broken(format!("unsupported blocks of {other}"))),
    }
    Ok(())
}

/// Calls `one` with each block and the output for its elements.
#[inline(always)]
fn each<const BYTES: usize, const ELEMENTS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    one: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
) {
    let (blocks, _) = bytes.as_chunks::<BYTES>();
    let (rooms, _) = out.as_chunks_mut::<ELEMENTS>();
    for (block, room) in blocks.iter().zip(rooms) {
        one(block, room);
    }
}

/// Returns the f16 at byte `at` of a block.
#[inline(always)]
fn half_at<const BYTES: usize>(block: &[u8; BYTES], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Returns the u16 at byte `at` of a block.
#[inline(always)]
fn u16_at<const BYTES: usize>(block: &[u8; BYTES], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

/// Returns the u32 at byte `at` of a block.
#[inline(always)]
fn u32_at<const BYTES: usize>(block: &[u8; BYTES], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}
