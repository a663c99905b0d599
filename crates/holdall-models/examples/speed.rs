//! Measures how fast values of quantized weights are computed on one core, compared with plain loops over the same
//! bytes: `cargo run --release -p holdall-models --example speed`.

use bytes::Bytes;
use holdall_core::layout::{Computed as _, Decoded};
use holdall_core::{DType, LogicalType};
use holdall_models::quantized::{QuantizationTexts, StoredTensor, StoredTensors, find};
use std::collections::BTreeMap;
use std::time::Instant;

const N: usize = 4096;
const K: usize = 4096;

type Tensors = BTreeMap<&'static str, (DType, Option<LogicalType>, Vec<u64>, Vec<u8>)>;

fn bytes(count: usize) -> Vec<u8> {
    let mut state = 7u64;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as u8 & 0x77
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn floats(count: usize) -> Vec<u8> {
    (0..count).flat_map(|n| (n as f32 / count as f32 + 0.5).to_le_bytes()).collect()
}

/// Returns the least time of several runs, in seconds.
fn best(mut run: impl FnMut()) -> f64 {
    let times = (0..7).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    });
    times.fold(f64::MAX, f64::min)
}

fn measure(
    about: &str,
    config: &str,
    tensors: Tensors,
    small: &[&str],
    plain: impl Fn(&Tensors, &mut [f32]),
) {
    let stored = StoredTensors::new(tensors.iter().map(|(name, (dtype, logical, shape, _))| {
        let (name, logical_type) = ((*name).to_owned(), logical.clone());
        StoredTensor { name, dtype: *dtype, logical_type, shape: shape.clone() }
    }));
    let texts = QuantizationTexts { config: Some(config.to_owned()), ..Default::default() };
    let mut known = holdall_collections::HashMap::default();
    for name in small {
        known.insert((*name).to_owned(), Bytes::from(tensors[name].3.clone()));
    }
    let found = find(&stored, &texts, &known).unwrap();
    let weight = &found[0];
    assert!(weight.fault().is_none(), "{weight:?}");
    let values = weight.values(|role| {
        let name = &weight.components().iter().find(|c| c.role == role).unwrap().tensor;
        let (dtype, logical, _, bytes) = &tensors[name.as_str()];
        let bytes = Bytes::from(bytes.clone());
        Ok(Decoded { dtype: *dtype, logical_type: logical.clone(), bytes })
    });
    let values = values.unwrap();
    let (mut ours, mut theirs) = (vec![0f32; N * K], vec![0f32; N * K]);
    // Both warm up first.
    values.dequantize_range(0..(N * K) as u64, &mut ours).unwrap();
    plain(&tensors, &mut theirs);
    let same = ours.iter().zip(&theirs).all(|(x, y)| x.to_bits() == y.to_bits());
    let own = best(|| values.dequantize_range(0..(N * K) as u64, &mut ours).unwrap());
    let other = best(|| plain(&tensors, &mut theirs));
    let rate = |seconds: f64| (N * K) as f64 / seconds / 1e9;
    println!(
        "{about:12} {:.2} Gelements/s, plain loop {:.2}: {:.2}, same values: {same}",
        rate(own),
        rate(other),
        other / own
    );
}

fn f32_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().unwrap())
}

fn table(logical: &LogicalType) -> Vec<f32> {
    let mut out = vec![0f32; 256];
    let all: Vec<u8> = (0..=255).collect();
    holdall_core::layout::float::into_f32(DType::U8, Some(logical), &all, &mut out).unwrap();
    out
}

const E2M1: [f32; 16] =
    [0., 0.5, 1., 1.5, 2., 3., 4., 6., -0., -0.5, -1., -1.5, -2., -3., -4., -6.];

fn main() {
    let (n, k) = (N as u64, K as u64);
    let e4m3 = || Some(LogicalType::F8E4M3Fn);
    let cells = (N / 128) * (K / 128);
    measure(
        "fp8-block",
        "{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}}",
        Tensors::from([
            ("a.weight", (DType::U8, e4m3(), vec![n, k], bytes(N * K))),
            ("a.weight_scale_inv", (DType::F32, None, vec![n / 128, k / 128], floats(cells))),
        ]),
        &[],
        |tensors, out| {
            let (codes, scales) = (&tensors["a.weight"].3, &tensors["a.weight_scale_inv"].3);
            let table = table(&LogicalType::F8E4M3Fn);
            for (row, (line, codes)) in out.chunks_mut(K).zip(codes.chunks(K)).enumerate() {
                for (block, (x, codes)) in line.chunks_mut(128).zip(codes.chunks(128)).enumerate() {
                    let scale = f32_at(scales, row / 128 * (K / 128) + block);
                    for (x, code) in x.iter_mut().zip(codes) {
                        *x = table[usize::from(*code)] * scale;
                    }
                }
            }
        },
    );
    let groups = K / 128;
    measure(
        "gptq 4 bit",
        "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128}}",
        Tensors::from([
            ("a.qweight", (DType::I32, None, vec![k / 8, n], bytes(N * K / 2))),
            ("a.qzeros", (DType::I32, None, vec![k / 128, n / 8], bytes(groups * N / 2))),
            ("a.scales", (DType::F32, None, vec![k / 128, n], floats(groups * N))),
        ]),
        &[],
        |tensors, out| {
            let words = |name: &str| -> Vec<u32> {
                tensors[name]
                    .3
                    .chunks(4)
                    .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
                    .collect()
            };
            let (q, z, s) = (words("a.qweight"), words("a.qzeros"), &tensors["a.scales"].3);
            // Sixteen columns at a time, so that whole lines of the cache are used.
            for band in 0..N / 16 {
                for down in 0..K / 8 {
                    let group = down * 8 / 128;
                    for column in band * 16..band * 16 + 16 {
                        let word = q[down * N + column];
                        let zero = (z[group * (N / 8) + column / 8] >> (4 * (column % 8)) & 15) + 1;
                        let zero = (zero & 15) as f32;
                        let scale = f32_at(s, group * N + column);
                        let x = &mut out[column * K + down * 8..][..8];
                        for (i, x) in x.iter_mut().enumerate() {
                            *x = ((word >> (4 * i) & 15) as f32 - zero) * scale;
                        }
                    }
                }
            }
        },
    );
    measure(
        "nvfp4",
        "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\"}}",
        Tensors::from([
            ("a.weight_packed", (DType::U8, None, vec![n, k / 2], bytes(N * K / 2))),
            ("a.weight_scale", (DType::U8, e4m3(), vec![n, k / 16], bytes(N * K / 16))),
            ("a.weight_global_scale", (DType::F32, None, vec![1], 3f32.to_le_bytes().to_vec())),
        ]),
        &[],
        |tensors, out| {
            let table = table(&LogicalType::F8E4M3Fn);
            let (codes, scales) = (&tensors["a.weight_packed"].3, &tensors["a.weight_scale"].3);
            for ((x, codes), scale) in out.chunks_mut(16).zip(codes.chunks(8)).zip(scales) {
                let scale = table[usize::from(*scale)] / 3.0;
                for (x, code) in x.chunks_mut(2).zip(codes) {
                    x[0] = E2M1[usize::from(code & 15)] * scale;
                    x[1] = E2M1[usize::from(code >> 4)] * scale;
                }
            }
        },
    );
    let state = format!("{{\"blocksize\": 64, \"shape\": [{N}, {K}]}}").into_bytes();
    measure(
        "bnb nf4",
        "{}",
        Tensors::from([
            ("a.weight", (DType::U8, None, vec![n * k / 2, 1], bytes(N * K / 2))),
            ("a.weight.absmax", (DType::F32, None, vec![n * k / 64], floats(N * K / 64))),
            ("a.weight.quant_map", (DType::F32, None, vec![16], floats(16))),
            (
                "a.weight.quant_state.bitsandbytes__nf4",
                (DType::U8, None, vec![state.len() as u64], state),
            ),
        ]),
        &["a.weight.quant_state.bitsandbytes__nf4"],
        |tensors, out| {
            let map: Vec<f32> =
                (0..16).map(|i| f32_at(&tensors["a.weight.quant_map"].3, i)).collect();
            let (codes, scales) = (&tensors["a.weight"].3, &tensors["a.weight.absmax"].3);
            for (block, (x, codes)) in out.chunks_mut(64).zip(codes.chunks(32)).enumerate() {
                let scale = f32_at(scales, block);
                for (x, code) in x.chunks_mut(2).zip(codes) {
                    x[0] = map[usize::from(code >> 4)] * scale;
                    x[1] = map[usize::from(code & 15)] * scale;
                }
            }
        },
    );
}
