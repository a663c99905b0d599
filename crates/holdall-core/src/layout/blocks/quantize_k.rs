//! Quantizing numbers to blocks of 256 whose groups have their own scales: Q2_K to Q6_K.

use super::begin::Begin;
use super::search::{Fit, Kind, Lines, search};
use crate::model::block::BlockType;

/// The ranges of values in each block type.
static Q2_K: Kind = Kind {
    q: [0.0, 3.0],
    s: [0, 15],
    t: 15,
    begin: Begin::Lines { first: -0.5, steps: 15, is_absolute: true },
};
static Q3_K: Kind = Kind { q: [-4.0, 3.0], s: [-32, 31], t: 0, begin: Begin::Turns };
static Q4_K: Kind = Kind {
    q: [0.0, 15.0],
    s: [0, 63],
    t: 63,
    begin: Begin::Lines { first: -1.0, steps: 20, is_absolute: false },
};
static Q5_K: Kind = Kind {
    q: [0.0, 31.0],
    s: [0, 63],
    t: 63,
    begin: Begin::Lines { first: -0.5, steps: 15, is_absolute: false },
};
static Q6_K: Kind = Kind { q: [-32.0, 31.0], s: [-128, 127], t: 0, begin: Begin::Widths };

/// Returns the ranges of values in a block type, if it is one of these.
fn kind(block_type: &BlockType) -> Option<&'static Kind> {
    Some(match block_type.as_str() {
        "q2_k" => &Q2_K,
        "q3_k" => &Q3_K,
        "q4_k" => &Q4_K,
        "q5_k" => &Q5_K,
        "q6_k" => &Q6_K,
        _ => return None,
    })
}

/// Returns `true` if this module quantizes to blocks of this type.
pub(super) fn is_made(block_type: &BlockType) -> bool {
    kind(block_type).is_some()
}

/// Appends a block of these 256 numbers, whose largest magnitude is `most`. Returns `None` if a scale is too large for
/// an f16.
pub(super) fn block(block_type: &BlockType, x: &[f32], most: f32, out: &mut Vec<u8>) -> Option<()> {
    let kind = kind(block_type)?;
    // The smallest scale that would be needed.
    let reach = kind.q[1].max(-kind.q[0]) * kind.s[1].max(-kind.s[0]) as f32;
    if !half::f16::from_f32(most / reach).is_finite() {
        return None;
    }
    match block_type.as_str() {
        "q2_k" => {
            let x = beside::<16, 16>(x);
            let (fit, q) = found(kind, &x, &x.map(|line| line.map(f32::abs)))?;
            out.extend(fit.s.iter().zip(fit.t).map(|(s, t)| *s as u8 | (t as u8) << 4));
            out.extend(laid(&q, 2, 32));
            ends(&fit, out);
        }
        "q3_k" => {
            let x = beside::<16, 16>(x);
            let (fit, q) = found(kind, &x, &squares(&x))?;
            out.extend(laid(&q.map(|q| q >> 2), 1, 32));
            out.extend(laid(&q.map(|q| q & 3), 2, 32));
            let s = fit.s.map(|s| (s + 32) as u8);
            out.extend(laid(&s.map(|s| s & 15), 4, 8));
            out.extend(laid(&s.map(|s| s >> 4), 2, 4));
            out.extend_from_slice(&fit.d.to_le_bytes());
        }
        "q4_k" | "q5_k" => {
            let x = beside::<32, 8>(x);
            let (fit, q) = found(kind, &x, &beside_mean(&x))?;
            ends(&fit, out);
            six_bits(&fit, out);
            if kind.q[1] > 15.0 {
                out.extend(laid(&q.map(|q| q >> 4), 1, 32));
            }
            out.extend(laid(&q.map(|q| q & 15), 4, 32));
        }
        _ => {
            let x = beside::<16, 16>(x);
            let (fit, q) = found(kind, &x, &squares(&x))?;
            out.extend(laid(&q.map(|q| q & 15), 4, 64));
            out.extend(laid(&q.map(|q| q >> 4), 2, 32));
            out.extend(fit.s.map(|s| s as u8));
            out.extend_from_slice(&fit.d.to_le_bytes());
        }
    }
    Some(())
}

/// Arranges groups side by side.
fn beside<const G: usize, const N: usize>(x: &[f32]) -> Lines<G, N> {
    let mut out = [[0.0; N]; G];
    for (j, group) in x.chunks_exact(G).enumerate() {
        group.iter().zip(&mut out).for_each(|(x, line)| line[j] = *x);
    }
    out
}

/// Returns the scales of a block, and its q, shifted so that the least possible q is 0.
fn found<const G: usize, const N: usize>(
    kind: &Kind,
    x: &Lines<G, N>,
    w: &Lines<G, N>,
) -> Option<(Fit<N>, [u8; 256])> {
    let fit = search(kind, x, w)?;
    let mut out = [0; 256];
    for (i, line) in fit.levels(kind, x).iter().enumerate() {
        line.iter().enumerate().for_each(|(j, q)| out[G * j + i] = (q - kind.q[0]) as u8);
    }
    Some((fit, out))
}

/// Returns the weights of errors for Q3_K and Q6_K: the squares of the numbers.
fn squares<const G: usize, const N: usize>(x: &Lines<G, N>) -> Lines<G, N> {
    x.map(|line| line.map(|x| x * x))
}

/// Returns the weights of errors for Q4_K and Q5_K: the magnitudes of the numbers, plus the root mean square of their
/// group.
fn beside_mean<const G: usize, const N: usize>(x: &Lines<G, N>) -> Lines<G, N> {
    let mut mean = [0f32; N];
    for line in x {
        mean.iter_mut().zip(line).for_each(|(mean, x)| *mean += x * x);
    }
    let mean = mean.map(|mean| (mean / G as f32).sqrt());
    x.map(|line| {
        let mut weights = mean;
        weights.iter_mut().zip(line).for_each(|(weight, x)| *weight += x.abs());
        weights
    })
}

/// Appends d and m.
fn ends<const N: usize>(fit: &Fit<N>, out: &mut Vec<u8>) {
    out.extend_from_slice(&fit.d.to_le_bytes());
    out.extend_from_slice(&fit.m.to_le_bytes());
}

/// Appends the scales and offsets of eight groups, six bits each, in 12 bytes. Those of the first four groups have a
/// byte each, whose highest two bits belong to the last four groups; the lowest four bits of the latter share bytes.
fn six_bits(fit: &Fit<8>, out: &mut Vec<u8>) {
    let (s, t) = (fit.s.map(|s| s as u8), fit.t.map(|t| t as u8));
    for all in [s, t] {
        out.extend((0..4).map(|j| all[j] | (all[j + 4] >> 4) << 6));
    }
    out.extend((4..8).map(|j| s[j] & 15 | (t[j] & 15) << 4));
}

/// Packs numbers of `bits` bits each: the first `run` numbers into the lowest bits of a run of bytes, the next `run`
/// above them, and so on.
pub(super) fn laid(all: &[u8], bits: usize, run: usize) -> Vec<u8> {
    let mut out = vec![0; all.len() * bits / 8];
    for (i, q) in all.iter().enumerate() {
        let (of_run, within) = (i / (run * 8 / bits), i % (run * 8 / bits));
        out[of_run * run + within % run] |= q << (bits * (within / run));
    }
    out
}
