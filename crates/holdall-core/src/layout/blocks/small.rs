//! Blocks of 32 to 128 elements: a scale, and a few bits per element.

use super::{half_at, u16_at, u32_at};

/// The values of the four-bit codes in IQ4_NL and IQ4_XS.
pub(super) static IQ4: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The values of the four-bit codes in MXFP4 and NVFP4: E2M1, doubled.
pub(super) static E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Decodes nibbles: the low ones are the first half of the elements, the high ones the second.
#[inline(always)]
fn nibbles<const N: usize>(bytes: &[u8], out: &mut [f32; N], value: impl Fn(u8) -> f32) {
    let (low, high) = out.split_at_mut(N / 2);
    for ((low, high), b) in low.iter_mut().zip(high).zip(bytes) {
        *low = value(b & 15);
        *high = value(b >> 4);
    }
}

/// Decodes nibbles like [`nibbles`], with bit `j` of `high` above the nibble of element `j`.
#[inline(always)]
fn five_bits(bytes: &[u8], high: u32, out: &mut [f32; 32], value: impl Fn(i32) -> f32) {
    for j in 0..16 {
        let (a, b) = (high >> j & 1, high >> (j + 16) & 1);
        out[j] = value((u32::from(bytes[j] & 15) | a << 4) as i32);
        out[j + 16] = value((u32::from(bytes[j] >> 4) | b << 4) as i32);
    }
}

/// Decodes d·(q − 8).
pub(super) fn q4_0(b: &[u8; 18], out: &mut [f32; 32]) {
    let d = half_at(b, 0);
    nibbles(&b[2..], out, |q| d * f32::from(q as i8 - 8));
}

/// Decodes d·q + m.
pub(super) fn q4_1(b: &[u8; 20], out: &mut [f32; 32]) {
    let (d, m) = (half_at(b, 0), half_at(b, 2));
    nibbles(&b[4..], out, |q| d * f32::from(q) + m);
}

/// Decodes d·(q − 16), with the fifth bits stored separately.
pub(super) fn q5_0(b: &[u8; 22], out: &mut [f32; 32]) {
    let d = half_at(b, 0);
    five_bits(&b[6..], u32_at(b, 2), out, |q| d * (q - 16) as f32);
}

/// Decodes d·q + m, with the fifth bits stored separately.
pub(super) fn q5_1(b: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m) = (half_at(b, 0), half_at(b, 2));
    five_bits(&b[8..], u32_at(b, 4), out, |q| d * q as f32 + m);
}

/// Decodes d·q.
pub(super) fn q8_0(b: &[u8; 34], out: &mut [f32; 32]) {
    let d = half_at(b, 0);
    out.iter_mut().zip(&b[2..]).for_each(|(x, q)| *x = f32::from(*q as i8) * d);
}

/// Decodes d·q. The second f16 is d times the sum of all q: it is used for products of vectors, not for values.
pub(super) fn q8_1(b: &[u8; 36], out: &mut [f32; 32]) {
    let d = half_at(b, 0);
    out.iter_mut().zip(&b[4..]).for_each(|(x, q)| *x = f32::from(*q as i8) * d);
}

/// Returns the values of the four-bit codes times `d`: 16 vectorised products, instead of one per element.
#[inline(always)]
fn times(d: f32, values: &[i8; 16]) -> [f32; 16] {
    values.map(|value| d * f32::from(value))
}

/// Decodes d times one of 16 values.
pub(super) fn iq4_nl(b: &[u8; 18], out: &mut [f32; 32]) {
    let values = times(half_at(b, 0), &IQ4);
    nibbles(&b[2..], out, |q| values[q as usize & 15]);
}

/// Returns half of 2^(e − 127), which compensates for the doubled values.
pub(super) fn half_of_e8m0(e: u8) -> f32 {
    f32::from_bits(match e {
        0 | 1 => 0x0020_0000 << e,
        e => u32::from(e - 1) << 23,
    })
}

/// Decodes OCP's MX: E2M1 times a power of two.
pub(super) fn mxfp4(b: &[u8; 17], out: &mut [f32; 32]) {
    let values = times(half_of_e8m0(b[0]), &E2M1);
    nibbles(&b[1..], out, |q| values[q as usize & 15]);
}

/// Returns half of an E4M3 without its sign; 0x7F is 0 too.
fn half_of_e4m3(x: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(x >> 3 & 15), u32::from(x & 7));
    match (x, exponent) {
        (0 | 0x7f, _) => 0.0,
        (_, 0) => mantissa as f32 / 1024.0,
        _ => f32::from_bits((exponent + 119) << 23 | mantissa << 20),
    }
}

/// Decodes E2M1 times a scale for each 16 elements.
pub(super) fn nvfp4(b: &[u8; 36], out: &mut [f32; 64]) {
    let (groups, _) = out.as_chunks_mut::<16>();
    for (i, group) in groups.iter_mut().enumerate() {
        let values = times(half_of_e4m3(b[i]), &E2M1);
        nibbles(&b[4 + 8 * i..], group, |q| values[q as usize & 15]);
    }
}

/// Decodes d or −d, one bit each, lowest bit first.
pub(super) fn q1_0(b: &[u8; 18], out: &mut [f32; 128]) {
    let d = half_at(b, 0);
    for (out, bits) in out.as_chunks_mut::<8>().0.iter_mut().zip(&b[2..]) {
        for (j, x) in out.iter_mut().enumerate() {
            *x = if bits >> j & 1 == 1 { d } else { -d };
        }
    }
}

/// Decodes d·(q − 1), two bits each, lowest bits first.
pub(super) fn q2_0(b: &[u8; 18], out: &mut [f32; 64]) {
    let d = half_at(b, 0);
    for (out, bits) in out.as_chunks_mut::<4>().0.iter_mut().zip(&b[2..]) {
        for (j, x) in out.iter_mut().enumerate() {
            *x = f32::from((bits >> (2 * j) & 3) as i8 - 1) * d;
        }
    }
}

/// Decodes d·s·v: the six bits of each scale are stored in two places, and values are those of IQ4_NL.
pub(super) fn iq4_xs(b: &[u8; 136], out: &mut [f32; 256]) {
    let (d, high) = (half_at(b, 0), u16_at(b, 2));
    let (groups, _) = out.as_chunks_mut::<32>();
    for (i, group) in groups.iter_mut().enumerate() {
        let low = b[4 + i / 2] >> (4 * (i % 2)) & 15;
        let scale = (low | ((high >> (2 * i) & 3) as u8) << 4) as i8 - 32;
        let values = times(d * f32::from(scale), &IQ4);
        nibbles(&b[8 + 16 * i..], group, |q| values[q as usize & 15]);
    }
}
