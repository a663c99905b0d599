//! A plain implementation on the CPU, for comparison.

use crate::Sizes;
use holdall::{File, Result};

/// Rows of numbers.
struct Rows {
    width: usize,
    all: Vec<f32>,
}

/// Returns the hidden state of each token after the last layer.
pub(crate) fn encode(file: &File, sizes: &Sizes, ids: &[u32]) -> Result<Vec<f32>> {
    let width = sizes.hidden as usize;
    let get = |name: &str| file.tensor(name)?.dense()?.to_f32();
    let words = get("embeddings.word_embeddings.weight")?;
    let places = get("embeddings.position_embeddings.weight")?;
    let kinds = get("embeddings.token_type_embeddings.weight")?;
    let mut x = Rows { width, all: Vec::new() };
    for (token, id) in ids.iter().enumerate() {
        let word = &words[*id as usize * width..];
        let place = &places[token * width..];
        x.all.extend((0..width).map(|h| word[h] + place[h] + kinds[h]));
    }
    let norm = |x: &mut Rows, name: &str| -> Result<()> {
        let (gain, offset) = (get(&format!("{name}.weight"))?, get(&format!("{name}.bias"))?);
        for row in x.all.chunks_mut(x.width) {
            let mean = row.iter().sum::<f32>() / row.len() as f32;
            let square = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>();
            let scale = 1.0 / (square / row.len() as f32 + 1e-12).sqrt();
            for (h, v) in row.iter_mut().enumerate() {
                *v = (*v - mean) * scale * gain[h] + offset[h];
            }
        }
        Ok(())
    };
    let linear = |x: &Rows, name: &str| -> Result<Rows> {
        let (matrix, offset) = (get(&format!("{name}.weight"))?, get(&format!("{name}.bias"))?);
        let mut out = Rows { width: offset.len(), all: Vec::new() };
        for row in x.all.chunks(x.width) {
            for (line, offset) in matrix.chunks(x.width).zip(&offset) {
                out.all.push(row.iter().zip(line).map(|(a, b)| a * b).sum::<f32>() + offset);
            }
        }
        Ok(out)
    };
    let add = |x: &mut Rows, y: &Rows| x.all.iter_mut().zip(&y.all).for_each(|(x, y)| *x += y);
    norm(&mut x, "embeddings.LayerNorm")?;
    for n in 0..sizes.layers {
        let at = |name: &str| format!("encoder.layer.{n}.{name}");
        let query = linear(&x, &at("attention.self.query"))?;
        let key = linear(&x, &at("attention.self.key"))?;
        let value = linear(&x, &at("attention.self.value"))?;
        let mut y = linear(
            &attend(&query, &key, &value, sizes.heads as usize),
            &at("attention.output.dense"),
        )?;
        add(&mut y, &x);
        norm(&mut y, &at("attention.output.LayerNorm"))?;
        let mut inner = linear(&y, &at("intermediate.dense"))?;
        inner.all.iter_mut().for_each(|v| *v = 0.5 * *v * (1.0 + erf(*v * 0.707_106_77)));
        x = linear(&inner, &at("output.dense"))?;
        add(&mut x, &y);
        norm(&mut x, &at("output.LayerNorm"))?;
    }
    Ok(x.all)
}

fn attend(query: &Rows, key: &Rows, value: &Rows, heads: usize) -> Rows {
    let (width, size) = (query.width, query.width / heads);
    let tokens = query.all.len() / width;
    let mut out = vec![0.0; query.all.len()];
    for token in 0..tokens {
        for first in (0..width).step_by(size) {
            let own = &query.all[token * width + first..][..size];
            let score = |t: usize| {
                let other = &key.all[t * width + first..][..size];
                own.iter().zip(other).map(|(a, b)| a * b).sum::<f32>() / (size as f32).sqrt()
            };
            let scores: Vec<f32> = (0..tokens).map(score).collect();
            let most = scores.iter().copied().fold(f32::MIN, f32::max);
            let weights: Vec<f32> = scores.iter().map(|s| (s - most).exp()).collect();
            let all: f32 = weights.iter().sum();
            for h in 0..size {
                let sum = (0..tokens).map(|t| weights[t] * value.all[t * width + first + h]);
                out[token * width + first + h] = sum.sum::<f32>() / all;
            }
        }
    }
    Rows { width, all: out }
}

/// Abramowitz and Stegun 7.1.26.
fn erf(y: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * y.abs());
    let p = t
        * (0.254_829_6
            + t * (-0.284_496_72 + t * (1.421_413_8 + t * (-1.453_152 + t * 1.061_405_4))));
    y.signum() * (1.0 - p * (-y * y).exp())
}
