//! Attribute values as JSON: read like serde_json, and written without loss.

use holdall_core::{Attributes, Value};
use holdall_json::Reader;
use proptest::prelude::*;

const DEPTH: usize = 64;

/// Texts that are difficult for readers, valid and invalid, one per line.
const NASTY: &str = include_str!("../../holdall-json/tests/nasty.txt");

/// Texts that contain a line end or a control character.
const NASTY_CONTROL: &[&str] = &[
    "",
    "\"\t\"",
    "\"\n\"",
    "\"\u{0}\"",
    "\"\u{1f}\"",
    "\"\u{7f}\"",
    "\u{c}1",
    "// c\n1",
    "\r\n\t [\r\n\t 1\r\n\t ,\r\n\t 2\r\n\t ]\r\n\t ",
];

fn nasty() -> impl Iterator<Item = &'static str> {
    NASTY.lines().chain(NASTY_CONTROL.iter().copied())
}

/// Returns the results of both ways through a text: reading and skipping.
fn ours(text: &[u8]) -> [Result<(), String>; 2] {
    let built = std::str::from_utf8(text).map_err(|e| e.to_string()).and_then(|text| {
        Value::from_json(text, DEPTH).map(|_| ()).map_err(|e| e.code().to_string())
    });
    let skipped = Reader::new(text, 0, DEPTH)
        .and_then(|mut r| {
            r.skip()?;
            r.end()
        })
        .map_err(|e| e.code().to_string());
    [built, skipped]
}

fn check_like_serde(text: &[u8]) -> Result<(), TestCaseError> {
    let theirs = serde_json::from_slice::<serde_json::Value>(text);
    let [built, skipped] = ours(text);
    let shown = String::from_utf8_lossy(text);
    // Rules of Holdall, each tested below. Types matter inside a `$` form.
    let own_rule = |r: &Result<(), String>| {
        let own = ["json/depth", "json/duplicate-key", "json/lossless"];
        let in_form = ["json/type", "json/integer"];
        r.as_ref().is_err_and(|code| {
            own.contains(&code.as_str())
                || (in_form.contains(&code.as_str()) && shown.contains('$'))
        })
    };
    if !own_rule(&built) {
        prop_assert_eq!(theirs.is_ok(), built.is_ok(), "{}: {:?} {:?}", shown, theirs, built);
    }
    // A number too large for a double follows the grammar; only reading its value fails.
    let is_range = theirs.as_ref().is_err_and(|e| e.to_string().contains("out of range"));
    if !own_rule(&skipped) && !is_range {
        prop_assert_eq!(theirs.is_ok(), skipped.is_ok(), "{}: {:?} {:?}", shown, theirs, skipped);
    }
    Ok(())
}

#[test]
fn nasty_texts_fare_as_with_serde_json() {
    for text in nasty() {
        check_like_serde(text.as_bytes()).unwrap();
        // In a container and as a value, where the reader's state differs.
        check_like_serde(format!("[{text}]").as_bytes()).unwrap();
        check_like_serde(format!("{{\"k\":{text},\"l\":0}}").as_bytes()).unwrap();
    }
    let not_utf8: [&[u8]; 5] =
        [b"\"\xff\"", b"\"\xc0\x80\"", b"\"\xed\xa0\x80\"", b"\xff", b"[\"\xf4\x90\x80\x80\"]"];
    for text in not_utf8 {
        check_like_serde(text).unwrap();
    }
}

#[test]
fn values_equal_those_of_serde_json() {
    let mut compared = 0;
    for text in nasty() {
        let Ok(theirs) = serde_json::from_str::<serde_json::Value>(text) else { continue };
        let ours = Value::from_json(text, DEPTH).unwrap();
        let again: serde_json::Value = serde_json::from_str(&ours.to_json()).unwrap();
        assert_eq!(again, theirs, "{text}");
        compared += 1;
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn depth_is_bounded() {
    let just = format!("{}1{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    assert!(Value::from_json(&just, DEPTH).is_ok());
    assert_eq!(Value::from_json(&just, DEPTH - 1).unwrap_err().code(), "json/depth");
    // Closing a container reduces the depth.
    let wide = format!("[{}]", vec!["[[]]"; 1000].join(","));
    assert!(Value::from_json(&wide, 3).is_ok());
}

#[test]
fn repeated_keys_are_found() {
    let texts =
        [r#"{"a":1,"a":2}"#, r#"[{"x":{"a":1,"\u0061":2}}]"#, r#"{"$map":[["a",1],["a",2]]}"#];
    for text in texts {
        assert_eq!(Value::from_json(text, DEPTH).unwrap_err().code(), "json/duplicate-key");
    }
}

#[test]
fn only_known_forms_have_a_dollar() {
    for text in [
        r#"{"$what":1}"#,
        r#"{"$bytes":"0"}"#,
        r#"{"$bytes":"0g"}"#,
        r#"{"$bytes":"00","x":1}"#,
        r#"{"x":1,"$bytes":"00"}"#,
        r#"{"$float":"NaN"}"#,
        r#"{"$float":"+000000000000000"}"#,
        r#"{"$undefined":false}"#,
        r#"{"$simple":256}"#,
        r#"{"$tag":[1]}"#,
        r#"{"$tag":[1,2,3]}"#,
        r#"{"$map":[[1]]}"#,
    ] {
        assert_eq!(Value::from_json(text, DEPTH).unwrap_err().code(), "json/lossless", "{text}");
    }
    // At the top level of attributes, a key with `$` is an ordinary key.
    let attributes = Attributes::from_json(r#"{"$what":1}"#, DEPTH).unwrap();
    assert_eq!(attributes.get("$what"), Some(&Value::Integer(1)));
    assert!(Attributes::from_json(r#"{"a":1,"a":2}"#, DEPTH).is_err());
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(Value::Undefined),
        any::<bool>().prop_map(Value::Bool),
        (-(1i128 << 64)..(1i128 << 64)).prop_map(Value::Integer),
        any::<f64>().prop_map(Value::Float),
        any::<u64>().prop_map(|bits| Value::Float(f64::from_bits(bits))),
        prop::collection::vec(any::<u8>(), 0..8).prop_map(Value::Bytes),
        any::<String>().prop_map(Value::Text),
        "[$a]{0,3}".prop_map(Value::Text),
        any::<u8>().prop_map(Value::Simple),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            (any::<u64>(), inner.clone()).prop_map(|(tag, v)| Value::Tag(tag, Box::new(v))),
            prop::collection::vec((inner.clone(), inner.clone()), 0..4).prop_map(unique_keys),
            prop::collection::vec(("[$a-c]{0,3}".prop_map(Value::Text), inner), 0..4)
                .prop_map(unique_keys),
        ]
    })
}

fn unique_keys(pairs: Vec<(Value, Value)>) -> Value {
    let mut seen = std::collections::HashSet::new();
    Value::Map(pairs.into_iter().filter(|(k, _)| seen.insert(k.to_json())).collect())
}

/// JSON text with errors: pieces of the grammar in any order.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\"a\"", "\"b\"", "0", "1", "-", ".", "e", "9",
        "true", "false", "null", " ", "\n", "\\u12", "\\ud800", "\\udc00", "é", "\u{1}", "+",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_fares_as_with_serde_json(text in any_text()) {
        check_like_serde(text.as_bytes())?;
    }

    #[test]
    fn a_changed_byte_fares_as_with_serde_json(
        value in any_value(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut text = value.to_json().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        check_like_serde(&text)?;
    }

    #[test]
    fn values_come_back(value in any_value()) {
        let text = value.to_json();
        let back = Value::from_json(&text, 100).unwrap();
        // NaN is not equal to itself, but its text is.
        prop_assert_eq!(back.to_json(), text);
    }
}
