//! Blocks of 256 elements that are lines of a grid, with separate signs.

use super::grids;
use super::{half_at, u16_at, u32_at};

/// Unpacks the lines of a grid that has `bits` bits per number.
const fn lines<const LINES: usize, const N: usize>(
    packed: &[u16; LINES],
    bits: usize,
    values: &[i8],
) -> [[i8; N]; LINES] {
    let mut out = [[0; N]; LINES];
    let mut at = 0;
    while at < LINES {
        let mut k = 0;
        while k < N {
            out[at][k] = values[(packed[at] >> (bits * k)) as usize & ((1 << bits) - 1)];
            k += 1;
        }
        at += 1;
    }
    out
}

const OF_2: [i8; 3] = [8, 25, 43];
static IQ2_XXS: [[i8; 8]; 256] = lines(&grids::IQ2_XXS, 2, &OF_2);
static IQ2_XS: [[i8; 8]; 512] = lines(&grids::IQ2_XS, 2, &OF_2);
static IQ2_S: [[i8; 8]; 1024] = lines(&grids::IQ2_S, 2, &OF_2);
static IQ3_XXS: [[i8; 4]; 256] = lines(&grids::IQ3_XXS, 3, &[4, 12, 20, 28, 36, 44, 52, 62]);
static IQ3_S: [[i8; 4]; 512] = lines(&grids::IQ3_S, 3, &[1, 3, 5, 7, 9, 11, 13, 15]);
static IQ1: [[i8; 8]; 2048] = lines(&grids::IQ1, 2, &[-1, 0, 1]);

/// Returns the numbers of a type's grid, line after line.
pub(super) fn grid(name: &str) -> Option<&'static [i8]> {
    Some(match name {
        "iq2_xxs" => IQ2_XXS.as_flattened(),
        "iq2_xs" => IQ2_XS.as_flattened(),
        "iq2_s" => IQ2_S.as_flattened(),
        "iq3_xxs" => IQ3_XXS.as_flattened(),
        "iq3_s" => IQ3_S.as_flattened(),
        "iq1_s" | "iq1_m" => IQ1.as_flattened(),
        _ => return None,
    })
}

/// Returns seven signs, and an eighth that makes the number of minus signs even.
#[inline(always)]
fn signs_of(seven: u32) -> u8 {
    let seven = seven as u8 & 127;
    seven | ((seven.count_ones() as u8 & 1) << 7)
}

/// Writes d times the numbers of a line, negated where the bit in `signs` is set.
#[inline(always)]
fn signed<const N: usize>(d: f32, line: &[i8; N], signs: u32, out: &mut [f32; N]) {
    for (j, (x, v)) in out.iter_mut().zip(line).enumerate() {
        let value = d * f32::from(*v);
        *x = if signs >> j & 1 == 1 { -value } else { value };
    }
}

/// Decodes d·(s + ½)/4 for each 32 elements, whose signs are four times seven bits.
pub(super) fn iq2_xxs(b: &[u8; 66], out: &mut [f32; 256]) {
    let d = half_at(b, 0);
    let (groups, _) = out.as_chunks_mut::<32>();
    for (i, group) in groups.iter_mut().enumerate() {
        let at = 2 + 8 * i;
        let rest = u32_at(b, at + 4);
        let d = d * (0.5 + (rest >> 28) as f32) * 0.25;
        for (l, out) in group.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let line = &IQ2_XXS[usize::from(b[at + l])];
            signed(d, line, signs_of(rest >> (7 * l)).into(), out);
        }
    }
}

/// Returns the scale of 16 elements: four bits of the byte for 32 elements.
#[inline(always)]
fn scale_of_16(d: f32, byte: u8, second: bool) -> f32 {
    let scale = if second { byte >> 4 } else { byte & 15 };
    d * (0.5 + f32::from(scale)) * 0.25
}

/// Decodes d·(s + ½)/4 for each 16 elements; the line's index and its signs share a u16.
pub(super) fn iq2_xs(b: &[u8; 74], out: &mut [f32; 256]) {
    let d = half_at(b, 0);
    let (groups, _) = out.as_chunks_mut::<8>();
    for (i, out) in groups.iter_mut().enumerate() {
        let q = u16_at(b, 2 + 2 * i);
        let d = scale_of_16(d, b[66 + i / 4], i / 2 % 2 == 1);
        signed(d, &IQ2_XS[usize::from(q & 511)], signs_of(u32::from(q >> 9)).into(), out);
    }
}

/// Decodes d·(s + ½)/4 for each 16 elements; each line has a byte of signs, and the highest bits of its index are
/// stored separately.
pub(super) fn iq2_s(b: &[u8; 82], out: &mut [f32; 256]) {
    let d = half_at(b, 0);
    let (groups, _) = out.as_chunks_mut::<8>();
    for (i, out) in groups.iter_mut().enumerate() {
        let high = b[66 + i / 4] >> (2 * (i % 4)) & 3;
        let d = scale_of_16(d, b[74 + i / 4], i / 2 % 2 == 1);
        let line = usize::from(b[2 + i]) | usize::from(high) << 8;
        // Sets the sign bits directly: here the compiler would turn `signed` into unpredictable branches.
        let signs = u32::from(b[34 + i]);
        for (j, (x, v)) in out.iter_mut().zip(&IQ2_S[line]).enumerate() {
            *x = f32::from_bits((d * f32::from(*v)).to_bits() ^ (signs >> j & 1) << 31);
        }
    }
}

/// Decodes d·(s + ½)/2 for each 32 elements, whose signs are four times seven bits.
pub(super) fn iq3_xxs(b: &[u8; 98], out: &mut [f32; 256]) {
    let d = half_at(b, 0);
    let (groups, _) = out.as_chunks_mut::<32>();
    for (i, group) in groups.iter_mut().enumerate() {
        let rest = u32_at(b, 66 + 4 * i);
        let d = d * (0.5 + (rest >> 28) as f32) * 0.5;
        for (l, out) in group.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let line = &IQ3_XXS[usize::from(b[2 + 8 * i + l])];
            let signs = signs_of(rest >> (7 * (l / 2))) >> (4 * (l % 2));
            signed(d, line, signs.into(), out);
        }
    }
}

/// Decodes d·(2s + 1) for each 32 elements; each element has a sign bit, and the highest bits of lines are stored
/// separately.
pub(super) fn iq3_s(b: &[u8; 110], out: &mut [f32; 256]) {
    let d = half_at(b, 0);
    let (groups, _) = out.as_chunks_mut::<32>();
    for (i, group) in groups.iter_mut().enumerate() {
        let scale = b[106 + i / 2] >> (4 * (i % 2)) & 15;
        let d = d * f32::from(1 + 2 * scale);
        for (l, out) in group.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let high = b[66 + i] >> l & 1;
            let line = usize::from(b[2 + 8 * i + l]) | usize::from(high) << 8;
            let signs = b[74 + 4 * i + l / 2] >> (4 * (l % 2));
            signed(d, &IQ3_S[line], signs.into(), out);
        }
    }
}

/// Writes d times the numbers of a line, each plus or minus an eighth.
#[inline(always)]
fn shifted(d: f32, line: usize, down: bool, out: &mut [f32; 8]) {
    let delta = if down { -0.125 } else { 0.125 };
    for (x, v) in out.iter_mut().zip(&IQ1[line & 2047]) {
        *x = d * (f32::from(*v) + delta);
    }
}

/// Decodes d·(2s + 1) for each 32 elements.
pub(super) fn iq1_s(b: &[u8; 50], out: &mut [f32; 256]) {
    let d = half_at(b, 0);
    let (groups, _) = out.as_chunks_mut::<8>();
    for (i, out) in groups.iter_mut().enumerate() {
        let high = u16_at(b, 34 + 2 * (i / 4));
        let d = d * f32::from(2 * (high >> 12 & 7) + 1);
        let line = usize::from(b[2 + i]) | usize::from(high >> (3 * (i % 4)) & 7) << 8;
        shifted(d, line, high & 0x8000 != 0, out);
    }
}

/// Returns the f16 whose bits are spread over four numbers, in the top four bits of each.
#[inline(always)]
fn spread_half(b: &[u8; 56]) -> f32 {
    let part = |i: usize| (u16_at(b, 48 + 2 * i) >> 12) << (4 * i);
    half::f16::from_bits(part(0) | part(1) | part(2) | part(3)).to_f32()
}

/// Decodes d·(2s + 1) for each 16 elements; d is stored in the top bits of the scales.
pub(super) fn iq1_m(b: &[u8; 56], out: &mut [f32; 256]) {
    let d = spread_half(b);
    let (groups, _) = out.as_chunks_mut::<8>();
    for (i, out) in groups.iter_mut().enumerate() {
        let scales = u16_at(b, 48 + 2 * (i / 8));
        let d = d * f32::from(2 * (scales >> (3 * (i / 2 % 4)) & 7) + 1);
        let high = b[32 + i / 2] >> (4 * (i % 2));
        let line = usize::from(b[i]) | usize::from(high & 7) << 8;
        shifted(d, line, high & 8 != 0, out);
    }
}
