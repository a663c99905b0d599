//! Weights of every kind with ragged shapes, made here from a seed, with their values by the formula of the kind.

use super::model::{Model, Stored, types};
use bytes::Bytes;
use holdall_core::layout::float::decode_f32;
use holdall_models::quantized::Kind;

/// A model with one weight, and its expected values.
pub(crate) struct Made {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    pub(crate) model: Model,
    pub(crate) shape: Vec<u64>,
    pub(crate) values: Vec<f32>,
    /// The stored tensors without which the weight is not readable.
    pub(crate) required: Vec<&'static str>,
}

/// A small generator of pseudorandom numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    fn codes(&mut self, count: usize, bits: u32) -> Vec<u32> {
        (0..count).map(|_| (self.next() as u32) & ((1 << bits) - 1)).collect()
    }

    fn float(&mut self) -> f32 {
        (self.below(2000) as f32 - 1000.0) / 777.0
    }
}

fn add(model: &mut Model, name: &str, dtype: &str, shape: &[u64], bytes: Vec<u8>) {
    let (storage, logical) = types(dtype);
    let width = logical.map_or(storage.width(), |_| 1);
    assert_eq!(bytes.len() as u64, shape.iter().product::<u64>() * width, "{name}");
    let stored =
        Stored { dtype: dtype.to_owned(), shape: shape.to_vec(), bytes: Bytes::from(bytes) };
    model.tensors.insert(name.to_owned(), stored);
}

/// Adds floats in a type, and returns them as they were rounded.
fn floats(model: &mut Model, name: &str, dtype: &str, shape: &[u64], values: &[f32]) -> Vec<f32> {
    let bytes: Vec<u8> = match dtype {
        "F32" => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        "BF16" => values.iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect(),
        other => panic!("{other}"),
    };
    let rounded = decoded(dtype, &bytes);
    add(model, name, dtype, shape, bytes);
    rounded
}

fn decoded(dtype: &str, bytes: &[u8]) -> Vec<f32> {
    let (storage, logical) = types(dtype);
    let mut out = Vec::new();
    decode_f32(storage, logical.as_ref(), bytes, |values| out.extend_from_slice(values)).unwrap();
    out
}

fn words(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Packs codes as one stream of bits per row, in words.
fn packed(codes: &[u32], columns: usize, bits: u32) -> Vec<u32> {
    let per_row = (columns * bits as usize).div_ceil(32);
    let mut out = Vec::new();
    for row in codes.chunks(columns) {
        let mut line = vec![0u32; per_row];
        for (at, code) in row.iter().enumerate() {
            for bit in 0..bits as usize {
                let index = at * bits as usize + bit;
                line[index / 32] |= (code >> bit & 1) << (index % 32);
            }
        }
        out.extend(line);
    }
    out
}

fn transposed<T: Copy>(all: &[T], rows: usize, columns: usize) -> Vec<T> {
    (0..columns).flat_map(|c| (0..rows).map(move |r| all[r * columns + c])).collect()
}

fn config(text: &str) -> Model {
    let mut model = Model::default();
    model.texts.config = Some(text.to_owned());
    model
}

const E2M1: [f32; 16] =
    [0., 0.5, 1., 1.5, 2., 3., 4., 6., -0., -0.5, -1., -1.5, -2., -3., -4., -6.];

fn pairs(codes: &[u32], high_first: bool) -> Vec<u8> {
    let pair = |c: &[u32]| {
        let (a, b) = (c[0] as u8, c.get(1).copied().unwrap_or(0) as u8);
        if high_first { a << 4 | b } else { a | b << 4 }
    };
    codes.chunks(2).map(pair).collect()
}

fn e4m3_without_nan(random: &mut Random, count: usize) -> Vec<u8> {
    random.bytes(count).into_iter().map(|b| if b & 0x7f == 0x7f { b & 0x80 } else { b }).collect()
}

fn e8m0(random: &mut Random, count: usize) -> Vec<u8> {
    (0..count).map(|_| 110 + random.below(30) as u8).collect()
}

fn fp8_block(random: &mut Random, has_power: bool) -> Made {
    let (n, k) = (1 + random.below(70) as usize, 1 + random.below(90) as usize);
    let (bn, bk) = (1 + random.below(40) as usize, 1 + random.below(40) as usize);
    let mut model = config(&format!(
        "{{\"quantization_config\":{{\"quant_method\":\"fp8\",\"weight_block_size\":[{bn},{bk}]}}}}"
    ));
    let bytes = e4m3_without_nan(random, n * k);
    let grid = [n.div_ceil(bn), k.div_ceil(bk)];
    let shape = grid.map(|n| n as u64);
    let scales = if has_power {
        let bytes = e8m0(random, grid[0] * grid[1]);
        add(&mut model, "a.weight_scale_inv", "F8_E8M0", &shape, bytes.clone());
        decoded("F8_E8M0", &bytes)
    } else {
        let scales: Vec<f32> = (0..grid[0] * grid[1]).map(|_| random.float()).collect();
        floats(&mut model, "a.weight_scale_inv", "F32", &shape, &scales)
    };
    let codes = decoded("F8_E4M3", &bytes);
    add(&mut model, "a.weight", "F8_E4M3", &[n as u64, k as u64], bytes);
    let values =
        (0..n * k).map(|at| codes[at] * scales[at / k / bn * grid[1] + at % k / bk]).collect();
    let kind = if bn > 1 { Kind::Fp8Block } else { Kind::Fp8 };
    let required = vec!["a.weight", "a.weight_scale_inv"];
    Made { kind, name: "a.weight", model, shape: vec![n as u64, k as u64], values, required }
}

fn fp8_rows(random: &mut Random) -> Made {
    let (n, k) = (2 + random.below(30) as usize, 1 + random.below(50) as usize);
    let mut model = config("{\"quantization_config\":{\"quant_method\":\"fbgemm_fp8\"}}");
    let bytes = random.bytes(n * k).into_iter().map(|b| b & 0xbf).collect::<Vec<_>>();
    let scales: Vec<f32> = (0..n).map(|_| random.float()).collect();
    let shape: &[u64] = if random.below(2) == 0 { &[n as u64, 1] } else { &[n as u64] };
    let scales = floats(&mut model, "a.weight_scale", "BF16", shape, &scales);
    let codes = decoded("F8_E5M2", &bytes);
    add(&mut model, "a.weight", "F8_E5M2", &[n as u64, k as u64], bytes);
    floats(&mut model, "a.input_scale", "F32", &[], &[3.0]);
    let values = (0..n * k).map(|at| codes[at] * scales[at / k]).collect();
    let required = vec!["a.weight", "a.weight_scale"];
    Made {
        kind: Kind::Fp8,
        name: "a.weight",
        model,
        shape: vec![n as u64, k as u64],
        values,
        required,
    }
}

fn gptq(random: &mut Random) -> Made {
    let bits = [2u32, 3, 4, 8][random.below(4) as usize];
    let n = 32 * (1 + random.below(3) as usize);
    let k = 32 * (1 + random.below(4) as usize);
    let g = [16usize, 32, 48, k][random.below(4) as usize].min(k);
    let groups = k.div_ceil(g);
    let is_v2 = random.below(2) == 0;
    let is_ordered = random.below(2) == 0;
    let format = if is_v2 { "gptq_v2" } else { "gptq" };
    let mut model = Model::default();
    let size = if g == k { -1 } else { g as i64 };
    model.texts.quantize_config = Some(format!(
        "{{\"bits\":{bits},\"group_size\":{size},\"quant_method\":\"gptq\",\"checkpoint_format\":\"{format}\"}}"
    ));
    let q = random.codes(k * n, bits);
    let zeros = random.codes(groups * n, bits);
    let scales: Vec<f32> = (0..groups * n).map(|_| random.float()).collect();
    let down = packed(&transposed(&q, k, n), k, bits);
    let rows = k * bits as usize / 32;
    add(
        &mut model,
        "a.qweight",
        "I32",
        &[rows as u64, n as u64],
        words(&transposed(&down, n, rows)),
    );
    let add_one = u32::from(!is_v2);
    let stored: Vec<u32> =
        zeros.iter().map(|z| z.wrapping_sub(add_one) & ((1 << bits) - 1)).collect();
    let zero_words = (n * bits as usize / 32) as u64;
    add(
        &mut model,
        "a.qzeros",
        "I32",
        &[groups as u64, zero_words],
        words(&packed(&stored, n, bits)),
    );
    let scales = floats(&mut model, "a.scales", "BF16", &[groups as u64, n as u64], &scales);
    let index: Vec<u32> = (0..k)
        .map(|at| if is_ordered { random.below(groups as u64) as u32 } else { (at / g) as u32 })
        .collect();
    let mut required = vec!["a.qweight", "a.qzeros", "a.scales"];
    if is_ordered {
        required.push("");
    }
    add(&mut model, "a.g_idx", "I32", &[k as u64], words(&index));
    if !is_ordered && random.below(2) == 0 {
        model.tensors.remove("a.g_idx");
    }
    required.retain(|name| !name.is_empty());
    let values = (0..n * k).map(|at| {
        let (row, column) = (at / k, at % k);
        let cell = index[column] as usize * n + row;
        scales[cell] * (q[column * n + row] as f32 - zeros[cell] as f32)
    });
    let values = values.collect();
    Made {
        kind: Kind::Gptq,
        name: "a.weight",
        model,
        shape: vec![n as u64, k as u64],
        values,
        required,
    }
}

fn awq(random: &mut Random, is_gemv: bool) -> Made {
    let (n, k) = (8 * (1 + random.below(20) as usize), 8 * (1 + random.below(20) as usize));
    let g = 8 * (1 + random.below(8) as usize);
    let groups = k.div_ceil(g);
    let version = if is_gemv { "GEMV" } else { "GEMM" };
    let mut model = config(&format!(
        "{{\"quantization_config\":{{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":{g},\"version\":\"{version}\"}}}}"
    ));
    let order = [0usize, 2, 4, 6, 1, 3, 5, 7];
    let interleaved = |codes: &[u32]| -> Vec<u32> {
        let word = |c: &[u32]| (0..8).fold(0u32, |w, i| w | c[order[i]] << (4 * i));
        codes.chunks(8).map(word).collect()
    };
    let q = random.codes(n * k, 4);
    let zeros = random.codes(n * groups, 4);
    let scales: Vec<f32> = (0..n * groups).map(|_| random.float()).collect();
    // Both are by weight rows here: `q` is [n, k], zeros and scales are [n, groups].
    let scales: Vec<f32> = if is_gemv {
        let wide = groups.div_ceil(8) + random.below(2) as usize;
        let padded =
            |row: usize, at: usize| if at < groups { scales[row * groups + at] } else { 9.0 };
        let all: Vec<f32> =
            (0..n * wide * 8).map(|at| padded(at / (wide * 8), at % (wide * 8))).collect();
        let all = floats(&mut model, "a.scales", "BF16", &[n as u64, wide as u64 * 8], &all);
        add(&mut model, "a.qweight", "I32", &[n as u64, k as u64 / 8], words(&packed(&q, k, 4)));
        let mut wide_zeros = packed(&zeros, groups, 4);
        if wide > groups.div_ceil(8) {
            wide_zeros = wide_zeros.chunks(wide - 1).flat_map(|row| [row, &[0]].concat()).collect();
        }
        add(&mut model, "a.qzeros", "I32", &[n as u64, wide as u64], words(&wide_zeros));
        all.chunks(wide * 8).flat_map(|row| row[..groups].to_vec()).collect()
    } else {
        let turned = transposed(&scales, n, groups);
        let turned = floats(&mut model, "a.scales", "BF16", &[groups as u64, n as u64], &turned);
        let shape = [k as u64, n as u64 / 8];
        add(&mut model, "a.qweight", "I32", &shape, words(&interleaved(&transposed(&q, n, k))));
        let shape = [groups as u64, n as u64 / 8];
        add(
            &mut model,
            "a.qzeros",
            "I32",
            &shape,
            words(&interleaved(&transposed(&zeros, n, groups))),
        );
        transposed(&turned, groups, n)
    };
    let values = (0..n * k).map(|at| {
        let cell = at / k * groups + at % k / g;
        (q[at] as f32 - zeros[cell] as f32) * scales[cell]
    });
    let values = values.collect();
    let kind = if is_gemv { Kind::AwqGemv } else { Kind::AwqGemm };
    let required = vec!["a.qweight", "a.qzeros", "a.scales"];
    Made { kind, name: "a.weight", model, shape: vec![n as u64, k as u64], values, required }
}

fn mlx(random: &mut Random) -> Made {
    let bits = [2u32, 3, 4, 5, 6, 8][random.below(6) as usize];
    let g = [32usize, 64, 128][random.below(3) as usize];
    let (e, n, k) = (
        1 + random.below(3) as usize,
        1 + random.below(9) as usize,
        g * (1 + random.below(3) as usize),
    );
    let mut model = config(&format!("{{\"quantization\":{{\"group_size\":{g},\"bits\":{bits}}}}}"));
    let q = random.codes(e * n * k, bits);
    let lead: Vec<u64> = if e > 1 { vec![e as u64, n as u64] } else { vec![n as u64] };
    let with = |last: usize| [lead.clone(), vec![last as u64]].concat();
    add(&mut model, "a.weight", "U32", &with(k * bits as usize / 32), words(&packed(&q, k, bits)));
    let cells = e * n * (k / g);
    let some: Vec<f32> = (0..cells).map(|_| random.float()).collect();
    let scales = floats(&mut model, "a.scales", "BF16", &with(k / g), &some);
    let some: Vec<f32> = (0..cells).map(|_| random.float()).collect();
    let biases = floats(&mut model, "a.biases", "BF16", &with(k / g), &some);
    let values = (0..e * n * k).map(|at| q[at] as f32 * scales[at / g] + biases[at / g]).collect();
    let required = vec!["a.weight", "a.scales", "a.biases"];
    Made { kind: Kind::MlxAffine, name: "a.weight", model, shape: with(k), values, required }
}

fn mlx_float(random: &mut Random) -> Made {
    let (kind, mode, g) = [
        (Kind::MlxMxfp4, "mxfp4", 32usize),
        (Kind::MlxNvfp4, "nvfp4", 16),
        (Kind::MlxMxfp8, "mxfp8", 32),
    ][random.below(3) as usize];
    let (n, k) = (1 + random.below(9) as usize, 32 * (1 + random.below(4) as usize));
    let bits = if mode == "mxfp8" { 8 } else { 4 };
    let mut model = config(&format!(
        "{{\"quantization\":{{\"group_size\":{g},\"bits\":{bits},\"mode\":\"{mode}\"}}}}"
    ));
    let (bytes, codes) = if bits == 8 {
        let bytes = e4m3_without_nan(random, n * k);
        (bytes.clone(), decoded("F8_E4M3", &bytes))
    } else {
        let codes = random.codes(n * k, 4);
        (pairs(&codes, false), codes.iter().map(|c| E2M1[*c as usize]).collect())
    };
    add(&mut model, "a.weight", "U32", &[n as u64, (k * bits / 32) as u64], bytes);
    let scale = match mode {
        "nvfp4" => e4m3_without_nan(random, n * k / g),
        _ => e8m0(random, n * k / g),
    };
    let scales = decoded(if mode == "nvfp4" { "F8_E4M3" } else { "F8_E8M0" }, &scale);
    add(&mut model, "a.scales", "U8", &[n as u64, (k / g) as u64], scale);
    let values = (0..n * k).map(|at| codes[at] * scales[at / g]).collect();
    let required = vec!["a.weight", "a.scales"];
    Made { kind, name: "a.weight", model, shape: vec![n as u64, k as u64], values, required }
}

fn nvfp4(random: &mut Random, kind: Kind) -> Made {
    let (n, k) = (1 + random.below(200) as usize, 16 * (1 + random.below(9) as usize));
    let codes = random.codes(n * k, 4);
    let (text, weight, is_high) = match kind {
        Kind::CompressedNvfp4 => (
            "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"nvfp4-pack-quantized\"}}",
            "a.weight_packed",
            false,
        ),
        Kind::ModeloptNvfp4 => (
            "{\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"}}",
            "a.weight",
            false,
        ),
        _ => ("{}", "a.weight", true),
    };
    let mut model = config(text);
    add(&mut model, weight, "U8", &[n as u64, k as u64 / 2], pairs(&codes, is_high));
    let scale = e4m3_without_nan(random, n * (k / 16));
    let scales = decoded("F8_E4M3", &scale);
    let global = random.float() + 3.0;
    let (second, factor): (_, &dyn Fn(f32) -> f32) = match kind {
        Kind::CompressedNvfp4 => ("a.weight_global_scale", &|s| s / global),
        _ => ("a.weight_scale_2", &|s| s * global),
    };
    floats(&mut model, second, "F32", if is_high { &[] } else { &[1] }, &[global]);
    if is_high {
        let (rows, columns) = (n.next_multiple_of(128), (k / 16).next_multiple_of(4));
        let mut tiles = vec![0x7eu8; rows * columns];
        for row in 0..n {
            for column in 0..k / 16 {
                let tile = row / 128 * (columns / 4) + column / 4;
                let at = tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
                tiles[at] = scale[row * (k / 16) + column];
            }
        }
        add(&mut model, "a.weight_scale", "F8_E4M3", &[rows as u64, columns as u64], tiles);
        let json = b"{\"format\": \"nvfp4\"}".to_vec();
        add(&mut model, "a.comfy_quant", "U8", &[json.len() as u64], json);
    } else {
        add(&mut model, "a.weight_scale", "F8_E4M3", &[n as u64, k as u64 / 16], scale);
    }
    let values = (0..n * k).map(|at| E2M1[codes[at] as usize] * factor(scales[at / 16])).collect();
    let required = vec![weight, "a.weight_scale", second];
    Made { kind, name: "a.weight", model, shape: vec![n as u64, k as u64], values, required }
}

fn bnb(random: &mut Random) -> Made {
    let shape = [1 + random.below(40), 1 + random.below(40)];
    let count = (shape[0] * shape[1]) as usize;
    let block = [16usize, 64, 50][random.below(3) as usize];
    let mut model = config("{\"quantization_config\":{\"quant_method\":\"bitsandbytes\"}}");
    let codes = random.codes(count, 4);
    add(&mut model, "a.weight", "U8", &[count.div_ceil(2) as u64, 1], pairs(&codes, true));
    let map: Vec<f32> = (0..16).map(|_| random.float()).collect();
    let map = floats(&mut model, "a.weight.quant_map", "F32", &[16], &map);
    let blocks = count.div_ceil(block);
    let mut required = vec!["a.weight", "a.weight.quant_map", "a.weight.absmax"];
    let mut state = format!(
        "{{\"quant_type\": \"fp4\", \"blocksize\": {block}, \"dtype\": \"bfloat16\", \"shape\": [{}, {}]",
        shape[0], shape[1]
    );
    let scales = if random.below(2) == 0 {
        let scales: Vec<f32> = (0..blocks).map(|_| random.float()).collect();
        floats(&mut model, "a.weight.absmax", "F32", &[blocks as u64], &scales)
    } else {
        let bytes = random.bytes(blocks);
        add(&mut model, "a.weight.absmax", "U8", &[blocks as u64], bytes.clone());
        let nested: Vec<f32> = (0..256).map(|_| random.float()).collect();
        let nested = floats(&mut model, "a.weight.nested_quant_map", "F32", &[256], &nested);
        let outer: Vec<f32> = (0..blocks.div_ceil(8)).map(|_| random.float()).collect();
        let outer_shape = [outer.len() as u64];
        let outer = floats(&mut model, "a.weight.nested_absmax", "F32", &outer_shape, &outer);
        state.push_str(", \"nested_blocksize\": 8, \"nested_offset\": 0.3125");
        required.extend(["a.weight.nested_quant_map", "a.weight.nested_absmax"]);
        let value = |(at, code): (usize, &u8)| nested[*code as usize] * outer[at / 8] + 0.3125;
        bytes.iter().enumerate().map(value).collect()
    };
    state.push('}');
    let name = "a.weight.quant_state.bitsandbytes__fp4";
    add(&mut model, name, "U8", &[state.len() as u64], state.into_bytes());
    let values = (0..count).map(|at| map[codes[at] as usize] * scales[at / block]).collect();
    Made {
        kind: Kind::BitsAndBytes4,
        name: "a.weight",
        model,
        shape: shape.to_vec(),
        values,
        required,
    }
}

fn ct_packed(random: &mut Random) -> Made {
    let bits = 1 + random.below(8) as u32;
    let (n, k) = (1 + random.below(40) as usize, 40 + random.below(90) as usize);
    let g = [16usize, 33, k][random.below(3) as usize];
    let groups = k.div_ceil(g);
    let is_asymmetric = random.below(2) == 0;
    let strategy =
        if g == k { "\"channel\"".to_owned() } else { format!("\"group\",\"group_size\":{g}") };
    let mut model = config(&format!(
        "{{\"quantization_config\":{{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\",\"version\":\"0.20.1\",\
         \"config_groups\":{{\"group_0\":{{\"weights\":{{\"num_bits\":{bits},\"type\":\"int\",\"symmetric\":{},\"strategy\":{strategy}}}}}}}}}}}",
        !is_asymmetric
    ));
    let q = random.codes(n * k, bits);
    let zeros = random.codes(n * groups, bits);
    let row_words = (k * bits as usize).div_ceil(32) as u64;
    add(&mut model, "a.weight_packed", "I32", &[n as u64, row_words], words(&packed(&q, k, bits)));
    let shape: Vec<u8> = [n as i64, k as i64].iter().flat_map(|n| n.to_le_bytes()).collect();
    add(&mut model, "a.weight_shape", "I64", &[2], shape);
    let scales: Vec<f32> = (0..n * groups).map(|_| random.float()).collect();
    let scales = floats(&mut model, "a.weight_scale", "BF16", &[n as u64, groups as u64], &scales);
    let mut required = vec!["a.weight_packed", "a.weight_shape", "a.weight_scale"];
    if is_asymmetric {
        let down = packed(&transposed(&zeros, n, groups), n, bits);
        let rows = (n * bits as usize).div_ceil(32);
        let down = words(&transposed(&down, groups, rows));
        add(&mut model, "a.weight_zero_point", "I32", &[rows as u64, groups as u64], down);
        required.push("a.weight_zero_point");
    }
    let half = (1u32 << (bits - 1)) as f32;
    let values = (0..n * k).map(|at| {
        let cell = at / k * groups + at % k / g;
        let zero = if is_asymmetric { zeros[cell] as f32 } else { half };
        (q[at] as f32 - zero) * scales[cell]
    });
    let values = values.collect();
    let kind = Kind::CompressedPacked;
    Made { kind, name: "a.weight", model, shape: vec![n as u64, k as u64], values, required }
}

fn ct_mx(random: &mut Random, kind: Kind) -> Made {
    let (n, k) = (1 + random.below(9) as usize, 32 * (1 + random.below(5) as usize));
    let bits = match kind {
        Kind::CompressedMxfp4 => 4,
        Kind::CompressedMxfp6 => 6,
        _ => 8,
    };
    let mut model = config(&format!(
        "{{\"quantization_config\":{{\"quant_method\":\"compressed-tensors\",\"config_groups\":{{\"g\":{{\"weights\":\
         {{\"num_bits\":{bits},\"type\":\"float\",\"strategy\":\"group\",\"group_size\":32}}}}}}}}}}"
    ));
    let scale = e8m0(random, n * k / 32);
    let scales = decoded("F8_E8M0", &scale);
    add(&mut model, "a.weight_scale", "U8", &[n as u64, k as u64 / 32], scale);
    let (name, codes): (_, Vec<f32>) = match kind {
        Kind::CompressedMxfp4 => {
            let codes = random.codes(n * k, 4);
            add(
                &mut model,
                "a.weight_packed",
                "U8",
                &[n as u64, k as u64 / 2],
                pairs(&codes, false),
            );
            ("a.weight_packed", codes.iter().map(|c| E2M1[*c as usize]).collect())
        }
        Kind::CompressedMxfp6 => {
            let codes = random.codes(n * k, 6);
            let bytes: Vec<u8> = words(&packed(&codes, k, 6));
            add(&mut model, "a.weight_packed", "U8", &[n as u64, k as u64 / 4 * 3], bytes);
            let value = |c: &u32| {
                let (exponent, fraction) = (c >> 3 & 3, (c & 7) as f32 / 8.0);
                let size = match exponent {
                    0 => fraction,
                    e => (1.0 + fraction) * f32::from(1u8 << (e - 1)),
                };
                if c & 32 != 0 { -size } else { size }
            };
            ("a.weight_packed", codes.iter().map(value).collect())
        }
        _ => {
            let bytes = e4m3_without_nan(random, n * k);
            let codes = decoded("F8_E4M3", &bytes);
            add(&mut model, "a.weight", "F8_E4M3", &[n as u64, k as u64], bytes);
            ("a.weight", codes)
        }
    };
    let values = (0..n * k).map(|at| codes[at] * scales[at / 32]).collect();
    let required = vec![name, "a.weight_scale"];
    Made { kind, name: "a.weight", model, shape: vec![n as u64, k as u64], values, required }
}

fn ct_int(random: &mut Random) -> Made {
    let (n, k) = (1 + random.below(20) as usize, 1 + random.below(60) as usize);
    let g = 1 + random.below(20) as usize;
    let groups = k.div_ceil(g);
    let mut model = config(&format!(
        "{{\"quantization_config\":{{\"quant_method\":\"compressed-tensors\",\"config_groups\":{{\"g\":{{\"weights\":\
         {{\"num_bits\":8,\"type\":\"int\",\"strategy\":\"group\",\"group_size\":{g}}}}}}}}}}}"
    ));
    let bytes = random.bytes(n * k);
    let zeros = random.bytes(n * groups);
    let scales: Vec<f32> = (0..n * groups).map(|_| random.float()).collect();
    let cells = [n as u64, groups as u64];
    let scales = floats(&mut model, "a.weight_scale", "F32", &cells, &scales);
    add(&mut model, "a.weight_zero_point", "I8", &cells, zeros.clone());
    add(&mut model, "a.weight", "I8", &[n as u64, k as u64], bytes.clone());
    let values = (0..n * k).map(|at| {
        let cell = at / k * groups + at % k / g;
        (f32::from(bytes[at] as i8) - f32::from(zeros[cell] as i8)) * scales[cell]
    });
    let values = values.collect();
    let required = vec!["a.weight", "a.weight_scale"];
    Made {
        kind: Kind::CompressedInt,
        name: "a.weight",
        model,
        shape: vec![n as u64, k as u64],
        values,
        required,
    }
}

fn gpt_oss(random: &mut Random) -> Made {
    let (e, n, groups) =
        (1 + random.below(3) as usize, 1 + random.below(70) as usize, 1 + random.below(3) as usize);
    let k = groups * 32;
    let mut model = config("{\"quantization_config\":{\"quant_method\":\"mxfp4\"}}");
    let codes = random.codes(e * n * k, 4);
    let shape = [e as u64, n as u64, groups as u64];
    let blocks = [shape.to_vec(), vec![16]].concat();
    add(&mut model, "a.gate_up_proj_blocks", "U8", &blocks, pairs(&codes, false));
    let scale = e8m0(random, e * n * groups);
    let scales = decoded("F8_E8M0", &scale);
    add(&mut model, "a.gate_up_proj_scales", "U8", &shape, scale);
    floats(&mut model, "a.gate_up_proj_bias", "BF16", &[2], &[1.0, 2.0]);
    let stored: Vec<f32> =
        (0..e * n * k).map(|at| E2M1[codes[at] as usize] * scales[at / 32]).collect();
    let values = stored.chunks(n * k).flat_map(|expert| transposed(expert, n, k)).collect();
    let required = vec!["a.gate_up_proj_blocks", "a.gate_up_proj_scales"];
    let shape = vec![e as u64, k as u64, n as u64];
    Made { kind: Kind::GptOss, name: "a.gate_up_proj", model, shape, values, required }
}

fn bitnet(random: &mut Random) -> Made {
    let (slab, k) = (1 + random.below(20) as usize, 1 + random.below(40) as usize);
    let mut model = config("{\"quantization_config\":{\"quant_method\":\"bitnet\"}}");
    let bytes = random.bytes(slab * k);
    add(&mut model, "a.weight", "U8", &[slab as u64, k as u64], bytes.clone());
    let scale = floats(&mut model, "a.weight_scale", "BF16", &[1], &[random.float() + 2.0])[0];
    let values = (0..4 * slab * k).map(|at| {
        let code = bytes[at % (slab * k)] >> (2 * (at / (slab * k))) & 3;
        (f32::from(code) - 1.0) / scale
    });
    let values = values.collect();
    let required = vec!["a.weight", "a.weight_scale"];
    Made {
        kind: Kind::BitNet,
        name: "a.weight",
        model,
        shape: vec![4 * slab as u64, k as u64],
        values,
        required,
    }
}

fn hqq(random: &mut Random) -> Made {
    let (bits, per, packing) = [
        (8u32, 1usize, "8bit_u8"),
        (4, 2, "4bit_u8"),
        (2, 4, "2bit_u8"),
        (1, 8, "1bit_u8"),
        (3, 10, "3bit_32"),
    ][random.below(5) as usize];
    let axis = random.below(2) as usize;
    let g = 8 * (1 + random.below(4) as usize);
    let other = 8 * (1 + random.below(5) as usize);
    let (rows, columns) = if axis == 1 { (other, g) } else { (g, other) };
    let mut model = config("{\"quantization_config\":{\"quant_method\":\"hqq\"}}");
    let q = random.codes(rows * columns, bits);
    let step = rows.div_ceil(per);
    let mut fields = vec![0u32; step * columns];
    for (at, code) in q.iter().enumerate() {
        let (slab, row) = (at / columns / step, at / columns % step);
        let shift = if per == 10 { 27 - 3 * slab } else { (per - 1 - slab) * bits as usize };
        fields[row * columns + at % columns] |= code << shift;
    }
    let shape = [step as u64, columns as u64];
    match per {
        10 => add(&mut model, "a.W_q", "I32", &shape, words(&fields)),
        _ => add(&mut model, "a.W_q", "U8", &shape, fields.iter().map(|f| *f as u8).collect()),
    }
    let cells = if axis == 1 { [rows as u64, 1] } else { [1, columns as u64] };
    let some: Vec<f32> = (0..other).map(|_| random.float()).collect();
    let scales = floats(&mut model, "a.scale", "F32", &cells, &some);
    let some: Vec<f32> = (0..other).map(|_| random.float()).collect();
    let zeros = floats(&mut model, "a.zero", "F32", &cells, &some);
    let outer = [4u64, (rows * columns / 4) as u64];
    let bytes = |n: u64| (n as i64).to_le_bytes().to_vec();
    add(&mut model, "a.shape", "I64", &[2], [bytes(outer[0]), bytes(outer[1])].concat());
    for (name, value) in [("a.nbits", bits), ("a.axis", axis as u32), ("a.group_size", g as u32)] {
        add(&mut model, name, "I32", &[], words(&[value]));
    }
    add(&mut model, "a.packing", "U8", &[packing.len() as u64], packing.as_bytes().to_vec());
    let values = (0..rows * columns).map(|at| {
        let cell = if axis == 1 { at / columns } else { at % columns };
        (q[at] as f32 - zeros[cell]) * scales[cell]
    });
    let values = values.collect();
    let required = vec!["a.W_q", "a.scale", "a.zero", "a.shape", "a.nbits", "a.axis"];
    Made { kind: Kind::Hqq, name: "a.weight", model, shape: outer.to_vec(), values, required }
}

fn deepseek_v4(random: &mut Random) -> Made {
    let (n, k) = (1 + random.below(9) as usize, 32 * (1 + random.below(4) as usize));
    let mut model = config(
        "{\"model_type\":\"deepseek_v4\",\"quantization_config\":{\"quant_method\":\"fp8\",\"scale_fmt\":\"ue8m0\"}}",
    );
    let codes = random.codes(n * k, 4);
    add(&mut model, "a.weight", "I8", &[n as u64, k as u64 / 2], pairs(&codes, false));
    let scale = e8m0(random, n * k / 32);
    let scales = decoded("F8_E8M0", &scale);
    add(&mut model, "a.scale", "F8_E8M0", &[n as u64, k as u64 / 32], scale);
    let values = (0..n * k).map(|at| E2M1[codes[at] as usize] * scales[at / 32]).collect();
    let required = vec!["a.weight", "a.scale"];
    Made {
        kind: Kind::DeepSeekV4,
        name: "a.weight",
        model,
        shape: vec![n as u64, k as u64],
        values,
        required,
    }
}

fn comfy(random: &mut Random, kind: Kind) -> Made {
    let (n, k) = (1 + random.below(140) as usize, 32 * (1 + random.below(5) as usize));
    let mut model = Model::default();
    let shape = [n as u64, k as u64];
    let mut required = vec!["a.weight", "a.weight_scale"];
    let (format, values): (_, Vec<f32>) = match kind {
        Kind::ComfyInt8 => {
            let bytes = random.bytes(n * k);
            add(&mut model, "a.weight", "I8", &shape, bytes.clone());
            let some: Vec<f32> = (0..n).map(|_| random.float()).collect();
            let scales = floats(&mut model, "a.weight_scale", "F32", &[n as u64, 1], &some);
            (
                "int8_tensorwise",
                (0..n * k).map(|at| f32::from(bytes[at] as i8) * scales[at / k]).collect(),
            )
        }
        Kind::ComfyMxfp8 => {
            let bytes = e4m3_without_nan(random, n * k);
            let codes = decoded("F8_E4M3", &bytes);
            add(&mut model, "a.weight", "F8_E4M3", &shape, bytes);
            let scale = e8m0(random, n * (k / 32));
            let scales = decoded("F8_E8M0", &scale);
            let (rows, columns) = (n.next_multiple_of(128), (k / 32).next_multiple_of(4));
            let mut tiles = vec![0xffu8; rows * columns];
            for row in 0..n {
                for column in 0..k / 32 {
                    let tile = row / 128 * (columns / 4) + column / 4;
                    let at = tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
                    tiles[at] = scale[row * (k / 32) + column];
                }
            }
            add(&mut model, "a.weight_scale", "F8_E8M0", &[rows as u64, columns as u64], tiles);
            ("mxfp8", (0..n * k).map(|at| codes[at] * scales[at / 32]).collect())
        }
        _ => {
            let bytes = e4m3_without_nan(random, n * k);
            let codes = decoded("F8_E4M3", &bytes);
            add(&mut model, "a.weight", "F8_E4M3", &shape, bytes);
            required[1] = "a.scale_weight";
            let scale = floats(&mut model, "a.scale_weight", "F32", &[1], &[random.float()])[0];
            floats(&mut model, "a.scale_input", "F32", &[1], &[2.0]);
            add(&mut model, "scaled_fp8", "F8_E4M3", &[0], Vec::new());
            ("", codes.iter().map(|code| code * scale).collect())
        }
    };
    if !format.is_empty() {
        let json = format!("{{\"format\": \"{format}\"}}").into_bytes();
        add(&mut model, "a.comfy_quant", "U8", &[json.len() as u64], json);
    }
    Made { kind, name: "a.weight", model, shape: shape.to_vec(), values, required }
}

/// Returns one weight of each kind, with shapes that depend on the seed.
pub(crate) fn all(seed: u64) -> Vec<Made> {
    let random = &mut Random::new(seed);
    vec![
        fp8_block(random, false),
        fp8_block(random, true),
        fp8_rows(random),
        gptq(random),
        gptq(random),
        awq(random, false),
        awq(random, true),
        mlx(random),
        mlx(random),
        mlx_float(random),
        nvfp4(random, Kind::CompressedNvfp4),
        nvfp4(random, Kind::ModeloptNvfp4),
        nvfp4(random, Kind::ComfyNvfp4),
        bnb(random),
        bnb(random),
        ct_packed(random),
        ct_packed(random),
        ct_mx(random, Kind::CompressedMxfp4),
        ct_mx(random, Kind::CompressedMxfp6),
        ct_mx(random, Kind::CompressedMxfp8),
        ct_int(random),
        gpt_oss(random),
        bitnet(random),
        hqq(random),
        hqq(random),
        deepseek_v4(random),
        comfy(random, Kind::ComfyFp8),
        comfy(random, Kind::ComfyMxfp8),
        comfy(random, Kind::ComfyInt8),
    ]
}
