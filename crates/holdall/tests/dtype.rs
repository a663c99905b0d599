//! Conversions into other float types: which tensors change, what overflows, what stays shared.

use crate::count::Count;
use holdall::{
    Cast, Convert, ConvertReport, DType, EncodeOptions, Error, ErrorKind, File, FloatType, Layout,
    LogicalType, OpenOptions, Overflow, Role, Select, Sharing, TensorSpec, Value, WriteOptions,
    Writer, convert, convert_to, formats,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn target(format: &str) -> WriteOptions {
    WriteOptions::new().with_format(formats::by_name(format).unwrap()).with_overwrite(true)
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn made(options: &WriteOptions, tensors: &[(TensorSpec, Vec<u8>)]) -> File {
    let mut writer = Writer::stream(Vec::new(), options).unwrap();
    for (spec, bytes) in tensors {
        writer.add(spec.clone(), &[bytes]).unwrap();
    }
    OpenOptions::new().open_bytes(writer.finish().unwrap(), "made").unwrap()
}

fn dense(name: &str, dtype: DType, bytes: Vec<u8>) -> (TensorSpec, Vec<u8>) {
    (TensorSpec::dense(name, dtype, [bytes.len() as u64 / dtype.width()]), bytes)
}

/// Returns weights, a norm of ones, and tensors that are not floats.
fn model() -> File {
    let weights = [0.1, -2.5, 70_000.0, 1e-30, f32::NAN, f32::INFINITY, -0.0, 464.1];
    made(
        &target("ztensor"),
        &[
            dense("a.weight", DType::F32, f32s(&weights)),
            dense("a.norm", DType::F32, f32s(&[1.0, 2.0])),
            dense("b.double", DType::F64, 1.0f64.to_le_bytes().to_vec()),
            dense("ids", DType::I64, vec![0; 16]),
            dense("mask", DType::Bool, vec![0, 1]),
        ],
    )
}

fn rules(rules: &[&str]) -> Vec<Cast> {
    rules.iter().map(|r| Cast::new(r).unwrap()).collect()
}

fn cast(file: &File, options: Convert) -> Result<(ConvertReport, File), Error> {
    let (report, bytes) = convert_to(file, Vec::new(), &options)?;
    Ok((report, OpenOptions::new().open_bytes(bytes, "cast").unwrap()))
}

fn types(file: &File) -> Vec<(String, String)> {
    let text = |t: holdall::Tensor| {
        let of = t.logical_type().map(|t| t.to_string());
        (t.name().to_owned(), of.unwrap_or(t.dtype().unwrap().to_string()))
    };
    let mut all: Vec<_> = file.tensors().map(text).collect();
    all.sort();
    all
}

fn bytes(file: &File, name: &str) -> Vec<u8> {
    file.tensor(name).unwrap().bytes(&Role::Data).unwrap().to_vec()
}

#[test]
fn floats_are_rounded_and_others_unchanged() {
    let file = model();
    for format in ["ztensor", "metatensor", "safetensors"] {
        let options = Convert::new(target(format)).with_dtype(FloatType::Bf16);
        let (report, out) = cast(&file, options).unwrap();
        let expected = [
            ("a.norm", "bf16"),
            ("a.weight", "bf16"),
            ("b.double", "bf16"),
            ("ids", "i64"),
            ("mask", "bool"),
        ];
        assert_eq!(types(&out), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        let codes: [u16; 8] = [0x3dcd, 0xc020, 0x4789, 0xda2, 0x7fc0, 0x7f80, 0x8000, 0x43e8];
        assert_eq!(bytes(&out, "a.weight"), codes.map(u16::to_le_bytes).concat());
        assert_eq!((report.cast, report.overflowed), (3, 0));
        assert_eq!(report.tensors, 5);
        assert!(holdall::verify(&out, &holdall::VerifyOptions::new()).unwrap().is_sound());
    }
}

#[test]
fn overflow_is_counted_and_can_saturate() {
    let file = model();
    let of = |to, overflow| {
        let options = Convert::new(target("ztensor")).with_dtype(to).with_overflow(overflow);
        let (report, out) = cast(&file, options).unwrap();
        let places: Vec<_> = report.overflows.iter().map(|o| (o.name.clone(), o.count)).collect();
        assert_eq!(report.overflowed, places.iter().map(|p| p.1).sum::<u64>());
        (places, bytes(&out, "a.weight"))
    };
    let at = |name: &str, count| vec![(name.to_owned(), count)];
    let (places, codes) = of(FloatType::F16, Overflow::Infinite);
    assert_eq!((places, &codes[4..6]), (at("a.weight", 1), &[0x00, 0x7c][..]));
    let (places, codes) = of(FloatType::F16, Overflow::Saturate);
    // An infinity stays one.
    assert_eq!((places, &codes[4..6]), (at("a.weight", 1), &[0xff, 0x7b][..]));
    assert_eq!(codes[10..12], [0x00, 0x7c]);
    let (places, codes) = of(FloatType::F8E4M3Fn, Overflow::Infinite);
    // 70000, the infinity, and 464.1, which is nearer to 480 than to 448.
    assert_eq!(
        (places, codes),
        (at("a.weight", 3), vec![0x1d, 0xc2, 0x7f, 0, 0x7f, 0x7f, 0x80, 0x7f])
    );
    let (places, codes) = of(FloatType::F8E4M3Fn, Overflow::Saturate);
    assert_eq!(
        (places, codes),
        (at("a.weight", 3), vec![0x1d, 0xc2, 0x7e, 0, 0x7f, 0x7e, 0x80, 0x7e])
    );
    let (places, codes) = of(FloatType::F8E5M2, Overflow::Infinite);
    assert_eq!(
        (places, codes),
        (at("a.weight", 1), vec![0x2e, 0xc1, 0x7c, 0, 0x7e, 0x7c, 0x80, 0x5f])
    );
}

#[test]
fn the_first_pattern_counts_before_the_rule_for_all() {
    let file = model();
    let of = |given: &[&str]| {
        let options = Convert::new(target("ztensor")).with_dtypes(rules(given));
        cast(&file, options).map(|(report, out)| {
            let types = types(&out).into_iter().take(3).map(|t| t.1).collect::<Vec<_>>();
            (report.cast, types)
        })
    };
    let is = |count, types: [&str; 3]| (count, types.map(str::to_owned).to_vec());
    assert_eq!(of(&["f16", "*.norm=keep"]).unwrap(), is(2, ["f32", "f16", "f16"]));
    assert_eq!(of(&["a.*=bf16", "*.norm=f64"]).unwrap(), is(2, ["bf16", "bf16", "f64"]));
    assert_eq!(of(&["*=f8_e5m2fnuz"]).unwrap(), is(3, ["f8_e5m2fnuz"; 3]));
    assert_eq!(of(&["a.norm=f8_e4m3fnuz"]).unwrap(), is(1, ["f8_e4m3fnuz", "f32", "f64"]));
    // Tensors with that type already are copied unchanged.
    assert_eq!(of(&["f32"]).unwrap(), is(1, ["f32"; 3]));
    for (given, code, text) in [
        (&["f16", "bf16"][..], "convert/cast-rule", "`f16` and `bf16` are both given"),
        (&["mask=f16"], "convert/not-cast", "elements of bool are not converted to f16"),
        (&["i?s=f16", "ids=f32"], "", ""),
        (&["ids=f32"], "convert/not-cast", "elements of i64 are not converted to f32"),
        (&["a.wieght=f32"], "select/nothing", "`a.wieght` matches none of 5 tensors"),
        (&["c.*=f32"], "select/nothing", "`c.*` matches none of 5 tensors"),
    ] {
        match of(given) {
            Ok(_) => assert_eq!(code, ""),
            Err(e) => {
                assert_eq!(e.code(), code);
                assert!(e.to_string().contains(text), "{e}");
            }
        }
    }
    for rule in ["i8", "a=f33", "", "a=", "[=f32"] {
        assert_eq!(Cast::new(rule).unwrap_err().kind(), ErrorKind::Misuse, "{rule}");
    }
    // A name may contain pattern characters and `=`.
    let odd = made(&target("ztensor"), &[dense("a[=*", DType::F32, f32s(&[1.0]))]);
    let options = Convert::new(target("ztensor")).with_dtypes(rules(&["a\\[=\\*=f16"]));
    assert_eq!(cast(&odd, options).unwrap().0.cast, 1);
}

#[test]
fn large_and_compressed_tensors_go_piece_by_piece() {
    let dir = tempfile::tempdir().unwrap();
    // More than one piece, in several frames if compressed; not a multiple of either.
    let values: Vec<f32> = (0..2_500_003u32).map(|i| (i % 4099) as f32 / 7.0 - 200.0).collect();
    let plain = [
        dense("big", DType::F32, f32s(&values)),
        dense("small", DType::F32, f32s(&values[..1000])),
        dense("none", DType::F32, Vec::new()),
    ];
    let halves: Vec<u8> =
        values.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect();
    for zstd in [false, true] {
        let options = if zstd { target("ztensor").with_zstd(1) } else { target("ztensor") };
        let file = made(&options, &plain);
        let count = Arc::new(Count::default());
        let convert_options =
            Convert::new(target("ztensor")).with_dtype(FloatType::F16).with_work(count.work());
        let path = dir.path().join("out.zt");
        let report = convert(&file, &path, &convert_options).unwrap();
        assert_eq!(report.decoded_len, 2 * (2_500_003 + 1000));
        assert_eq!(count.total.load(Ordering::Relaxed), report.decoded_len);
        assert_eq!(count.done.load(Ordering::Relaxed), report.decoded_len);
        let out = holdall::open(&path).unwrap();
        assert_eq!(bytes(&out, "big"), halves);
        assert_eq!(bytes(&out, "small"), halves[..2000]);
        assert_eq!(out.tensor("none").unwrap().dtype(), Some(DType::F16));
        // Re-encoded: compressed if requested.
        let options = Convert::new(target("ztensor").with_zstd(1)).reencode();
        let (_, again) = cast(&file, options.with_dtype(FloatType::F16)).unwrap();
        assert_eq!(bytes(&again, "big"), halves);
    }
}

#[test]
fn damage_is_found_on_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.zt");
    let mut writer = Writer::create(&path, &target("ztensor")).unwrap();
    writer.add(TensorSpec::dense("w", DType::F32, [1000]), &[&[7; 4000]]).unwrap();
    writer.finish().unwrap();
    let at = holdall::open(&path).unwrap().tensor("w").unwrap().component(&Role::Data).unwrap();
    let mut all = std::fs::read(&path).unwrap();
    all[at.stored.start as usize + 17] ^= 1;
    std::fs::write(&path, all).unwrap();
    let options = Convert::new(target("ztensor")).with_dtype(FloatType::F16);
    let e = convert(&holdall::open(&path).unwrap(), dir.path().join("b.zt"), &options).unwrap_err();
    assert_eq!((e.kind(), e.tensor()), (ErrorKind::Integrity, Some("w")));
    assert!(!dir.path().join("b.zt").exists());
}

#[test]
fn tied_tensors_stay_tied_where_they_become_the_same() {
    let (values, other) = (f32s(&[1.5; 300]), f32s(&[2.5; 300]));
    let tensors = [("a", &values), ("b", &values), ("c", &other)];
    let tensors = tensors.map(|(name, bytes)| dense(name, DType::F32, bytes.clone()));
    let plain = made(&target("ztensor"), &tensors);
    let all = |sharing| Convert::new(target("ztensor")).with_sharing(sharing);
    let tied = cast(&plain, all(Sharing::Dedupe)).unwrap().1;
    for format in ["ztensor", "safetensors"] {
        let to = |given: &[&str], sharing| {
            Convert::new(target(format)).with_dtypes(rules(given)).with_sharing(sharing)
        };
        for (file, given, sharing, shared) in [
            (&tied, &["f16"][..], Sharing::Keep, 1),
            (&tied, &["f16"], Sharing::Copy, 0),
            (&tied, &["a=f16", "b=bf16"], Sharing::Keep, 0),
            (&tied, &["a=f16"], Sharing::Keep, 0),
            (&plain, &["f16"], Sharing::Keep, 0),
            (&plain, &["f16"], Sharing::Dedupe, 1),
            (&plain, &["a=f16", "b=bf16"], Sharing::Dedupe, 0),
        ] {
            let (report, out) = cast(file, to(given, sharing)).unwrap();
            assert_eq!(report.shared, shared, "{format} {given:?} {sharing:?}");
            if given == ["f16"] {
                let expected = half::f16::from_f32(1.5).to_le_bytes().repeat(300);
                assert_eq!((bytes(&out, "a"), bytes(&out, "b")), (expected.clone(), expected));
            }
        }
    }
    // Deduplicated by the converted bytes, too: pieces of both end at different offsets.
    let long = vec![1.0f32; 3 << 20];
    let doubles: Vec<u8> = long.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect();
    let tensors = [dense("s", DType::F32, f32s(&long)), dense("d", DType::F64, doubles)];
    let file = made(&target("ztensor"), &tensors);
    let options = all(Sharing::Dedupe).with_dtype(FloatType::Bf16);
    assert_eq!(cast(&file, options).unwrap().0.shared, 1);
}

fn accept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept").join(name)
}

#[test]
fn sparse_and_quantized_tensors_are_converted_when_they_are_written_dense() {
    for (name, tensor) in [("v1.2-sparse.zt", "csr_f32"), ("v1.2-quantized.zt", "*")] {
        let file = holdall::open(accept("ztensor").join(name)).unwrap();
        let select = Select::new(&[tensor], &[]).unwrap();
        let options =
            Convert::new(target("ztensor")).with_select(select).with_dtype(FloatType::Bf16);
        let (report, out) = cast(&file, options.clone()).unwrap();
        assert_eq!((report.cast, out.tensors().all(|t| *t.layout() != Layout::Dense)), (0, true));
        let name = out.tensors().next().unwrap().name().to_owned();
        let by_name = vec![Cast::new(&format!("{name}=f16")).unwrap()];
        let e = cast(&file, options.clone().with_dtypes(by_name)).unwrap_err();
        assert_eq!((e.code(), e.tensor()), ("convert/not-cast", Some(name.as_str())));
        assert_eq!(e.remedies(), [holdall::Remedy::MakeDense]);
        let (report, out) = cast(&file, options.with_dense()).unwrap();
        assert_eq!(report.cast, report.tensors);
        for t in out.tensors() {
            assert_eq!((t.layout(), t.dtype()), (&Layout::Dense, Some(DType::Bf16)));
            let wide = file.tensor(t.name()).unwrap().to_dense().unwrap();
            let wide = wide.bytes().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b));
            let quiet = |x: f32| if x.is_nan() { f32::NAN.copysign(x) } else { x };
            let expected: Vec<u8> =
                wide.flat_map(|x| half::bf16::from_f32(quiet(x)).to_le_bytes()).collect();
            assert_eq!(t.bytes(&Role::Data).unwrap(), expected);
        }
    }
}

#[test]
fn logical_types_are_converted_by_their_meaning() {
    let file = holdall::open(accept("ztensor/made-1.2-logical_types.zt")).unwrap();
    let options = Convert::new(target("ztensor"));
    let (_, out) = cast(&file, options.clone().with_dtype(FloatType::F32)).unwrap();
    for t in file.tensors() {
        let after = out.tensor(t.name()).unwrap();
        match FloatType::from_dtype(t.dtype().unwrap(), t.logical_type().as_ref()) {
            Some(_) => {
                assert_eq!((after.dtype(), after.logical_type()), (Some(DType::F32), None));
                let (mut a, mut b) = (vec![0.0; t.count() as usize], vec![0.0; t.count() as usize]);
                for (t, to) in [(&t, &mut a), (&after, &mut b)] {
                    let bytes = t.bytes(&Role::Data).unwrap();
                    let logical = t.logical_type();
                    let dtype = t.dtype().unwrap();
                    holdall::layout::into_f32(dtype, logical.as_ref(), &bytes, to).unwrap();
                }
                assert!(a.iter().zip(&b).all(|(a, b)| a == b || (a.is_nan() && b.is_nan())));
            }
            None => {
                assert_eq!(after.logical_type(), t.logical_type(), "{}", t.name());
                let by_name = vec![Cast::new(&format!("{}=f16", t.name())).unwrap()];
                let done = cast(&file, options.clone().with_dtypes(by_name));
                // Scales and packed floats are numbers; complex and unknown types are not.
                let is_number = matches!(
                    t.logical_type(),
                    Some(
                        LogicalType::F8E8M0
                            | LogicalType::F6E2M3
                            | LogicalType::F6E3M2
                            | LogicalType::F4E2M1
                    )
                );
                match done {
                    Ok((_, out)) => {
                        assert!(is_number, "{}", t.name());
                        let f16 = out.tensor(t.name()).unwrap();
                        assert_eq!(f16.dtype(), Some(DType::F16));
                        assert_eq!(bytes(&out, t.name()).len() as u64, t.count() * 2);
                    }
                    Err(e) => {
                        assert!(!is_number);
                        assert_eq!(e.code(), "convert/not-cast");
                    }
                }
            }
        }
    }
    // If the target has no such type, it is written as bytes on request.
    let old = target("ztensor").with_encode(EncodeOptions::new().with_version("1.0"));
    let eighth = Convert::new(old).with_dtype(FloatType::F8E4M3Fn);
    let e = cast(&model(), eighth.clone()).unwrap_err();
    assert!(e.remedies().contains(&holdall::Remedy::DropLogicalTypes), "{e}");
    let (_, out) = cast(&model(), eighth.with_raw_types()).unwrap();
    assert_eq!(out.tensor("a.weight").unwrap().dtype(), Some(DType::U8));
}

#[test]
fn a_schema_that_came_along_must_still_fit() {
    let source = model();
    let mt = || Convert::new(target("metatensor"));
    let (specs, _) = holdall::convert::plan(&source, "x.mt", &mt()).unwrap();
    let schema = holdall::convert::schema_of_tensors(&specs).unwrap().to_string();
    // A schema with more information than the tensors, so that it is kept.
    let schema = schema.replacen('{', r#"{"title":"mine","#, 1);
    let mut attributes = holdall::Attributes::new();
    attributes.set("metatensor.schema", Value::Text(schema));
    let (_, file) = cast(&source, mt().with_attributes(attributes)).unwrap();
    let e = cast(&file, mt().with_dtype(FloatType::F16)).unwrap_err();
    assert_eq!(e.code(), "metatensor/schema-fit");
    let without = mt().with_attributes(holdall::Attributes::new()).with_dtype(FloatType::F16);
    assert_eq!(cast(&file, without).unwrap().0.cast, 3);
}
