//! Compiles schemas from JSON: which ones are accepted, which are refused, and where references are.

use holdall_schema::{Node, Path, Root, Schema, SchemaLimits, Symbols};
use serde_json::{Value, json};

fn references(schema: Value) -> Result<Schema, &'static str> {
    Schema::compile(&schema, &SchemaLimits::default()).map_err(|e| e.code())
}

fn record(schema: Value) -> Result<Schema, &'static str> {
    Schema::compile_record(&schema, &SchemaLimits::default()).map_err(|e| e.code())
}

fn root(schema: &Schema) -> &Node {
    match schema.root() {
        Root::References(id) => schema.node(id),
        Root::Record(_) => panic!("a record"),
    }
}

fn tensor() -> Value {
    json!({"type": "object", "TypeDef:Tensor": {"dtype": "F32", "shape": [2, "n"]}})
}

#[test]
fn the_worked_example_lies_where_the_specification_says() {
    let schema = record(json!({
        "type": "object",
        "TypeDef:Struct": ["flag", "id", "name"],
        "properties": {
            "flag": {"TypeDef:Boolean": true},
            "id": {"TypeDef:Uint32": true},
            "name": {"TypeDef:String": true},
        },
        "required": ["id", "name"],
    }))
    .unwrap();
    let ty = schema.record().unwrap();
    let items: Vec<_> =
        schema.layout(ty, &SchemaLimits::default()).unwrap().map(Result::unwrap).collect();
    let found: Vec<_> = items.iter().map(|i| (i.path.to_string(), i.range.clone())).collect();
    let wanted = [("", 0..32), ("flag", 1..2), ("id", 4..8), ("name", 8..24)];
    assert_eq!(found, wanted.map(|(path, range)| (path.to_owned(), range)));
    let presence: Vec<_> = items.iter().map(|i| i.presence.map(|p| (p.byte, p.bit))).collect();
    assert_eq!(presence, [None, Some((0, 0)), None, None]);
}

#[test]
fn plain_recursion_is_allowed_and_recursion_of_kinds_is_not() {
    let tree = json!({"type": "object", "additionalProperties": {"$ref": "#/$defs/tree"}});
    let schema = json!({"$ref": "#/$defs/tree", "$defs": {"tree": tree}});
    assert!(matches!(root(&references(schema).unwrap()), Node::Plain { .. }));

    let tree = json!({"type": "object", "properties": {"w": tensor()},
                      "additionalProperties": {"$ref": "#/$defs/tree"}});
    let schema = json!({"$ref": "#/$defs/tree", "$defs": {"tree": tree}});
    assert_eq!(references(schema).unwrap_err(), "schema/cycle");

    let list = json!({"TypeDef:Array": true, "items": {"$ref": "#/$defs/list"}});
    let schema = json!({"$ref": "#/$defs/list", "$defs": {"list": list}});
    assert_eq!(record(schema).unwrap_err(), "schema/cycle");

    let ring = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
    assert_eq!(references(ring).unwrap_err(), "schema/cycle");
}

#[test]
fn sharing_through_references_stays_linear() {
    // 60 levels, each with two members of the level below: 2^60 paths, 61 types.
    let mut defs = serde_json::Map::new();
    defs.insert("l0".into(), json!({"TypeDef:Int8": true}));
    for level in 1..=60 {
        let below = json!({"$ref": format!("#/$defs/l{}", level - 1)});
        defs.insert(
            format!("l{level}"),
            json!({"TypeDef:Struct": ["a", "b"], "align": 1, "required": ["a", "b"],
                   "properties": {"a": below, "b": below}}),
        );
    }
    let schema = record(json!({"$ref": "#/$defs/l60", "$defs": defs})).unwrap();
    let ty = schema.record().unwrap();
    assert_eq!(schema.types().len(), 61);
    assert_eq!(schema.extent(ty).unwrap().size, 1 << 60);
    let limits = SchemaLimits::default().with_nodes(1000);
    let items: Vec<_> = schema.layout(ty, &limits).unwrap().collect();
    assert_eq!(items.len(), 1001);
    assert_eq!(items[1000].as_ref().unwrap_err().code(), "schema/too-large");
}

#[test]
fn members_share_a_default_that_they_share() {
    let large = json!({"TypeDef:String": true, "default": "x".repeat(1 << 20)});
    let names: Vec<String> = (0..20_000).map(|n| format!("m{n}")).collect();
    let properties: serde_json::Map<_, _> =
        names.iter().map(|n| (n.clone(), json!({"$ref": "#/$defs/large"}))).collect();
    let schema =
        json!({"TypeDef:Struct": names, "properties": properties, "$defs": {"large": large}});
    // This would take 20 GB if each member had its own default.
    let schema = record(schema).unwrap();
    let holdall_schema::Kind::Struct(fields) = &schema.ty(schema.record().unwrap()).kind else {
        panic!("no struct")
    };
    assert!(fields.members.iter().all(|m| m.default.as_ref().unwrap().is_string()));
}

#[test]
fn depth_is_bounded_along_shared_types_too() {
    let mut defs = serde_json::Map::new();
    defs.insert("l00".into(), json!({"TypeDef:Int8": true}));
    for level in 1..=80 {
        defs.insert(
            format!("l{level:02}"),
            json!({"TypeDef:Array": true, "minItems": 1, "maxItems": 1,
                   "items": {"$ref": format!("#/$defs/l{:02}", level - 1)}}),
        );
    }
    // Members in an order in which each type is known before the next one needs it.
    let names: Vec<String> = defs.keys().cloned().collect();
    let properties: serde_json::Map<_, _> =
        names.iter().map(|n| (n.clone(), json!({"$ref": format!("#/$defs/{n}")}))).collect();
    let schema = json!({"TypeDef:Struct": names, "required": names, "properties": properties, "$defs": defs});
    assert_eq!(record(schema).unwrap_err(), "schema/depth");
}

#[test]
fn symbols_decide_sizes_once_they_are_bound() {
    let schema =
        record(json!({"TypeDef:Struct": ["v", "x"], "required": ["v", "x"], "align": "natural",
        "properties": {"v": tensor(), "x": {"TypeDef:Int64": true}}}))
        .unwrap();
    let ty = schema.record().unwrap();
    assert_eq!(schema.extent(ty).unwrap_err().code(), "schema/open-shape");
    let bound = schema.bind(&Symbols::from([("n".into(), 3)])).unwrap();
    assert_eq!(bound.extent(ty).unwrap().size, 32);
    let huge = schema.bind(&Symbols::from([("n".into(), u64::MAX)]));
    assert_eq!(huge.unwrap_err().code(), "schema/size-overflow");
}

#[test]
fn references_stand_where_the_schema_leads_to_them() {
    let schema = references(json!({
        "type": "object",
        "properties": {
            "hyper": {"type": "object", "anyOf": [{"minProperties": 1}]},
            "layers": {"type": "array", "items": {"type": "object", "properties": {"w": tensor()}}},
            "rows": {"TypeDef:Array": true, "items": {"TypeDef:String": true}},
            "text": {"TypeDef:Blob": {"content": "utf-8"}},
        },
        "required": ["rows", "more"],
        "additionalProperties": tensor(),
    }))
    .unwrap();
    let Node::Object(object) = root(&schema) else { panic!() };
    let kind = |name: &str| match schema.node(object.property(name).unwrap().node) {
        Node::Flat { .. } => "flat",
        Node::Dataset { .. } => "dataset",
        Node::Blob { .. } => "blob",
        Node::Object(_) => "object",
        Node::List { .. } => "list",
        Node::Plain { .. } => "plain",
        _ => "other",
    };
    assert_eq!(["hyper", "layers", "rows", "text"].map(kind), ["plain", "list", "dataset", "blob"]);
    assert_eq!(object.required_others.len(), 1);

    for keyword in ["anyOf", "allOf", "oneOf", "prefixItems"] {
        let schema = json!({"type": "object", keyword: [tensor()]});
        assert_eq!(references(schema).unwrap_err(), "schema/reference-keyword", "{keyword}");
    }
    let schema = json!({"properties": {"w": tensor()}, "minProperties": 1});
    assert_eq!(references(schema).unwrap_err(), "schema/reference-keyword");
}

#[test]
fn paths_come_back_as_they_were_written() {
    for text in [
        "",
        "a",
        "a.b",
        "a[0].b",
        "[3]",
        "[3][4]",
        r"a\.b",
        r"a\[0].\\",
        r"\_",
        r"\_.\_[1]",
        "x[].y",
    ] {
        let path: Path = text.parse().unwrap();
        assert_eq!(path.to_string(), text);
    }
    for text in
        [".", "a.", "a..b", "a[", "a[01]", "a[-1]", "a[0]b", "a.[0]", r"a\", r"\x", r"\_a", r"\_\_"]
    {
        assert_eq!(text.parse::<Path>().unwrap_err().code(), "schema/path", "{text}");
    }
}
