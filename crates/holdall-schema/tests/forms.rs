//! Schemas in other forms, and their equivalents in the form of section 2.

use holdall_schema::normalize;
use serde_json::{Value, json};

const D4: &str = "http://json-schema.org/draft-04/schema#";
const D7: &str = "http://json-schema.org/draft-07/schema#";
const D2019: &str = "https://json-schema.org/draft/2019-09/schema";
const D2020: &str = "https://json-schema.org/draft/2020-12/schema";

fn with_draft(draft: &str, mut schema: Value) -> Value {
    schema["$schema"] = draft.into();
    schema
}

#[track_caller]
fn becomes(given: Value, expected: Value) {
    assert_eq!(normalize(given.clone()).unwrap(), expected, "{given}");
    // The converted schema is not changed again.
    assert_eq!(normalize(expected.clone()).unwrap(), expected);
}

#[track_caller]
fn stays(schema: Value) {
    assert_eq!(normalize(schema.clone()).unwrap(), schema);
}

#[test]
fn keywords_of_older_drafts_become_those_of_2020_12() {
    let pair = json!([{"type": "number"}, {"type": "string"}]);
    for draft in [D4, D7, D2019, "https://json-schema.org/draft-06/schema"] {
        becomes(
            with_draft(draft, json!({"items": pair, "additionalItems": false})),
            with_draft(D2020, json!({"prefixItems": pair, "items": false})),
        );
        becomes(
            with_draft(draft, json!({"items": {"type": "number"}, "additionalItems": false})),
            with_draft(D2020, json!({"items": {"type": "number"}})),
        );
    }
    // Tuples of this form are also used with 2020-12.
    becomes(json!({"items": pair}), json!({"prefixItems": pair}));
    becomes(
        with_draft(D2020, json!({"items": [], "additionalItems": {"type": "null"}})),
        with_draft(D2020, json!({"items": {"type": "null"}})),
    );
    becomes(
        with_draft(
            D4,
            json!({"properties": {"a": {"minimum": 1, "exclusiveMinimum": true, "maximum": 2, "exclusiveMaximum": false}}}),
        ),
        with_draft(D2020, json!({"properties": {"a": {"exclusiveMinimum": 1, "maximum": 2}}})),
    );
    becomes(
        with_draft(D7, json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}})),
        with_draft(
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
fn definitions_and_defs_may_have_one_name() {
    becomes(
        json!({
            "$defs": {"a/b": {"type": "null"}, "c": {"$ref": "#/definitions/c"}},
            "definitions": {"a/b": {"type": "string"}, "a/b#2": {}, "c": {"$ref": "#/$defs/a~1b"}, "d": true},
            "properties": {
                "x": {"$ref": "#/$defs/a~1b"}, "y": {"$ref": "#/definitions/a~1b"},
                "z": {"$ref": "#/definitions/c"}, "w": {"$ref": "#/definitions/d"},
            },
        }),
        json!({
            "$defs": {
                "a/b": {"type": "null"}, "a/b#2": {}, "a/b#3": {"type": "string"}, "c": {"$ref": "#/$defs/c%232"},
                "c#2": {"$ref": "#/$defs/a~1b"}, "d": true,
            },
            "properties": {
                "x": {"$ref": "#/$defs/a~1b"}, "y": {"$ref": "#/$defs/a~1b%233"},
                "z": {"$ref": "#/$defs/c%232"}, "w": {"$ref": "#/$defs/d"},
            },
        }),
    );
    // A printed reference of which a part is a definition.
    let pair = json!({"type": "array", "items": {"type": "number"}});
    let printed = |name: &str| {
        json!({"type": "object", "required": ["dtype", "shape", "data_offsets"],
            "properties": {"dtype": {"$ref": format!("#/{name}/dtype")}, "shape": pair, "data_offsets": pair}})
    };
    let given = json!({
        "$defs": {"dtype": {"const": "F32"}}, "definitions": {"dtype": {"const": "I8"}},
        "properties": {"a": printed("$defs"), "b": printed("definitions")},
    });
    let found = normalize(given).unwrap();
    assert_eq!(found["properties"]["a"]["TypeDef:Tensor"]["dtype"], "F32");
    assert_eq!(found["properties"]["b"]["TypeDef:Tensor"]["dtype"], "I8");
}

/// Names, some of them alike or with characters that references escape, in both places: each reference leads to its own.
#[test]
fn every_reference_leads_where_it_led() {
    let names = ["a", "a#2", "a#3", "b~c", "b/c", "50%", "a#2#2", "é"];
    let escaped = |name: &str| {
        name.replace('~', "~0").replace('/', "~1").replace('%', "%25").replace('#', "%23")
    };
    for taken in 0u32..1 << names.len() {
        let has = |at: usize, bit: u32| (taken.rotate_left(bit) >> at) & 1 == 1 || at == 0;
        let (mut defs, mut definitions, mut properties) = (json!({}), json!({}), json!({}));
        for (at, name) in names.iter().enumerate() {
            for (place, is_there) in [("$defs", true), ("definitions", has(at, 0))] {
                if !is_there || place == "$defs" && !has(at, 3) {
                    continue;
                }
                let own = format!("{place} {name}");
                let all = if place == "$defs" { &mut defs } else { &mut definitions };
                all[*name] = json!({"const": own});
                properties[own] = json!({"$ref": format!("#/{place}/{}", escaped(name))});
            }
        }
        let given =
            json!({"$defs": defs, "definitions": definitions, "properties": properties.clone()});
        let found = normalize(given.clone()).unwrap();
        for (own, leads) in found["properties"].as_object().unwrap() {
            let name = holdall_schema::def_name(leads["$ref"].as_str().unwrap()).unwrap();
            assert_eq!(found["$defs"][&name]["const"], own.as_str(), "{given}");
        }
        assert_eq!(
            found["properties"].as_object().map(|p| p.len()),
            properties.as_object().map(|p| p.len())
        );
    }
}

#[test]
fn keywords_with_a_changed_meaning_are_errors() {
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
        let e = normalize(with_draft(draft, schema.clone())).unwrap_err();
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
    let made = normalize(reference(json!({"enum": long}), any.clone())).unwrap();
    assert!(made.get("TypeDef:Tensor").is_none());
    let made = normalize(reference(f32.clone(), json!({"const": vec![1; 1000]}))).unwrap();
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
        let made = normalize(plain).unwrap();
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
    let other = normalize(blob(reference(f32, any))).unwrap();
    assert!(other.get("TypeDef:Blob").is_none(), "{other}");
}

#[test]
#[cfg(feature = "validate")]
fn keywords_of_older_drafts_hold_for_records() {
    use holdall_schema::{Document, Reading, SchemaLimits};
    let limits = SchemaLimits::default();
    let schema = with_draft(
        D4,
        json!({"TypeDef:Struct": ["a"], "required": ["a"],
            "properties": {"a": {"TypeDef:Int32": true, "minimum": 0, "exclusiveMinimum": true}}}),
    );
    let document = Document::new(schema, "s.json", Reading::ByContent, &limits).unwrap();
    let checker = holdall_schema::Checker::new(&document.schema, &document.json, &limits).unwrap();
    checker.one_record(json!({"a": 1})).unwrap();
    assert_eq!(checker.one_record(json!({"a": 0})).unwrap_err().code(), "record/keyword");
}

/// The order of the author is kept at every depth that the document was opened with, not only at the default depth.
#[test]
fn deep_schemas_keep_their_order() {
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let text = format!(
        r#"{{"type":"object","title":"mine","x-deep":{deep},"properties":{{}},"description":""}}"#
    );
    let limits = holdall_schema::SchemaLimits::default().with_depth(200);
    let reading = holdall_schema::Reading::File;
    let document =
        holdall_schema::Document::parse(text.as_bytes(), "s.json", reading, &limits).unwrap();
    assert_eq!(document.normal_text(), text);
}
