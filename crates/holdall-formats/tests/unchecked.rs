//! What a build without the feature `validate` does with values that it cannot check: it reads them and says
//! so, and does not write them. `cargo xtask features` runs it.
#![cfg(all(feature = "metatensor", not(feature = "validate")))]

use holdall_core::{Attributes, Bytes, EncodeOptions, ErrorKind, Limits, TensorSpec, Window};
use holdall_formats::metatensor;
use holdall_schema::{Checker, Schema, SchemaLimits};

const FILE: &[u8] = include_bytes!("../../../corpus/accept/metatensor/made-values.mt");
const OTHER: &[u8] = include_bytes!("../../../corpus/accept/metatensor/made-flat.mt");

fn decode(bytes: &'static [u8]) -> holdall_core::Index {
    let window = Window::whole(Bytes::from_static(bytes));
    holdall_formats::decode(&window, &Limits::default()).ok().expect("it is accepted")
}

#[test]
fn values_are_read_with_a_warning() {
    let index = decode(FILE);
    assert!(index.attributes().get("metatensor.values").is_some());
    let codes: Vec<&str> = index.warnings().iter().map(|w| w.code).collect();
    assert_eq!(codes, ["metatensor/values-unchecked"]);
    // One for each value that a schema says something of.
    assert_eq!(index.warnings()[0].count, 3);
    assert!(decode(OTHER).warnings().is_empty());
}

#[test]
fn values_are_not_written() {
    let write = |index: &holdall_core::Index| {
        let specs: Vec<TensorSpec> =
            index.tensors().map(|t| TensorSpec::from_info(&t).expect("it is raw")).collect();
        let attributes: &Attributes = index.attributes();
        let mut encoder =
            (metatensor::FORMAT.encode.expect("it is written"))(&EncodeOptions::new())?;
        encoder.begin(attributes, &specs).map(drop)
    };
    let e = write(&decode(FILE)).unwrap_err();
    assert_eq!((e.code(), e.kind()), ("schema/not-built", ErrorKind::Unsupported));
    assert!(e.hint().is_some_and(|hint| hint.contains("`validate`")));
    write(&decode(OTHER)).unwrap();
}

#[test]
fn there_is_no_checker() {
    let source = serde_json::json!({"TypeDef:Struct": ["a"], "required": ["a"], "align": 1,
        "type": "object", "properties": {"a": {"TypeDef:Uint8": true}}});
    let schema = Schema::compile_record(&source, &SchemaLimits::default()).unwrap();
    let e = Checker::new(&schema, &source, &SchemaLimits::default()).unwrap_err();
    assert_eq!((e.code(), Checker::IS_BUILT), ("schema/not-built", false));
}
