//! Search for the scales of a block of 256 numbers that minimise the error.
//!
//! The numbers of a group are represented as a·q − b, with a = d·s and b = m·t, where d and m are f16 of the whole
//! block, and s, t and q have a few bits each. Given the others, the nearest q is always best, so the search is for d,
//! m, s and t. It starts at the result of ggml's own method (`quantize_row_*_ref` of `ggml-quants.c`), computed in the
//! same order, and descends in the sum of two errors: the unweighted error, and the error with ggml's weights. The
//! result is used if neither error exceeds that of the start, so no block has a larger error of either kind than
//! ggml's.
//!
//! All groups are processed side by side, with number `i` of each group in a line `x[i]`: sums run in the order of the
//! numbers, as in ggml, and the compiler vectorises the lines.

// Loops index several arrays, so that the compiler vectorises them.
#![allow(clippy::needless_range_loop)]

use super::begin::{Begin, begin};
use half::f16;

/// The ranges of values in a block type.
pub(super) struct Kind {
    /// The minimum and the maximum q.
    pub(super) q: [f32; 2],
    /// The minimum and the maximum s.
    pub(super) s: [i32; 2],
    /// The maximum t: 0 if there are no offsets.
    pub(super) t: i32,
    /// The start of the search.
    pub(super) begin: Begin,
}

/// The numbers of groups side by side: number `i` of group `j` is `x[i][j]`.
pub(super) type Lines<const G: usize, const N: usize> = [[f32; N]; G];

/// A block: its numbers are d·s·q − m·t, with an s and a t for each group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit<const N: usize> {
    pub(super) d: f16,
    pub(super) m: f16,
    pub(super) s: [i32; N],
    pub(super) t: [i32; N],
}

/// The number of rounds in which the scales of groups, and then d and m, are improved.
const ROUNDS: usize = 4;
/// The maximum distance from the current value of an s that is searched in one round, without offsets.
const REACH: i32 = 3;

/// Returns scales for these numbers; `w` are ggml's weights of errors. Returns `None` if a scale is too large for an
/// f16.
pub(super) fn search<const G: usize, const N: usize>(
    kind: &Kind,
    x: &Lines<G, N>,
    w: &Lines<G, N>,
) -> Option<Fit<N>> {
    let begin = begin(kind, x, w);
    if !begin.d.is_finite() || !begin.m.is_finite() {
        return None;
    }
    let limits = begin.errors(kind, x, w);
    if limits.0 == 0.0 {
        return Some(begin);
    }
    // Both errors count equally at first; if one increases, its weight is raised.
    let mut weight = if limits.1 > 0.0 { limits.0 / limits.1 } else { 0.0 };
    for _ in 0..3 {
        let found = descend(kind, x, &mixed(w, weight as f32), begin);
        let errors = found.errors(kind, x, w);
        if errors.0 <= limits.0 && errors.1 <= limits.1 {
            return Some(found);
        }
        weight *= if errors.1 > limits.1 { 6.0 } else { 1.0 / 6.0 };
    }
    Some(begin)
}

impl<const N: usize> Fit<N> {
    /// Returns a and b of each group.
    pub(super) fn lines(&self) -> ([f32; N], [f32; N]) {
        let (d, m) = (self.d.to_f32(), self.m.to_f32());
        (self.s.map(|s| d * s as f32), self.t.map(|t| m * t as f32))
    }

    /// Returns the nearest q of each number.
    pub(super) fn levels<const G: usize>(&self, kind: &Kind, x: &Lines<G, N>) -> Lines<G, N> {
        let (a, b) = self.lines();
        let mut all = [[0.0; N]; G];
        for (q, x) in all.iter_mut().zip(x) {
            for j in 0..N {
                // If a is 0, all q represent the same value.
                let quotient = if a[j] == 0.0 { 0.0 } else { (x[j] + b[j]) / a[j] };
                q[j] = level(quotient, kind.q);
            }
        }
        all
    }

    /// Returns the sum of the squared errors, and the weighted sum.
    fn errors<const G: usize>(&self, kind: &Kind, x: &Lines<G, N>, w: &Lines<G, N>) -> (f64, f64) {
        let (a, b) = self.lines();
        let (mut all, mut weighed) = (0.0, 0.0);
        for ((q, x), w) in self.levels(kind, x).iter().zip(x).zip(w) {
            for j in 0..N {
                let e = f64::from(a[j] * q[j] - b[j]) - f64::from(x[j]);
                all += e * e;
                weighed += f64::from(w[j]) * e * e;
            }
        }
        (all, weighed)
    }
}

/// Returns the q nearest to a number, ties to even.
#[inline(always)]
pub(super) fn level(x: f32, [least, most]: [f32; 2]) -> f32 {
    // Adding this number leaves a float no bits for a fraction.
    const WHOLE: f32 = 12_582_912.0;
    let x = if x < least { least } else { x };
    let x = if x > most { most } else { x };
    (x + WHOLE) - WHOLE
}

/// Returns the weights 1 + `weight` · `w`.
fn mixed<const G: usize, const N: usize>(w: &Lines<G, N>, weight: f32) -> Lines<G, N> {
    w.map(|line| line.map(|w| 1.0 + w * weight))
}

/// Descends from `fit` in the error with the weights `u`.
fn descend<const G: usize, const N: usize>(
    kind: &Kind,
    x: &Lines<G, N>,
    u: &Lines<G, N>,
    mut fit: Fit<N>,
) -> Fit<N> {
    let mut errors = sums(kind, x, u, &fit);
    for _ in 0..ROUNDS {
        if kind.t > 0 {
            // One step at a time, in any of eight directions.
            for _ in 0..ROUNDS {
                let from = fit;
                for (s, t) in [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, 1), (-1, 1), (1, -1)]
                {
                    try_step(kind, x, u, (&from, s, t), (&mut fit, &mut errors));
                }
                if (from.s, from.t) == (fit.s, fit.t) {
                    break;
                }
            }
        } else {
            let from = fit;
            for s in (-REACH..=REACH).filter(|s| *s != 0) {
                try_step(kind, x, u, (&from, s, 0), (&mut fit, &mut errors));
            }
        }
        let next = fitted(kind, x, u, &fit);
        let found = sums(kind, x, u, &next);
        let total = |errors: &[f32; N]| errors.iter().map(|e| f64::from(*e)).sum::<f64>();
        // NaN is not less.
        if total(&found) < total(&errors) {
            (fit, errors) = (next, found);
        } else {
            break;
        }
    }
    fit
}

/// Changes s and t of each group whose error decreases.
fn try_step<const G: usize, const N: usize>(
    kind: &Kind,
    x: &Lines<G, N>,
    u: &Lines<G, N>,
    (from, s, t): (&Fit<N>, i32, i32),
    (fit, errors): (&mut Fit<N>, &mut [f32; N]),
) {
    let mut tried = *from;
    for j in 0..N {
        tried.s[j] = (from.s[j] + s).clamp(kind.s[0], kind.s[1]);
        tried.t[j] = (from.t[j] + t).clamp(0, kind.t);
    }
    let found = sums(kind, x, u, &tried);
    for j in 0..N {
        if found[j] < errors[j] {
            (fit.s[j], fit.t[j], errors[j]) = (tried.s[j], tried.t[j], found[j]);
        }
    }
}

/// Returns the weighted error of each group.
fn sums<const G: usize, const N: usize>(
    kind: &Kind,
    x: &Lines<G, N>,
    u: &Lines<G, N>,
    fit: &Fit<N>,
) -> [f32; N] {
    let (a, b) = fit.lines();
    let inverse = a.map(|a| if a == 0.0 { 0.0 } else { 1.0 / a });
    let mut all = [0.0; N];
    for (x, u) in x.iter().zip(u) {
        for j in 0..N {
            let e = a[j] * level((x[j] + b[j]) * inverse[j], kind.q) - b[j] - x[j];
            all[j] += u[j] * (e * e);
        }
    }
    all
}

/// Returns the same s and t with the d and m that are best for the current q, by least squares.
fn fitted<const G: usize, const N: usize>(
    kind: &Kind,
    x: &Lines<G, N>,
    u: &Lines<G, N>,
    fit: &Fit<N>,
) -> Fit<N> {
    let [mut of_q2, mut of_q, mut of_1, mut of_qx, mut of_x] = [[0f32; N]; 5];
    for ((q, x), u) in fit.levels(kind, x).iter().zip(x).zip(u) {
        for j in 0..N {
            let uq = u[j] * q[j];
            of_q2[j] += uq * q[j];
            of_q[j] += uq;
            of_1[j] += u[j];
            of_qx[j] += uq * x[j];
            of_x[j] += u[j] * x[j];
        }
    }
    let [mut dd, mut dm, mut mm, mut dx, mut mx] = [0f64; 5];
    for j in 0..N {
        let (s, t) = (f64::from(fit.s[j]), f64::from(fit.t[j]));
        dd += s * s * f64::from(of_q2[j]);
        dm -= s * t * f64::from(of_q[j]);
        mm += t * t * f64::from(of_1[j]);
        dx += s * f64::from(of_qx[j]);
        mx -= t * f64::from(of_x[j]);
    }
    let (d, m) = (fit.d.to_f64(), fit.m.to_f64());
    let both = dd * mm - dm * dm;
    let (d, m) = if both > 1e-9 * dd * mm {
        ((dx * mm - mx * dm) / both, (mx * dd - dx * dm) / both)
    } else if dd > 0.0 {
        ((dx - dm * m) / dd, m)
    } else if mm > 0.0 {
        (d, (mx - dm * d) / mm)
    } else {
        (d, m)
    };
    Fit { d: f16::from_f64(d), m: f16::from_f64(m), ..*fit }
}
