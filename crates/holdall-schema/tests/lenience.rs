//! Options of an encoder that accept more than section 5.2 does.

use holdall_schema::record::{Null, Unknown};
use holdall_schema::{Encoder, Schema, SchemaLimits};
use serde_json::json;

fn schema() -> Schema {
    let circle = json!({
        "TypeDef:Struct": ["r"], "required": ["r"], "properties": {"r": {"TypeDef:Uint8": true}},
    });
    let record = json!({
        "TypeDef:Struct": ["a", "b", "u"], "required": ["a", "u"], "align": "natural",
        "properties": {
            "a": {"TypeDef:Uint8": true},
            "b": {"TypeDef:Uint8": true},
            "u": {"TypeDef:Union": {"discriminator": "kind"}, "mapping": {"circle": circle}},
        },
    });
    Schema::compile_record(&record, &SchemaLimits::default()).unwrap()
}

const PLAIN: &str = r#"{"a": 1, "u": {"kind": "circle", "r": 2}}"#;

fn encoded(encoder: Encoder<'_>, json: &str) -> Result<Vec<u8>, &'static str> {
    let mut encoder = encoder;
    let mut record = vec![0; encoder.size()];
    let written = encoder.text(json.as_bytes(), &mut record, &mut Vec::new());
    let value = serde_json::from_str(json).unwrap();
    let mut other = vec![0; encoder.size()];
    let from_value = encoder.value(&value, &mut other, &mut Vec::new());
    assert_eq!(written.is_ok(), from_value.is_ok());
    match written {
        Ok(()) => {
            assert_eq!(record, other);
            Ok(record)
        }
        Err(e) => Err(e.code()),
    }
}

#[test]
fn unknown_members_are_skipped_on_request() {
    let schema = schema();
    let new = || Encoder::new(&schema, schema.record().unwrap(), &SchemaLimits::default()).unwrap();
    let more = r#"{"x": [1, {"a": 2}], "a": 1, "u": {"kind": "circle", "y": null, "r": 2}}"#;
    assert_eq!(encoded(new(), more), Err("record/unknown-member"));
    let lenient = new().with_unknown(Unknown::Ignore);
    assert_eq!(encoded(lenient, more), encoded(new(), PLAIN));
}

#[test]
fn null_means_absent_on_request() {
    let schema = schema();
    let new = || Encoder::new(&schema, schema.record().unwrap(), &SchemaLimits::default()).unwrap();
    let null = r#"{"a": 1, "b": null, "u": {"kind": "circle", "r": 2}}"#;
    assert_eq!(encoded(new(), null), Err("record/type"));
    assert_eq!(encoded(new().with_null(Null::Absent), null), encoded(new(), PLAIN));
    // Required members must be present.
    let required = r#"{"a": null, "u": {"kind": "circle", "r": 2}}"#;
    assert_eq!(encoded(new().with_null(Null::Absent), required), Err("record/type"));
}
