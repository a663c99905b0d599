//! What the published documents say and no other test shows: `docs/spec/coverage.md` names these tests.

use crate::ztensor_files::*;
use holdall_core::{Bytes, DType, Layout, Limits, Role, Stop, Value, Window};

#[test]
fn a_tensor_of_0_1_without_a_layout_is_dense() {
    let index = decode(&of_entry(&without(entry(), "layout"))).unwrap();
    let w = index.at(0).unwrap();
    assert_eq!((w.layout(), w.shape(), index.warnings()), (&Layout::Dense, &[8][..], &[][..]));
}

#[test]
fn padding_of_0_1_may_be_anything() {
    let mut bytes = of_entry(&entry());
    bytes[8..64].fill(7);
    bytes[80..128].fill(0xff);
    let index = decode(&bytes).unwrap();
    assert_eq!((index.len(), index.warnings()), (1, &[][..]));
}

#[test]
fn a_layout_of_0_1_that_has_no_meaning_is_kept() {
    for name in ["quantized", "ragged"] {
        let quantized = with(with(entry(), "layout", text(name)), "bits", uint(4));
        let index = decode(&of_entry(&quantized)).unwrap();
        let w = index.at(0).unwrap();
        assert_eq!(w.layout(), &Layout::Other(name.into()));
        assert_eq!(w.attributes().get("bits"), Some(&Value::Integer(4)));
        assert_eq!(w.component(&Role::Data).unwrap().stored_len(), 16);
    }
}

/// The example of the document: 8 × 8 elements here, of half a byte each.
#[test]
fn a_layout_of_1_0_that_has_no_meaning_is_kept_whole() {
    let part = |offset, len| map(&[("offset", uint(offset)), ("length", uint(len))]);
    let components =
        map(&[("data", part(64, 32)), ("scale", part(96, 16)), ("zero_point", part(112, 8))]);
    let tensor = with(tensor_1_0(), "format", text("quantized_4bit"));
    let tensor = with(tensor, "shape", array(&[uint(8), uint(8)]));
    let tensor = with(tensor, "components", components);
    let index = decode(&file_1_0(&map(&root_1_0(&tensor)))).unwrap();
    let w = index.at(0).unwrap();
    assert_eq!(w.layout(), &Layout::Other("quantized_4bit".into()));
    assert_eq!(w.shape(), [8, 8]);
    let found: Vec<_> =
        w.components().map(|c| (c.role.to_string(), c.dtype, c.stored.range())).collect();
    let is = |role: &str, range| (role.to_owned(), DType::U8, range);
    assert_eq!(found, [is("data", 64..96), is("scale", 96..112), is("zero_point", 112..120)]);
}

#[test]
fn versions_of_1_0_are_negotiated() {
    let found = |version: &str| {
        let root = with(root_1_0(&tensor_1_0()), "version", text(version));
        let codes = |index: holdall_core::Index| index.warnings().iter().map(|w| w.code).collect();
        decode(&file_1_0(&map(&root))).map(codes).map_err(|e| e.code())
    };
    assert_eq!(found("1.0"), Ok(Vec::new()));
    assert_eq!(found("1.0.7"), Ok(Vec::new()));
    assert_eq!(found("1.1"), Ok(vec!["ztensor/version"]));
    assert_eq!(found("1.9.0"), Ok(vec!["ztensor/version"]));
    assert_eq!(found("2.0"), Err("ztensor/unsupported-version"));
}

#[test]
fn every_required_field_of_1_0_is_missed() {
    let of = |tensor: &Pairs| decode(&file_1_0(&map(&root_1_0(tensor)))).map(drop);
    assert!(of(&tensor_1_0()).is_ok());
    for field in ["dtype", "shape", "format", "components"] {
        let e = of(&without(tensor_1_0(), field)).unwrap_err();
        assert_eq!(e.code(), "ztensor/missing-field", "{field}");
        assert!(e.message().contains(&format!("`{field}`")), "{e}");
    }
    let part: Pairs = vec![("offset", uint(64)), ("length", uint(16))];
    for field in ["offset", "length"] {
        let data = map(&without(part.clone(), field));
        let e = of(&with(tensor_1_0(), "components", map(&[("data", data)]))).unwrap_err();
        assert_eq!(e.code(), "ztensor/missing-field", "{field}");
        assert!(e.message().contains(&format!("`{field}`")), "{e}");
    }
}

/// A file of 4 GiB of which only the ends are available: a length over the limit is refused, not requested.
#[test]
fn a_manifest_of_more_than_a_gigabyte_is_not_asked_for() {
    let of = |manifest: u64| {
        let len = 4u64 << 30;
        let mut window = Window::new(len);
        window.add(0, Bytes::from_static(b"ZTEN1000"));
        let footer = [&manifest.to_le_bytes()[..], b"ZTEN1000"].concat();
        window.add(len - 16, Bytes::from(footer));
        holdall_formats::decode(&window, &Limits::default()).unwrap_err()
    };
    match of(1_000_000_001) {
        Stop::Fail(e) => assert_eq!(e.code(), "ztensor/manifest-len", "{e}"),
        Stop::Need(ranges) => panic!("it asks for {ranges:?}"),
    }
    assert!(matches!(of(1_000_000_000), Stop::Need(_)));
}

#[cfg(feature = "validate")]
#[test]
fn a_schema_may_say_its_draft() {
    let schema: serde_json::Value = serde_json::from_str(
        r#"{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "TypeDef:Struct": ["x"], "required": ["x"],
            "properties": {"x": {"type": "number", "maximum": 1, "TypeDef:Float32": true}}}"#,
    )
    .unwrap();
    let limits = holdall_schema::SchemaLimits::default();
    let compiled = holdall_schema::Schema::compile_record(&schema, &limits).unwrap();
    let checker = holdall_schema::Checker::new(&compiled, &schema, &limits).unwrap();
    assert!(checker.one_record(serde_json::json!({"x": 1})).is_ok());
    assert!(checker.one_record(serde_json::json!({"x": 2})).is_err());
}
