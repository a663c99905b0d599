//! ggml's blocks made f32 by plain loops, as its `dequantize_row_*` go: what the compiler makes of those is the floor.

// As ggml writes them.
#![allow(clippy::needless_range_loop)]

use half::f16;

/// Makes whole blocks numbers.
pub type Loop = fn(&[u8], &mut [f32]);

/// The loop of a type, the bytes of its blocks and their elements; none for types that are not among these.
pub fn loop_for(name: &str) -> Option<(Loop, usize, usize)> {
    Some(match name {
        "q4_0" => (|b, y| each(b, y, 18, 32, q4_0), 18, 32),
        "q5_0" => (|b, y| each(b, y, 22, 32, q5_0), 22, 32),
        "q8_0" => (|b, y| each(b, y, 34, 32, q8_0), 34, 32),
        "mxfp4" => (|b, y| each(b, y, 17, 32, mxfp4), 17, 32),
        "iq4_xs" => (|b, y| each(b, y, 136, 256, iq4_xs), 136, 256),
        "q2_k" => (|b, y| each(b, y, 84, 256, q2_k), 84, 256),
        "q3_k" => (|b, y| each(b, y, 110, 256, q3_k), 110, 256),
        "q4_k" => (|b, y| each(b, y, 144, 256, q4_k), 144, 256),
        "q5_k" => (|b, y| each(b, y, 176, 256, q5_k), 176, 256),
        "q6_k" => (|b, y| each(b, y, 210, 256, q6_k), 210, 256),
        _ => return None,
    })
}

#[inline(always)]
fn each(b: &[u8], y: &mut [f32], bytes: usize, elements: usize, one: impl Fn(&[u8], &mut [f32])) {
    for (b, y) in b.chunks_exact(bytes).zip(y.chunks_exact_mut(elements)) {
        one(b, y);
    }
}

#[inline(always)]
fn half(b: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([b[at], b[at + 1]]).to_f32()
}

#[inline(always)]
fn q4_0(b: &[u8], y: &mut [f32]) {
    let d = half(b, 0);
    for j in 0..16 {
        y[j] = ((b[2 + j] & 15) as i32 - 8) as f32 * d;
        y[j + 16] = ((b[2 + j] >> 4) as i32 - 8) as f32 * d;
    }
}

#[inline(always)]
fn q5_0(b: &[u8], y: &mut [f32]) {
    let d = half(b, 0);
    let high = u32::from_le_bytes([b[2], b[3], b[4], b[5]]);
    for j in 0..16 {
        let first = ((high >> j) << 4) as u8 & 0x10;
        let second = (high >> (j + 12)) as u8 & 0x10;
        y[j] = (((b[6 + j] & 15) | first) as i32 - 16) as f32 * d;
        y[j + 16] = (((b[6 + j] >> 4) | second) as i32 - 16) as f32 * d;
    }
}

#[inline(always)]
fn q8_0(b: &[u8], y: &mut [f32]) {
    let d = half(b, 0);
    for j in 0..32 {
        y[j] = b[2 + j] as i8 as f32 * d;
    }
}

#[inline(always)]
fn mxfp4(b: &[u8], y: &mut [f32]) {
    const VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
    let d = f32::from_bits(if b[0] < 2 { 0x0020_0000 << b[0] } else { (b[0] as u32 - 1) << 23 });
    for j in 0..16 {
        y[j] = VALUES[(b[1 + j] & 15) as usize] as f32 * d;
        y[j + 16] = VALUES[(b[1 + j] >> 4) as usize] as f32 * d;
    }
}

#[inline(always)]
fn iq4_xs(b: &[u8], y: &mut [f32]) {
    const VALUES: [i8; 16] =
        [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
    let d = half(b, 0);
    let high = u16::from_le_bytes([b[2], b[3]]);
    for i in 0..8 {
        let low = (b[4 + i / 2] >> (4 * (i % 2))) & 15;
        let scale = low as i32 | (((high >> (2 * i)) & 3) << 4) as i32;
        let d = d * (scale - 32) as f32;
        for j in 0..16 {
            let q = b[8 + 16 * i + j];
            y[32 * i + j] = d * VALUES[(q & 15) as usize] as f32;
            y[32 * i + j + 16] = d * VALUES[(q >> 4) as usize] as f32;
        }
    }
}

#[inline(always)]
fn q2_k(b: &[u8], y: &mut [f32]) {
    let (d, min) = (half(b, 80), half(b, 82));
    let (mut at, mut scale) = (0, 0);
    for half in 0..2 {
        let q = &b[16 + 32 * half..48 + 32 * half];
        for shift in [0, 2, 4, 6] {
            for part in 0..2 {
                let (dl, ml) = (d * (b[scale] & 15) as f32, min * (b[scale] >> 4) as f32);
                scale += 1;
                for l in 0..16 {
                    y[at] = dl * ((q[16 * part + l] >> shift) & 3) as f32 - ml;
                    at += 1;
                }
            }
        }
    }
}

#[inline(always)]
fn q3_k(b: &[u8], y: &mut [f32]) {
    let d = half(b, 108);
    let mut scales = [0i8; 16];
    for (j, scale) in scales.iter_mut().enumerate() {
        let low = (b[96 + j % 8] >> (4 * (j / 8))) & 15;
        let high = (b[104 + j % 4] >> (2 * (j / 4))) & 3;
        *scale = (low | high << 4) as i8;
    }
    let (mut at, mut scale, mut mask) = (0, 0, 1u8);
    for half in 0..2 {
        let q = &b[32 + 32 * half..64 + 32 * half];
        for shift in [0, 2, 4, 6] {
            for part in 0..2 {
                let dl = d * (scales[scale] - 32) as f32;
                scale += 1;
                for l in 16 * part..16 * part + 16 {
                    let high = if b[l] & mask != 0 { 0 } else { 4 };
                    y[at] = dl * (((q[l] >> shift) & 3) as i8 - high) as f32;
                    at += 1;
                }
            }
            mask = mask.rotate_left(1);
        }
    }
}

#[inline(always)]
fn scale_and_min(j: usize, q: &[u8]) -> (f32, f32) {
    if j < 4 {
        ((q[j] & 63) as f32, (q[j + 4] & 63) as f32)
    } else {
        let scale = (q[j + 4] & 15) | ((q[j - 4] >> 6) << 4);
        (scale as f32, ((q[j + 4] >> 4) | ((q[j] >> 6) << 4)) as f32)
    }
}

#[inline(always)]
fn q4_k(b: &[u8], y: &mut [f32]) {
    let (d, min) = (half(b, 0), half(b, 2));
    for pair in 0..4 {
        let q = &b[16 + 32 * pair..48 + 32 * pair];
        let (sc, m) = scale_and_min(2 * pair, &b[4..16]);
        let (d1, m1) = (d * sc, min * m);
        let (sc, m) = scale_and_min(2 * pair + 1, &b[4..16]);
        let (d2, m2) = (d * sc, min * m);
        let y = &mut y[64 * pair..64 * pair + 64];
        for l in 0..32 {
            y[l] = d1 * (q[l] & 15) as f32 - m1;
        }
        for l in 0..32 {
            y[32 + l] = d2 * (q[l] >> 4) as f32 - m2;
        }
    }
}

#[inline(always)]
fn q5_k(b: &[u8], y: &mut [f32]) {
    let (d, min) = (half(b, 0), half(b, 2));
    let high = &b[16..48];
    let (mut first, mut second) = (1u8, 2u8);
    for pair in 0..4 {
        let q = &b[48 + 32 * pair..80 + 32 * pair];
        let (sc, m) = scale_and_min(2 * pair, &b[4..16]);
        let (d1, m1) = (d * sc, min * m);
        let (sc, m) = scale_and_min(2 * pair + 1, &b[4..16]);
        let (d2, m2) = (d * sc, min * m);
        let y = &mut y[64 * pair..64 * pair + 64];
        for l in 0..32 {
            y[l] = d1 * ((q[l] & 15) + if high[l] & first != 0 { 16 } else { 0 }) as f32 - m1;
        }
        for l in 0..32 {
            y[32 + l] = d2 * ((q[l] >> 4) + if high[l] & second != 0 { 16 } else { 0 }) as f32 - m2;
        }
        (first, second) = (first.rotate_left(2), second.rotate_left(2));
    }
}

#[inline(always)]
fn q6_k(b: &[u8], y: &mut [f32]) {
    let d = half(b, 208);
    for half in 0..2 {
        let (low, high) = (&b[64 * half..64 * half + 64], &b[128 + 32 * half..160 + 32 * half]);
        let sc = &b[192 + 8 * half..200 + 8 * half];
        let y = &mut y[128 * half..128 * half + 128];
        for l in 0..32 {
            let is = l / 16;
            let q1 = ((low[l] & 15) | ((high[l] & 3) << 4)) as i8 - 32;
            let q2 = ((low[l + 32] & 15) | (((high[l] >> 2) & 3) << 4)) as i8 - 32;
            let q3 = ((low[l] >> 4) | (((high[l] >> 4) & 3) << 4)) as i8 - 32;
            let q4 = ((low[l + 32] >> 4) | ((high[l] >> 6) << 4)) as i8 - 32;
            y[l] = d * sc[is] as i8 as f32 * q1 as f32;
            y[l + 32] = d * sc[is + 2] as i8 as f32 * q2 as f32;
            y[l + 64] = d * sc[is + 4] as i8 as f32 * q3 as f32;
            y[l + 96] = d * sc[is + 6] as i8 as f32 * q4 as f32;
        }
    }
}
