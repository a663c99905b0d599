//! What recipes refuse: configurations and recipes that contradict the tensors, and metadata of another type.

use crate::recipes::{converted, corpus, options, own, refused, with_config};
use holdall::recipe::{self, MetadataSetting, ModelRestore, Recipe, convert_model, restore_model};
use holdall::{File, TensorSpec, Value, WriteOptions, Writer};
use std::fs;
use std::path::Path;

fn setting(text: &str) -> MetadataSetting {
    MetadataSetting::parse(text).unwrap()
}

fn built_in(name: &str) -> Recipe {
    own(recipe::builtin().iter().find(|(own, _)| *own == name).unwrap().1)
}

/// Copies the tensors that `rename` has a name for, and the configuration.
fn copied(case: &str, folder: &Path, rename: impl Fn(&str) -> Option<String>) {
    let file = holdall::open(corpus(case)).unwrap();
    let mut all: Vec<(TensorSpec, holdall::Bytes)> = Vec::new();
    for tensor in file.tensors() {
        let Some(name) = rename(tensor.name()) else { continue };
        let spec = TensorSpec::dense(name, tensor.dtype().unwrap(), tensor.shape().to_vec());
        all.push((spec, tensor.bytes(&holdall::Role::Data).unwrap()));
    }
    let write = WriteOptions::new().with_overwrite(true);
    let mut writer = Writer::create(folder.join("model.safetensors"), &write).unwrap();
    writer.declare(&all.iter().map(|(spec, _)| spec.clone()).collect::<Vec<_>>()).unwrap();
    for (spec, bytes) in &all {
        writer.add(spec.clone(), &[bytes]).unwrap();
    }
    writer.finish().unwrap();
    fs::copy(corpus(case).join("config.json"), folder.join("config.json")).unwrap();
}

#[test]
fn a_type_that_is_the_usual_one_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.gguf");
    for (text, expected) in [
        ("own.x=u32:5", "5"),
        ("own.x=f32:0.5", "0.5"),
        ("own.x=i32:-1", "-1"),
        ("own.x=[f32]:[1,2]", "[1.0,2.0]"),
        ("own.x=[i32]:[1,2]", "[1,2]"),
        ("general.alignment=u32:64", "64"),
        ("llama.rope.freq_base=f32:5e5", "500000.0"),
        ("llama.context_length=int:5", "5"),
        ("own.x=str:flaot:0.5", "\"flaot:0.5\""),
        ("own.x=https://example.org", "\"https://example.org\""),
    ] {
        let planned = options().with_metadata([setting(text)]);
        converted(&corpus("llama3-bpe"), &to, &planned).unwrap_or_else(|e| panic!("{text}: {e}"));
        let file = holdall::open(&to).unwrap();
        let found = file.attributes().get(setting(text).key()).unwrap().to_json();
        assert_eq!(found, expected, "{text}");
        assert!(file.attributes().get("holdall.gguf.types").is_none(), "{text}");
    }
}

#[test]
fn keys_keep_the_types_that_they_have() {
    let folder = corpus("llama3-bpe");
    for (text, word) in [
        ("general.name=int:3", "int is not the type of the key, which is str"),
        ("llama.context_length=-1", "-1 is not of the type of the key, u32"),
        ("llama.context_length=4294967296", "u32"),
        ("llama.context_length=u64:5", "u64 is not the type"),
        ("llama.context_length=[u32]:[5]", "[u32] is not the type"),
        ("llama.rope.freq_base=int:5", "f32"),
        ("llama.rope.freq_base=f64:5", "f64 is not the type"),
        ("own.x=flaot:0.5", "`flaot` is not a type"),
    ] {
        let (code, message) = refused(&folder, &options().with_metadata([setting(text)]));
        assert_eq!(code, "recipe/setting", "{text}: {message}");
        assert!(message.contains(word), "{text}: {message}");
    }
}

#[test]
fn metadata_that_is_computed_of_missing_tensors_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    copied("apertus", dir.path(), |name| (!name.contains("act_fn")).then(|| name.to_owned()));
    let (code, message) = refused(dir.path(), &options());
    assert_eq!(code, "recipe/value", "{message}");
    assert!(message.contains("xielu.alpha_n"), "{message}");
}

#[test]
fn configurations_that_contradict_the_tensors_are_refused() {
    for (key, value, code, word) in [
        ("num_hidden_layers", 1, "recipe/incomplete", "1 layers"),
        ("num_hidden_layers", 3, "recipe/incomplete", "those of 2"),
        ("hidden_size", 64, "recipe/shape", "64 (by `qwen2.embedding_length`)"),
        ("intermediate_size", 60, "recipe/shape", "60 (by `qwen2.feed_forward_length`)"),
        ("num_attention_heads", 8, "recipe/shape", "qwen2.attention.head_count"),
        ("num_key_value_heads", 1, "recipe/shape", "qwen2.attention.head_count_kv"),
    ] {
        let dir = with_config("qwen2", |config| {
            config["head_dim"] = (32 / config["num_attention_heads"].as_i64().unwrap()).into();
            config[key] = value.into();
        });
        let (found, message) = refused(dir.path(), &options());
        assert_eq!(found, code, "{key}: {message}");
        assert!(message.contains(word), "{key}: {message}");
    }
    let dir = with_config("llama3-bpe", |config| config["vocab_size"] = 7.into());
    let (code, message) = refused(dir.path(), &options());
    assert!(code == "recipe/shape" && message.contains("7 (by `llama.vocab_size`)"), "{message}");
}

/// Converts a case, and returns the file.
fn gguf(case: &str, folder: &Path, to: &Path) -> File {
    converted(folder, to, &options()).unwrap_or_else(|e| panic!("{case}: {e}"));
    holdall::open(to).unwrap()
}

#[test]
fn only_a_recipe_for_the_architecture_leads_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = gguf("llama3-bpe", &corpus("llama3-bpe"), &dir.path().join("llama.gguf"));
    let back = dir.path().join("back");
    let write = WriteOptions::new();
    let options = ModelRestore::new(write.clone(), built_in("qwen2"));
    let e = restore_model(&file, &back, &options).unwrap_err();
    assert_eq!(e.code(), "recipe/architecture");
    let text = e.to_string();
    assert!(text.contains("`qwen2`") && text.contains("`llama`") && !back.exists(), "{text}");
    let options = ModelRestore::new(write, built_in("llama"));
    restore_model(&file, &back, &options).unwrap();
}

/// The text model alone has other names than next to a vision model.
#[test]
fn the_way_back_names_tensors_as_the_architecture_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("model");
    fs::create_dir(&folder).unwrap();
    copied("mistral3", &folder, |name| {
        let name = name.strip_prefix("language_model.")?;
        Some(name.to_owned())
    });
    let path = folder.join("config.json");
    let whole: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let mut config = whole["text_config"].clone();
    config["architectures"] = serde_json::json!(["Ministral3ForCausalLM"]);
    fs::write(&path, config.to_string()).unwrap();
    let to = dir.path().join("out.gguf");
    let report = converted(&folder, &to, &options()).unwrap();
    let file = holdall::open(&to).unwrap();
    let restore = ModelRestore::new(WriteOptions::new(), built_in(&report.recipe));
    let back = dir.path().join("back");
    restore_model(&file, &back, &restore.with_config(config.to_string())).unwrap();
    let names = |folder: &Path| {
        let file = holdall::open(folder).unwrap();
        let mut all: Vec<_> = file.tensors().map(|t| t.name().to_owned()).collect();
        all.sort();
        all
    };
    assert_eq!(names(&back), names(&folder));
    // Without a configuration, it is the model with a vision model.
    assert_eq!(recipe::find_back(&file).unwrap().name(), "mistral3");
}

#[test]
fn a_restored_configuration_does_not_speak_of_quantized_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let file = gguf("qwen2", &corpus("qwen2"), &dir.path().join("out.gguf"));
    let text = fs::read_to_string(corpus("qwen2").join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    config["quantization_config"] = serde_json::json!({"quant_method": "gptq", "bits": 4});
    let back = dir.path().join("back");
    let restore = ModelRestore::new(WriteOptions::new(), built_in("qwen2"));
    let restore = restore.with_config(config.to_string());
    let report = restore_model(&file, &back, &restore).unwrap();
    let named = report.convert.left_behind;
    assert!(named.iter().any(|line| line.contains("`quantization_config`")), "{named:?}");
    let written = fs::read_to_string(back.join("config.json")).unwrap();
    let written: serde_json::Value = serde_json::from_str(&written).unwrap();
    config.as_object_mut().unwrap().remove("quantization_config");
    assert_eq!(written, config);
}

/// Only a configuration tells RoBERTa, whose positions cannot come back, from BERT.
#[test]
fn a_configuration_chooses_the_recipe_of_the_way_back() {
    let dir = tempfile::tempdir().unwrap();
    let folder = corpus("roberta");
    let to = dir.path().join("out.gguf");
    convert_model(&folder, &holdall::open(&folder).unwrap(), &to, &options()).unwrap();
    let file = holdall::open(&to).unwrap();
    let text = fs::read_to_string(folder.join("config.json")).unwrap();
    let config = Value::from_json(&text, 64).unwrap();
    let found = recipe::find(&config, file.limits()).unwrap();
    assert_eq!(found.name(), "roberta");
    let restore = ModelRestore::new(WriteOptions::new(), found).with_config(text);
    let e = restore_model(&file, dir.path().join("back"), &restore).unwrap_err();
    assert_eq!(e.code(), "recipe/no-inverse");
}
