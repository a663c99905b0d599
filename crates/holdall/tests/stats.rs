//! Statistics of tensors of every type and layout.

use crate::make::{self, coo, csr, dense, f32s, file, noise, part, tensor};
use holdall::stats::Measure;
use holdall::{
    DType, ErrorKind, File, Layout, LogicalType, Number, Role, Stats, StatsOptions, Value, Work,
    stats,
};

fn stats_of(file: &File, name: &str) -> Stats {
    let t = file.tensor(name).unwrap();
    let one = stats(&t, &StatsOptions::new().with_work(Work::new().with_threads(1))).unwrap();
    let copied = make::copied(file).tensor(name).unwrap();
    let many = stats(&copied, &StatsOptions::new().with_work(Work::new().with_threads(4))).unwrap();
    // Equal to the last bit, for any order of threads and any source.
    assert_eq!(format!("{one:?}"), format!("{many:?}"));
    let histogram = many.histogram.as_ref();
    let finite = many.count - many.nan - many.inf - many.neg_inf;
    assert_eq!(histogram.map_or(0, |h| h.counts.iter().sum()), finite);
    many
}

fn of_data(shape: &[u64], data: make::MadeComponent) -> Stats {
    stats_of(&file("ztensor", &[dense("t", shape, data)]), "t")
}

fn close(a: Option<f64>, b: f64) -> bool {
    a.is_some_and(|a| (a - b).abs() <= 1e-12 * b.abs().max(1e-300))
}

#[test]
fn a_handful_of_floats() {
    let values =
        [1.0, -2.0, 0.0, -0.0, 4.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY];
    let s = of_data(&[9], part(Role::Data, DType::F32, f32s(&values)));
    assert_eq!((s.count, s.zeros, s.nan, s.inf, s.neg_inf), (9, 2, 1, 2, 1));
    assert_eq!((s.min, s.max), (Some(Number::Float(-2.0)), Some(Number::Float(4.0))));
    assert!(close(s.mean, 0.6) && close(s.std, 3.84f64.sqrt()), "{s:?}");
    let h = s.histogram.unwrap();
    assert_eq!((h.min, h.max, h.counts.len()), (-2.0, 4.0, 16));
    // Bins of 0.375: -2 in the first, 0 in the sixth, 1 in the ninth, 4 in the last.
    let filled: Vec<(usize, u64)> =
        h.counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, n)| (i, *n)).collect();
    assert_eq!(filled, [(0, 1), (5, 2), (8, 1), (15, 1)]);
    assert_eq!(s.measure, Measure::Value);
}

#[test]
fn empty_and_nonfinite_tensors_have_no_mean() {
    let s = of_data(&[0], part(Role::Data, DType::F32, []));
    assert_eq!((s.count, s.min, s.mean, s.std, s.histogram), (0, None, None, None, None));
    let s = of_data(&[2], part(Role::Data, DType::F32, f32s(&[f32::NAN, f32::INFINITY])));
    assert_eq!((s.count, s.nan, s.inf, s.min, s.mean, s.histogram), (2, 1, 1, None, None, None));
    let s = of_data(&[3], part(Role::Data, DType::F32, f32s(&[7.5; 3])));
    assert_eq!((s.mean, s.std), (Some(7.5), Some(0.0)));
    assert_eq!(s.histogram.unwrap().counts, [3]);
    let t =
        file("ztensor", &[dense("t", &[1], part(Role::Data, DType::U8, [1]))]).tensor("t").unwrap();
    assert_eq!(stats(&t, &StatsOptions::new().with_bins(0)).unwrap().histogram, None);
}

#[test]
fn integers_are_exact() {
    let big = |values: &[u64]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let bytes = big(&[u64::MAX, 1 << 63, u64::MAX - 1]);
    let s = of_data(&[3], part(Role::Data, DType::U64, bytes.clone()));
    assert_eq!(
        (s.min, s.max),
        (Some(Number::Integer(1 << 63)), Some(Number::Integer(u64::MAX.into())))
    );
    let s = of_data(&[3], part(Role::Data, DType::I64, bytes));
    assert_eq!((s.min, s.max), (Some(Number::Integer(i64::MIN.into())), Some(Number::Integer(-1))));
    let s = of_data(&[4], part(Role::Data, DType::I8, [0x80, 0x7f, 0, 1]));
    assert_eq!(
        (s.min, s.max, s.zeros),
        (Some(Number::Integer(-128)), Some(Number::Integer(127)), 1)
    );
    assert!(close(s.mean, 0.0) || s.mean == Some(0.0));
    let s = of_data(&[4], part(Role::Data, DType::Bool, [1, 0, 1, 1]));
    assert_eq!(
        (s.min, s.max, s.zeros, s.mean),
        (Some(Number::Integer(0)), Some(Number::Integer(1)), 1, Some(0.75))
    );
}

#[test]
fn small_floats_and_complex() {
    // 1.0, -0.5, NaN, largest.
    let data = part(Role::Data, DType::U8, [0x38, 0xb0, 0x7f, 0x7e]).logical(LogicalType::F8E4M3Fn);
    let s = of_data(&[4], data);
    assert_eq!((s.nan, s.min, s.max), (1, Some(Number::Float(-0.5)), Some(Number::Float(448.0))));
    // Packed: 0.5 and 6.0, -6.0 and 0.
    let data = part(Role::Data, DType::U8, [0x71, 0x0f]).logical(LogicalType::F4E2M1);
    let s = of_data(&[4], data);
    assert_eq!((s.count, s.zeros), (4, 1));
    assert_eq!((s.min, s.max), (Some(Number::Float(-6.0)), Some(Number::Float(6.0))));
    let data = part(Role::Data, DType::F32, f32s(&[3.0, 4.0, 0.0, 0.0, f32::NAN, 1.0]));
    let s = of_data(&[3], data.logical(LogicalType::Complex64));
    assert_eq!((s.measure, s.count, s.zeros, s.nan), (Measure::Magnitude, 3, 1, 1));
    assert_eq!((s.max, s.mean), (Some(Number::Float(5.0)), Some(2.5)));
}

#[test]
fn big_tensors_in_pieces_of_every_kind() {
    // Not a multiple of anything, so that pieces and frames end at different offsets.
    let count = 1_600_003usize;
    let values: Vec<f32> = noise(count * 2, 4)
        .as_chunks::<2>()
        .0
        .iter()
        .map(|b| f32::from(i16::from_le_bytes(*b)) / 256.0 + 1000.0)
        .collect();
    let n = count as f64;
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    let std = (values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n).sqrt();
    let (min, max) = values.iter().fold((f32::MAX, f32::MIN), |(a, b), &x| (a.min(x), b.max(x)));
    let data = part(Role::Data, DType::F32, f32s(&values));
    let all: Vec<Stats> = [data.clone(), data.clone().zstd(), data.one_frame()]
        .map(|data| of_data(&[count as u64], data))
        .into();
    for s in &all {
        assert_eq!(s, &all[0]);
        assert!(close(s.mean, mean) && s.std.is_some_and(|x| (x - std).abs() < 1e-9), "{s:?}");
        assert_eq!(
            (s.min, s.max),
            (Some(Number::Float(min.into())), Some(Number::Float(max.into())))
        );
        let histogram = s.histogram.as_ref().unwrap();
        let mut expected = vec![0u64; 16];
        let (low, width) = (f64::from(min), f64::from(max - min));
        for &x in &values {
            let bin = ((f64::from(x) - low) / width * 16.0) as usize;
            expected[bin.min(15)] += 1;
        }
        assert_eq!(histogram.counts, expected);
    }
    // 6-bit elements do not divide pieces and frames evenly.
    let raw = part(Role::Data, DType::U8, noise(6_600_000, 6)).logical(LogicalType::F6E3M2);
    let all: Vec<Stats> = [raw.clone(), raw.clone().zstd(), raw.one_frame()]
        .map(|data| {
            let file = file("ztensor", &[dense("t", &[8_800_000], data)]);
            stats(&file.tensor("t").unwrap(), &StatsOptions::new().with_bins(0)).unwrap()
        })
        .into();
    assert!(all.iter().all(|s| s.count == 8_800_000 && s == &all[0]), "{all:?}");
}

#[test]
fn the_widest_range_of_f64() {
    let values = [f64::MAX, -f64::MAX, 0.0, f64::MIN_POSITIVE];
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let s = of_data(&[4], part(Role::Data, DType::F64, bytes));
    assert_eq!((s.min, s.max), (Some(Number::Float(-f64::MAX)), Some(Number::Float(f64::MAX))));
    let h = s.histogram.unwrap();
    assert_eq!((h.counts[0], h.counts[8], h.counts[15]), (1, 2, 1));
    assert_eq!(s.std, None);
}

#[test]
fn sparse_tensors_count_their_zeros() {
    let all = file(
        "ztensor",
        &[
            csr("csr", [3, 4], &[0, 2, 2, 3], &[3, 0, 1], &[1.0, 0.0, -3.0]),
            coo("coo", &[2, 3], &[1, 0, 2, 1], &[5.0, 2.0]),
            coo("twice", &[2, 2], &[0, 0, 1, 1], &[5.0, 2.0]),
            coo("full", &[1, 2], &[0, 0, 0, 1], &[5.0, 2.0]),
            coo("none", &[1 << 40, 1 << 20], &[], &[]),
        ],
    );
    let s = stats_of(&all, "csr");
    assert_eq!((s.count, s.zeros, s.implied_zeros), (12, 10, 9));
    assert_eq!((s.min, s.max), (Some(Number::Float(-3.0)), Some(Number::Float(1.0))));
    assert!(close(s.mean, -2.0 / 12.0));
    assert!(close(stats_of(&all, "coo").mean, 7.0 / 6.0));
    // Values at the same position are summed.
    let s = stats_of(&all, "twice");
    assert_eq!((s.count, s.zeros, s.max), (4, 3, Some(Number::Float(7.0))));
    let s = stats_of(&all, "full");
    assert_eq!((s.implied_zeros, s.min), (0, Some(Number::Float(2.0))));
    let s = stats_of(&all, "none");
    assert_eq!((s.count, s.zeros, s.max), (1 << 60, 1 << 60, Some(Number::Float(0.0))));
}

#[test]
fn quantized_tensors_are_dequantized() {
    let made = tensor(
        "q",
        &[2, 4],
        Layout::QuantizedGroup,
        vec![
            part(Role::PackedWeight, DType::I32, [0x10, 0x32, 0x54, 0x76]),
            part(Role::Scales, DType::F32, f32s(&[1.0, 10.0])),
            part(Role::Zeros, DType::F32, f32s(&[0.0, 4.0])),
        ],
    )
    .attribute("bits", Value::Integer(4))
    .attribute("group_size", Value::Integer(4))
    .attribute("packing", Value::Text("8_per_i32".into()));
    let s = stats_of(&file("ztensor", &[made]), "q");
    assert_eq!((s.count, s.zeros, s.max, s.mean), (8, 2, Some(Number::Float(30.0)), Some(8.25)));
}

#[test]
fn tensors_without_statistics_are_explained() {
    let parts = vec![part(Role::Data, DType::U8, [1, 2])];
    let other = tensor("other", &[2], Layout::from_name("other"), parts);
    let bools = dense("bools", &[2], part(Role::Data, DType::Bool, [1, 2]));
    let storage = part(Role::Data, DType::U8, [1, 2]).logical(LogicalType::from_name("q7_x"));
    let all = file("ztensor", &[other, bools, dense("storage", &[2], storage)]);
    let e = |name: &str| stats(&all.tensor(name).unwrap(), &StatsOptions::new()).unwrap_err();
    assert_eq!((e("other").kind(), e("other").tensor()), (ErrorKind::Unsupported, Some("other")));
    assert_eq!((e("bools").kind(), e("bools").tensor()), (ErrorKind::Malformed, Some("bools")));
    // Elements of unknown meaning have no mean.
    assert_eq!(
        (e("storage").code(), e("storage").tensor()),
        ("layout/unknown-type", Some("storage"))
    );
}

#[test]
fn every_tensor_of_the_corpus() {
    for path in make::corpus() {
        let file = holdall::open(&path).unwrap();
        for t in file.tensors() {
            if let Err(e) = stats(&t, &StatsOptions::new()) {
                assert!(make::is_odd(&e), "{e}");
                continue;
            }
            let s = stats_of(&file, t.name());
            assert_eq!(s.count, t.count(), "{} {}", path.display(), t.name());
        }
    }
}
