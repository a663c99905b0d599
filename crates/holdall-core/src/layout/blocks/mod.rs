//! ggml's blocks, as GGUF files have them: each holds 32 to 256 neighbours of a row, with their scales.
//!
//! [`BlockType`] lists the types; every formula is at the function that decodes its type. Numbers come out as `gguf` 0.19
//! gives them, bit for bit; the types that it does not decode (Q8_1, Q8_K, Q1_0) follow the formula given there. A
//! number that is none (the scale of a damaged block, say) stays one that is none.

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
use crate::error::{Result, Shown as _};
use crate::model::block::BlockType;
use crate::model::builder::SIZE;
use crate::model::{Layout, Role, TensorInfo, element_count};
use bytes::Bytes;
use half::f16;
use std::ops::Range;

/// The most elements that a block has.
const MOST: usize = 256;

/// A tensor stored in blocks, its length checked.
#[derive(Debug, Clone)]
pub struct Blocks {
    of: &'static BlockType,
    shape: Vec<u64>,
    count: u64,
    bytes: Bytes,
}

impl Blocks {
    /// The view of a tensor whose layout is a block type, whose decoded components `get` hands out.
    ///
    /// # Errors
    /// [`WRONG_LAYOUT`]; what `get` fails with; as [`Blocks::new`].
    pub fn from_tensor(info: &TensorInfo, get: impl Fn(&Role) -> Result<Bytes>) -> Result<Blocks> {
        let Layout::Blocks(of) = info.layout() else {
            let layout = info.layout().as_str().shown();
            return Err(WRONG_LAYOUT.broken(format!("the layout is `{layout}`, not blocks")));
        };
        Blocks::new(of, info.shape(), get(&Role::Data)?)
    }

    /// A view of the blocks of a tensor.
    ///
    /// # Errors
    /// [`SIZE`] where there are not as many bytes as the shape takes, or its rows are not whole blocks.
    pub fn new(of: &'static BlockType, shape: &[u64], bytes: Bytes) -> Result<Blocks> {
        if of.stored_len(shape) != Some(bytes.len() as u64) {
            let found = bytes.len();
            let message = format!("{found} bytes are not those of shape {shape:?} of {of}");
            return Err(SIZE.broken(message));
        }
        let count = element_count(shape).unwrap_or_default();
        Ok(Blocks { of, shape: shape.to_vec(), count, bytes })
    }

    /// The elements of a dense tensor as blocks of that type.
    ///
    /// # Errors
    /// As [`quantize`], and where rows are not whole blocks; what [`Dense::to_f32`] fails with.
    pub fn quantize(of: &'static BlockType, dense: &Dense) -> Result<Blocks> {
        let mut bytes = Vec::new();
        quantize(of, &dense.to_f32()?, &mut bytes)?;
        Blocks::new(of, dense.shape(), bytes.into())
    }

    /// The blocks as they are stored.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What its blocks are.
    pub fn block_type(&self) -> &'static BlockType {
        self.of
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
        let of_block = self.of.elements;
        let mut at = elements.start;
        let mut left = out;
        while !left.is_empty() {
            let (block, within) = (at / of_block, at % of_block);
            // Inside memory: so many blocks are there.
            let start = (block * self.of.bytes) as usize;
            let bytes = self.bytes.get(start..).unwrap_or_default();
            let whole = left.len() - left.len() % of_block as usize;
            let run = if within == 0 && whole > 0 {
                let (now, later) = left.split_at_mut(whole);
                decode(self.of, bytes, now)?;
                left = later;
                whole
            } else {
                let mut scratch = [0.0; MOST];
                let one = scratch.get_mut(..of_block as usize).unwrap_or_default();
                decode(self.of, bytes, one)?;
                let inside = one.get(within as usize..).unwrap_or_default();
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

/// The grid that elements of a type are looked up in, as a shader needs it: line after line, of 8 numbers each for IQ1 and IQ2, of 4 for
/// IQ3. `None` for types without one.
pub fn grid(of: &BlockType) -> Option<&'static [i8]> {
    iq::grid(of.as_str())
}

/// Decodes blocks into as many elements as `out` takes: whole blocks.
fn decode(of: &BlockType, bytes: &[u8], out: &mut [f32]) -> Result<()> {
    match of.as_str() {
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
        // Every type of the list is above: a test goes through them.
        other => return Err(ROWS.broken(format!("blocks of {other} are not decoded"))),
    }
    Ok(())
}

/// Hands each block and the room for its elements to `one`.
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

/// The f16 at byte `at` of a block.
#[inline(always)]
fn half_at<const BYTES: usize>(block: &[u8; BYTES], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The u16 at byte `at` of a block.
#[inline(always)]
fn u16_at<const BYTES: usize>(block: &[u8; BYTES], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

/// The u32 at byte `at` of a block.
#[inline(always)]
fn u32_at<const BYTES: usize>(block: &[u8; BYTES], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}
