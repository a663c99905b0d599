//! The contents of the files: names, shapes and reproducible bytes.

use half::bf16;
use std::sync::LazyLock;

/// A tensor to be written: bf16, with contents generated from the seed on demand.
#[derive(Debug, Clone)]
pub struct Spec {
    pub name: String,
    pub shape: Vec<usize>,
    pub seed: u64,
    mean: f32,
    deviation: f32,
}

impl Spec {
    fn weights(name: String, shape: &[usize], mean: f32, deviation: f32) -> Spec {
        let seed = fnv(name.as_bytes());
        Spec { name, shape: shape.to_vec(), seed, mean, deviation }
    }

    /// Returns the length of its contents in bytes.
    pub fn len(&self) -> usize {
        2 * self.shape.iter().product::<usize>()
    }

    pub fn shape_u64(&self) -> Vec<u64> {
        self.shape.iter().map(|&d| d as u64).collect()
    }

    /// Returns normally distributed values, little-endian. Weights of trained models have a similar distribution: zstd
    /// saves as much as on them, namely the redundancy of the exponent, about a fifth.
    pub fn bytes(&self) -> Vec<u8> {
        let values: Vec<u16> = NORMAL
            .iter()
            .map(|z| bf16::from_f32(self.mean + self.deviation * z).to_bits())
            .collect();
        let mut random = XorShift(self.seed | 1);
        let mut bytes = Vec::with_capacity(self.len() + 8);
        while bytes.len() < self.len() {
            let r = random.next();
            for shift in [0, 16, 32, 48] {
                bytes.extend_from_slice(&values[(r >> shift) as usize & 0xffff].to_le_bytes());
            }
        }
        bytes.truncate(self.len());
        bytes
    }
}

/// Returns the shapes of Llama-3.2-1B (tied embeddings, so no `lm_head`) with `layers` of its 16 layers.
pub fn llama(layers: usize, quick: bool) -> Vec<Spec> {
    let (vocabulary, width, kv, hidden) =
        if quick { (16_032, 256, 64, 1024) } else { (128_256, 2048, 512, 8192) };
    let mut specs =
        vec![Spec::weights("model.embed_tokens.weight".into(), &[vocabulary, width], 0.0, 0.02)];
    for layer in 0..layers {
        let mut add = |name: &str, shape: &[usize], mean, deviation| {
            specs.push(Spec::weights(
                format!("model.layers.{layer}.{name}.weight"),
                shape,
                mean,
                deviation,
            ));
        };
        add("input_layernorm", &[width], 0.3, 0.1);
        add("mlp.down_proj", &[width, hidden], 0.0, 0.018);
        add("mlp.gate_proj", &[hidden, width], 0.0, 0.02);
        add("mlp.up_proj", &[hidden, width], 0.0, 0.018);
        add("post_attention_layernorm", &[width], 0.3, 0.05);
        add("self_attn.k_proj", &[kv, width], 0.0, 0.04);
        add("self_attn.o_proj", &[width, width], 0.0, 0.015);
        add("self_attn.q_proj", &[width, width], 0.0, 0.03);
        add("self_attn.v_proj", &[kv, width], 0.0, 0.015);
    }
    specs.push(Spec::weights("model.norm.weight".into(), &[width], 2.0, 0.3));
    specs
}

/// The layers of the Llama-shaped file: 4 of 16 make 1.01 GB, of which the embedding is 525 MB.
pub const LAYERS: usize = 4;
/// The layers of the file of which only the table of contents is read.
pub const ALL_LAYERS: usize = 16;
/// The tensor whose rows are read.
pub const EMBEDDING: &str = "model.embed_tokens.weight";

/// Returns `count` tensors of `shape` in groups of 100, named as in a mixture of small experts.
pub fn many(count: usize, shape: &[usize]) -> Vec<Spec> {
    let name = |i: usize| format!("layers.{}.experts.{:02}.weight", i / 100, i % 100);
    (0..count).map(|i| Spec::weights(name(i), shape, 0.0, 0.02)).collect()
}

/// The standard normal distribution at 65536 evenly spaced probabilities.
static NORMAL: LazyLock<Vec<f32>> =
    LazyLock::new(|| (0..65536).map(|i| quantile((i as f64 + 0.5) / 65536.0) as f32).collect());

/// Returns the value of the standard normal distribution at the `at`-th of 65536 evenly spaced probabilities.
pub fn normal(at: u16) -> f32 {
    NORMAL[usize::from(at)]
}

/// Returns z with Φ(z) = p, by bisection of a series for Φ. It is accurate enough, and 65536 values are computed
/// quickly.
fn quantile(p: f64) -> f64 {
    let phi = |z: f64| {
        let (mut term, mut sum, mut k) = (z, z, 1.0);
        while term.abs() > 1e-12 {
            k += 2.0;
            term *= z * z / k;
            sum += term;
        }
        0.5 + sum * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
    };
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if phi(middle) < p { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

pub struct XorShift(pub u64);

impl XorShift {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a random position below `count`, which is less than 2^32.
    pub fn index_below(&mut self, count: usize) -> u32 {
        (((self.next() >> 32) * count as u64) >> 32) as u32
    }
}

/// A digest of the bytes that a contestant delivered. It does not depend on the order of the tensors.
#[derive(Debug)]
pub struct Check {
    sum: u64,
    /// Whether all bytes are included, or only the ends of each tensor.
    whole: bool,
}

impl Check {
    pub fn new(whole: bool) -> Check {
        Check { sum: 0, whole }
    }

    pub fn tensor(&mut self, name: &str, bytes: &[u8]) {
        let words = if self.whole { sum_words(bytes) } else { ends(bytes) };
        self.add(name, words.wrapping_add(bytes.len() as u64));
    }

    pub fn listed(&mut self, name: &str, shape: impl IntoIterator<Item = u64>) {
        let shape = shape.into_iter().fold(0u64, |h, d| h.wrapping_mul(31).wrapping_add(d));
        self.add(name, shape);
    }

    fn add(&mut self, name: &str, value: u64) {
        self.sum = self.sum.wrapping_add(mix(mix(fnv(name.as_bytes())).wrapping_add(value)));
    }

    pub fn value(&self) -> Option<u64> {
        Some(self.sum)
    }
}

fn ends(bytes: &[u8]) -> u64 {
    let head = bytes.first_chunk().map_or(0, |c| u64::from_le_bytes(*c));
    let tail = bytes.last_chunk().map_or(0, |c| u64::from_le_bytes(*c));
    head.wrapping_add(tail.rotate_left(17))
}

/// Returns the sum of the bytes as little-endian 64-bit words, at the speed of memory.
pub fn sum_words(bytes: &[u8]) -> u64 {
    let mut lanes = [0u64; 8];
    let mut chunks = bytes.chunks_exact(64);
    for chunk in &mut chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
            *lane = lane.wrapping_add(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
    }
    let rest = chunks.remainder().iter().map(|&b| u64::from(b)).sum::<u64>();
    lanes.iter().fold(rest, |a, b| a.rotate_left(5).wrapping_add(*b))
}

/// Mixes the bits (the finalizer of SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_normal_distribution() {
        for (p, z) in [(0.5, 0.0), (0.975, 1.959_964), (0.001, -3.090_232)] {
            assert!((quantile(p) - z).abs() < 1e-5, "{p}");
        }
    }

    #[test]
    fn contents_are_reproducible_and_differ_between_tensors() {
        let specs = many(2, &[40, 128]);
        assert_eq!(specs[0].bytes(), many(1, &[40, 128])[0].bytes());
        assert_ne!(specs[0].bytes(), specs[1].bytes());
        assert_eq!(specs[0].bytes().len(), specs[0].len());
    }

    #[test]
    fn a_check_sees_bytes_and_names_but_not_their_order() {
        let check = |tensors: &[(&str, &[u8])]| {
            let mut check = Check::new(true);
            tensors.iter().for_each(|(name, bytes)| check.tensor(name, bytes));
            check.value()
        };
        let (a, b, c): (&[u8], &[u8], &[u8]) = (&[1; 100], &[2; 100], &[3; 100]);
        assert_eq!(check(&[("a", a), ("b", b)]), check(&[("b", b), ("a", a)]));
        assert_ne!(check(&[("a", a), ("b", b)]), check(&[("a", b), ("b", a)]));
        assert_ne!(check(&[("a", a), ("b", b)]), check(&[("a", a), ("b", c)]));
    }
}
