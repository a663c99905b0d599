//! The original can read packages that we write: all texts, the list of files, tensors of numbers, stored and
//! compressed.
//!
//! `cargo xtask interop` installs it and runs this; without it the test is ignored.
#![cfg(feature = "carton")]

use bytes::Bytes;
use holdall::carton::{
    Description, DimSpec, Example, FileContent, OptionValue, Packer, Packing, Reference, SelfTest,
    ShapeSpec, TensorValue, ValueSpec, ValueType,
};
use serde_json::json;
use std::path::Path;
use std::process::Command;

fn packer() -> Packer {
    let mut d = Description::default();
    d.model_name = Some("Ours".into());
    d.model_description = Some("Says \"\"\"so\"\"\".\n\n\\ and \t, too\n".into());
    d.license = Some("MIT".into());
    d.required_platforms = vec!["x86_64-unknown-linux-gnu".into()];
    d.card = vec![("trained on".into(), "nothing".into())];
    d.base_models = vec!["another".into()];
    let dims = ShapeSpec::Dims(vec![DimSpec::Symbol("n".into()), DimSpec::Size(2)]);
    d.inputs = vec![
        ValueSpec::new("x", ValueType::Float32, dims),
        ValueSpec::new("words", ValueType::String, ShapeSpec::Any),
        ValueSpec::new("ragged", ValueType::Int64, ShapeSpec::Symbol("s".into())),
    ];
    d.outputs = vec![ValueSpec::new("y", ValueType::Uint8, ShapeSpec::Dims(vec![]))];
    let mut test = SelfTest::default();
    test.inputs = ["x", "words", "ragged"].map(|name| (name.into(), name.into())).into();
    test.expected = Some(vec![("y".into(), "y".into())]);
    test.tolerance.rtol = 0.5;
    d.self_tests = vec![test, SelfTest::default()];
    let mut example = Example::default();
    example.inputs = vec![("x".into(), Reference::Misc("a b.txt".into()))];
    d.examples = vec![example];
    d.runner.name = "noop".into();
    d.runner.framework_version = "^1.12".into();
    d.runner.compat_version = 2;
    d.runner.options = vec![
        ("threads".into(), OptionValue::Integer(4)),
        ("scale".into(), OptionValue::Double(1e300)),
        ("fast".into(), OptionValue::Boolean(true)),
        ("mode".into(), OptionValue::String("a\nb".into())),
    ];
    let ragged = [vec![1i64, 2], vec![3]];
    let ragged =
        ragged.iter().map(|all| TensorValue::from_elements(vec![all.len() as u64], all).unwrap());
    Packer::new(d)
        .with_file("model/weights", FileContent::Bytes(Bytes::from(vec![7; 5_000_000])))
        .with_file("misc/a b.txt", FileContent::Bytes(Bytes::from_static(b"hello")))
        .with_tensor("x", TensorValue::from_elements(vec![2, 2], &[1f32, 2.0, 3.0, 4.5]).unwrap())
        .with_tensor(
            "words",
            TensorValue::strings(vec![2], vec!["a\"\n".into(), "ü".into()]).unwrap(),
        )
        .with_tensor("ragged", TensorValue::nested(ragged.collect()).unwrap())
        .with_tensor("y", TensorValue::from_elements(vec![], &[7u8]).unwrap())
}

#[test]
#[ignore = "wants the original: `cargo xtask interop`"]
fn the_original_reads_our_packages() {
    let python = std::env::var_os("HOLDALL_PYTHON").expect("`cargo xtask interop` says where");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/carton/read.py");
    let dir = tempfile::tempdir().unwrap();
    for packing in [Packing::Stored, Packing::Deflate, Packing::Zstd] {
        let path = dir.path().join(format!("{packing:?}.carton"));
        packer().with_packing(packing).write(&path, false).unwrap();
        let out = Command::new(&python)
            .arg(&script)
            .arg(&path)
            .args(["words", "ragged"])
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr);
        // Before release 3.14, Python's `zipfile` does not know zstd.
        if packing == Packing::Zstd && stderr.contains("compression method is not supported") {
            continue;
        }
        assert!(out.status.success(), "{packing:?}: {stderr}");
        let found: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(found["broken"], json!(null), "{packing:?}");
        assert_eq!(found["name"], "Ours");
        assert_eq!(found["description"], "Says \"\"\"so\"\"\".\n\n\\ and \t, too\n");
        assert_eq!(found["inputs"], json!(["x", "words", "ragged"]));
        assert_eq!((&found["misc"], &found["runner"]), (&json!(["a b.txt"]), &json!("noop")));
        let test = &found["self_tests"][0];
        assert_eq!(test["inputs"]["x"]["data"], json!([[1.0, 2.0], [3.0, 4.5]]));
        assert_eq!(test["expected"]["y"], json!({"shape": [], "data": 7}));
    }
}
