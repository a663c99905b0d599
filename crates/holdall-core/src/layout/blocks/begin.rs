//! The start of the search for scales: the result of `quantize_row_*_ref` in ggml's `ggml-quants.c`, for all groups
//! side by side.

// Loops index several arrays, so that the compiler vectorises them.
#![allow(clippy::needless_range_loop)]

use super::search::{Fit, Kind, Lines, level};
use half::f16;

/// ggml's methods to find scales of groups.
pub(super) enum Begin {
    /// With an offset (`make_qkx2_quants`): tries the usual width and `steps` + 1 further ones, starting from `first`.
    /// Errors are absolute or squared.
    Lines { first: f32, steps: u8, is_absolute: bool },
    /// Without offsets (`make_qx_quants`): tries the usual width and 18 further ones.
    Widths,
    /// Without offsets (`make_q3_quants`): changes one q after the other as long as this reduces the error.
    Turns,
}

/// Groups of numbers below this have a scale of 0 (`GROUP_MAX_EPS`).
const NOTHING: f32 = 1e-15;

/// Returns the result of ggml's method.
pub(super) fn begin<const G: usize, const N: usize>(
    kind: &Kind,
    x: &Lines<G, N>,
    w: &Lines<G, N>,
) -> Fit<N> {
    match kind.begin {
        Begin::Lines { first, steps, is_absolute } => {
            let (a, b) = lines(x, w, (kind.q[1], first, steps, is_absolute));
            let (d, s) = parted(&a, kind.s[1]);
            let (m, t) = parted(&b, kind.t);
            Fit { d, m, s, t }
        }
        Begin::Widths => around_zero(kind, &widths(x, w, kind.q)),
        Begin::Turns => around_zero(kind, &turns(x, w, kind.q)),
    }
}

/// Returns non-negative numbers as a common factor times integers up to `most`; numbers below 0 count as 0.
fn parted<const N: usize>(all: &[f32; N], most: i32) -> (f16, [i32; N]) {
    let greatest = all.iter().fold(0f32, |greatest, x| if *x > greatest { *x } else { greatest });
    let inverse = if greatest > 0.0 { most as f32 / greatest } else { 0.0 };
    let parts = all.map(|x| level(inverse * x, [0.0, most as f32]) as i32);
    (f16::from_f32(greatest / most as f32), parts)
}

/// Like `parted`, for scales of both signs: the scale of the largest magnitude becomes the least integer.
fn around_zero<const N: usize>(kind: &Kind, all: &[f32; N]) -> Fit<N> {
    let greatest = all.iter().fold(0f32, |at, x| if x.abs() > at.abs() { *x } else { at });
    if greatest.abs() < NOTHING {
        return Fit { d: f16::ZERO, m: f16::ZERO, s: [0; N], t: [0; N] };
    }
    let inverse = kind.s[0] as f32 / greatest;
    let [least, most] = kind.s.map(|s| s as f32);
    let s = all.map(|x| level(inverse * x, [least, most]) as i32);
    Fit { d: f16::from_f32(1.0 / inverse), m: f16::ZERO, s, t: [0; N] }
}

/// Fits lines a·q − b with b ≥ 0: first with the width of the numbers, then, for each width to try, by least squares
/// from the q that this width gives. Keeps the line with the smallest error.
fn lines<const G: usize, const N: usize>(
    x: &Lines<G, N>,
    w: &Lines<G, N>,
    (top, first, steps, is_absolute): (f32, f32, u8, bool),
) -> ([f32; N], [f32; N]) {
    let size = |e: f32| if is_absolute { e.abs() } else { e * e };
    let (mut least, mut most) = (x[0], x[0]);
    let (mut sum_w, mut sum_x) = (w[0], [0.0; N]);
    for j in 0..N {
        sum_x[j] = w[0][j] * x[0][j];
    }
    for (x, w) in x.iter().zip(w).skip(1) {
        for j in 0..N {
            least[j] = if x[j] < least[j] { x[j] } else { least[j] };
            most[j] = if x[j] > most[j] { x[j] } else { most[j] };
            sum_w[j] += w[j];
            sum_x[j] += w[j] * x[j];
        }
    }
    let [mut inverse, mut a, mut from, mut best] = [[0f32; N]; 4];
    for j in 0..N {
        least[j] = if least[j] > 0.0 { 0.0 } else { least[j] };
        inverse[j] = top / (most[j] - least[j]);
        (a[j], from[j]) = (1.0 / inverse[j], least[j]);
    }
    for (x, w) in x.iter().zip(w) {
        for j in 0..N {
            let q = level(inverse[j] * (x[j] - least[j]), [0.0, top]);
            best[j] += w[j] * size(a[j] * q + least[j] - x[j]);
        }
    }
    for step in 0..=steps {
        let [mut of_q, mut of_q2, mut of_qx, mut error] = [[0f32; N]; 4];
        for j in 0..N {
            inverse[j] = (first + 0.1 * f32::from(step) + top) / (most[j] - least[j]);
        }
        let at =
            |x: f32, j: usize, inverse: &[f32; N]| level(inverse[j] * (x - least[j]), [0.0, top]);
        for (x, w) in x.iter().zip(w) {
            for j in 0..N {
                let q = at(x[j], j, &inverse);
                of_q[j] += w[j] * q;
                of_q2[j] += w[j] * q * q;
                of_qx[j] += w[j] * q * x[j];
            }
        }
        let [mut one, mut start, mut det] = [[0f32; N]; 3];
        for j in 0..N {
            det[j] = sum_w[j] * of_q2[j] - of_q[j] * of_q[j];
            one[j] = (sum_w[j] * of_qx[j] - sum_x[j] * of_q[j]) / det[j];
            start[j] = (of_q2[j] * sum_x[j] - of_q[j] * of_qx[j]) / det[j];
            let is_above = start[j] > 0.0;
            one[j] = if is_above { of_qx[j] / of_q2[j] } else { one[j] };
            start[j] = if is_above { 0.0 } else { start[j] };
        }
        for (x, w) in x.iter().zip(w) {
            for j in 0..N {
                error[j] += w[j] * size(one[j] * at(x[j], j, &inverse) + start[j] - x[j]);
            }
        }
        for j in 0..N {
            if det[j] > 0.0 && error[j] < best[j] {
                (best[j], a[j], from[j]) = (error[j], one[j], start[j]);
            }
        }
    }
    for j in 0..N {
        // All numbers are equal: the offset alone represents them.
        if most[j] == least[j] {
            (a[j], from[j]) = (0.0, least[j]);
        }
    }
    (a, from.map(|from| -from))
}

/// Returns the first number of the largest magnitude in each group.
fn peaks<const G: usize, const N: usize>(x: &Lines<G, N>) -> [f32; N] {
    x.iter().fold([0.0; N], |mut peaks, x| {
        for j in 0..N {
            peaks[j] = if x[j].abs() > peaks[j].abs() { x[j] } else { peaks[j] };
        }
        peaks
    })
}

/// Fits scales a of a·q: with the number of the largest magnitude at the least q, or up to 0.9 next to it, and then by
/// least squares from the q that this gives. Keeps the scale with the smallest error.
fn widths<const G: usize, const N: usize>(
    x: &Lines<G, N>,
    w: &Lines<G, N>,
    q: [f32; 2],
) -> [f32; N] {
    let peaks = peaks(x);
    let [mut best, mut scale] = [[0f32; N]; 2];
    let others =
        (-9..=9i8).filter(|step| *step != 0).map(|step| (-q[0] + 0.1 * f32::from(step), false));
    for (width, is_first) in std::iter::once((-q[0], true)).chain(others) {
        let [mut of_qx, mut of_q2, mut inverse] = [[0f32; N]; 3];
        for j in 0..N {
            inverse[j] = -width / peaks[j];
        }
        for (x, w) in x.iter().zip(w) {
            for j in 0..N {
                let q = level(inverse[j] * x[j], q);
                of_qx[j] += w[j] * x[j] * q;
                of_q2[j] += w[j] * q * q;
            }
        }
        for j in 0..N {
            let is_better = is_first || of_qx[j] * of_qx[j] > best[j] * of_q2[j];
            if is_better && of_q2[j] > 0.0 {
                scale[j] = of_qx[j] / of_q2[j];
                best[j] = scale[j] * of_qx[j];
            }
        }
    }
    silent(scale, &peaks)
}

/// Fits scales like `widths`, but from the first width it changes one q after the other to the nearest for the scale of
/// the others, if this reduces the error, up to five times.
fn turns<const G: usize, const N: usize>(
    x: &Lines<G, N>,
    w: &Lines<G, N>,
    q: [f32; 2],
) -> [f32; N] {
    let peaks = peaks(x);
    let mut all = [[0.0; N]; G];
    let [mut of_qx, mut of_q2] = [[0f32; N]; 2];
    for i in 0..G {
        for j in 0..N {
            let (x, w) = (x[i][j], w[i][j]);
            let q = level(q[0] / peaks[j] * x, q);
            all[i][j] = q;
            of_qx[j] += w * x * q;
            of_q2[j] += w * q * q;
        }
    }
    for _ in 0..5 {
        let mut is_changed = false;
        for i in 0..G {
            for j in 0..N {
                let (x, w, old) = (x[i][j], w[i][j], all[i][j]);
                let (qx, q2) = (of_qx[j] - w * x * old, of_q2[j] - w * old * old);
                let new = level(x * q2 / qx, q);
                let (next_qx, next_q2) = (qx + w * x * new, q2 + w * new * new);
                let is_less = next_qx * next_qx * of_q2[j] > of_qx[j] * of_qx[j] * next_q2;
                if qx > 0.0 && new != old && next_q2 > 0.0 && is_less {
                    (all[i][j], of_qx[j], of_q2[j]) = (new, next_qx, next_q2);
                    is_changed = true;
                }
            }
        }
        if !is_changed {
            break;
        }
    }
    let mut scale = [0.0; N];
    for j in 0..N {
        scale[j] = if of_q2[j] > 0.0 { of_qx[j] / of_q2[j] } else { 0.0 };
    }
    silent(scale, &peaks)
}

/// Sets the scales of groups that are practically zero to 0.
fn silent<const N: usize>(mut scale: [f32; N], peaks: &[f32; N]) -> [f32; N] {
    for j in 0..N {
        if peaks[j].abs() < NOTHING {
            scale[j] = 0.0;
        }
    }
    scale
}
