//! Checks values against all keywords of a schema.

use holdall_schema::{Checker, Node, NodeId, Root, Rule, Schema, SchemaLimits, error};
use serde_json::{Value, json};

static VALUE: Rule = Rule {
    code: "test/value",
    kind: error::ErrorKind::Malformed,
    sentence: "A value is sound.",
    hint: None,
    remedies: &[],
};

fn record_codes(schema: Value, values: &[Value]) -> Vec<Option<&'static str>> {
    let limits = SchemaLimits::default();
    let compiled = Schema::compile_record(&schema, &limits).unwrap();
    let checker = Checker::new(&compiled, &schema, &limits).unwrap();
    values.iter().map(|v| checker.one_record(v.clone()).err().map(|e| e.code())).collect()
}

#[test]
fn records_are_checked_against_standard_keywords() {
    let schema = json!({
        "type": "object",
        "TypeDef:Struct": ["name", "age", "weight", "tags", "shape", "size", "meta", "raw"],
        "properties": {
            "name": {"type": "string", "TypeDef:String": true, "pattern": "^[a-z]+$"},
            "age": {"$ref": "#/$defs/age"},
            "weight": {"type": "number", "TypeDef:Float32": true, "minimum": 0},
            "tags": {"type": "array", "TypeDef:Array": true, "maxItems": 2,
                     "items": {"TypeDef:String": true, "maxLength": 3}},
            "shape": {"$ref": "#/$defs/shape"},
            "size": {"type": "object", "TypeDef:Tensor": {"dtype": "U8", "shape": [2]},
                     "required": ["data_offsets"]},
            "meta": {"TypeDef:Record": true, "type": "object",
                     "additionalProperties": {"type": "number"}},
            "raw": {"TypeDef:Bytes": true, "contentEncoding": "base64"},
        },
        "required": ["name", "age"],
        "$defs": {
            "age": {"type": "integer", "TypeDef:Uint8": true, "maximum": 120, "default": 1},
            "circle": {"TypeDef:Struct": ["r"], "required": ["r"],
                       "properties": {"r": {"TypeDef:Float64": true, "exclusiveMinimum": 0}}},
            "shape": {"TypeDef:Union": {"discriminator": "kind"}, "mapping": {
                "circle": {"$ref": "#/$defs/circle"},
                "point": {"TypeDef:Struct": [], "properties": {}}}},
        },
    });
    let with = |name: &str, value: Value| {
        let mut record = json!({"name": "x", "age": 3});
        record[name] = value;
        record
    };
    let sound = [
        json!({"name": "x", "age": 3}),
        json!({"name": "x"}),
        with("weight", json!({"$float": "nan"})),
        with("tags", json!(["ab", "abc"])),
        with("shape", json!({"kind": "circle", "r": 1})),
        with("shape", json!({"kind": "point"})),
        with("size", json!({"data": [1, 2]})),
        with("meta", json!({"a": 1})),
        with("raw", json!("AAA=")),
    ];
    assert_eq!(record_codes(schema.clone(), &sound), vec![None; sound.len()]);
    let unsound = [
        with("name", json!("X")),
        with("age", json!(121)),
        with("weight", json!(-1)),
        with("tags", json!(["a", "b", "c"])),
        with("tags", json!(["abcd"])),
        with("shape", json!({"kind": "circle", "r": 0})),
        with("meta", json!({"a": "1"})),
    ];
    assert_eq!(record_codes(schema.clone(), &unsound), vec![Some("record/keyword"); unsound.len()]);
    let others =
        [with("age", json!(256)), with("no", json!(1)), json!({"age": 1}), with("raw", json!("A"))];
    let wanted = ["range", "unknown-member", "missing-member", "base64"]
        .map(|what| format!("record/{what}"));
    let found = record_codes(schema, &others);
    assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), wanted);
}

#[test]
fn plain_values_and_records_of_a_header_are_checked_at_their_nodes() {
    let source = json!({
        "type": "object",
        "properties": {
            "lr": {"type": "number", "TypeDef:Float32": true, "maximum": 1},
            "names": {"type": "array", "items": {"$ref": "#/$defs/name"}},
            "rows": {"TypeDef:Array": true, "items": {"$ref": "#/$defs/row"}},
            "w": {"TypeDef:Tensor": {}},
        },
        "$defs": {
            "name": {"type": "string", "minLength": 2},
            "row": {"TypeDef:Struct": ["a"], "required": ["a"],
                    "properties": {"a": {"TypeDef:Int8": true, "minimum": 5}}},
        },
    });
    let limits = SchemaLimits::default();
    let schema = Schema::compile(&source, &limits).unwrap();
    let checker = Checker::new(&schema, &source, &limits).unwrap();
    let Root::References(root) = schema.root() else { panic!() };
    let Node::Object(object) = schema.node(root) else { panic!() };
    let node = |name: &str| -> NodeId { object.property(name).unwrap().node };
    let plain = |name, value| checker.plain(node(name), value, &VALUE).map_err(|e| e.to_string());
    assert_eq!(plain("lr", json!(0.5)), Ok(()));
    assert!(plain("lr", json!(2)).unwrap_err().contains("[test/value]"));
    assert!(plain("lr", json!("x")).unwrap_err().contains("[test/value]"));
    assert_eq!(plain("names", json!(["ab"])), Ok(()));
    assert!(plain("names", json!(["ab", "c"])).unwrap_err().contains("at `/1`"));
    let row = |value| checker.record(node("rows"), value).map_err(|e| e.code());
    assert_eq!(row(json!({"a": 5})), Ok(()));
    assert_eq!(row(json!({"a": 4})), Err("record/keyword"));
    assert_eq!(row(json!({"a": 400})), Err("record/range"));
}

#[test]
fn invalid_json_schemas_are_refused() {
    for (source, at) in [
        (json!({"type": "strin"}), "`/type`"),
        (json!({"type": "object", "required": "a"}), "`/required`"),
        (json!({"type": "string", "pattern": "("}), "`/pattern`"),
        (
            json!({"properties": {"a/b": {"items": {"pattern": "("}}}}),
            "`/properties/a~1b/items/pattern`",
        ),
        (
            json!({"type": "object", "properties": {"w": {"TypeDef:Tensor": {}}}, "title": 3}),
            "`/title`",
        ),
        (
            json!({"type": "object", "$defs": {"unused": {"minimum": "0"}}}),
            "`/$defs/unused/minimum`",
        ),
        (json!({"$dynamicRef": "https://example.org/x"}), ""),
    ] {
        let limits = SchemaLimits::default();
        let schema = Schema::compile(&source, &limits).unwrap();
        let e = Checker::new(&schema, &source, &limits).unwrap_err();
        assert_eq!(e.code(), "schema/invalid", "{source}");
        // The place in the error is a JSON pointer.
        assert!(e.message().starts_with(at), "{e}");
    }
}

/// Returns the schema of a header in which `x` has this schema.
fn checks(defs: Value, x: Value, value: Value) -> Option<&'static str> {
    let schema = json!({"$defs": defs, "properties": {"w": {"TypeDef:Tensor": {}}, "x": x}});
    let limits = SchemaLimits::default().with_nodes(1 << 14);
    let compiled = Schema::compile(&schema, &limits).unwrap();
    let checker = Checker::new(&compiled, &schema, &limits).unwrap();
    let Root::References(root) = compiled.root() else { panic!("a record") };
    let Node::Object(object) = compiled.node(root) else { panic!("no object") };
    checker.plain(object.property("x").unwrap().node, value, &VALUE).err().map(|e| e.code())
}

#[test]
fn the_work_for_one_value_is_limited() {
    let of = |name: usize| json!({"$ref": format!("#/$defs/d{name}")});
    let doubling = |keyword: &str, levels: usize| {
        let mut defs: serde_json::Map<String, Value> = (0..levels)
            .map(|n| (format!("d{n}"), json!({keyword: [of(n + 1), of(n + 1)]})))
            .collect();
        defs.insert(format!("d{levels}"), json!({"type": "integer"}));
        Value::Object(defs)
    };
    for keyword in ["allOf", "anyOf"] {
        assert_eq!(
            checks(doubling(keyword, 60), of(0), json!("no")),
            match keyword {
                // The first failure ends the check.
                "allOf" => Some("test/value"),
                _ => Some("schema/too-large"),
            }
        );
        assert_eq!(checks(doubling(keyword, 6), of(0), json!(1)), None);
        assert_eq!(checks(doubling(keyword, 6), of(0), json!("no")), Some("test/value"));
    }
    assert_eq!(checks(doubling("allOf", 60), of(0), json!(1)), Some("schema/too-large"));
    // The schema is tried twice for each level of the value.
    let nested = (0..120).fold(json!(1), |value, _| json!([value]));
    let twice = json!({"d0": {"allOf": [{"items": of(0)}, {"items": of(0)}]}});
    let found = checks(twice, of(0), nested);
    assert!(matches!(found, None | Some("schema/too-large")), "{found:?}");
    // Long values do not exceed the limit.
    let each = json!({"items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}});
    let many = |last: Value| Value::Array((0..100_000).map(Value::from).chain([last]).collect());
    assert_eq!(checks(json!({}), each.clone(), many(json!("x"))), None);
    assert_eq!(checks(json!({}), each, many(json!(null))), Some("test/value"));
    // Long lists in the schema count for each value.
    let enums = json!({"items": {"enum": (0..5000).collect::<Vec<_>>()}});
    assert_eq!(checks(json!({}), enums.clone(), json!([4999])), None);
    assert_eq!(checks(json!({}), enums, json!(vec![4999; 5000])), Some("schema/too-large"));
    let patterns = (0..400).map(|n| (format!("^a{n}$"), json!({}))).collect::<Value>();
    let patterns = json!({"items": {"patternProperties": patterns}});
    let named = |n: usize| (0..n).map(|n| (format!("b{n}"), json!(n))).collect::<Value>();
    assert_eq!(checks(json!({}), patterns.clone(), json!([named(10)])), None);
    assert_eq!(checks(json!({}), patterns, json!([named(5000)])), Some("schema/too-large"));
    // A `$ref` to itself is tried once, or not at all.
    let own = json!({"d0": {"allOf": [of(1)]}, "d1": {"allOf": [of(0)]}});
    assert_eq!(checks(own, of(0), json!(1)), None);
}

/// Returns the error for the defaults of a record with a member `x`, and of a dense tensor `x`.
fn default_of(member: Value, defs: Value) -> Option<String> {
    let schema = json!({
        "type": "object", "TypeDef:Struct": ["a", "x"],
        "properties": {"a": {"TypeDef:Uint8": true}, "x": member}, "$defs": defs,
    });
    let limits = SchemaLimits::default();
    let compiled = Schema::compile_record(&schema, &limits).unwrap();
    let checker = Checker::new(&compiled, &schema, &limits).unwrap();
    let found = checker.defaults(&schema, &Default::default());
    found.err().map(|e| format!("{} {e}", e.code()))
}

#[test]
fn defaults_must_match_their_kind() {
    let none = json!({});
    for sound in [
        json!({"TypeDef:Uint8": true, "default": 7, "maximum": 7}),
        json!({"TypeDef:String": true, "default": "seven"}),
        json!({"TypeDef:Array": true, "items": {"TypeDef:Int8": true}, "default": [1, -1]}),
        json!({"TypeDef:Struct": ["y"], "required": ["y"], "default": {},
               "properties": {"y": {"TypeDef:Int8": true, "default": 1}}}),
    ] {
        assert_eq!(default_of(sound.clone(), none.clone()), None, "{sound}");
    }
    let broken = [
        (json!({"TypeDef:Uint8": true, "default": "seven"}), "record/type", "the default of `x`"),
        (json!({"TypeDef:Uint8": true, "default": 256}), "record/range", "the default of `x`"),
        (json!({"TypeDef:Uint8": true, "default": 8, "maximum": 7}), "record/keyword", "`x`"),
        (
            json!({"TypeDef:Struct": ["y"], "properties": {"y": {"TypeDef:Int8": true, "default": 200}}}),
            "record/range",
            "the default of `y`",
        ),
    ];
    for (member, code, says) in broken {
        let found = default_of(member.clone(), none.clone()).expect("an error");
        assert!(found.starts_with(code) && found.contains(says), "{member}: {found}");
    }
    let defs = json!({"small": {"TypeDef:Uint8": true, "maximum": 7, "default": 9}});
    let found = default_of(json!({"$ref": "#/$defs/small"}), defs).expect("an error");
    assert!(found.starts_with("record/keyword") && found.contains("`x`"), "{found}");
}

#[test]
fn defaults_of_flat_tensors_are_values_of_them() {
    let found = |default: Value, shape: Value| {
        let schema = json!({"type": "object", "properties": {
            "w": {"type": "object", "TypeDef:Tensor": {"dtype": "U8", "shape": shape},
                  "required": ["data_offsets"], "default": default}}});
        let limits = SchemaLimits::default();
        let compiled = Schema::compile(&schema, &limits).unwrap();
        let checker = Checker::new(&compiled, &schema, &limits).unwrap();
        checker.defaults(&schema, &Default::default()).err().map(|e| (e.code(), e.to_string()))
    };
    assert_eq!(found(json!(3), json!([2])), None);
    assert_eq!(found(json!({"data": [1, 2]}), json!([2])), None);
    let (code, text) = found(json!(300), json!([2])).expect("an error");
    assert!(code == "record/range" && text.contains("`w`"), "{code} {text}");
    assert!(found(json!({"data": [1]}), json!([2])).is_some());
    // The length depends on the file.
    assert_eq!(found(json!(300), json!(["n"])), None);
}
