//! Evolution: the vectors of `corpus/vectors/metatensor`, and properties of every pair of schemas.

use holdall_json::parse;
use holdall_schema::{
    Converters, Error, ResolveOptions, Schema, SchemaLimits, Symbols, by_value, changes_json, diff,
    resolve,
};
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

/// Reports all vectors that differ, not only the first.
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

/// 60 levels, each with two members of the level below: 2^60 paths.
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
fn shared_types_are_compared_once_within_limits() {
    let int8 = shared(json!({"TypeDef:Int8": true}));
    assert_eq!(diff(&int8, &int8.clone(), &limits()).unwrap(), []);
    let uint8 = shared(json!({"TypeDef:Uint8": true}));
    let few = limits().with_nodes(1000);
    assert_eq!(diff(&int8, &uint8, &few).unwrap_err().code(), "schema/too-large");
}

/// The converters that the vectors use.
fn converters<'s>(writer: &'s Schema, reader: &'s Schema) -> Converters<'s> {
    let negate = |v: Value| Ok(json!(-v.as_i64().unwrap()));
    let join = |v: Value| {
        let [first, last] = ["first", "last"].map(|k| v[k].as_str().unwrap());
        Ok(json!(format!("{first} {last}")))
    };
    Converters::new()
        .with("negate", by_value(writer, reader, limits(), negate))
        .with("join", by_value(writer, reader, limits(), join))
        .with("same", by_value(writer, reader, limits(), Ok))
}

fn hex(text: &Value) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(text.as_str().unwrap().as_bytes()).unwrap()
}

fn unhex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

fn migrate(vector: &Value) -> Result<Value, Error> {
    let mut symbols = Symbols::new();
    for (name, n) in vector["symbols"].as_object().into_iter().flatten() {
        symbols.insert(name.as_str().into(), n.as_u64().unwrap());
    }
    let [writer, reader] = ["writer", "reader"]
        .map(|k| Schema::compile_record(&vector[k], &limits()).unwrap().bind(&symbols).unwrap());
    let mut options = ResolveOptions::default();
    for (path, name) in vector["converters"].as_object().into_iter().flatten() {
        options = options.with_converter(path.parse()?, name.as_str().unwrap());
    }
    for (to, from) in vector["renames"].as_object().into_iter().flatten() {
        options = options.with_rename(to.parse()?, from.as_str().unwrap().parse()?);
    }
    let (from, to) = (writer.record().unwrap(), reader.record().unwrap());
    let resolution = resolve(&writer, from, &reader, to, &options)?;
    let converters = converters(&writer, &reader);
    let mut migrator = resolution.migrator(&converters)?;
    let (record, heap) = (hex(&vector["record"]), hex(&vector["heap"]));
    let (mut out, mut out_heap) = (vec![0xaa; resolution.to_size()], Vec::new());
    migrator.record(&record, &heap, &mut out, &mut out_heap)?;
    // Valid records stay valid, and the same migrator gives the same result again.
    writer.check_record(from, &record, &heap, &limits())?;
    reader.check_record(to, &out, &out_heap, &limits())?;
    let (mut again, mut again_heap) = (vec![0x55; resolution.to_size()], Vec::new());
    migrator.record(&record, &heap, &mut again, &mut again_heap)?;
    assert_eq!((&out, &out_heap), (&again, &again_heap));
    let dropped: Vec<String> = resolution.dropped().iter().map(ToString::to_string).collect();
    let code = resolution.keeps_all().err().map(|e| e.code());
    assert_eq!(code, (!dropped.is_empty()).then_some("evolve/drops-member"));
    Ok(json!({"record": unhex(&out), "heap": unhex(&out_heap), "dropped": dropped}))
}

#[test]
fn resolutions() {
    let all = vectors("resolve.json");
    let mut wrong = Vec::new();
    for vector in &all {
        let found = migrate(vector);
        let text = found.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let found = found.map_err(|e| e.code().to_owned());
        let wanted = match vector.get("error") {
            Some(code) => Err(code.as_str().unwrap().to_owned()),
            None => Ok(vector["expect"].clone()),
        };
        if found != wanted {
            let name = &vector["name"];
            wrong.push(format!("{name}\n  wanted {wanted:?}\n  found  {found:?} {text}"));
        }
    }
    tell("resolve.json", 95, all.len(), &wrong);
}

#[test]
fn large_values_are_looked_at_once() {
    let schema = |last: char| {
        let text = format!("{}{last}", "x".repeat(1 << 20));
        let large = json!({"TypeDef:String": true, "default": text, "description": text,
                           "pattern": text});
        let names: Vec<String> = (0..20_000).map(|n| format!("m{n}")).collect();
        let properties: serde_json::Map<_, _> =
            names.iter().map(|n| (n.clone(), json!({"$ref": "#/$defs/large"}))).collect();
        json!({"TypeDef:Struct": names, "required": names, "properties": properties,
               "$defs": {"large": large}})
    };
    // This would be 60 GB of text to compare or show, if each member had its own.
    let json = ['a', 'a', 'b'].map(schema);
    let all = json.each_ref().map(|s| Schema::compile_record(s, &limits()).unwrap());
    let compare =
        |i: usize, j: usize| diff((&all[i], &json[i]), (&all[j], &json[j]), &limits()).unwrap();
    assert_eq!(compare(0, 1), []);
    let changes = compare(0, 2);
    assert_eq!(changes.len(), 60_000);
    let shown = changes.iter().flat_map(|c| [&c.old, &c.new]).flatten();
    assert!(shown.clone().count() > 0 && shown.clone().all(|t| t.chars().count() <= 61));
}
