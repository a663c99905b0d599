//! Schemas in other forms, and their equivalents in the form of section 2.

use holdall_schema::normal;
use serde_json::{Value, json};

const D4: &str = "http://json-schema.org/draft-04/schema#";
const D7: &str = "http://json-schema.org/draft-07/schema#";
const D2019: &str = "https://json-schema.org/draft/2019-09/schema";
const D2020: &str = "https://json-schema.org/draft/2020-12/schema";

fn of(draft: &str, mut schema: Value) -> Value {
    schema["$schema"] = draft.into();
    schema
}

#[track_caller]
fn becomes(given: Value, expected: Value) {
    assert_eq!(normal(given.clone()).unwrap(), expected, "{given}");
    // The converted schema is not changed again.
    assert_eq!(normal(expected.clone()).unwrap(), expected);
}

#[track_caller]
fn stays(schema: Value) {
    assert_eq!(normal(schema.clone()).unwrap(), schema);
}

#[test]
fn keywords_of_older_drafts_become_those_of_2020_12() {
    let pair = json!([{"type": "number"}, {"type": "string"}]);
    for draft in [D4, D7, D2019, "https://json-schema.org/draft-06/schema"] {
        becomes(
            of(draft, json!({"items": pair, "additionalItems": false})),
            of(D2020, json!({"prefixItems": pair, "items": false})),
        );
        becomes(
            of(draft, json!({"items": {"type": "number"}, "additionalItems": false})),
            of(D2020, json!({"items": {"type": "number"}})),
        );
    }
    // Tuples of this form are also used with 2020-12.
    becomes(json!({"items": pair}), json!({"prefixItems": pair}));
    becomes(
        of(D2020, json!({"items": [], "additionalItems": {"type": "null"}})),
        of(D2020, json!({"items": {"type": "null"}})),
    );
    becomes(
        of(
            D4,
            json!({"properties": {"a": {"minimum": 1, "exclusiveMinimum": true, "maximum": 2, "exclusiveMaximum": false}}}),
        ),
        of(D2020, json!({"properties": {"a": {"exclusiveMinimum": 1, "maximum": 2}}})),
    );
    becomes(
        of(D7, json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}})),
        of(
            D2020,
            json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}}),
        ),
    );
    becomes(
        json!({"definitions": {"a~b": {"type": "null"}}, "$ref": "#/definitions/a~0b"}),
        json!({"$defs": {"a~b": {"type": "null"}}, "$ref": "#/$defs/a~0b"}),
    );
    becomes(
        json!({"patternProperties": {"^(.*)$": {"TypeDef:Tensor": {}}}}),
        json!({"additionalProperties": {"TypeDef:Tensor": {}}}),
    );
    for own in [
        json!({"TypeDef:Array": true, "items": [{"TypeDef:Int8": true}]}),
        json!({"additionalItems": false, "prefixItems": [true], "$schema": "https://example.org/mine"}),
        json!({"const": {"items": [1], "definitions": {}}, "enum": [{"items": []}]}),
        json!({"properties": {"mapping": {"type": "null"}}, "mapping": {"items": [1]}}),
        json!(true),
        json!([1]),
    ] {
        stays(own);
    }
}

#[test]
fn what_means_another_thing_is_an_error_with_draft_and_keyword() {
    for (draft, schema, draft_name, keyword, place) in [
        (D4, json!({"properties": {"a": {"const": 1}}}), "draft 4", "`const`", "`/properties/a`"),
        (
            D7,
            json!({"unevaluatedProperties": false}),
            "draft 7",
            "`unevaluatedProperties`",
            "the root",
        ),
        (
            D7,
            json!({"items": [{"dependentRequired": {}}]}),
            "draft 7",
            "`dependentRequired`",
            "`/items/0`",
        ),
        (D2019, json!({"prefixItems": [true]}), "draft 2019-09", "`prefixItems`", "the root"),
        (
            D2019,
            json!({"not": {"$recursiveRef": "#"}}),
            "draft 2019-09",
            "`$recursiveRef`",
            "`/not`",
        ),
        (
            D2019,
            json!({"contains": true, "unevaluatedItems": false}),
            "draft 2019-09",
            "`unevaluatedItems`",
            "the root",
        ),
        (D7, json!({"$ref": "#/$defs/a", "default": 1}), "draft 7", "`default`", "the root"),
        (D7, json!({"not": {"$schema": D4}}), "draft 7", "draft-04", "`/not`"),
        ("http://json-schema.org/draft-03/schema", json!({}), "draft-03", "`$schema`", "the root"),
    ] {
        let e = normal(of(draft, schema.clone())).unwrap_err();
        assert_eq!(e.code(), "schema/draft", "{schema}");
        let text = e.to_string();
        for part in [draft_name, keyword, place] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

fn reference(dtype: Value, shape: Value) -> Value {
    let pair = json!({"type": "array", "items": [{"type": "number"}, {"type": "number"}], "additionalItems": false});
    json!({"type": "object", "required": ["dtype", "shape", "data_offsets"],
        "properties": {"dtype": dtype, "shape": shape, "data_offsets": pair}})
}

#[test]
fn printed_references_get_their_keyword() {
    let any = json!({"type": "array", "items": {"type": "number"}});
    let f32 = json!({"type": "string", "const": "F32"});
    for (dtype, shape, kind) in [
        (f32.clone(), any.clone(), json!({"dtype": "F32", "shape": null})),
        (json!({"enum": ["F32"]}), any.clone(), json!({"dtype": "F32", "shape": null})),
        (
            json!({"type": "string", "enum": ["F32", "I16"]}),
            any.clone(),
            json!({"dtype": ["F32", "I16"], "shape": null}),
        ),
        (
            json!({"anyOf": [{"const": "F32"}, {"const": "I16"}]}),
            any.clone(),
            json!({"dtype": ["F32", "I16"], "shape": null}),
        ),
        (json!({"type": "string"}), any.clone(), json!({"dtype": null, "shape": null})),
        (f32.clone(), json!({"const": [20, 1]}), json!({"dtype": "F32", "shape": [20, 1]})),
        (
            f32.clone(),
            json!({"items": [{"const": 20}, {"type": "number"}]}),
            json!({"dtype": "F32", "shape": [20, null]}),
        ),
        (
            f32.clone(),
            json!({"items": {"type": "integer"}, "minItems": 2, "maxItems": 2}),
            json!({"dtype": "F32", "shape": [null, null]}),
        ),
    ] {
        becomes(reference(dtype, shape), json!({"TypeDef:Tensor": kind}));
    }
    let mut named = reference(json!({"$ref": "#/$defs/d"}), any.clone());
    named["$defs"] = json!({"d": f32});
    becomes(named, json!({"TypeDef:Tensor": {"dtype": "F32", "shape": null}, "$defs": {"d": f32}}));
    // Lists that are too long are not read as dtypes or dimensions, because many nodes could refer to them.
    let long = vec![json!("F32"); 1000];
    let made = normal(reference(json!({"enum": long}), any.clone())).unwrap();
    assert!(made.get("TypeDef:Tensor").is_none());
    let made = normal(reference(f32.clone(), json!({"const": vec![1; 1000]}))).unwrap();
    assert!(made.get("TypeDef:Tensor").is_none());
    // Objects with more or fewer constraints stay plain JSON.
    let mut more = reference(f32.clone(), any.clone());
    more["properties"]["name"] = json!({"type": "string"});
    let mut optional = reference(f32.clone(), any.clone());
    optional["required"] = json!(["dtype", "shape"]);
    for plain in [
        more,
        optional,
        reference(json!({"const": "F33"}), any.clone()),
        reference(f32.clone(), json!({"type": "string"})),
    ] {
        let made = normal(plain).unwrap();
        assert!(made.get("TypeDef:Tensor").is_none(), "{made}");
    }
    let entry = json!({"type": "object", "required": ["length", "offset"], "properties": {"offset": {"type": "number"}, "length": {"type": "number"}}});
    let blob = |heap: Value| {
        json!({"type": "object", "required": ["entries", "blob_data"],
            "properties": {"entries": {"type": "array", "items": entry}, "blob_data": heap}})
    };
    becomes(
        blob(reference(json!({"const": "U8"}), any.clone())),
        json!({"TypeDef:Blob": {"content": "bytes"}}),
    );
    let other = normal(blob(reference(f32, any))).unwrap();
    assert!(other.get("TypeDef:Blob").is_none(), "{other}");
}

#[test]
#[cfg(feature = "validate")]
fn keywords_of_older_drafts_hold_for_records() {
    use holdall_schema::{Document, Reading, SchemaLimits};
    let limits = SchemaLimits::default();
    let schema = of(
        D4,
        json!({"TypeDef:Struct": ["a"], "required": ["a"],
            "properties": {"a": {"TypeDef:Int32": true, "minimum": 0, "exclusiveMinimum": true}}}),
    );
    let document = Document::new(schema, "s.json", Reading::ByContent, &limits).unwrap();
    let checker = holdall_schema::Checker::new(&document.schema, &document.json, &limits).unwrap();
    checker.one_record(json!({"a": 1})).unwrap();
    assert_eq!(checker.one_record(json!({"a": 0})).unwrap_err().code(), "record/keyword");
}
