//! Checks values against declared inputs and outputs.

use holdall_core::Error;
use holdall_package::signature::{CallChecker, assign_names};
use holdall_package::{DimSpec, ShapeSpec, TensorValue, ValueSpec, ValueType};

/// Parses a declared shape: `*`, `=s` (a symbol for the whole shape) or `n 3 *`.
fn shape(text: &str) -> ShapeSpec {
    match text {
        "*" => ShapeSpec::Any,
        _ if text.starts_with('=') => ShapeSpec::Symbol(text[1..].to_owned()),
        _ => ShapeSpec::Dims(
            text.split_whitespace()
                .map(|d| match (d, d.parse()) {
                    ("*", _) => DimSpec::Any,
                    (_, Ok(size)) => DimSpec::Size(size),
                    (symbol, _) => DimSpec::Symbol(symbol.to_owned()),
                })
                .collect(),
        ),
    }
}

fn spec(name: &str, of: &str) -> ValueSpec {
    ValueSpec::new(name, ValueType::Float32, shape(of))
}

fn value(shape: &[u64]) -> TensorValue {
    let count = shape.iter().product::<u64>() as usize;
    TensorValue::from_elements(shape.to_vec(), &vec![0f32; count]).unwrap()
}

fn describe(errors: &[Error]) -> Vec<(&str, &str)> {
    errors.iter().map(|e| (e.code(), e.message())).collect()
}

fn nested(shapes: &[&[u64]]) -> TensorValue {
    TensorValue::nested(shapes.iter().map(|s| value(s)).collect()).unwrap()
}

#[test]
fn matching_signatures_give_no_warning() {
    for (declared, found) in [
        ("*", value(&[2, 3])),
        ("*", nested(&[&[1], &[2]])),
        ("", value(&[])),
        ("=all", value(&[2, 3])),
        ("n 3", value(&[2, 3])),
        ("n n", value(&[2, 2])),
        ("* * *", value(&[1, 2, 3])),
        ("2 *", nested(&[&[5], &[7]])),
        ("n n", nested(&[&[2], &[2]])),
        ("0 7 7", TensorValue::nested(Vec::new()).unwrap()),
    ] {
        let declared = [spec("x", declared)];
        let wrong = CallChecker::new().inputs(&declared, [("x", &found)]);
        assert!(wrong.is_empty(), "{declared:?}: {wrong:?}");
    }
    // Without declarations, any values are accepted.
    assert!(CallChecker::new().inputs(&[], [("x", &value(&[1]))]).is_empty());
}

#[test]
fn every_mismatch_names_the_place_and_both_sides() {
    let declared =
        [spec("x", "n 3"), spec("y", "n"), spec("z", "*"), spec("s", ""), spec("q", "n *")];
    let texts = TensorValue::strings(vec![1], vec!["a".to_owned()]).unwrap();
    let (x, y, s) = (value(&[2, 4]), value(&[5]), value(&[1]));
    let q = nested(&[&[3], &[4]]);
    let given = [("x", &x), ("y", &y), ("z", &texts), ("s", &s), ("q", &q), ("w", &s), ("x", &x)];
    let mut call = CallChecker::new();
    let wrong = call.inputs(&declared, given);
    assert_eq!(
        describe(&wrong),
        [
            ("signature/input-size", "dimension 1 of input `x` is 4, declared as 3"),
            (
                "signature/input-symbol",
                "dimension 0 of input `y` is 5, but `n` is 2 in dimension 0 of input `x`"
            ),
            ("signature/input-type", "input `z` is string, declared as float32"),
            ("signature/input-rank", "input `s` has 1 dimensions, [1], declared with 0, []"),
            ("signature/input-unknown", "there is no input `w`"),
            ("signature/input-unknown", "input `x` is given twice"),
        ]
    );
    assert_eq!(wrong[4].hint(), Some("the model declares `x`, `y`, `z`, `s`, `q`"));

    // The outputs of the same call use the value of `n`.
    let declared = [spec("out", "n"), spec("more", "=whole"), spec("again", "=whole")];
    let (out, more, again) = (value(&[3]), value(&[1, 2]), value(&[2, 1]));
    let wrong = call.outputs(&declared, [("out", &out), ("more", &more), ("again", &again)]);
    assert_eq!(
        describe(&wrong),
        [
            (
                "signature/output-symbol",
                "dimension 0 of output `out` is 3, but `n` is 2 in dimension 0 of input `x`"
            ),
            (
                "signature/output-symbol",
                "output `again` has shape [2, 1], but `whole` is [1, 2] in output `more`"
            ),
        ]
    );
    let wrong = call.outputs(&declared, [("nothing", &out)]);
    let codes: Vec<&str> = wrong.iter().map(Error::code).collect();
    let missing = "signature/output-missing";
    assert_eq!(codes, ["signature/output-unknown", missing, missing, missing]);
    assert_eq!(wrong[1].message(), "output `out` (float32, shape [n]) is missing");
}

#[test]
fn sizes_inside_nested_values_are_held_one_by_one() {
    for (declared, code) in [
        ("3 *", "signature/input-size"),
        ("* 3", "signature/input-size"),
        ("n n", "signature/input-symbol"),
        ("* k", "signature/input-symbol"),
        ("*", ""),
        ("* * *", "signature/input-rank"),
        ("", "signature/input-rank"),
    ] {
        let declared = [spec("x", declared)];
        let found = nested(&[&[2], &[3]]);
        let wrong = CallChecker::new().inputs(&declared, [("x", &found)]);
        let ranks = if declared[0].shape == shape("* * *") { 2 } else { 1 };
        if code.is_empty() {
            // A text of one star is any shape, not one dimension.
            assert!(wrong.is_empty());
            continue;
        }
        assert_eq!(wrong.len(), ranks, "{wrong:?}");
        assert!(wrong.iter().all(|e| e.code() == code), "{wrong:?}");
    }
}

#[test]
fn inputs_without_names_take_those_declared() {
    let declared = [spec("x", "*"), spec("y", "*")];
    let named = assign_names(&declared, vec![value(&[1]), value(&[2])]).unwrap();
    assert_eq!(named[1], ("y".to_owned(), value(&[2])));
    let e = assign_names(&declared, vec![value(&[1])]).unwrap_err();
    assert_eq!((e.code(), e.hint()), ("signature/position", Some("the order is x, y")));
}

#[test]
fn values_have_parts_that_fit_each_other() {
    assert_eq!(TensorValue::from_elements(vec![2], &[1u16]).unwrap_err().code(), "signature/value");
    assert_eq!(
        TensorValue::from_elements(vec![u64::MAX, 2], &[1u16]).unwrap_err().code(),
        "signature/value"
    );
    assert_eq!(TensorValue::strings(vec![2], Vec::new()).unwrap_err().code(), "signature/value");
    let inner = TensorValue::nested(Vec::new()).unwrap();
    assert!(TensorValue::nested(vec![inner]).is_err());
    assert!(TensorValue::nested(vec![value(&[1]), value(&[1, 1])]).is_err());
    assert!(
        TensorValue::nested(vec![
            value(&[1]),
            TensorValue::from_elements(vec![1], &[1u8]).unwrap()
        ])
        .is_err()
    );
    assert_eq!(TensorValue::from_elements(vec![], &[-2i16]).unwrap().ty(), Some(ValueType::Int16));
    assert_eq!(
        TensorValue::from_elements(vec![0, u64::MAX, 9], &[0u8; 0]).unwrap().shape().unwrap().len(),
        3
    );
}
