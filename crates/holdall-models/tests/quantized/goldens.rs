//! Files that other software wrote, with the digests of the values that they stand for.

use super::model::{Model, member, numbers};
use holdall_core::Value;
use holdall_core::model::sha256::Sha256;
use std::path::PathBuf;

fn folders() -> Vec<PathBuf> {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus/quantized");
    let mut all: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn values_are_those_of_the_writers() {
    let mut seen = 0;
    for folder in folders() {
        let case = folder.file_name().unwrap().to_string_lossy().into_owned();
        let model = Model::open(&folder);
        let expect = std::fs::read_to_string(folder.join("expect.json")).unwrap();
        let expect = Value::from_json(&expect, 64).unwrap();
        let Some(Value::Map(expected)) = member(&expect, "expected") else { panic!() };
        let found = model.find().unwrap();
        if let Some(error) = member(&expect, "error") {
            let faults: Vec<_> = found.iter().filter_map(|weight| weight.fault()).collect();
            assert_eq!(faults.len(), 1, "{case}: {error:?}: {found:?}");
            seen += 1;
            continue;
        }
        for (name, expected) in expected {
            let name = name.as_text().unwrap();
            let digest = member(expected, "sha256").unwrap().as_text().unwrap();
            let shape = numbers(member(expected, "shape").unwrap());
            if model.tensors.contains_key(name) && found.iter().all(|w| w.name() != name) {
                continue;
            }
            let weight = found.iter().find(|weight| weight.name() == name);
            let weight = weight.unwrap_or_else(|| panic!("{case}: no {name}: {found:?}"));
            assert!(weight.fault().is_none(), "{case}: {}", weight.fault().unwrap());
            assert_eq!(weight.shape(), shape, "{case}");
            let values = model.values(weight).unwrap_or_else(|e| panic!("{case}: {e}"));
            let mut hasher = Sha256::new();
            values.iter().for_each(|x| hasher.update(&x.to_le_bytes()));
            let found = data_encoding::HEXLOWER.encode(&hasher.finish());
            assert_eq!(found, digest, "{case}: {name} ({})", weight.kind());
            seen += 1;
        }
        // Nothing else is taken for a weight.
        assert!(found.iter().all(|w| expected.iter().any(|(n, _)| n.as_text() == Some(w.name()))));
    }
    assert!(seen >= 34, "{seen}");
}
