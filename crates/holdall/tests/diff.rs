//! Compares files of any two formats.

use crate::make::{self, Made, bytes_of, coo, csr, dense, f32s, file, noise, part, tensor, u64s};
use holdall::diff::TensorDiff;
use holdall::{
    Attributes, DType, Diff, DiffOptions, ErrorKind, File, Layout, LogicalType, Number,
    OpenOptions, Role, Select, Value, Work, diff,
};

fn exact(a: &File, b: &File) -> Diff {
    let one = diff(a, b, &DiffOptions::new().with_work(Work::new().with_threads(1))).unwrap();
    let many =
        diff(a, &make::copied(b), &DiffOptions::new().with_work(Work::new().with_threads(4)))
            .unwrap();
    assert_eq!(format!("{one:?}"), format!("{many:?}"));
    assert_eq!(many.is_identical(), {
        many.identical == many.compared
            && many.added.is_empty()
            && many.removed.is_empty()
            && many.attributes.is_empty()
    });
    many
}

fn near(a: &File, b: &File, rtol: f64, atol: f64) -> Diff {
    diff(a, b, &DiffOptions::new().with_tolerance(rtol, atol)).unwrap()
}

fn zt(tensors: &[Made]) -> File {
    file("ztensor", tensors)
}

fn f32_of(name: &str, values: &[f32]) -> Made {
    dense(name, &[values.len() as u64], part(Role::Data, DType::F32, f32s(values)))
}

fn only(d: &Diff) -> &TensorDiff {
    assert_eq!(d.changed.len(), 1, "{d:?}");
    &d.changed[0]
}

#[test]
fn how_something_is_stored_is_no_difference() {
    let values: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let data = part(Role::Data, DType::F32, f32s(&values));
    let other = || dense("other", &[3], part(Role::Data, DType::U8, [1, 2, 3]));
    let files = [
        zt(&[dense("t", &[10, 100], data.clone()), other()]),
        zt(&[other(), dense("t", &[10, 100], data.clone().zstd())]),
        zt(&[dense("t", &[10, 100], data.clone().sha256()), other()]),
        file("ztensor@1.0.0", &[dense("t", &[10, 100], data.clone()), other()]),
        file("ztensor@0.1.0", &[dense("t", &[10, 100], data.clone().one_frame()), other()]),
        file("safetensors", &[other(), dense("t", &[10, 100], data)]),
    ];
    for a in &files {
        for b in &files {
            let d = exact(a, b);
            assert!(d.is_identical() && d.is_same() && d.values_agree(), "{d:?}");
            assert_eq!((d.compared, d.identical), (2, 2));
        }
    }
}

#[test]
fn every_file_of_the_corpus_is_itself() {
    for path in make::corpus() {
        let map = OpenOptions::new().with_io(holdall::Io::Map).open(&path).unwrap();
        let read = OpenOptions::new().with_io(holdall::Io::Read).open(&path).unwrap();
        let d = exact(&map, &read);
        assert!(d.is_identical(), "{}: {d:?}", path.display());
        assert_eq!(d.compared, map.len() as u64);
    }
}

#[test]
fn names_shapes_types_and_attributes() {
    let u8s = |name: &str, shape: &[u64], n: usize| {
        dense(name, shape, part(Role::Data, DType::U8, vec![7; n]))
    };
    let a = [
        u8s("gone", &[1], 1),
        u8s("shape", &[2, 3], 6),
        u8s("type", &[2], 2),
        u8s("z", &[1], 1)
            .attribute("same", Value::Integer(1))
            .attribute("changed", Value::Integer(1))
            .attribute("gone", Value::Null),
    ];
    let i8s = dense("type", &[2], part(Role::Data, DType::I8, vec![7; 2]));
    let b = [
        u8s("new", &[1], 1),
        u8s("shape", &[3, 2], 6),
        i8s,
        u8s("z", &[1], 1)
            .attribute("new", Value::Bool(true))
            .attribute("changed", Value::Float(1.0))
            .attribute("same", Value::Integer(1)),
    ];
    let of_file = |pairs: &[(&str, i128)], tensors: &[Made]| {
        let all = pairs.iter().map(|&(k, v)| (k.to_owned(), Value::Integer(v))).collect();
        make::open(bytes_of("ztensor", &all, tensors))
    };
    let a = of_file(&[("x", 1), ("y", 2)], &a);
    let b = of_file(&[("y", 3), ("z", 4)], &b);
    let d = exact(&a, &b);
    let names = |all: &[holdall::TensorInfo]| -> Vec<String> {
        all.iter().map(|t| t.name().to_owned()).collect()
    };
    assert_eq!((names(&d.removed), names(&d.added)), (vec!["gone".into()], vec!["new".into()]));
    assert_eq!((d.compared, d.identical), (3, 0));
    let changed: Vec<&str> = d.changed.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(changed, ["shape", "type", "z"]);

    assert_eq!(d.changed[0].shapes, Some((vec![2, 3], vec![3, 2])));
    assert_eq!((&d.changed[0].types, &d.changed[0].values), (&None, &None));
    assert!(!d.changed[0].values_agree());

    let (x, y) = d.changed[1].types.clone().unwrap();
    assert_eq!((x.unwrap().to_string(), y.unwrap().to_string()), ("u8".into(), "i8".into()));
    // The numbers are equal all the same.
    assert_eq!(d.changed[1].values, None);
    assert!(d.changed[1].values_agree() && !d.changed[1].is_same());

    let attributes: Vec<_> = d.changed[2]
        .attributes
        .iter()
        .map(|x| (x.key.as_str(), x.a.clone(), x.b.clone()))
        .collect();
    assert_eq!(
        attributes,
        [
            ("changed", Some(Value::Integer(1)), Some(Value::Float(1.0))),
            ("gone", Some(Value::Null), None),
            ("new", None, Some(Value::Bool(true))),
        ]
    );
    let keys: Vec<&str> = d.attributes.iter().map(|x| x.key.as_str()).collect();
    assert_eq!(keys, ["x", "y", "z"]);
    assert!(!d.is_same() && !d.values_agree());
}

#[test]
fn values_exactly_and_within_a_tolerance() {
    let a = zt(&[f32_of("t", &[1.0, 2.0, 100.0, 0.0, f32::NAN, f32::INFINITY, 5.0])]);
    let b = zt(&[f32_of("t", &[1.0, 2.5, 101.0, 0.0, f32::NAN, f32::INFINITY, 5.0])]);
    let d = exact(&a, &b);
    let v = only(&d).values.clone().unwrap();
    assert_eq!((v.count, v.unequal, v.differing), (7, 2, 2));
    assert_eq!((v.max_abs, v.max_rel), (1.0, 0.2));
    let first = v.first.unwrap();
    assert_eq!((first.index, first.a, first.b), (vec![1], Number::Float(2.0), Number::Float(2.5)));
    // |a - b| <= atol + rtol * |b|, with b the second file.
    let differing = |rtol, atol| {
        let d = near(&a, &b, rtol, atol);
        let v = only(&d).values.clone().unwrap();
        assert_eq!(v.unequal, 2);
        assert_eq!(v.differing == 0, d.is_same());
        v.differing
    };
    assert_eq!(differing(0.0, 0.4), 2);
    assert_eq!(differing(0.0, 0.5), 1);
    assert_eq!(differing(0.0, 1.0), 0);
    assert_eq!(differing(0.01, 0.0), 1);
    assert_eq!(differing(0.2, 0.0), 0);
    assert_eq!(differing(0.19, 0.025), 0);
    assert_eq!(differing(0.19, 0.024), 1);
}

#[test]
fn nan_and_empty_tensors_are_compared() {
    let nan = f32::from_bits(0x7fc0_0001);
    let a = zt(&[f32_of("t", &[f32::NAN, 0.0, f32::NAN, f32::INFINITY, 1.0, f32::INFINITY])]);
    let b = zt(&[f32_of("t", &[nan, -0.0, 1.0, f32::NEG_INFINITY, f32::INFINITY, f32::INFINITY])]);
    // Exactly means bit for bit.
    let v = only(&exact(&a, &b)).values.clone().unwrap();
    assert_eq!((v.unequal, v.differing, v.first.map(|f| f.index)), (5, 5, Some(vec![0])));
    assert_eq!((v.max_abs, v.max_rel), (f64::INFINITY, 0.0));
    // Under a tolerance NaN equals NaN and 0 equals -0, infinities equal only themselves.
    let v = only(&near(&a, &b, 1.0, 1e30)).values.clone().unwrap();
    assert_eq!((v.unequal, v.differing, v.first.map(|f| f.index)), (5, 3, Some(vec![2])));
}

#[test]
fn a_tolerance_of_0_is_one_like_any_other() {
    let nan = f32::from_bits(0x7fc0_0001);
    let a = zt(&[f32_of("t", &[0.0, f32::NAN, 1.0])]);
    let b = zt(&[f32_of("t", &[-0.0, nan, 1.0])]);
    assert!(!exact(&a, &b).is_same());
    let d = near(&a, &b, 0.0, 0.0);
    assert!(d.is_same() && d.values_agree() && !d.is_identical());
    let v = only(&d).values.clone().unwrap();
    assert_eq!((v.unequal, v.differing, v.first), (2, 0, None));
    let c = zt(&[f32_of("t", &[-0.0, nan, f32::from_bits(0x3f80_0001)])]);
    let v = only(&near(&a, &c, 0.0, 0.0)).values.clone().unwrap();
    assert_eq!((v.unequal, v.differing, v.first.map(|f| f.index)), (3, 1, Some(vec![2])));
}

/// Elements of unknown meaning are equal or not; the distance of their codes has no meaning.
#[test]
fn no_tolerance_is_for_elements_of_an_unknown_type() {
    let of = |values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let data = part(Role::Data, DType::F32, bytes).logical(LogicalType::from_name("q7_x"));
        zt(&[dense("t", &[2], data)])
    };
    let (a, b) = (of(&[1.0, 0.0]), of(&[1.5, -0.0]));
    assert!(near(&a, &a, 0.0, 0.0).is_same());
    let v = only(&near(&a, &b, 1e9, 1e9)).values.clone().unwrap();
    assert_eq!((v.unequal, v.differing), (2, 2));
}

#[test]
fn integers_are_compared_exactly() {
    let a = dense("t", &[3], part(Role::Data, DType::U64, u64s(&[u64::MAX, 1 << 60, 5])));
    let b = dense("t", &[3], part(Role::Data, DType::U64, u64s(&[u64::MAX - 1, 1 << 60, 7])));
    let v = only(&exact(&zt(std::slice::from_ref(&a)), &zt(&[b]))).values.clone().unwrap();
    assert_eq!((v.differing, v.max_abs), (2, 2.0));
    assert_eq!(v.first.unwrap().a, Number::Integer(u64::MAX.into()));
    // As i64 the first is -1.
    let b = dense("t", &[3], part(Role::Data, DType::I64, u64s(&[u64::MAX, 1 << 60, 5])));
    let d = exact(&zt(&[a]), &zt(&[b]));
    let v = only(&d).values.clone().unwrap();
    assert_eq!((v.differing, v.max_abs), (1, (1u128 << 64) as f64));
    let first = v.first.unwrap();
    assert_eq!((first.index, first.b), (vec![0], Number::Integer(-1)));
    // Bools and bytes are numbers too.
    let a = dense("t", &[2], part(Role::Data, DType::Bool, [0, 1]));
    let b = dense("t", &[2], part(Role::Data, DType::I16, [0, 0, 2, 0]));
    let v = only(&exact(&zt(&[a]), &zt(&[b]))).values.clone().unwrap();
    assert_eq!((v.unequal, v.first.map(|f| f.b)), (1, Some(Number::Integer(2))));
}

#[test]
fn a_conversion_to_another_precision() {
    let values: Vec<f32> = noise(2_000_000, 8)
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| i32::from_le_bytes(*b) as f32 / 1e9)
        .collect();
    let bf16: Vec<u8> = values
        .iter()
        .flat_map(|x| {
            let bits = x.to_bits();
            let rounded = bits + 0x7fff + (bits >> 16 & 1);
            ((rounded >> 16) as u16).to_le_bytes()
        })
        .collect();
    let shape = [1000, 500];
    let full = zt(&[dense("t", &shape, part(Role::Data, DType::F32, f32s(&values)))]);
    let data = part(Role::Data, DType::Bf16, bf16);
    for half in [data.clone(), data.clone().zstd(), data.one_frame()] {
        let half = zt(&[dense("t", &shape, half)]);
        let d = near(&full, &half, 1.0 / 256.0, 0.0);
        assert!(d.values_agree() && !d.is_same(), "{d:?}");
        let v = only(&d).values.clone().unwrap();
        assert!(v.max_rel > 1.0 / 512.0 && v.max_rel <= 1.0 / 256.0, "{v:?}");
        let (x, y) = only(&d).types.clone().unwrap();
        assert_eq!((x.unwrap().to_string(), y.unwrap().to_string()), ("f32".into(), "bf16".into()));
        assert!(!near(&full, &half, 1.0 / 600.0, 0.0).values_agree());
    }
}

#[test]
fn big_tensors_stored_in_every_way() {
    let bytes = noise(5_400_000, 11);
    let mut other = bytes.clone();
    // In the second piece, and in the last.
    other[4_000_004] ^= 0xff;
    other[5_399_999] ^= 0x01;
    let ways = |bytes: &[u8], t: &Option<LogicalType>| -> Vec<File> {
        let dtype = if t.is_none() { DType::I16 } else { DType::U8 };
        let bits = t.as_ref().map_or(16, |t| t.bits().unwrap());
        let data = part(Role::Data, dtype, bytes);
        let data = match t {
            Some(t) => data.logical(t.clone()),
            None => data,
        };
        let shape = [100, 5_400_000 / 100 * 8 / bits];
        [data.clone(), data.clone().zstd(), data.one_frame()]
            .map(|data| zt(&[dense("t", &shape, data)]))
            .into()
    };
    // 16 bits, and 6, which do not divide pieces and frames evenly.
    for (t, first) in [(None, 2_000_002), (Some(LogicalType::F6E2M3), 5_333_338)] {
        let columns = if t.is_none() { 27_000 } else { 72_000 };
        let (same, changed) = (ways(&bytes, &t), ways(&other, &t));
        for a in &same {
            assert!(exact(a, &same[1]).is_identical());
            for b in &changed {
                let d = diff(a, b, &DiffOptions::new()).unwrap();
                let v = only(&d).values.clone().unwrap();
                let index = v.first.unwrap().index;
                assert_eq!(index, [first / columns, first % columns], "{t:?}");
                assert_eq!(v.count, if t.is_none() { 2_700_000 } else { 7_200_000 });
                assert!(v.differing == if t.is_none() { 2 } else { 3 }, "{}", v.differing);
            }
        }
    }
}

#[test]
fn sparse_tensors_by_place() {
    let base = || csr("m", [3, 4], &[0, 2, 2, 3], &[0, 3, 1], &[1.0, 2.0, 3.0]);
    let changed = csr("m", [3, 4], &[0, 2, 2, 3], &[0, 3, 1], &[1.0, 2.5, 3.5]);
    let v = only(&exact(&zt(&[base()]), &zt(&[changed]))).values.clone().unwrap();
    assert_eq!((v.count, v.differing, v.max_abs), (3, 2, 0.5));
    assert_eq!(v.first.unwrap().index, [0, 3]);
    // The same matrix with its entries in another order, and with another entry.
    let turned = csr("m", [3, 4], &[0, 2, 2, 3], &[3, 0, 1], &[2.0, 1.0, 3.0]);
    assert!(exact(&zt(&[base()]), &zt(&[turned])).is_identical());
    let more = csr("m", [3, 4], &[0, 2, 3, 4], &[0, 3, 2, 1], &[1.0, 2.0, 9.0, 3.0]);
    let v = only(&exact(&zt(&[base()]), &zt(&[more]))).values.clone().unwrap();
    assert_eq!((v.count, v.differing, v.first.unwrap().index), (12, 1, vec![1, 2]));
    // As coordinates, and dense.
    let by_place = coo("m", &[3, 4], &[2, 0, 0, 1, 0, 3], &[3.0, 1.0, 2.0]);
    let d = exact(&zt(&[base()]), &zt(&[by_place]));
    assert_eq!(only(&d).layouts, Some((Layout::SparseCsr, Layout::SparseCoo)));
    assert!(d.values_agree() && !d.is_same());
    let mut all = [0.0; 12];
    (all[0], all[3], all[9]) = (1.0, 2.0, 3.0);
    let full = || dense("m", &[3, 4], part(Role::Data, DType::F32, f32s(&all)));
    let d = exact(&zt(&[full()]), &zt(&[base()]));
    assert_eq!(only(&d).layouts, Some((Layout::Dense, Layout::SparseCsr)));
    assert!(d.values_agree());
    // zTensor 0.1's form of the same layout.
    let corpus = make::corpus();
    let old = holdall::open(corpus.iter().find(|p| p.ends_with("v0.1-sparse_layouts.zt")).unwrap());
    let old = old.unwrap();
    let t = old.tensor("csr_f64").unwrap();
    let view = t.csr().unwrap();
    let parts = vec![
        part(Role::Values, DType::F64, &view.values().bytes()[..]),
        part(Role::Indices, DType::U64, u64s(view.indices())),
        part(Role::Indptr, DType::U64, u64s(view.indptr())),
    ];
    let new = zt(&[tensor("csr_f64", t.shape(), Layout::SparseCsr, parts)]);
    let select = Select::new(&["csr_f64"], &[]).unwrap();
    assert!(diff(&old, &new, &DiffOptions::new().with_select(select)).unwrap().is_identical());
}

fn quantized(words: [u8; 4], scales: make::MadeComponent) -> Made {
    tensor(
        "q",
        &[2, 4],
        Layout::QuantizedGroup,
        vec![
            part(Role::PackedWeight, DType::I32, words),
            scales,
            part(Role::Zeros, DType::F32, f32s(&[0.0, 4.0])),
        ],
    )
    .attribute("bits", Value::Integer(4))
    .attribute("group_size", Value::Integer(4))
    .attribute("packing", Value::Text("8_per_i32".into()))
}

#[test]
fn quantized_tensors_are_compared_by_dequantized_values() {
    let scales = || part(Role::Scales, DType::F32, f32s(&[1.0, 10.0]));
    let a = || quantized([0x10, 0x32, 0x54, 0x76], scales());
    assert!(exact(&zt(&[a()]), &zt(&[a()])).is_identical());
    let b = quantized([0x10, 0x32, 0x54, 0x77], scales());
    let d = exact(&zt(&[a()]), &zt(&[b]));
    let t = only(&d);
    let roles: Vec<&Role> = t.components.iter().map(|c| &c.role).collect();
    assert_eq!(roles, [&Role::PackedWeight]);
    let v = t.values.clone().unwrap();
    assert_eq!((v.count, v.differing, v.max_abs), (8, 1, 10.0));
    assert_eq!(v.first.unwrap().index, [1, 2]);
    // The same scales in another type.
    let half = part(Role::Scales, DType::F16, [0x00, 0x3c, 0x00, 0x49]);
    let d = exact(&zt(&[a()]), &zt(&[quantized([0x10, 0x32, 0x54, 0x76], half)]));
    assert_eq!(only(&d).components[0].role, Role::Scales);
    assert!(d.values_agree());
    // And dense.
    let all = [0.0, 1.0, 2.0, 3.0, 0.0, 10.0, 20.0, 30.0];
    let full = dense("q", &[2, 4], part(Role::Data, DType::F32, f32s(&all)));
    assert!(exact(&zt(&[a()]), &zt(&[full])).values_agree());
}

#[test]
fn complex_and_small_floats() {
    let complex =
        |parts: &[f32]| part(Role::Data, DType::F32, f32s(parts)).logical(LogicalType::Complex64);
    let a = zt(&[dense("t", &[2], complex(&[0.0, 0.0, 3.0, 4.0]))]);
    let b = zt(&[dense("t", &[2], complex(&[3.0, 4.0, 3.0, 4.0]))]);
    let v = only(&exact(&a, &b)).values.clone().unwrap();
    assert_eq!((v.differing, v.max_abs, v.max_rel), (1, 5.0, 1.0));
    assert_eq!(v.first.unwrap().b, Number::Complex(3.0, 4.0));
    let f4 = |bytes: [u8; 2]| {
        dense("t", &[4], part(Role::Data, DType::U8, bytes).logical(LogicalType::F4E2M1))
    };
    // 0 and -0 have different bits.
    let (a, b) = (zt(&[f4([0x10, 0x72])]), zt(&[f4([0x18, 0x62])]));
    let v = only(&exact(&a, &b)).values.clone().unwrap();
    assert_eq!((v.unequal, v.max_abs), (2, 2.0));
    assert_eq!(only(&near(&a, &b, 0.5, 0.0)).values.clone().unwrap().differing, 0);
    // As other types.
    let full = zt(&[dense("t", &[4], part(Role::Data, DType::F32, f32s(&[0.0, 0.5, 1.0, 6.0])))]);
    assert!(exact(&a, &full).values_agree());
}

#[test]
fn unknown_layouts_and_types_by_their_components() {
    let other = |data: make::MadeComponent, extra: Option<make::MadeComponent>| {
        let parts = [Some(data), extra].into_iter().flatten().collect();
        tensor("t", &[9], Layout::from_name("other"), parts)
    };
    let role = Role::from_name("lookup");
    let data = |bytes: &[u8]| part(Role::Data, DType::U8, bytes);
    let a = zt(&[other(data(b"abc"), Some(part(role.clone(), DType::U8, [1])))]);
    assert!(exact(&a, &a).is_identical());
    let b = zt(&[other(data(b"abd"), None)]);
    let d = exact(&a, &b);
    let t = only(&d);
    let by_role = |r: &Role| t.components.iter().find(|c| c.role == *r).unwrap();
    let v = by_role(&Role::Data).values.clone().unwrap();
    assert_eq!((v.count, v.first.unwrap().index), (3, vec![2]));
    assert_eq!((by_role(&role).types.1.clone(), by_role(&role).lens), (None, (Some(1), None)));
    assert!(!d.values_agree());
    // Compared with a known layout, an unknown one cannot be decided.
    let d = exact(&a, &zt(&[dense("t", &[9], part(Role::Data, DType::U8, [0; 9]))]));
    let e = only(&d).incomparable.clone().unwrap();
    assert_eq!((e.kind(), e.tensor()), (ErrorKind::Unsupported, Some("t")));
    assert!(!d.values_agree());

    let strange = |bytes: &[u8], name: &str| {
        zt(&[dense("t", &[2], data(bytes).logical(LogicalType::from_name(name)))])
    };
    assert!(exact(&strange(b"abc", "q7"), &strange(b"abc", "q7")).is_identical());
    let v = only(&exact(&strange(b"abc", "q7"), &strange(b"xbc", "q7"))).values.clone().unwrap();
    assert_eq!((v.count, v.differing), (3, 1));
    for b in [strange(b"abc", "q8"), strange(b"abcd", "q7")] {
        let d = exact(&strange(b"abc", "q7"), &b);
        assert_eq!(only(&d).incomparable.as_ref().map(|e| e.kind()), Some(ErrorKind::Unsupported));
        // Another type, or more bytes, is still a difference.
        assert!(!d.is_same() && !d.is_undecided(), "{d:?}");
    }
}

#[test]
fn components_are_compared_role_by_role() {
    let of = |dtype| part(Role::from_name("b"), dtype, [1, 2]);
    let other = |parts| zt(&[tensor("t", &[2], Layout::from_name("other"), parts)]);
    let first = || part(Role::from_name("a"), DType::Bool, [1, 0, 1]);
    let a = other(vec![first(), of(DType::U16)]);
    assert!(exact(&a, &other(vec![of(DType::U16), first()])).is_identical());
    // Another type is still a difference.
    for parts in [vec![first(), of(DType::I16)], vec![of(DType::I16), first()]] {
        let d = exact(&a, &other(parts));
        let t = only(&d);
        assert_eq!((t.components.len(), &t.components[0].role), (1, &Role::from_name("b")));
        assert!(!d.is_same());
    }
    // A missing component does not affect the comparison of the next one.
    let d = exact(&a, &other(vec![of(DType::U16)]));
    let t = only(&d);
    assert_eq!((&t.types, t.components.len(), t.is_same()), (&None, 1, false));
    assert_eq!((&t.components[0].role, &t.components[0].types.1), (&Role::from_name("a"), &None));
}

/// Version 1.0 does not state the decoded length of compressed components of unknown layouts.
#[test]
fn lengths_known_only_after_decoding_are_compared() {
    let other = |bytes: &[u8], zstd: bool| {
        let data = part(Role::from_name("lookup"), DType::U16, bytes);
        let data = if zstd { data.one_frame() } else { data };
        tensor("t", &[9], Layout::from_name("other"), vec![data])
    };
    let in_1_0 = |bytes: &[u8]| file("ztensor@1.0", &[other(bytes, true)]);
    let known = zt(&[other(&[1, 2, 3, 4], false)]);
    let a = in_1_0(&[1, 2, 3, 4]);
    let component = a.tensor("t").unwrap().component(&Role::from_name("lookup")).unwrap();
    assert_eq!(component.decoded_len, None);
    assert!(exact(&a, &known).is_identical() && exact(&known, &a).is_identical());
    assert!(exact(&a, &a).is_identical());
    let d = exact(&in_1_0(&[1, 2, 3, 5]), &known);
    assert_eq!(only(&d).components[0].values.as_ref().map(|v| v.unequal), Some(1));
    for (x, y, lens) in [
        (&in_1_0(&[1, 2]), &known, (Some(2), Some(4))),
        (&a, &in_1_0(&[1, 2, 3, 4, 5, 6]), (Some(4), Some(6))),
    ] {
        let d = exact(x, y);
        assert_eq!((only(&d).components[0].lens, d.values_agree()), (lens, false));
    }
}

#[test]
fn a_selection() {
    let a = zt(&[f32_of("a", &[1.0]), f32_of("b", &[1.0]), f32_of("c", &[1.0])]);
    let b = zt(&[f32_of("a", &[2.0]), f32_of("b", &[2.0]), f32_of("d", &[1.0])]);
    let of = |include: &[&str]| {
        let select = Select::new(include, &[]).unwrap();
        diff(&a, &b, &DiffOptions::new().with_select(select))
    };
    let d = of(&["b", "d"]).unwrap();
    assert_eq!((d.compared, d.changed.len(), d.added.len(), d.removed.len()), (1, 1, 1, 0));
    assert_eq!(of(&["x"]).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn broken_data_is_an_error_of_its_file() {
    let good = zt(&[dense("t", &[2], part(Role::Data, DType::Bool, [0, 1]))]);
    let bad = bytes_of(
        "ztensor",
        &Attributes::new(),
        &[dense("t", &[2], part(Role::Data, DType::Bool, [0, 3]))],
    );
    let bad = OpenOptions::new().open_bytes(bad, "bad").unwrap();
    let e = diff(&good, &bad, &DiffOptions::new()).unwrap_err();
    assert_eq!(
        (e.kind(), e.tensor(), e.source_name()),
        (ErrorKind::Malformed, Some("t"), Some("bad"))
    );
}

#[test]
fn many_small_tensors() {
    let all = |change: bool| {
        let tensors: Vec<Made> = (0..5000)
            .map(|i| {
                f32_of(
                    &format!("t{i}"),
                    &[i as f32, if change && i % 1000 == 7 { 1.0 } else { 0.0 }],
                )
            })
            .collect();
        zt(&tensors)
    };
    let d = exact(&all(false), &all(true));
    let mut names: Vec<&str> = d.changed.iter().map(|t| t.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["t1007", "t2007", "t3007", "t4007", "t7"]);
    assert_eq!((d.compared, d.identical), (5000, 4995));
}

fn close(found: Option<f64>, expected: f64) {
    let found = found.unwrap();
    assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} {expected}");
}

#[test]
fn the_size_of_a_change() {
    let a = zt(&[f32_of("t", &[3.0, 4.0, 0.0, 1.0]), f32_of("same", &[1.0; 8])]);
    let b = zt(&[f32_of("t", &[3.0, 2.0, 0.0, 1.0]), f32_of("same", &[1.0; 8])]);
    let d = exact(&a, &b);
    let v = only(&d).values.clone().unwrap();
    assert_eq!((v.share(), v.non_finite, v.rms), (0.25, 0, Some(1.0)));
    close(v.relative, (4.0f64 / 26.0).sqrt());
    close(v.cosine, (9.0 + 8.0 + 1.0) / (26.0f64 * 14.0).sqrt());
    // Both tensors are outside any layer.
    let [layer] = &d.layers[..] else { panic!("{:?}", d.layers) };
    assert_eq!((&layer.name, layer.tensors, layer.changed, layer.count), (&None, 2, 1, 12));
    assert_eq!((layer.unequal, layer.max_abs, layer.rms), (1, 2.0, Some((4.0f64 / 12.0).sqrt())));
    close(layer.relative, (4.0f64 / 34.0).sqrt());
    close(layer.cosine, 26.0 / (34.0f64 * 22.0).sqrt());
}

#[test]
fn nan_and_infinities_are_counted_and_not_summed() {
    let a = zt(&[f32_of("t", &[f32::NAN, 1.0, f32::INFINITY, 2.0, f32::INFINITY, f32::NAN])]);
    let b = zt(&[f32_of("t", &[f32::NAN, f32::NAN, f32::INFINITY, 1.0, -1.0, 3.0])]);
    let v = only(&exact(&a, &b)).values.clone().unwrap();
    assert_eq!((v.unequal, v.non_finite), (4, 3));
    // One of the three pairs that are equal or finite differs, by 1.
    close(v.rms, (1.0f64 / 3.0).sqrt());
    close(v.relative, 0.5);
    close(v.cosine, 1.0);
    let zeros = zt(&[f32_of("t", &[0.0; 3])]);
    let v = only(&exact(&zeros, &zt(&[f32_of("t", &[0.0, 2.0, 0.0])]))).values.clone().unwrap();
    assert_eq!((v.relative, v.cosine), (Some(f64::INFINITY), Some(0.0)));
    let v = only(&exact(&zeros, &zt(&[f32_of("t", &[0.0, -0.0, 0.0])]))).values.clone().unwrap();
    assert_eq!((v.unequal, v.relative, v.cosine), (1, Some(0.0), Some(1.0)));
    let huge = |x: f64| {
        let data = part(Role::Data, DType::F64, x.to_le_bytes());
        zt(&[dense("t", &[1], data)])
    };
    let v = only(&exact(&huge(1e200), &huge(2e200))).values.clone().unwrap();
    assert_eq!((v.max_abs, v.rms, v.relative, v.cosine), (1e200, None, None, None));
}

#[test]
fn every_kind_of_tensor_has_the_size_of_its_change() {
    // A scalar, and another of another type.
    let scalar = |dtype, bytes: &[u8]| zt(&[dense("t", &[], part(Role::Data, dtype, bytes))]);
    let (a, b) = (scalar(DType::I64, &u64s(&[3])), scalar(DType::Bf16, &[0x80, 0x40]));
    let v = only(&exact(&a, &b)).values.clone().unwrap();
    assert_eq!((v.count, v.share(), v.rms), (1, 1.0, Some(1.0)));
    close(v.relative, 1.0 / 3.0);
    // Unsigned integers beyond the digits of an f64.
    let u64_of = |n| scalar(DType::U64, &u64s(&[n]));
    let v = only(&exact(&u64_of(u64::MAX), &u64_of(u64::MAX - 3))).values.clone().unwrap();
    assert_eq!((v.max_abs, v.rms), (3.0, Some(3.0)));
    // Complex numbers.
    let complex = |re: f32, im: f32| {
        let data = part(Role::Data, DType::F32, f32s(&[re, im])).logical(LogicalType::Complex64);
        zt(&[dense("t", &[1], data)])
    };
    let v = only(&exact(&complex(1.0, 0.0), &complex(0.0, 1.0))).values.clone().unwrap();
    close(v.relative, 2f64.sqrt());
    assert_eq!(v.cosine, Some(0.0));
    // Elements of an unknown type are not numbers.
    let codes = |bytes: [u8; 2]| {
        let data = part(Role::Data, DType::U8, bytes).logical(LogicalType::from_name("q7_x"));
        zt(&[dense("t", &[2], data)])
    };
    let d = exact(&codes([1, 2]), &codes([1, 3]));
    let v = only(&d).values.clone().unwrap();
    assert_eq!((v.share(), v.rms, v.relative, v.cosine), (0.5, None, None, None));
    assert_eq!((d.layers[0].unequal, d.layers[0].relative), (1, Some(0.0)));
    // No elements.
    let empty = |dtype| zt(&[dense("t", &[0, 4], part(Role::Data, dtype, []))]);
    let d = exact(&empty(DType::F32), &empty(DType::F16));
    assert_eq!((only(&d).values.clone(), d.layers[0].count), (None, 0));
    // Sparse tensors: the stored values, and all if they are at other positions.
    let sparse =
        |indices: &[u64], values: &[f32]| zt(&[csr("t", [2, 4], &[0, 2, 2], indices, values)]);
    let a = sparse(&[0, 3], &[3.0, 4.0]);
    let v = only(&exact(&a, &sparse(&[0, 3], &[3.0, 5.0]))).values.clone().unwrap();
    assert_eq!((v.count, v.share()), (2, 0.5));
    close(v.relative, 0.2);
    let v = only(&exact(&a, &sparse(&[0, 2], &[3.0, 4.0]))).values.clone().unwrap();
    assert_eq!((v.count, v.share()), (8, 0.25));
    close(v.relative, 32f64.sqrt() / 5.0);
    close(v.cosine, 9.0 / 25.0);
    // Quantized ones by their values: 0 to 7, those from 4 on times 10.
    let scales = || part(Role::Scales, DType::F32, f32s(&[1.0, 10.0]));
    let a = zt(&[quantized([0x10, 0x32, 0x54, 0x76], scales())]);
    let b = zt(&[quantized([0x10, 0x32, 0x54, 0x77], scales())]);
    let v = only(&exact(&a, &b)).values.clone().unwrap();
    assert_eq!(v.share(), 0.125);
    close(v.relative, (100.0f64 / 1414.0).sqrt());
}

/// Tensors of a layer that are the same, stored in any way, count for its relative change.
#[test]
fn layers_are_summed_with_what_is_the_same_in_them() {
    let scales = || part(Role::Scales, DType::F32, f32s(&[1.0, 10.0]));
    let ones: Vec<f32> = vec![1.0; 1_200_000];
    let mut other = ones.clone();
    other[700_000] = 3.0;
    let model = |values: &[f32], last: f32| {
        zt(&[
            f32_of("embed", &[1.0, 2.0]),
            f32_of("model.layers.0.a", &[0.5]),
            f32_of("model.layers.1.big", values),
            quantized([0x10, 0x32, 0x54, 0x76], scales()).renamed("model.layers.1.q"),
            csr("model.layers.1.s", [3, 4], &[0, 2, 2, 3], &[0, 3, 1], &[1.0, 2.0, 3.0]),
            f32_of("model.layers.10.a", &[last]),
        ])
    };
    let d = exact(&model(&ones, 1.0), &model(&other, -1.0));
    let names: Vec<_> = d.layers.iter().map(|l| l.name.as_deref()).collect();
    let layer = |n: u32| format!("model.layers.{n}");
    let expected = [None, Some(layer(0)), Some(layer(1)), Some(layer(10))];
    assert_eq!(names, expected.iter().map(|n| n.as_deref()).collect::<Vec<_>>());
    let [outside, first, second, last] = &d.layers[..] else { panic!() };
    for same in [outside, first] {
        assert!(!same.is_change() && same.relative == Some(0.0) && same.cosine == Some(1.0));
    }
    assert_eq!((second.tensors, second.changed, second.count), (3, 1, 1_200_000 + 8 + 12));
    close(second.relative, (4.0f64 / (1_200_000.0 + 1414.0 + 14.0)).sqrt());
    assert_eq!((last.relative, last.cosine), (Some(2.0), Some(-1.0)));
    let v = d.changed[0].values.clone().unwrap();
    close(v.relative, (4.0f64 / 1_200_000.0).sqrt());
}
