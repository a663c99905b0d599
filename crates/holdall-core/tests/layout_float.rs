//! Small floats, exhaustively, against another implementation and against the formula; bulk decoding of every type.

use half::{bf16, f16};
use holdall_core::layout::float::{check_bools, decode_f32, decode_f64, into_f32};
use holdall_core::{DType, LogicalType};
use microfloat::{
    f4e2m1fn, f6e2m3fn, f6e3m2fn, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0fnu,
};

fn decode(dtype: DType, logical: Option<&LogicalType>, bytes: &[u8]) -> Vec<f32> {
    let mut out = Vec::new();
    decode_f32(dtype, logical, bytes, |chunk| out.extend_from_slice(chunk)).unwrap();
    let mut wide = Vec::new();
    decode_f64(dtype, logical, bytes, |chunk| wide.extend_from_slice(chunk)).unwrap();
    let narrowed: Vec<f32> = wide.iter().map(|x| *x as f32).collect();
    same(&out, &narrowed);
    let mut into = vec![0.0; out.len()];
    into_f32(dtype, logical, bytes, &mut into).unwrap();
    same(&out, &into);
    out
}

/// Equal bit for bit, except for the payload of NaN.
#[track_caller]
fn same(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{i}: {a} and {b}");
    }
}

#[test]
fn small_floats_equal_another_implementation() {
    let all: Vec<u8> = (0..=255).collect();
    let check = |name: &str, theirs: fn(u8) -> f32| {
        let wanted: Vec<f32> = all.iter().map(|b| theirs(*b)).collect();
        same(&decode(DType::U8, Some(&LogicalType::from_name(name)), &all), &wanted);
    };
    check("f8_e4m3fn", |b| f8e4m3fn::from_bits(b).to_f32());
    check("f8_e5m2", |b| f8e5m2::from_bits(b).to_f32());
    check("f8_e4m3fnuz", |b| f8e4m3fnuz::from_bits(b).to_f32());
    check("f8_e5m2fnuz", |b| f8e5m2fnuz::from_bits(b).to_f32());
    check("f8_e8m0", |b| f8e8m0fnu::from_bits(b).to_f32());
    // Two elements per byte, low nibble first.
    let nibbles: Vec<f32> = all
        .iter()
        .flat_map(|b| [b & 15, b >> 4].map(|n| f4e2m1fn::from_bits(n).to_f32()))
        .collect();
    same(&decode(DType::U8, Some(&LogicalType::F4E2M1), &all), &nibbles);
    // Four elements in three bytes, low bits first: every element in every position.
    let codes: Vec<u8> = (0..256u32).map(|i| ((i * 37 + i / 64) % 64) as u8).collect();
    let mut packed = vec![0u8; codes.len() * 6 / 8];
    for (i, code) in codes.iter().enumerate() {
        for bit in 0..6 {
            packed[(i * 6 + bit) / 8] |= ((code >> bit) & 1) << ((i * 6 + bit) % 8);
        }
    }
    let e2m3: Vec<f32> = codes.iter().map(|c| f6e2m3fn::from_bits(*c).to_f32()).collect();
    same(&decode(DType::U8, Some(&LogicalType::F6E2M3), &packed), &e2m3);
    let e3m2: Vec<f32> = codes.iter().map(|c| f6e3m2fn::from_bits(*c).to_f32()).collect();
    same(&decode(DType::U8, Some(&LogicalType::F6E3M2), &packed), &e3m2);
}

#[test]
fn small_floats_follow_the_formula() {
    // (name, exponent bits, mantissa bits, bias)
    let kinds = [
        ("f8_e4m3fn", 4, 3, 7),
        ("f8_e5m2", 5, 2, 15),
        ("f8_e4m3fnuz", 4, 3, 8),
        ("f8_e5m2fnuz", 5, 2, 16),
    ];
    for (name, exponent_bits, mantissa_bits, bias) in kinds {
        let all: Vec<u8> = (0..=255).collect();
        let ours = decode(DType::U8, Some(&LogicalType::from_name(name)), &all);
        let mut special = 0;
        for (code, x) in all.iter().zip(ours) {
            if !x.is_finite() {
                special += 1;
                continue;
            }
            let sign = if code >> 7 == 1 { -1.0 } else { 1.0 };
            let exponent = i32::from(code >> mantissa_bits & ((1 << exponent_bits) - 1));
            let fraction =
                f64::from(code & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
            let wanted = if exponent == 0 {
                sign * fraction * 2f64.powi(1 - bias)
            } else {
                sign * (1.0 + fraction) * 2f64.powi(exponent - bias)
            };
            assert_eq!(f64::from(x), wanted, "{name} {code:#x}");
        }
        let wanted = match name {
            "f8_e5m2" => 8,
            "f8_e4m3fn" => 2,
            _ => 1,
        };
        assert_eq!(special, wanted, "{name}");
    }
    let one =
        |name: &str, code: u8| decode(DType::U8, Some(&LogicalType::from_name(name)), &[code])[0];
    assert_eq!(one("f8_e4m3fn", 0x7e), 448.0);
    assert_eq!(one("f8_e5m2", 0x7b), 57344.0);
    assert_eq!(one("f8_e5m2", 0xfc), f32::NEG_INFINITY);
    assert!(one("f8_e4m3fnuz", 0x80).is_nan() && one("f8_e5m2fnuz", 0x80).is_nan());
    assert_eq!(one("f8_e4m3fn", 0x80).to_bits(), (-0f32).to_bits());
    assert_eq!(one("f8_e8m0", 0), 2f32.powi(-127));
    assert_eq!(one("f8_e8m0", 254), 2f32.powi(127));
    assert!(one("f8_e8m0", 255).is_nan());
}

#[test]
fn every_half_is_exact() {
    let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let f: Vec<f32> = (0..=u16::MAX).map(|b| f16::from_bits(b).to_f32()).collect();
    same(&decode(DType::F16, None, &bytes), &f);
    let b: Vec<f32> = (0..=u16::MAX).map(|b| bf16::from_bits(b).to_f32()).collect();
    same(&decode(DType::Bf16, None, &bytes), &b);
}

#[test]
fn every_dtype_is_a_number() {
    // Enough elements to cross chunks.
    let n = 2500i64;
    macro_rules! check {
        ($dtype:ident, $t:ty) => {
            let values: Vec<$t> =
                (0..n).map(|i| i.wrapping_mul(0x1234_5678_9abc_def1) as $t).collect();
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            let mut out = Vec::new();
            decode_f32(DType::$dtype, None, &bytes, |c| {
                assert!(c.len() <= 1024);
                out.extend_from_slice(c);
            })
            .unwrap();
            same(&out, &values.iter().map(|x| *x as f32).collect::<Vec<_>>());
            let mut wide = Vec::new();
            decode_f64(DType::$dtype, None, &bytes, |c| wide.extend_from_slice(c)).unwrap();
            assert_eq!(wide, values.iter().map(|x| *x as f64).collect::<Vec<_>>());
        };
    }
    check!(F64, f64);
    check!(F32, f32);
    check!(I64, i64);
    check!(I32, i32);
    check!(I16, i16);
    check!(I8, i8);
    check!(U64, u64);
    check!(U32, u32);
    check!(U16, u16);
    check!(U8, u8);
    let bools: Vec<u8> = (0..n).map(|i| (i % 3 == 0).into()).collect();
    let wanted: Vec<f32> = bools.iter().map(|b| f32::from(*b)).collect();
    same(&decode(DType::Bool, None, &bools), &wanted);
}

#[test]
fn non_numeric_types_are_refused() {
    let fails = |dtype, logical: Option<LogicalType>, bytes: &[u8]| {
        let a = decode_f32(dtype, logical.as_ref(), bytes, |_| {}).unwrap_err();
        let b = decode_f64(dtype, logical.as_ref(), bytes, |_| {}).unwrap_err();
        assert_eq!(a.code(), b.code());
        a.code()
    };
    let complex = Some(LogicalType::Complex64);
    assert_eq!(fails(DType::F32, complex, &[0; 8]), "layout/not-a-number");
    // The values of an unknown type are unknown, whatever its storage type.
    for dtype in [DType::U8, DType::F32, DType::F64, DType::I64] {
        let other = Some(LogicalType::Other("new".into()));
        assert_eq!(fails(dtype, other, &[0; 8]), "layout/unknown-type");
    }
    assert_eq!(fails(DType::F32, None, &[0; 7]), "layout/length");
    assert_eq!(fails(DType::F64, None, &[0; 7]), "layout/length");
    assert_eq!(fails(DType::U8, Some(LogicalType::F6E2M3), &[0; 4]), "layout/length");
    assert_eq!(fails(DType::Bool, None, &[0, 1, 2]), "layout/bool-byte");
    let mut long = vec![1u8; 10_000];
    check_bools(&long).unwrap();
    long[5000] = 128;
    let e = check_bools(&long).unwrap_err();
    assert!(e.message().contains("element 5000 is the byte 128"), "{e}");
    let e = into_f32(DType::U8, None, &[1, 2, 3], &mut [0.0; 2]).unwrap_err();
    assert_eq!(e.code(), "layout/length");
    let e = into_f32(DType::U8, None, &[1, 2, 3], &mut [0.0; 4]).unwrap_err();
    assert_eq!(e.code(), "layout/length");
}
