//! The vectors of `corpus/vectors/metatensor/header.json`, which other implementations run too.

use holdall_core::{Bytes, Error, Index, Limits, Stop, Window};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The index of a file with this header and this number of bytes of data.
fn decode(header: &str, data_len: u64) -> Result<Index, Error> {
    let start = 8 + header.len() as u64;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    let mut window = Window::new(start + data_len);
    window.add(0, bytes.into());
    loop {
        match holdall_formats::decode(&window, &Limits::default()) {
            Ok(index) => return index.sound(),
            Err(Stop::Fail(e)) => return Err(e),
            // Data is zeros, if anybody asks.
            Err(Stop::Need(ranges)) => {
                for range in ranges {
                    let zeros = vec![0; (range.end - range.start) as usize];
                    window.add(range.start, Bytes::from(zeros));
                }
            }
        }
    }
}

/// The index in the form of the vectors.
fn describe(index: &Index) -> Value {
    let start = index.data_range().start;
    let tensors: Vec<Value> = index
        .tensors()
        .map(|t| {
            let components: serde_json::Map<String, Value> = t
                .components()
                .map(|c| {
                    let range = json!([c.stored.start - start, c.stored.end - start]);
                    (c.role.as_str().to_owned(), range)
                })
                .collect();
            json!({
                "name": t.name(),
                "layout": t.layout().as_str(),
                "shape": t.shape(),
                "ranges": components,
            })
        })
        .collect();
    let mut out = json!({ "tensors": tensors });
    if let Some(values) = index.attributes().get("metatensor.values").and_then(|v| v.as_text()) {
        out["values"] = serde_json::from_str(values).unwrap();
    }
    out
}

#[test]
fn headers() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/vectors/metatensor/header.json");
    let text = std::fs::read_to_string(path).unwrap();
    let vectors: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(vectors.len() >= 40, "{}", vectors.len());
    let mut wrong = Vec::new();
    for vector in &vectors {
        let header = vector["header"].as_str().unwrap();
        let found = decode(header, vector["data_len"].as_u64().unwrap());
        let found = match &found {
            Ok(index) => describe(index),
            Err(e) => e.code().into(),
        };
        let wanted = vector.get("error").unwrap_or(&vector["expect"]);
        if found != *wanted {
            wrong.push(format!("{}\n  wanted {wanted}\n  found  {found}", vector["name"]));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

/// Rules that neither a vector nor a file of the corpus breaks, why, and the test that does.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("evolve/converter", OPTION, "holdall-schema/tests/chain.rs"),
    ("evolve/drops-member", OPTION, "holdall-schema/tests/evolve.rs"),
    ("evolve/value", OPTION, "holdall/tests/migrate.rs"),
    ("metatensor/attribute", WRITING, "holdall-formats/tests/metatensor.rs"),
    ("metatensor/components", WRITING, "holdall-formats/tests/metatensor.rs"),
    ("metatensor/declared", WRITING, "holdall-formats/tests/metatensor.rs"),
    ("metatensor/encoding", WRITING, "holdall-formats/tests/metatensor.rs"),
    ("metatensor/header-limit", LIMIT, "holdall-formats/tests/metatensor.rs"),
    ("metatensor/kind", WRITING, "holdall-formats/tests/metatensor.rs"),
    ("metatensor/layout", WRITING, "holdall-formats/tests/metatensor.rs"),
    ("metatensor/logical-type", WRITING, "holdall-formats/tests/metatensor.rs"),
    ("metatensor/schema-fit", WRITING, "holdall-formats/tests/metatensor.rs"),
    ("metatensor/too-many-values", LIMIT, "holdall-formats/tests/metatensor.rs"),
    ("metatensor/write-align", WRITING, "holdall-formats/tests/metatensor.rs"),
    ("record/access", "of those who call this library", "holdall-schema/tests/access.rs"),
    ("record/keyword", OPTION, "holdall-schema/tests/check.rs"),
    ("schema/no-equivalent-type", OPTION, "holdall-schema/tests/code.rs"),
    ("schema/own-keyword", OPTION, "holdall-schema/tests/vocabulary.rs"),
    ("schema/unknown-symbol", OPTION, "holdall-cli/tests/schema.rs"),
    ("record/too-large", LIMIT, "holdall-schema/tests/access.rs"),
    ("schema/not-built", BUILD, "holdall-formats/tests/unchecked.rs"),
];

/// No small example is over it.
const LIMIT: &str = "a limit";
const WRITING: &str = "found in writing";
/// Readers of this format need not have what breaks it.
const OPTION: &str = "a check that callers request";
const BUILD: &str = "of builds without the feature `validate`";

/// Codes of the vectors, and of the files in `corpus/reject/metatensor`.
fn broken() -> BTreeSet<String> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut codes = BTreeSet::new();
    for entry in corpus.join("vectors/metatensor").read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let all: Vec<Value> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let mut names = BTreeSet::new();
        for vector in &all {
            let name = vector["name"].as_str().unwrap();
            assert!(names.insert(name), "{}: {name} comes twice", path.display());
            codes.extend(vector.get("error").map(|e| e.as_str().unwrap().to_owned()));
        }
    }
    for entry in corpus.join("reject/metatensor").read_dir().unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let (area, rest) = name.split_once('.').unwrap();
        codes.insert(format!("{area}/{}", rest.split('.').next().unwrap()));
    }
    codes
}

#[test]
fn every_rule_has_an_example() {
    let of_format = |code: &str| {
        ["metatensor/", "schema/", "record/", "evolve/"].iter().any(|area| code.starts_with(area))
    };
    let rules: BTreeSet<&str> = holdall_formats::rules().map(|r| r.code).collect();
    let elsewhere: BTreeMap<&str, &str> =
        ELSEWHERE.iter().map(|(code, _, test)| (*code, *test)).collect();
    let broken = broken();
    for code in rules.iter().filter(|code| of_format(code)) {
        let has = broken.contains(*code);
        let is_elsewhere = elsewhere.contains_key(code);
        assert!(has || is_elsewhere, "no vector and no file breaks {code}");
        assert!(!(has && is_elsewhere), "{code} is said to have no example, and has one");
    }
    for code in &broken {
        assert!(rules.contains(code.as_str()), "{code} is in no table of rules");
    }
    for (code, test) in elsewhere {
        assert!(rules.contains(code), "{code} is in no table of rules");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(test);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(&format!("\"{code}\"")), "{test} does not speak of {code}");
    }
}
