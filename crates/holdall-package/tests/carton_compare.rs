//! Compares outputs with the expected ones.

use holdall_package::{Comparison, TensorValue, Tolerance, compare};

fn tolerance(rtol: f64, atol: f64, equal_nan: bool) -> Tolerance {
    Tolerance { rtol, atol, equal_nan, ..Tolerance::default() }
}

fn floats(found: &[f64], expected: &[f64], tolerance: &Tolerance) -> Comparison {
    let of = |x: &[f64]| TensorValue::from_elements(vec![x.len() as u64], x).unwrap();
    compare(&of(found), &of(expected), tolerance)
}

#[test]
fn floats_are_close_as_numpy_says() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let default = Tolerance::default();
    // The results of `numpy.isclose(found, expected, rtol, atol, equal_nan)`.
    for (found, expected, with, close) in [
        (1e10, 1.00001e10, &default, true),
        (1e-7, 1e-8, &default, false),
        (1e10, 1.0001e10, &default, false),
        (1e-8, 1e-9, &default, true),
        (inf, inf, &default, true),
        (inf, -inf, &default, false),
        (inf, 1.0, &tolerance(inf, inf, false), false),
        (1.0, inf, &tolerance(0.1, 0.0, false), false),
        (nan, nan, &default, false),
        (nan, nan, &tolerance(0.0, 0.0, true), true),
        (nan, 1.0, &tolerance(1.0, 1.0, true), false),
        (0.0, -0.0, &tolerance(0.0, 0.0, false), true),
        // `rtol` is relative to the expected value.
        (1.0, 2.0, &tolerance(0.5, 0.0, false), true),
        (2.0, 1.0, &tolerance(0.5, 0.0, false), false),
        (f64::MAX, -f64::MAX, &tolerance(0.1, 0.0, false), false),
    ] {
        let c = floats(&[found], &[expected], with);
        assert_eq!(c.is_close(), close, "{found} {expected} {with:?}");
        assert_eq!((c.count, c.differ), (1, u64::from(!close)));
    }
}

#[test]
fn the_report_says_how_far_and_where() {
    let found = TensorValue::from_elements(vec![2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.5, 7.0]).unwrap();
    let expected =
        TensorValue::from_elements(vec![2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 0.0]).unwrap();
    let c = compare(&found, &expected, &Tolerance::default());
    assert_eq!((c.count, c.differ, c.max_abs, c.max_rel), (6, 2, 7.0, f64::INFINITY));
    let first = c.first.unwrap();
    assert_eq!((first.part, first.index), (None, vec![1, 1]));
    assert_eq!((first.found.as_str(), first.expected.as_str()), ("5.5", "5"));

    let c = floats(&[1.0, 2.0], &[1.0, 4.0], &tolerance(1.0, 0.0, false));
    assert!(c.is_close());
    assert_eq!((c.max_abs, c.max_rel), (2.0, 0.5));

    let inf = f64::INFINITY;
    for (found, expected, most) in
        [(1.0, inf, inf), (inf, 1.0, inf), (inf, -inf, inf), (inf, inf, 0.0), (f64::NAN, inf, 0.0)]
    {
        let c = floats(&[found], &[expected], &tolerance(1.0, 0.0, false));
        assert_eq!((c.max_abs, c.max_rel), (most, most), "{found} {expected}");
    }
}

#[test]
fn integers_and_texts_are_compared_exactly() {
    let loose = tolerance(1.0, 1.0, true);
    let (a, b) = (
        TensorValue::from_elements(vec![], &[u64::MAX]).unwrap(),
        TensorValue::from_elements(vec![], &[0u64]).unwrap(),
    );
    let c = compare(&a, &b, &loose);
    assert_eq!((c.differ, c.max_abs, c.max_rel), (1, u64::MAX as f64, f64::INFINITY));
    let (a, b) = (
        TensorValue::from_elements(vec![1], &[i64::MIN]),
        TensorValue::from_elements(vec![1], &[i64::MIN + 1]),
    );
    let c = compare(&a.unwrap(), &b.unwrap(), &loose);
    assert_eq!((c.differ, c.max_abs), (1, 1.0));
    assert!(
        !compare(&TensorValue::from_elements(vec![], &[1u8]).unwrap(), &a_byte(2), &loose)
            .is_close()
    );
    assert!(compare(&a_byte(2), &a_byte(2), &tolerance(0.0, 0.0, false)).is_close());

    let texts = |t: &[&str]| {
        TensorValue::strings(vec![t.len() as u64], t.iter().map(|&t| t.to_owned()).collect())
            .unwrap()
    };
    let c = compare(&texts(&["a", "b"]), &texts(&["a", "B"]), &loose);
    let first = c.first.as_ref().unwrap();
    assert_eq!((first.found.as_str(), first.expected.as_str()), ("\"b\"", "\"B\""));
    assert_eq!((c.differ, c.max_abs), (1, 0.0));
}

fn a_byte(x: u8) -> TensorValue {
    TensorValue::from_elements(vec![], &[x]).unwrap()
}

#[test]
fn other_types_and_shapes_are_not_compared() {
    let tolerance = Tolerance::default();
    let a = TensorValue::from_elements(vec![2], &[1.0f32, 2.0]).unwrap();
    let b = TensorValue::from_elements(vec![1, 2], &[1.0f32, 2.0]).unwrap();
    let c = compare(&a, &b, &tolerance);
    assert_eq!(
        c.mismatch.as_deref(),
        Some("float32 of shape [2], expected float32 of shape [1, 2]")
    );
    assert!(!c.is_close() && c.count == 0);
    assert!(
        !compare(&a, &TensorValue::from_elements(vec![2], &[1i32, 2]).unwrap(), &tolerance)
            .is_close()
    );
    let nested = |parts: &[&TensorValue]| {
        TensorValue::nested(parts.iter().map(|&p| p.clone()).collect()).unwrap()
    };
    assert!(!compare(&a, &nested(&[&a]), &tolerance).is_close());
    assert!(!compare(&nested(&[&a]), &a, &tolerance).is_close());
    assert!(compare(&nested(&[&a, &a]), &nested(&[&a, &a]), &tolerance).is_close());
    assert!(!compare(&nested(&[&a, &a]), &nested(&[&a]), &tolerance).is_close());
    let c = TensorValue::from_elements(vec![2], &[1.0f32, 3.0]).unwrap();
    let first = compare(&nested(&[&a, &a]), &nested(&[&a, &c]), &tolerance).first.unwrap();
    assert_eq!((first.part, first.index), (Some(1), vec![1]));
    let short = TensorValue::from_elements(vec![1], &[1.0f32]).unwrap();
    let c = compare(&nested(&[&a, &a]), &nested(&[&a, &short]), &tolerance);
    assert!(c.mismatch.unwrap().starts_with("tensor 1: "));
}
