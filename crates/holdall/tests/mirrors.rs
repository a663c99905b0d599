//! Generated Rust code for every vector of the specification compiles, and mirrors its schema.
#![cfg(feature = "derive")]

use holdall::records::Build;
use holdall::schema::{Lang, Schema, SchemaLimits, code};
use holdall::{Records, Result, TensorRecords as _, WriteOptions};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The name of a vector, and a function that prints its records as the struct that mirrors them.
type Mirror = (&'static str, fn(&Records) -> Result<Vec<String>>);

/// The generated code for the vectors, which `HOLDALL_BLESS=1` writes.
#[allow(dead_code, unreachable_pub, missing_docs, clippy::all, clippy::pedantic)]
mod made {
    include!("made/mirrors.rs");
}

fn vectors() -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/vectors/metatensor");
    let read = |name: &str| -> Vec<Value> {
        serde_json::from_str(&std::fs::read_to_string(root.join(name)).unwrap()).unwrap()
    };
    [read("layout.json"), read("records.json")].concat()
}

fn compiled(schema: &Value) -> Option<Schema> {
    Schema::compile_record(schema, &SchemaLimits::default()).ok()
}

#[test]
fn the_code_of_every_vector_is_the_one_that_is_compiled_here() {
    let (mut text, mut list) = (String::new(), String::new());
    let (mut made, mut seen) = (0, Vec::new());
    for vector in vectors() {
        let name = vector["name"].as_str().unwrap();
        if seen.contains(&vector["schema"]) {
            continue;
        }
        seen.push(vector["schema"].clone());
        let Some(schema) = compiled(&vector["schema"]) else { continue };
        let code = match code(&schema, schema.record().unwrap(), "Record", Lang::Rust) {
            Ok(code) => code,
            Err(e) => {
                assert!(
                    ["schema/no-equivalent-type", "schema/open-shape"].contains(&e.code()),
                    "{name}: {e}"
                );
                continue;
            }
        };
        made += 1;
        write!(text, "/// {name:?}\npub mod v{made} {{\n").unwrap();
        for line in code.lines() {
            match line {
                "" => text.push('\n'),
                line => writeln!(text, "    {line}").unwrap(),
            }
        }
        text.push_str("}\n");
        writeln!(
            list,
            "    ({name:?}, |r| r.structs::<v{made}::Record>()?.iter(0..r.len())?.map(|x| Ok(format!(\"{{:?}}\", x?))).collect()),"
        )
        .unwrap();
    }
    let text = format!("{text}\npub const ALL: &[super::Mirror] = &[\n{list}];\n");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/made/mirrors.rs");
    if std::env::var_os("HOLDALL_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert!(made > 80, "{made}");
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(found == text, "HOLDALL_BLESS=1 writes what the library makes of the vectors now");
}

#[test]
fn every_struct_mirrors_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.zt");
    let mut checked = 0;
    for (name, mirror) in made::ALL {
        let vectors = vectors();
        let vector = vectors.iter().find(|v| v["name"] == *name).unwrap();
        let options = WriteOptions::new().with_overwrite(true);
        let mut build = Build::create(&path, &options).unwrap();
        // Records without bytes are in no file.
        let Ok(mut set) = build.dataset_with_schema("set", &vector["schema"]) else { continue };
        if let Some(json) = vector["expect"].get("json") {
            set.value(json).unwrap();
        }
        build.add(set).unwrap();
        build.finish().unwrap();
        let records = holdall::open(&path).unwrap().tensor("set").unwrap().records().unwrap();
        let found = mirror(&records).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(found.len() as u64, records.len(), "{name}");
        checked += 1;
        let expected = match *name {
            "integers at their lower ends" => {
                "Record { a: -128, b: -32768, c: -2147483648, d: -9223372036854775808 }"
            }
            "a tensor of booleans" => "[true, false]",
            _ => continue,
        };
        assert_eq!(found, [expected], "{name}");
    }
    assert!(checked > 70, "{checked}");
}
