//! Quantized groups: compared with packers written like those of GPTQ and AWQ, and every wrong length.

use half::f16;
use holdall_core::layout::Computed as _;
use holdall_core::layout::Decoded;
use holdall_core::layout::quantized::{Quantized, QuantizedParts};
use holdall_core::{Attributes, DType, Error, Limits, LogicalType, Value};
use proptest::prelude::*;

fn attributes(pairs: &[(&str, Value)]) -> Attributes {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect()
}

fn int(i: i64) -> Value {
    Value::Integer(i.into())
}

fn text(s: &str) -> Value {
    Value::Text(s.to_owned())
}

fn i32s(words: &[u32]) -> Decoded {
    Decoded::new(DType::I32, words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>())
}

fn f16s(values: &[f32]) -> Decoded {
    let bytes: Vec<u8> = values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect();
    Decoded::new(DType::F16, bytes)
}

fn parts(packed_weight: Decoded, scales: Decoded, zeros: Option<Decoded>) -> QuantizedParts {
    QuantizedParts { packed_weight, scales, zeros, g_idx: None }
}

/// Returns pseudo-random numbers below 2^bits.
fn numbers(count: usize, bits: u32) -> Vec<u32> {
    (0..count as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) & ((1 << bits) - 1)).collect()
}

/// Packs numbers one after the other into words, low bits first; no number spans two words.
fn pack_words(q: &[u32], bits: u32, word_bits: u32) -> Vec<u64> {
    q.chunks((word_bits / bits) as usize)
        .map(|c| c.iter().enumerate().map(|(i, q)| u64::from(*q) << (i as u32 * bits)).sum())
        .collect()
}

fn words_as_bytes(words: &[u64], width: usize) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()[..width].to_vec()).collect()
}

/// Packs one column like GPTQ's `pack`: 4 and 8 bits word by word; 3 bits as 32 values in 3 words, in which values 10
/// and 21 span two words.
fn gptq_column(q: &[u32], bits: u32) -> Vec<u32> {
    let mut words = Vec::new();
    let mut i = 0;
    while i < q.len() {
        if bits != 3 {
            let n = 32 / bits as usize;
            words.push((0..n).map(|j| q[i + j] << (bits * j as u32)).fold(0, |a, b| a | b));
            i += n;
            continue;
        }
        let run = |i: usize, shift: u32| {
            (0..10).fold(0u32, |w, j| w | (q[i + j] << (3 * j as u32 + shift)))
        };
        words.push(run(i, 0) | (q[i + 10] << 30));
        words.push(((q[i + 10] >> 2) & 1) | run(i + 11, 1) | (q[i + 21] << 31));
        words.push(((q[i + 21] >> 1) & 3) | run(i + 22, 2));
        i += 32;
    }
    words
}

/// Packs one row like AutoAWQ: element `order[i]` of eight goes to nibble `i`.
fn awq_row(q: &[u32]) -> Vec<u32> {
    let order = [0, 2, 4, 6, 1, 3, 5, 7];
    q.chunks(8)
        .map(|c| order.iter().enumerate().fold(0, |w, (i, &at)| w | (c[at] << (4 * i as u32))))
        .collect()
}

#[test]
fn flat_groups_in_words_of_any_type() {
    let (rows, columns, size) = (6, 32, 16);
    let count = rows * columns;
    for bits in [2u32, 4, 8] {
        let q = numbers(count, bits);
        let scales: Vec<f32> = (0..count / size).map(|g| 0.25 * (g as f32 + 1.0)).collect();
        let zeros: Vec<f32> = (0..count / size).map(|g| g as f32 * 0.5).collect();
        let words = [
            (DType::U8, 8),
            (DType::I16, 16),
            (DType::I32, 32),
            (DType::U32, 32),
            (DType::I64, 64),
        ];
        for (dtype, word_bits) in words {
            let bytes = words_as_bytes(&pack_words(&q, bits, word_bits), word_bits as usize / 8);
            let packing = format!("{}_per_{dtype}", word_bits / bits);
            for named in [true, false] {
                let mut a = attributes(&[("bits", int(bits.into())), ("group_size", int(16))]);
                if named {
                    a.set("packing", text(&packing));
                }
                let p =
                    parts(Decoded::new(dtype, bytes.clone()), f16s(&scales), Some(f16s(&zeros)));
                let view = Quantized::new(&[rows as u64, columns as u64], &a, p).unwrap();
                let wanted: Vec<f32> = (0..count)
                    .map(|k| (q[k] as f32 - zeros[k / size]) * scales[k / size])
                    .collect();
                assert_eq!(view.dequantize().unwrap(), wanted, "{packing}");
            }
        }
    }
}

#[test]
fn symmetric_groups_are_centred() {
    let q = numbers(16, 4);
    let a = attributes(&[("bits", int(4)), ("group_size", int(8)), ("packing", text("8_per_u32"))]);
    let bytes = words_as_bytes(&pack_words(&q, 4, 32), 4);
    let p = parts(Decoded::new(DType::U32, bytes.clone()), f16s(&[1.0, 2.0]), None);
    let wanted: Vec<f32> =
        (0..16).map(|k| (q[k] as f32 - 8.0) * if k < 8 { 1.0 } else { 2.0 }).collect();
    assert_eq!(Quantized::new(&[16], &a, p.clone()).unwrap().dequantize().unwrap(), wanted);
    let mut asymmetric = a.clone();
    asymmetric.set("sym", Value::Bool(false));
    let e = Quantized::new(&[16], &asymmetric, p).unwrap_err();
    assert_eq!(e.code(), "quantized/zeros");
    // A signed byte is its own zero-centred number.
    let a = attributes(&[("bits", int(8)), ("group_size", int(-1))]);
    let p = parts(Decoded::new(DType::I8, vec![0u8, 255, 127, 128]), f16s(&[0.5, 1.0]), None);
    let view = Quantized::new(&[2, 2], &a, p).unwrap();
    assert_eq!(view.dequantize().unwrap(), [0.0, -0.5, 127.0, -128.0]);
}

/// A GPTQ layer: columns packed down the rows, zero points minus 1 packed along the rows.
#[test]
fn gptq_checkpoints() {
    for (bits, packing) in
        [(2u32, "16_per_i32"), (3, "32_per_3_i32"), (4, "8_per_i32"), (8, "4_per_i32")]
    {
        let (rows, columns, size) = (64usize, 32usize, 32usize);
        let q = numbers(rows * columns, bits);
        let groups = rows / size;
        let zeros = numbers(groups * columns, bits);
        let scales: Vec<f32> = (0..groups * columns).map(|g| 0.125 * (g % 7 + 1) as f32).collect();
        let per_column: Vec<Vec<u32>> = (0..columns)
            .map(|j| gptq_column(&(0..rows).map(|i| q[i * columns + j]).collect::<Vec<_>>(), bits))
            .collect();
        let qweight: Vec<u32> =
            (0..per_column[0].len()).flat_map(|w| per_column.iter().map(move |c| c[w])).collect();
        let qzeros: Vec<u32> =
            zeros.chunks(columns).flat_map(|row| gptq_column(row, bits)).collect();
        let mut a = attributes(&[
            ("bits", int(bits.into())),
            ("group_size", int(size as i64)),
            ("packing", text(packing)),
            ("axis", int(0)),
            ("zero_offset", int(1)),
        ]);
        let mut p = parts(i32s(&qweight), f16s(&scales), Some(i32s(&qzeros)));
        let shape = [rows as u64, columns as u64];
        let wanted = |group: &dyn Fn(usize) -> usize| -> Vec<f32> {
            (0..rows * columns)
                .map(|k| {
                    let g = group(k / columns) * columns + k % columns;
                    (q[k] as f32 - (zeros[g] as f32 + 1.0)) * scales[g]
                })
                .collect()
        };
        let view = Quantized::new(&shape, &a, p.clone()).unwrap();
        assert_eq!(view.dequantize().unwrap(), wanted(&|i| i / size), "{bits} bits");
        // Act-order: rows belong to groups in any order.
        let g_idx: Vec<u32> = (0..rows as u32).map(|i| i * 7 % groups as u32).collect();
        p.g_idx = Some(i32s(&g_idx));
        let view = Quantized::new(&shape, &a, p.clone()).unwrap();
        assert_eq!(view.dequantize().unwrap(), wanted(&|i| g_idx[i] as usize), "{bits} bits");
        a.remove("packing");
        let view = Quantized::new(&shape, &a, p.clone()).unwrap();
        assert_eq!(view.packing().elements(), if bits == 3 { 32 } else { 32 / u64::from(bits) });
        assert_eq!(view.dequantize().unwrap(), wanted(&|i| g_idx[i] as usize), "{bits} bits");
        a.remove("axis");
        assert_eq!(Quantized::new(&shape, &a, p).unwrap_err().code(), "quantized/group-index");
    }
}

#[test]
fn awq_checkpoints() {
    let (rows, columns, size) = (16usize, 24usize, 8usize);
    let q = numbers(rows * columns, 4);
    let zeros = numbers(rows / size * columns, 4);
    let scales: Vec<f32> = (0..rows / size * columns).map(|g| 0.5 + g as f32).collect();
    let pack = |all: &[u32]| -> Vec<u32> { all.chunks(columns).flat_map(awq_row).collect() };
    let wanted: Vec<f32> = (0..rows * columns)
        .map(|k| {
            let g = k / columns / size * columns + k % columns;
            (q[k] as f32 - zeros[g] as f32) * scales[g]
        })
        .collect();
    let base = [("bits", int(4)), ("group_size", int(8)), ("axis", int(0))];
    for extra in [
        vec![("order", text("awq")), ("packing", text("8_per_i32"))],
        vec![("order", text("awq"))],
        vec![("packing", text("8_per_i32_awq"))],
    ] {
        let a = attributes(&[base.to_vec(), extra].concat());
        let p = parts(i32s(&pack(&q)), f16s(&scales), Some(i32s(&pack(&zeros))));
        let view = Quantized::new(&[rows as u64, columns as u64], &a, p).unwrap();
        assert_eq!(view.dequantize().unwrap(), wanted);
    }
}

#[test]
fn zero_points_may_be_unpacked_integers() {
    let q = numbers(32, 4);
    let a = attributes(&[("bits", int(4)), ("group_size", int(8)), ("zero_offset", int(2))]);
    let bytes = words_as_bytes(&pack_words(&q, 4, 32), 4);
    let zeros = Decoded::new(DType::I8, vec![1u8, 255, 0, 7]);
    let p = parts(Decoded::new(DType::I32, bytes), f16s(&[1.0; 4]), Some(zeros));
    let found = Quantized::new(&[4, 8], &a, p).unwrap().dequantize().unwrap();
    let zeros = [3.0, 1.0, 2.0, 9.0];
    let wanted: Vec<f32> = (0..32).map(|k| q[k] as f32 - zeros[k / 8]).collect();
    assert_eq!(found, wanted);
}

#[test]
fn scales_may_be_of_any_float_type() {
    let a = attributes(&[("bits", int(4)), ("group_size", int(4)), ("packing", text("2_per_u8"))]);
    let e8m0 = Decoded {
        logical_type: Some(LogicalType::F8E8M0),
        ..Decoded::new(DType::U8, vec![126u8, 128])
    };
    let p = parts(Decoded::new(DType::U8, vec![0x98u8, 0x88, 0x97, 0x80]), e8m0, None);
    let found = Quantized::new(&[8], &a, p).unwrap().dequantize().unwrap();
    assert_eq!(found, [0.0, 0.5, 0.0, 0.0, -2.0, 2.0, -16.0, 0.0]);
}

fn plain() -> (Attributes, QuantizedParts) {
    let a = attributes(&[("bits", int(4)), ("group_size", int(8)), ("packing", text("8_per_i32"))]);
    (a, parts(i32s(&[0; 4]), f16s(&[1.0; 4]), Some(f16s(&[0.0; 4]))))
}

#[test]
fn mismatched_components_are_refused() {
    let (a, p) = plain();
    assert!(Quantized::new(&[4, 8], &a, p.clone()).is_ok());
    let code = |shape: &[u64], a: &Attributes, p: QuantizedParts| {
        Quantized::new(shape, a, p).map(drop).unwrap_err().code()
    };
    let with = |key: &str, value: Value| {
        let mut a = a.clone();
        a.set(key, value);
        code(&[4, 8], &a, p.clone())
    };
    let without = |key: &str| {
        let mut a = a.clone();
        a.remove(key);
        code(&[4, 8], &a, p.clone())
    };
    assert_eq!(without("bits"), "quantized/attribute");
    assert_eq!(without("group_size"), "quantized/attribute");
    for bits in [0, -4, i64::MIN] {
        assert_eq!(with("bits", int(bits)), "quantized/attribute");
    }
    // The elements do not fit, whatever the type is.
    for bits in [9, 64, i64::MAX] {
        assert_eq!(with("bits", int(bits)), "quantized/counts");
    }
    let (mut wide, mut roomy) = (a.clone(), p.clone());
    wide.set("bits", int(16));
    roomy.packed_weight = Decoded::new(DType::I32, vec![0; 64]);
    assert_eq!(code(&[4, 8], &wide, roomy), "quantized/bits");
    assert_eq!(with("bits", text("four")), "quantized/attribute");
    assert_eq!(with("group_size", int(0)), "quantized/attribute");
    assert_eq!(with("group_size", int(-2)), "quantized/attribute");
    assert_eq!(with("group_size", Value::Bool(true)), "quantized/attribute");
    assert_eq!(with("group_size", int(16)), "quantized/counts");
    assert_eq!(with("sym", int(3)), "quantized/attribute");
    for packing in [
        "",
        "marlin",
        "8per_i32",
        "8_per_",
        "_per_i32",
        "8_per_f32",
        "99999999999999999999_per_i32",
        "65_per_65_i32",
        "8_per_1_2_i32",
        "6_per_i32_awq",
    ] {
        assert_eq!(with("packing", text(packing)), "quantized/packing", "{packing}");
    }
    // The attributes are well-formed, but contradict the components.
    for packing in
        ["8_per_i64", "9_per_i32", "0_per_i32", "8_per_0_i32", "18446744073709551615_per_i32"]
    {
        assert_eq!(with("packing", text(packing)), "quantized/fit", "{packing}");
    }
    assert_eq!(with("bits", int(8)), "quantized/fit");
    assert_eq!(with("packing", text("4_per_i32")), "quantized/counts");
    assert_eq!(with("packing", int(8)), "quantized/attribute");
    assert_eq!(with("order", text("marlin")), "quantized/packing");
    for axis in [2, -3, i64::MAX, i64::MIN] {
        assert_eq!(with("axis", int(axis)), "quantized/attribute");
    }
    assert_eq!(
        code(
            &[2, 2, 8],
            &{
                let mut a = a.clone();
                a.set("axis", int(0));
                a
            },
            p.clone()
        ),
        "quantized/axis"
    );
    assert_eq!(code(&[5, 8], &a, p.clone()), "quantized/counts");
    assert_eq!(code(&[u64::MAX, 8], &a, p.clone()), "layout/length");
    assert_eq!(code(&[u64::MAX], &a, p.clone()), "quantized/counts");
    let set = |change: &dyn Fn(&mut QuantizedParts)| {
        let mut p = p.clone();
        change(&mut p);
        let e = Quantized::new(&[4, 8], &a, p).map(drop).unwrap_err();
        (e.code(), e.component().map(str::to_owned))
    };
    let at = |code, component: &str| (code, Some(component.to_owned()));
    assert_eq!(set(&|p| p.packed_weight = i32s(&[0; 5])), at("quantized/counts", "packed_weight"));
    assert_eq!(set(&|p| p.packed_weight.dtype = DType::F32).0, "quantized/packing");
    assert_eq!(set(&|p| p.scales = f16s(&[1.0; 3])), at("quantized/counts", "scales"));
    assert_eq!(set(&|p| p.scales = f16s(&[1.0; 5])), at("quantized/counts", "scales"));
    assert_eq!(set(&|p| p.zeros = Some(f16s(&[1.0; 3]))), at("quantized/counts", "zeros"));
    assert_eq!(set(&|p| p.zeros = Some(i32s(&[1; 3]))), at("quantized/counts", "zeros"));
    let bools = Decoded::new(DType::Bool, vec![0; 4]);
    assert_eq!(set(&|p| p.zeros = Some(bools.clone())), at("quantized/zeros", "zeros"));
    assert_eq!(set(&|p| p.g_idx = Some(i32s(&[0; 4]))).0, "quantized/group-index");
    let mut down = a.clone();
    down.set("axis", int(0));
    down.set("group_size", int(4));
    let p = |g_idx: Decoded| QuantizedParts {
        packed_weight: i32s(&[0; 4]),
        scales: f16s(&[1.0; 8]),
        zeros: None,
        g_idx: Some(g_idx),
    };
    assert!(Quantized::new(&[8, 4], &down, p(i32s(&[0, 0, 0, 0, 1, 1, 1, 1]))).is_ok());
    for bad in
        [i32s(&[0; 7]), i32s(&[0, 0, 0, 0, 0, 0, 0, 2]), i32s(&[u32::MAX; 8]), f16s(&[0.0; 8])]
    {
        assert_eq!(code(&[8, 4], &down, p(bad)), "quantized/group-index");
    }
}

#[test]
fn empty_and_uneven_shapes() {
    let a = attributes(&[("bits", int(4)), ("group_size", int(8)), ("axis", int(0))]);
    let none = || parts(i32s(&[]), f16s(&[]), None);
    for shape in [[0, 5], [5, 0], [0, 1 << 60], [1 << 60, 0]] {
        let view = Quantized::new(&shape, &a, none()).unwrap();
        assert_eq!(view.dequantize().unwrap(), [0f32; 0]);
    }
    // 5 × 3 down the rows: one line of words and one group, neither of them full.
    let q = numbers(15, 4);
    let words: Vec<u32> =
        (0..3).map(|j| (0..5).fold(0, |w, i| w | (q[i * 3 + j] << (4 * i as u32)))).collect();
    let p = parts(i32s(&words), f16s(&[1.0, 2.0, 3.0]), None);
    let view = Quantized::new(&[5, 3], &a, p).unwrap();
    let wanted: Vec<f32> = (0..15).map(|k| (q[k] as f32 - 8.0) * (k % 3 + 1) as f32).collect();
    assert_eq!(view.dequantize().unwrap(), wanted);
    // Flat: 15 elements in two words, groups of 4.
    let a = attributes(&[("bits", int(4)), ("group_size", int(4))]);
    let bytes = words_as_bytes(&pack_words(&q, 4, 32), 4);
    let p = parts(Decoded::new(DType::I32, bytes), f16s(&[1.0, 2.0, 3.0, 4.0]), None);
    let view = Quantized::new(&[5, 3], &a, p).unwrap();
    let wanted: Vec<f32> = (0..15).map(|k| (q[k] as f32 - 8.0) * (k / 4 + 1) as f32).collect();
    assert_eq!(view.dequantize().unwrap(), wanted);
    let d = view.to_dense(&Limits::default()).unwrap();
    assert_eq!((d.shape(), d.to_vec::<f32>().unwrap()), (&[5u64, 3][..], wanted));
    let mut limits = Limits::default();
    limits.decoded_len = 59;
    assert_eq!(view.to_dense(&limits).unwrap_err().code(), "layout/dense-limit");
}

fn any_layout() -> impl Strategy<Value = (Vec<u64>, Attributes, QuantizedParts)> {
    let shape = (1..20u64, 1..20u64);
    let axis = prop::option::of(-2..2i64);
    (1..=8i64, 1..12i64, shape, axis, prop::option::of(-2..2i64), any::<u32>()).prop_map(
        |(bits, group_size, (rows, columns), axis, pack_axis, seed)| {
            let mut a = attributes(&[("bits", int(bits)), ("group_size", int(group_size))]);
            axis.iter().for_each(|axis| a.set("axis", int(*axis)));
            pack_axis.iter().for_each(|axis| a.set("pack_axis", int(*axis)));
            let down = |axis: Option<i64>| matches!(axis, Some(0 | -2));
            let lcm_words = (1..=bits).find(|w| w * 32 % bits == 0).unwrap() as u64;
            let per = lcm_words * 32 / bits as u64;
            let words = if down(pack_axis.or(axis)) {
                rows.div_ceil(per) * lcm_words * columns
            } else {
                (rows * columns).div_ceil(per) * lcm_words
            };
            let groups = if down(axis) {
                rows.div_ceil(group_size as u64) * columns
            } else {
                (rows * columns).div_ceil(group_size as u64)
            };
            let words: Vec<u32> = (0..words as u32)
                .map(|i| seed.wrapping_add(i).wrapping_mul(2_654_435_761).rotate_left(i % 31))
                .collect();
            let scales: Vec<f32> = (0..groups).map(|g| (g % 9) as f32 - 4.0).collect();
            (vec![rows, columns], a, parts(i32s(&words), f16s(&scales), None))
        },
    )
}

fn any_attributes() -> impl Strategy<Value = Attributes> {
    let number = prop_oneof![-3..20i64, any::<i64>()].prop_map(int);
    let name = prop::sample::select(vec![
        "8_per_i32",
        "32_per_3_i32",
        "2_per_u8",
        "1_per_i8",
        "8_per_i32_awq",
        "16_per_i64",
        "x",
    ]);
    let value = prop_oneof![
        4 => number,
        1 => prop::sample::select(vec!["awq", "4", "true"]).prop_map(text),
        1 => name.prop_map(text),
        1 => any::<bool>().prop_map(Value::Bool),
    ];
    let keys =
        ["bits", "group_size", "packing", "axis", "pack_axis", "order", "sym", "zero_offset"];
    let extra = (prop::sample::select(keys.to_vec()), value);
    let base = (1..9i64, 1..9i64);
    (base, prop::collection::vec(extra, 0..3)).prop_map(|((bits, size), extra)| {
        let mut a = attributes(&[("bits", int(bits)), ("group_size", int(size))]);
        extra.into_iter().for_each(|(key, value)| a.set(key, value));
        a
    })
}

fn any_component() -> impl Strategy<Value = Decoded> {
    let dtype = prop::sample::select(&DType::ALL[..]);
    (dtype, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(d, bytes)| Decoded::new(d, bytes))
}

proptest! {
    #[test]
    fn anything_is_survived(
        shape in prop::collection::vec(prop_oneof![4 => 0..6u64, 1 => any::<u64>()], 0..4),
        a in any_attributes(),
        [packed_weight, scales] in [any_component(), any_component()],
        [zeros, g_idx] in [prop::option::of(any_component()), prop::option::of(any_component())],
    ) {
        let p = QuantizedParts { packed_weight, scales, zeros, g_idx };
        if let Ok(view) = Quantized::new(&shape, &a, p) {
            prop_assert_eq!(view.dequantize().unwrap().len() as u64, view.count());
        }
    }

    #[test]
    fn any_range_equals_the_whole(
        (shape, a, p) in any_layout(), from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
    ) {
        let view = Quantized::new(&shape, &a, p).unwrap();
        let whole = view.dequantize().unwrap();
        prop_assert_eq!(whole.len() as u64, shape.iter().product::<u64>());
        let (from, to) = (from.index(whole.len() + 1), to.index(whole.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        let mut out = vec![f32::NAN; to - from];
        view.dequantize_range(from as u64..to as u64, &mut out).unwrap();
        prop_assert_eq!(&out[..], &whole[from..to]);
        let e: Error = view.dequantize_range(0..whole.len() as u64 + 1, &mut out).unwrap_err();
        prop_assert_eq!(e.code(), "layout/rows");
        let mut long = vec![0.0; to - from + 1];
        let e = view.dequantize_range(from as u64..to as u64, &mut long).unwrap_err();
        prop_assert_eq!(e.code(), "layout/length");
    }
}
