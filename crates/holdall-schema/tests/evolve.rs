//! Evolution: the vectors of `corpus/vectors/metatensor`, and what holds for every pair of schemas.

use holdall_schema::json::parse;
use holdall_schema::{Schema, SchemaLimits, changes_json, diff};
use serde_json::{Value, json};
use std::path::PathBuf;

fn vectors(name: &str) -> Vec<Value> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus/vectors/metatensor");
    let text = std::fs::read(root.join(name)).unwrap();
    let Value::Array(all) = parse(&text, 100).unwrap() else { panic!("{name}: not an array") };
    all
}

fn limits() -> SchemaLimits {
    SchemaLimits::default()
}

/// Tells all vectors that differ, not only the first.
fn tell(name: &str, least: usize, all: usize, wrong: &[String]) {
    assert!(all >= least, "{name} has {all} vectors");
    assert!(wrong.is_empty(), "{name}: {} of {all} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn differences() {
    let all = vectors("diff.json");
    let mut wrong = Vec::new();
    for vector in &all {
        let compile = match vector.get("root") {
            Some(_) => Schema::compile,
            None => Schema::compile_record,
        };
        let [a, b] = [&vector["old"], &vector["new"]];
        let [old, new] = [a, b].map(|s| compile(s, &limits()).unwrap());
        let found = changes_json(&diff((&old, a), (&new, b), &limits()).unwrap());
        if found != vector["expect"] {
            wrong.push(format!(
                "{}\n  wanted {}\n  found  {found}",
                vector["name"], vector["expect"]
            ));
        }
        for (schema, json) in [(&old, a), (&new, b)] {
            assert_eq!(diff((schema, json), (schema, json), &limits()).unwrap(), []);
            assert_eq!(diff(schema, schema, &limits()).unwrap(), []);
        }
    }
    tell("diff.json", 85, all.len(), &wrong);
}

/// 60 levels, each with two members of the one below: 2^60 paths.
fn shared(leaf: Value) -> Schema {
    let mut defs = serde_json::Map::new();
    defs.insert("l0".into(), leaf);
    for level in 1..=60 {
        let below = json!({"$ref": format!("#/$defs/l{}", level - 1)});
        let node = json!({"TypeDef:Struct": ["a", "b"], "align": 1, "required": ["a", "b"],
                          "properties": {"a": below, "b": below}});
        defs.insert(format!("l{level}"), node);
    }
    let schema = json!({"$ref": "#/$defs/l60", "$defs": defs});
    Schema::compile_record(&schema, &limits()).unwrap()
}

#[test]
fn shared_types_are_compared_once_and_told_of_within_limits() {
    let int8 = shared(json!({"TypeDef:Int8": true}));
    assert_eq!(diff(&int8, &int8.clone(), &limits()).unwrap(), []);
    let uint8 = shared(json!({"TypeDef:Uint8": true}));
    let few = limits().with_nodes(1000);
    assert_eq!(diff(&int8, &uint8, &few).unwrap_err().code(), "schema/too-large");
}
