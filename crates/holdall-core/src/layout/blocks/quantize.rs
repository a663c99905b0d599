//! Quantizing numbers to blocks: bit for bit like `gguf` 0.19, or, for types that it does not quantize, by a
//! [search](super::search).

use super::quantize_k::{self, laid};
use super::small::{E2M1, half_of_e8m0};
use crate::error::Result;
use crate::layout::{LENGTH, NOT_FINITE};
use crate::model::block::BlockType;
use half::f16;

/// Returns `true` if numbers can be quantized to blocks of this type.
pub fn can_quantize(block_type: &BlockType) -> bool {
    let simple = matches!(
        block_type.as_str(),
        "q4_0" | "q4_1" | "q5_0" | "q5_1" | "q8_0" | "mxfp4" | "tq1_0" | "tq2_0"
    );
    simple || quantize_k::is_made(block_type)
}

/// Quantizes numbers, which must fill whole blocks, and appends the blocks to `out`.
///
/// # Errors
/// Returns [`NOT_FINITE`] if a number is NaN, infinite, or too large for a scale in f16, and [`LENGTH`] if the numbers
/// do not fill blocks, or if quantizing to this type is not supported ([`can_quantize`]).
pub fn quantize(block_type: &BlockType, numbers: &[f32], out: &mut Vec<u8>) -> Result<()> {
    if !(numbers.len() as u64).is_multiple_of(block_type.elements) || !can_quantize(block_type) {
        let message =
            format!("cannot quantize {} numbers to blocks of {block_type}", numbers.len());
        return Err(LENGTH.broken(message));
    }
    for block in numbers.chunks_exact(block_type.elements as usize) {
        let most = block.iter().fold(0f32, |most, x| most.max(x.abs()));
        let is_number = block.iter().all(|x| x.is_finite());
        if !is_number || append(block_type, block, most, out).is_none() {
            let odd = block.iter().find(|x| !x.is_finite() || x.abs() == most);
            let message = format!(
                "{} cannot be represented in a block of {block_type}",
                odd.unwrap_or(&most)
            );
            return Err(NOT_FINITE.broken(message));
        }
    }
    Ok(())
}

/// Appends a block of these numbers, whose largest magnitude is `most`, to `out`. Returns `None` if a scale is too
/// large for an f16.
fn append(block_type: &BlockType, block: &[f32], most: f32, out: &mut Vec<u8>) -> Option<()> {
    if quantize_k::is_made(block_type) {
        return quantize_k::block(block_type, block, most, out);
    }
    if block_type.as_str() != "mxfp4" && !f16::from_f32(most).is_finite() {
        return None;
    }
    match block_type.as_str() {
        "q4_0" => around_zero::<4>(block, out),
        "q5_0" => around_zero::<5>(block, out),
        "q4_1" => from_least::<4>(block, out),
        "q5_1" => from_least::<5>(block, out),
        "q8_0" => q8_0(block, most, out),
        "mxfp4" => mxfp4(block, most, out),
        "tq1_0" => tq1_0(block, most, out),
        _ => tq2_0(block, most, out),
    }
    Some(())
}

/// Returns 1/d, or 0 if d is 0.
fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

fn half(x: f32, out: &mut Vec<u8>) {
    out.extend_from_slice(&f16::from_f32(x).to_le_bytes());
}

/// Appends four or five bits each: the fifth bits first, then the low nibbles of both halves.
fn pack<const BITS: u32>(all: &[u8; 32], out: &mut Vec<u8>) {
    if BITS == 5 {
        let high = all.iter().enumerate().fold(0u32, |high, (j, q)| high | u32::from(q >> 4) << j);
        out.extend_from_slice(&high.to_le_bytes());
    }
    let (first, second) = all.split_at(16);
    out.extend(first.iter().zip(second).map(|(a, b)| (a & 15) | (b << 4)));
}

/// Appends q = x/d + half the range, where d maps the number of the largest magnitude to the lowest q.
fn around_zero<const BITS: u32>(block: &[f32], out: &mut Vec<u8>) {
    let half_range = (1 << (BITS - 1)) as f32;
    // The first one of the largest magnitude.
    let most = block.iter().fold(0f32, |most, x| if x.abs() > most.abs() { *x } else { most });
    let d = most / -half_range;
    let scale = inverse(d);
    let mut all = [0; 32];
    for (q, x) in all.iter_mut().zip(block) {
        *q = ((x * scale + (half_range + 0.5)) as u8).min((1 << BITS) - 1);
    }
    half(d, out);
    pack::<BITS>(&all, out);
}

/// Appends q = (x − least)/d.
fn from_least<const BITS: u32>(block: &[f32], out: &mut Vec<u8>) {
    let most = block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let least = block.iter().copied().fold(f32::INFINITY, f32::min);
    let d = (most - least) / ((1 << BITS) - 1) as f32;
    let scale = inverse(d);
    let mut all = [0; 32];
    for (q, x) in all.iter_mut().zip(block) {
        *q = (((x - least) * scale + 0.5) as u8).min((1 << BITS) - 1);
    }
    half(d, out);
    half(least, out);
    pack::<BITS>(&all, out);
}

fn q8_0(block: &[f32], most: f32, out: &mut Vec<u8>) {
    let d = most / 127.0;
    let scale = inverse(d);
    half(d, out);
    out.extend(block.iter().map(|x| (x * scale).round() as i8 as u8));
}

/// Appends the nearest of 16 values each, the first one if two are equally near.
fn mxfp4(block: &[f32], most: f32, out: &mut Vec<u8>) {
    let e = if most > 0.0 { (f64::from(most).log2() as f32).floor() - 2.0 + 127.0 } else { 0.0 };
    let e = e as u8;
    let d = half_of_e8m0(e);
    let nearest = |x: f32| {
        let mut best = (f32::INFINITY, 0u8);
        for (q, v) in (0u8..).zip(E2M1) {
            let error = (d * f32::from(v) - x).abs();
            if error < best.0 {
                best = (error, q);
            }
        }
        best.1
    };
    out.push(e);
    let (first, second) = block.split_at(16);
    out.extend(first.iter().zip(second).map(|(a, b)| nearest(*a) | (nearest(*b) << 4)));
}

/// Returns 0, 1 or 2 for −1, 0 and 1.
fn ternary(block: &[f32], most: f32) -> Vec<u8> {
    let scale = inverse(most);
    block.iter().map(|x| ((x * scale).round() as i8 + 1) as u8).collect()
}

fn tq1_0(block: &[f32], most: f32, out: &mut Vec<u8>) {
    let all = ternary(block, most);
    for (digits, width) in [(&all[..160], 32), (&all[160..240], 16), (&all[240..], 4)] {
        for i in 0..width {
            let mut number = 0u16;
            for k in 0..5 {
                // A byte has five base-three digits; in the last run of bytes only four are used.
                number =
                    number * 3 + u16::from(digits.get(k * width + i).copied().unwrap_or_default());
            }
            out.push((number * 256).div_ceil(243) as u8);
        }
    }
    half(most, out);
}

fn tq2_0(block: &[f32], most: f32, out: &mut Vec<u8>) {
    out.extend(laid(&ternary(block, most), 2, 32));
    half(most, out);
}
