//! Files in a folder that describe its model, next to the tensors.

use holdall::{Limits, ModelFolder, Value};
use std::fs;
use std::path::Path;

/// Returns a folder with a tensor file and these other files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut model = 2u64.to_le_bytes().to_vec();
    model.extend_from_slice(b"{}");
    fs::write(dir.path().join("model.safetensors"), model).unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn detect(path: &Path) -> Option<ModelFolder> {
    ModelFolder::detect(path, &Limits::default()).unwrap()
}

#[test]
fn facts_and_tokenizers_are_found() {
    let config = r#"{"use_cache": true, "hidden_size": 384, "model_type": "bert", "architectures": ["BertModel"],
        "torch_dtype": null, "dtype": "float32"}"#;
    let files =
        [("config.json", config), ("vocab.txt", ""), ("tokenizer.json", "{}"), ("notes.txt", "")];
    let dir = folder(&files);
    let found = detect(dir.path()).unwrap();
    assert_eq!(found.tokenizer, ["tokenizer.json", "vocab.txt"]);
    assert_eq!(
        found.config.to_json(),
        r#"{"model_type":"bert","architectures":["BertModel"],"dtype":"float32","hidden_size":384}"#
    );
    assert!(found.warnings.is_empty());
}

#[test]
fn a_model_with_several_parts_has_the_facts_of_its_text() {
    let config = r#"{"model_type": "gemma3", "text_config": {"hidden_size": 2560, "model_type": "gemma3_text"}}"#;
    let found = detect(folder(&[("config.json", config)]).path()).unwrap();
    assert_eq!(found.config.get("model_type").and_then(Value::as_text), Some("gemma3"));
    assert_eq!(found.config.get("hidden_size").and_then(Value::as_integer), Some(2560));
    assert!(found.tokenizer.is_empty());
}

#[test]
fn numbers_that_json_lacks_hide_nothing() {
    let config = r#"{"time_step_limit": [0.0, Infinity], "model_type": "NaN \" -Infinity\\", "a": -Infinity,
        "hidden_size": NaN, "vocab_size": 7}"#;
    let found = detect(folder(&[("config.json", config)]).path()).unwrap();
    assert_eq!(found.config.to_json(), r#"{"model_type":"NaN \" -Infinity\\","vocab_size":7}"#);
    assert!(found.warnings.is_empty());
}

#[test]
fn invalid_configs_give_a_warning() {
    let nested = "[".repeat(100_000);
    for text in ["", "{", "[]", r#"{"model_type": nan}"#, r#"{"a": 1, "a": 2}"#, &nested] {
        let dir = folder(&[("config.json", text), ("vocab.txt", "")]);
        let found = detect(dir.path()).unwrap();
        assert_eq!(found.tokenizer, ["vocab.txt"], "{text:.20}");
        assert!(found.config.is_empty(), "{text:.20}");
        let codes: Vec<_> = found.warnings.iter().map(|w| w.code).collect();
        assert_eq!(codes, ["folder/config"], "{text:.20}");
    }
    let dir = folder(&[("config.json", r#"{"model_type": "bert"}"#)]);
    let mut few = Limits::default();
    few.text_len = 10;
    let found = ModelFolder::detect(dir.path(), &few).unwrap().unwrap();
    assert!(found.warnings[0].message.contains("more than 10 bytes"), "{:?}", found.warnings);
}

#[test]
fn other_paths_have_no_such_folder() {
    let dir = folder(&[]);
    assert_eq!(detect(&dir.path().join("model.safetensors")), None);
    assert_eq!(detect(&dir.path().join("missing")), None);
    assert_eq!(detect(tempfile::tempdir().unwrap().path()), None);
}
