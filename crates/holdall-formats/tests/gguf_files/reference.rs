//! How ggml makes blocks of 256 (`quantize_row_q2_K_ref` to `quantize_row_q6_K_ref` of its `ggml-quants.c`): number by
//! number, as it does. Derived from the decoded numbers of a block.

// Several arrays go by one index.
#![allow(clippy::needless_range_loop)]

use half::f16;

/// What numbers become, 256 of them.
pub(crate) fn quantised(of: &str, x: &[f32]) -> Vec<f32> {
    match of {
        "q2_k" => with_offsets(x, &weights(of, x), 16, 3.0, 15.0, (-0.5, 15, true)),
        "q4_k" => with_offsets(x, &weights(of, x), 32, 15.0, 63.0, (-1.0, 20, false)),
        "q5_k" => with_offsets(x, &weights(of, x), 32, 31.0, 63.0, (-0.5, 15, false)),
        "q3_k" => without_offsets(x, 4.0, 32.0, one_by_one),
        "q6_k" => without_offsets(x, 32.0, 128.0, best_of_widths),
        other => panic!("no reference for {other}"),
    }
}

/// What errors are weighed with.
pub(crate) fn weights(of: &str, x: &[f32]) -> Vec<f32> {
    match of {
        "q2_k" => x.iter().map(|x| x.abs()).collect(),
        "q3_k" | "q6_k" => x.iter().map(|x| x * x).collect(),
        _ => x
            .chunks(32)
            .flat_map(|group| {
                let mut sum = 0.0;
                group.iter().for_each(|x| sum += x * x);
                let root = (sum / 32.0f32).sqrt();
                group.iter().map(move |x| root + x.abs())
            })
            .collect(),
    }
}

fn nearest(x: f32, least: f32, most: f32) -> f32 {
    x.round_ties_even().max(least).min(most)
}

fn half(x: f32) -> f32 {
    f16::from_f32(x).to_f32()
}

fn with_offsets(
    x: &[f32],
    w: &[f32],
    group: usize,
    top: f32,
    most: f32,
    how: (f32, i32, bool),
) -> Vec<f32> {
    let found: Vec<(f32, f32)> =
        x.chunks(group).zip(w.chunks(group)).map(|(x, w)| line(x, w, top, how)).collect();
    let max_scale = found.iter().fold(0.0f32, |max, (scale, _)| max.max(*scale));
    let max_min = found.iter().fold(0.0f32, |max, (_, min)| max.max(*min));
    let part = |value: f32, max: f32| match max > 0.0 {
        true => nearest(most / max * value, 0.0, most),
        false => 0.0,
    };
    let (d, m) = (half(max_scale / most), half(max_min / most));
    let mut out = Vec::new();
    for (x, (scale, min)) in x.chunks(group).zip(&found) {
        let (scale, min) = (d * part(*scale, max_scale), m * part(*min, max_min));
        for x in x {
            let q = if scale == 0.0 { 0.0 } else { nearest((x + min) / scale, 0.0, top) };
            out.push(scale * q - min);
        }
    }
    out
}

/// A scale and an offset to subtract.
fn line(x: &[f32], w: &[f32], top: f32, (first, steps, absolute): (f32, i32, bool)) -> (f32, f32) {
    let max = x.iter().fold(x[0], |max, x| max.max(*x));
    let mut min = x.iter().fold(x[0], |min, x| min.min(*x)).min(0.0);
    let (mut sum_w, mut sum_x) = (w[0], w[0] * x[0]);
    for i in 1..x.len() {
        sum_w += w[i];
        sum_x += w[i] * x[i];
    }
    if max == min {
        return (0.0, -min);
    }
    let least = min;
    let error = |scale: f32, min: f32, all: &[f32]| {
        let mut sum = 0.0;
        for i in 0..x.len() {
            let diff = scale * all[i] + min - x[i];
            sum += w[i] * if absolute { diff.abs() } else { diff * diff };
        }
        sum
    };
    let levels = |inverse: f32| -> Vec<f32> {
        x.iter().map(|x| nearest(inverse * (x - least), 0.0, top)).collect()
    };
    let inverse = top / (max - least);
    let mut scale = 1.0 / inverse;
    let mut best = error(scale, min, &levels(inverse));
    for step in 0..=steps {
        let all = levels((first + 0.1 * step as f32 + top) / (max - least));
        let (mut sum_q, mut sum_q2, mut sum_qx) = (0.0, 0.0, 0.0);
        for i in 0..x.len() {
            sum_q += w[i] * all[i];
            sum_q2 += w[i] * all[i] * all[i];
            sum_qx += w[i] * all[i] * x[i];
        }
        let det = sum_w * sum_q2 - sum_q * sum_q;
        if det > 0.0 {
            let mut this_scale = (sum_w * sum_qx - sum_x * sum_q) / det;
            let mut this_min = (sum_q2 * sum_x - sum_q * sum_qx) / det;
            if this_min > 0.0 {
                (this_min, this_scale) = (0.0, sum_qx / sum_q2);
            }
            let this = error(this_scale, this_min, &all);
            if this < best {
                (best, scale, min) = (this, this_scale, this_min);
            }
        }
    }
    (scale, -min)
}

fn without_offsets(x: &[f32], bound: f32, most: f32, find: fn(&[f32], f32) -> f32) -> Vec<f32> {
    let found: Vec<f32> = x.chunks(16).map(|group| find(group, bound)).collect();
    let max = found.iter().fold(0.0f32, |max, x| if x.abs() > max.abs() { *x } else { max });
    if max.abs() < 1e-15 {
        return vec![0.0; x.len()];
    }
    let inverse = -most / max;
    let d = half(1.0 / inverse);
    let mut out = Vec::new();
    for (x, scale) in x.chunks(16).zip(&found) {
        let scale = d * nearest(inverse * scale, -most, most - 1.0);
        for x in x {
            let q = if scale == 0.0 { 0.0 } else { nearest(x / scale, -bound, bound - 1.0) };
            out.push(scale * q);
        }
    }
    out
}

/// The number of greatest size, the first of such; none where all are as good as 0.
fn peak(x: &[f32]) -> Option<f32> {
    let peak = x.iter().fold(0.0f32, |max, x| if x.abs() > max.abs() { *x } else { max });
    (peak.abs() >= 1e-15).then_some(peak)
}

fn best_of_widths(x: &[f32], bound: f32) -> f32 {
    let Some(peak) = peak(x) else { return 0.0 };
    let sums = |inverse: f32| {
        let (mut of_qx, mut of_q2) = (0.0, 0.0);
        for x in x {
            let (q, w) = (nearest(inverse * x, -bound, bound - 1.0), x * x);
            of_qx += w * x * q;
            of_q2 += w * q * q;
        }
        (of_qx, of_q2)
    };
    let (of_qx, of_q2) = sums(-bound / peak);
    let mut scale = if of_q2 == 0.0 { 0.0 } else { of_qx / of_q2 };
    let mut best = scale * of_qx;
    for step in (-9..=9).filter(|step| *step != 0) {
        let (of_qx, of_q2) = sums(-(bound + 0.1 * step as f32) / peak);
        if of_q2 > 0.0 && of_qx * of_qx > best * of_q2 {
            scale = of_qx / of_q2;
            best = scale * of_qx;
        }
    }
    scale
}

fn one_by_one(x: &[f32], bound: f32) -> f32 {
    let Some(peak) = peak(x) else { return 0.0 };
    let inverse = -bound / peak;
    let mut all: Vec<f32> = x.iter().map(|x| nearest(inverse * x, -bound, bound - 1.0)).collect();
    let (mut of_qx, mut of_q2) = (0.0, 0.0);
    for (x, q) in x.iter().zip(&all) {
        of_qx += x * x * x * q;
        of_q2 += x * x * q * q;
    }
    for _ in 0..5 {
        let mut changed = 0;
        for (x, old) in x.iter().zip(&mut all) {
            let w = x * x;
            let (mut qx, mut q2) = (of_qx - w * x * *old, of_q2 - w * *old * *old);
            if qx <= 0.0 {
                continue;
            }
            let new = nearest(x * q2 / qx, -bound, bound - 1.0);
            if new == *old {
                continue;
            }
            qx += w * x * new;
            q2 += w * new * new;
            if q2 > 0.0 && qx * qx * of_q2 > of_qx * of_qx * q2 {
                (*old, of_qx, of_q2) = (new, qx, q2);
                changed += 1;
            }
        }
        if changed == 0 {
            break;
        }
    }
    if of_q2 > 0.0 { of_qx / of_q2 } else { 0.0 }
}
