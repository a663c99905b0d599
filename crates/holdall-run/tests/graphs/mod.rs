//! The ONNX models of `tests/onnx`, and what the reference evaluator of the `onnx` package gives for them.

use crate::models::{description, shape};
use holdall::carton::compare;
use holdall::carton::{Description, TensorValue, ValueSpec};
use holdall_run::NamedValues;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

pub(crate) fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx")
}

/// A folder `model` with one file.
pub(crate) fn folder(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(files().join(format!("{name}.onnx")), folder.path().join("model.onnx")).unwrap();
    folder
}

fn named_values(side: &Json) -> NamedValues {
    let one = |(name, v): (&String, &Json)| {
        let shape = v["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        let data = v["data"].as_array().unwrap();
        let floats = || data.iter().map(|x| x.as_f64().unwrap());
        let whole = || data.iter().map(|x| x.as_i64().unwrap_or(i64::from(x == &Json::Bool(true))));
        let value = match v["dtype"].as_str().unwrap() {
            "float32" => {
                TensorValue::from_elements(shape, &floats().map(|x| x as f32).collect::<Vec<_>>())
            }
            "float64" => TensorValue::from_elements(shape, &floats().collect::<Vec<_>>()),
            "int64" => TensorValue::from_elements(shape, &whole().collect::<Vec<_>>()),
            "uint8" => {
                TensorValue::from_elements(shape, &whole().map(|n| n as u8).collect::<Vec<_>>())
            }
            other => panic!("{other}"),
        };
        (name.clone(), value.unwrap())
    };
    side.as_object().unwrap().iter().map(one).collect()
}

/// The inputs of a model, and what it gives for them.
pub(crate) fn expected(name: &str) -> (NamedValues, NamedValues) {
    let text = std::fs::read_to_string(files().join("expected.json")).unwrap();
    let all: Json = serde_json::from_str(&text).unwrap();
    (named_values(&all[name]["inputs"]), named_values(&all[name]["outputs"]))
}

/// Declares what the values are.
pub(crate) fn declared(inputs: &NamedValues, outputs: &NamedValues) -> Description {
    let mut d = description("onnx", &[], &[]);
    let specs = |of: &NamedValues| {
        let spec = |(name, v): &(String, TensorValue)| {
            ValueSpec::new(name.clone(), v.ty().unwrap(), shape("*"))
        };
        of.iter().map(spec).collect()
    };
    (d.inputs, d.outputs) = (specs(inputs), specs(outputs));
    d
}

#[track_caller]
pub(crate) fn close(found: &NamedValues, expected: &NamedValues) {
    assert_eq!(found.len(), expected.len());
    for (name, value) in expected {
        let (_, found) = found.iter().find(|(n, _)| n == name).unwrap();
        let c = compare(found, value, &Default::default());
        assert!(c.is_close(), "{name}: {c:?}");
    }
}
