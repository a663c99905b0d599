//! Blocks of 256 elements: groups with scales of a few bits, which are scaled themselves; and ternary blocks.

use super::{half_at, u32_at};
use std::array::from_fn;

/// Decodes two bits each: d·s·q − m·t, with 4 bits of s and t for each 16.
pub(super) fn q2_k(b: &[u8; 84], out: &mut [f32; 256]) {
    let (d, min) = (half_at(b, 80), half_at(b, 82));
    let (groups, _) = out.as_chunks_mut::<16>();
    for (i, group) in groups.iter_mut().enumerate() {
        let (scale, offset) = (d * f32::from(b[i] & 15), min * f32::from(b[i] >> 4));
        // In each 128 elements, 32 bytes hold the lowest bits of the first 32, then the next bits.
        let (start, shift) = (16 + 32 * (i / 8) + 16 * (i % 2), 2 * (i / 2 % 4));
        for (x, q) in group.iter_mut().zip(&b[start..start + 16]) {
            *x = scale * f32::from(q >> shift & 3) - offset;
        }
    }
}

/// Decodes three bits each: d·(s − 32)·(q − 4), with 6 bits of s for each 16, and the highest bits of q stored
/// separately.
pub(super) fn q3_k(b: &[u8; 110], out: &mut [f32; 256]) {
    let d = half_at(b, 108);
    let (groups, _) = out.as_chunks_mut::<16>();
    for (i, group) in groups.iter_mut().enumerate() {
        let low = b[96 + i % 8] >> (4 * (i / 8)) & 15;
        let high = b[104 + i % 4] >> (2 * (i / 4)) & 3;
        let scale = d * f32::from((low | high << 4) as i8 - 32);
        let (start, shift) = (32 + 32 * (i / 8) + 16 * (i % 2), 2 * (i / 2 % 4));
        let (mask, bit) = (16 * (i % 2), i / 2);
        let bits = b[start..start + 16].iter().zip(&b[mask..mask + 16]);
        for (x, (q, high)) in group.iter_mut().zip(bits) {
            let q = (q >> shift & 3) as i8 - 4 * (1 - (high >> bit & 1) as i8);
            *x = scale * f32::from(q);
        }
    }
}

/// Returns d·s and m·t of the eight groups of a block of [`q4_k`] or [`q5_k`], which starts with these 16 bytes: d, m,
/// and 12 bytes of s and t, 6 bits each. Four of a kind are decoded at once.
#[inline(always)]
fn scales(head: &[u8; 16]) -> [[f32; 2]; 8] {
    let (d, min) = (half_at(head, 0), half_at(head, 2));
    let [first, second, third] = [u32_at(head, 4), u32_at(head, 8), u32_at(head, 12)];
    // The first four have all their bits in one byte; the upper two bits of the others are stored above those of the
    // first.
    let both = |first: u32, low: u32| {
        let others = low & 0x0f0f_0f0f | first >> 2 & 0x3030_3030;
        [(first & 0x3f3f_3f3f).to_le_bytes(), others.to_le_bytes()]
    };
    let (s, t) = (both(first, third), both(second, third >> 4));
    from_fn(|i| [d * f32::from(s[i / 4][i % 4]), min * f32::from(t[i / 4][i % 4])])
}

/// Writes d·s·q − m·t for a group.
#[inline(always)]
fn line(out: &mut [f32; 32], [scale, offset]: [f32; 2], q: impl Fn(usize) -> u8) {
    out.iter_mut().enumerate().for_each(|(j, x)| *x = scale * f32::from(q(j)) - offset);
}

/// Decodes four bits each: d·s·q − m·t, with 6 bits of s and t for each 32.
pub(super) fn q4_k(b: &[u8; 144], out: &mut [f32; 256]) {
    let Some((head, rest)) = b.split_first_chunk() else { return };
    let (scales, (bytes, _)) = (scales(head), rest.as_chunks::<32>());
    let (pairs, _) = out.as_chunks_mut::<64>();
    // Two groups have their nibbles in the same bytes.
    for (i, (pair, q)) in pairs.iter_mut().zip(bytes).enumerate() {
        let [low, high] = pair.as_chunks_mut().0 else { return };
        line(low, scales[2 * i], |j| q[j] & 15);
        line(high, scales[2 * i + 1], |j| q[j] >> 4);
    }
}

/// Decodes five bits each, like [`q4_k`], with the fifth bits stored separately.
pub(super) fn q5_k(b: &[u8; 176], out: &mut [f32; 256]) {
    let Some((head, rest)) = b.split_first_chunk() else { return };
    let (scales, (bytes, _)) = (scales(head), rest.as_chunks::<32>());
    let [fifth, bytes @ ..] = bytes else { return };
    let (pairs, _) = out.as_chunks_mut::<64>();
    for (i, (pair, q)) in pairs.iter_mut().zip(bytes).enumerate() {
        let [low, high] = pair.as_chunks_mut().0 else { return };
        let above = |j: usize, mask: u8| if fifth[j] & mask == 0 { 0 } else { 16 };
        line(low, scales[2 * i], |j| q[j] & 15 | above(j, 1 << (2 * i)));
        line(high, scales[2 * i + 1], |j| q[j] >> 4 | above(j, 2 << (2 * i)));
    }
}

/// Decodes six bits each: d·s·(q − 32), with 8 bits of s for each 16.
pub(super) fn q6_k(b: &[u8; 210], out: &mut [f32; 256]) {
    let d = half_at(b, 208);
    let (halves, _) = out.as_chunks_mut::<128>();
    let (low, _) = b[..128].as_chunks::<64>();
    let (high, _) = b[128..192].as_chunks::<32>();
    for (i, (half, (low, high))) in halves.iter_mut().zip(low.iter().zip(high)).enumerate() {
        // In each 128 elements, 64 bytes hold the low nibbles of the first 64, then the high ones.
        let q: [[u8; 32]; 4] = [
            from_fn(|j| low[j] & 15 | high[j] << 4 & 48),
            from_fn(|j| low[j + 32] & 15 | high[j] << 2 & 48),
            from_fn(|j| low[j] >> 4 | high[j] & 48),
            from_fn(|j| low[j + 32] >> 4 | high[j] >> 2 & 48),
        ];
        let groups =
            half.as_chunks_mut::<16>().0.iter_mut().zip(q.as_flattened().as_chunks::<16>().0);
        for ((group, q), scale) in groups.zip(&b[192 + 8 * i..]) {
            let scale = d * f32::from(*scale as i8);
            group.iter_mut().zip(q).for_each(|(x, q)| *x = scale * f32::from(*q as i8 - 32));
        }
    }
}

/// Decodes d·q, where d is an f32. The sums after the elements are only used for products of vectors.
pub(super) fn q8_k(b: &[u8; 292], out: &mut [f32; 256]) {
    let d = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    out.iter_mut().zip(&b[4..260]).for_each(|(x, q)| *x = d * f32::from(*q as i8));
}

/// Decodes d times −1, 0 or 1: five per byte, which is a fraction of 256 whose base-three digits are the elements.
pub(super) fn tq1_0(b: &[u8; 54], out: &mut [f32; 256]) {
    let d = half_at(b, 52);
    let digit = |q: u8, power: u8| {
        let q = q.wrapping_mul(power);
        d * f32::from(((u16::from(q) * 3) >> 8) as i8 - 1)
    };
    let mut left = &mut out[..];
    for (bytes, powers) in [
        (&b[..32], &[1u8, 3, 9, 27, 81][..]),
        (&b[32..48], &[1, 3, 9, 27, 81]),
        (&b[48..52], &[1, 3, 9, 27]),
    ] {
        for power in powers {
            let (now, later) = left.split_at_mut(bytes.len());
            now.iter_mut().zip(bytes).for_each(|(x, q)| *x = digit(*q, *power));
            left = later;
        }
    }
}

/// Decodes d times −1, 0 or 1: four per byte.
pub(super) fn tq2_0(b: &[u8; 66], out: &mut [f32; 256]) {
    let d = half_at(b, 64);
    let (groups, _) = out.as_chunks_mut::<32>();
    for (i, group) in groups.iter_mut().enumerate() {
        let (start, shift) = (32 * (i / 4), 2 * (i % 4));
        for (x, q) in group.iter_mut().zip(&b[start..start + 32]) {
            *x = d * f32::from((q >> shift & 3) as i8 - 1);
        }
    }
}
