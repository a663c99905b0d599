//! Options of conversions by recipes: parts, metadata that the caller sets, and files without tensors.

use crate::recipes::{converted, corpus, options};
use holdall::recipe::{
    MetadataSetting, ModelConvert, OutType, SetKey, convert_model_to, convert_vocabulary,
    plan_model,
};
use holdall::{Bytes, DType, Layout, Limits, Role, TensorSpec, Value, WriteOptions, Writer};
use std::fs;
use std::path::Path;

fn setting(text: &str) -> MetadataSetting {
    MetadataSetting::parse(text).unwrap()
}

fn integer(n: i128) -> Value {
    Value::Integer(n)
}

#[test]
fn a_model_is_written_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, whole, parts) =
        (corpus("llama3-bpe"), dir.path().join("whole.gguf"), dir.path().join("parts"));
    converted(&folder, &whole, &options()).unwrap();
    let options = options().with_name("tiny/llama:1").with_max_shard_len(20_000);
    let file = holdall::open(&folder).unwrap();
    let (_, planned) = plan_model(&folder, &file, &parts, &options).unwrap();
    let report = converted(&folder, &parts, &options).unwrap();
    assert_eq!(report.convert.files, planned.convert.files);
    let names: Vec<String> =
        (1..=3).map(|no| format!("tiny-llama-1-{no:05}-of-00003.gguf")).collect();
    assert_eq!(report.convert.files, names);
    let mut found: Vec<_> = fs::read_dir(&parts)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, names);
    let len = |name: &String| parts.join(name).metadata().unwrap().len();
    assert_eq!(report.convert.target_len, names.iter().map(len).sum::<u64>());

    // Together they are the file that is written whole.
    let (whole, all) =
        (holdall::open(&whole).unwrap(), holdall::open(parts.join(&names[0])).unwrap());
    let diff = holdall::diff(&whole, &all, &Default::default()).unwrap();
    assert!(diff.changed.is_empty() && diff.added.is_empty() && diff.removed.is_empty());
    assert_eq!(all.attributes().get("general.name"), Some(&Value::Text("tiny/llama:1".into())));
    let second = holdall::open(parts.join(&names[1])).unwrap();
    assert_eq!(second.attributes().get("split.no"), Some(&integer(1)));
    assert_eq!(second.attributes().get("split.count"), Some(&integer(3)));
    assert_eq!(second.attributes().get("split.tensors.count"), Some(&integer(21)));
    assert!(second.attributes().get("general.architecture").is_none());

    // Everything fits into one; by number of tensors; not into a stream.
    let one = dir.path().join("one");
    let report = converted(&folder, &one, &options.clone().with_max_shard_len(1 << 30)).unwrap();
    assert_eq!(report.convert.files, ["tiny-llama-1.gguf"]);
    let by_count = crate::recipes::options().with_max_shard_tensors(10);
    let report = converted(&folder, &dir.path().join("count"), &by_count).unwrap();
    assert_eq!(report.convert.files[2], "llama3-bpe-00003-of-00003.gguf");
    let e = convert_model_to(&folder, &file, Vec::new(), &by_count).expect_err("a stream");
    assert_eq!(e.code(), "shards/target");
}

#[test]
fn metadata_is_set_and_keeps_its_type() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.gguf");
    let settings = [
        setting("llama.context_length=77"),
        setting("llama.rope.freq_base=5e5"),
        setting("general.name=other: a name"),
        setting("general.license=str:mit"),
        setting("own.count=u64:5"),
        setting("own.list=[i16]:[1, 2]"),
        MetadataSetting::new("own.float", Value::Float(0.1)),
        setting("general.architecture=llama"),
    ];
    let folder = corpus("llama3-bpe");
    let report = converted(&folder, &to, &options().with_metadata(settings)).unwrap();
    let by_key = |key: &str| report.set_keys.iter().find(|set| set.key == key).unwrap();
    let SetKey { old, value, .. } = by_key("llama.context_length");
    assert_eq!((old.as_ref().map(Value::to_json).as_deref(), value), (Some("128"), &integer(77)));
    assert_eq!(by_key("general.license").old, None);
    let file = holdall::open(&to).unwrap();
    let found = |key: &str| file.attributes().get(key).unwrap().clone();
    assert_eq!(found("llama.context_length"), integer(77));
    assert_eq!(found("llama.rope.freq_base"), Value::Float(500_000.0));
    assert_eq!(found("general.name"), Value::Text("other: a name".into()));
    assert_eq!(found("own.float"), Value::Float(f64::from(0.1f32)));
    let types = found("holdall.gguf.types").to_json();
    assert_eq!(types, r#"{"own.count":"u64","own.list":"[i16]"}"#);
}

#[test]
fn metadata_that_contradicts_the_file_is_refused() {
    let folder = corpus("llama3-bpe");
    let file = holdall::open(&folder).unwrap();
    let refused = |options: &ModelConvert| {
        let planned = plan_model(&folder, &file, "out.gguf", options);
        let e = planned.err().unwrap_or_else(|| panic!("{options:?}"));
        (e.code(), e.to_string())
    };
    for (text, word) in [
        ("general.architecture=qwen2", "recipe and the tensors"),
        ("general.file_type=0", "recipe and the tensors"),
        ("llama.block_count=3", "a size of the tensors: 2"),
        ("split.count=int:2", "belongs to the file"),
        ("holdall.gguf.types=str:x", "belongs to the file"),
        ("llama.context_length=long", "not a whole number"),
        ("llama.context_length=str:long", "not the type of the key, which is u32"),
        ("own.key=5", "give a type"),
        ("own.key=u8:256", "256 is not u8"),
        ("own.list=[f32]:[1, true]", "is not [f32]"),
    ] {
        let planned = options().with_metadata([setting(text)]);
        let (code, message) = refused(&planned);
        assert_eq!(code, "recipe/setting", "{text}: {message}");
        assert!(message.contains(word), "{text}: {message}");
    }
    let (code, _) = refused(&options().with_metadata([setting("general.alignment=int:48")]));
    assert_eq!(code, "gguf/align");
    let twice = [setting("own.a=str:x"), setting("own.a=str:y")];
    assert_eq!(refused(&options().with_metadata(twice)).0, "recipe/setting");
    let unknown = MetadataSetting::new("own.a", integer(1)).with_type("u128");
    assert_eq!(refused(&options().with_metadata([unknown])).0, "recipe/setting");
    let other = MetadataSetting::new("llama.context_length", Value::Text("x".into()));
    assert_eq!(refused(&options().with_metadata([other])).0, "recipe/setting");
    assert_eq!(MetadataSetting::parse("no value").unwrap_err().code(), "recipe/setting");

    // An alignment that can be written is, unless another one is given.
    let aligned = options().with_metadata([setting("general.alignment=int:4096")]);
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.gguf");
    converted(&folder, &to, &aligned).unwrap();
    let file = holdall::open(&to).unwrap();
    let starts =
        file.tensors().flat_map(|t| t.components().map(|c| c.stored.start).collect::<Vec<_>>());
    assert!(starts.into_iter().all(|start| start % 4096 == 0));
    let mut encode = holdall::EncodeOptions::new();
    encode.align = Some(64);
    let write = WriteOptions::new().with_encode(encode);
    let both = ModelConvert::new(write).without_tokenizer();
    let both = both.with_metadata([setting("general.alignment=int:4096")]);
    let source = holdall::open(&folder).unwrap();
    let e = plan_model(&folder, &source, "out.gguf", &both).expect_err("two alignments");
    assert_eq!(e.code(), "recipe/setting");
}

#[test]
fn a_vocabulary_needs_no_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("model");
    fs::create_dir(&folder).unwrap();
    fs::copy(corpus("llama3-bpe").join("config.json"), folder.join("config.json")).unwrap();
    let tokenizer = corpus("").join("../tokenizers/llama3-bpe");
    for entry in fs::read_dir(&tokenizer).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_file() && name != "config.json" {
            fs::copy(&path, folder.join(name)).unwrap();
        }
    }
    let to = dir.path().join("vocab.gguf");
    let options = ModelConvert::new(WriteOptions::new())
        .with_pre_tokenizer("llama-bpe")
        .with_metadata([setting("llama.block_count=9")]);
    let report = convert_vocabulary(&folder, &to, &options, &Limits::default()).unwrap();
    assert_eq!((report.convert.tensors, report.recipe.as_str()), (0, "llama"));
    assert_eq!(report.convert.target_len, to.metadata().unwrap().len());
    let file = holdall::open(&to).unwrap();
    assert_eq!(file.len(), 0);
    let has = |key: &str| file.attributes().get(key).is_some();
    assert!(has("tokenizer.ggml.tokens") && has("llama.context_length"));
    assert!(!has("general.file_type") && !has("general.size_label"));
    assert_eq!(file.attributes().get("llama.block_count"), Some(&integer(9)));
    for text in [
        "tokenizer.ggml.bos_token_id=str:a",
        "tokenizer.ggml.eos_token_id=-1",
        "tokenizer.ggml.pre=int:1",
        "llama.context_length=str:long",
    ] {
        let other = options.clone().with_metadata([setting(text)]);
        let e = convert_vocabulary(&folder, &to, &other, &Limits::default()).expect_err(text);
        assert_eq!(e.code(), "recipe/setting", "{text}: {e}");
    }
    let e = convert_vocabulary(&folder, &to, &options.with_max_shard_len(1), &Limits::default());
    assert_eq!(e.unwrap_err().code(), "shards/target");
}

/// Writes the model of `gptoss` with the matrices of its experts in blocks, as gpt-oss is published.
fn with_blocks(folder: &Path) {
    let mut all: Vec<(TensorSpec, Bytes)> = Vec::new();
    let mut seed = 9u32;
    let mut random = |count: u64, from: u8, to: u8| -> Bytes {
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            from + ((seed >> 24) as u8) % (to - from)
        };
        (0..count).map(|_| next()).collect::<Vec<u8>>().into()
    };
    for tensor in holdall::open(corpus("gptoss")).unwrap().tensors() {
        let (name, shape) = (tensor.name(), tensor.shape().to_vec());
        if !name.contains(".experts.") || name.ends_with("_bias") {
            let c = tensor.require(&Role::Data).unwrap();
            let spec = TensorSpec::dense(name, c.dtype, shape);
            all.push((spec, tensor.bytes(&Role::Data).unwrap()));
            continue;
        }
        let [experts, inner, outer] = shape[..] else { panic!("{shape:?}") };
        let blocks = vec![experts, outer, inner / 32, 16];
        let count = experts * outer * inner / 32;
        let spec = TensorSpec::dense(format!("{name}_blocks"), DType::U8, blocks.clone());
        all.push((spec, random(count * 16, 0, 255)));
        let spec = TensorSpec::dense(format!("{name}_scales"), DType::U8, blocks[..3].to_vec());
        all.push((spec, random(count, 110, 130)));
    }
    let to = folder.join("model.safetensors");
    let mut writer = Writer::create(&to, &WriteOptions::new()).unwrap();
    writer.declare(&all.iter().map(|(spec, _)| spec.clone()).collect::<Vec<_>>()).unwrap();
    for (spec, bytes) in &all {
        writer.add(spec.clone(), &[bytes]).unwrap();
    }
    writer.finish().unwrap();
    let text = fs::read_to_string(corpus("gptoss").join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    config["quantization_config"] = serde_json::json!({"quant_method": "mxfp4"});
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

#[test]
fn blocks_of_the_source_stay_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("model");
    fs::create_dir(&folder).unwrap();
    with_blocks(&folder);
    let (auto, exact) = (dir.path().join("auto.gguf"), dir.path().join("exact.gguf"));
    let report = converted(&folder, &auto, &options()).unwrap();
    converted(&folder, &exact, &options().with_outtype(OutType::F32)).unwrap();
    let (auto, exact) = (holdall::open(&auto).unwrap(), holdall::open(&exact).unwrap());
    assert_eq!(auto.attributes().get("general.file_type"), Some(&integer(38)));
    assert_eq!(exact.attributes().get("general.file_type"), Some(&integer(0)));
    let mut blocks = 0;
    for tensor in auto.tensors() {
        let other = exact.tensor(tensor.name()).unwrap();
        assert!(!matches!(other.layout(), Layout::Blocks(_)));
        let is_matrix = tensor.name().ends_with("_exps.weight");
        assert_eq!(tensor.layout().as_str() == "gguf.mxfp4", is_matrix, "{}", tensor.name());
        if is_matrix {
            blocks += 1;
            let values = |tensor: &holdall::Tensor| {
                let dense = tensor.to_dense().unwrap();
                let all = dense.bytes().chunks_exact(4);
                all.map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect::<Vec<_>>()
            };
            assert_eq!(values(&tensor), values(&other), "{}", tensor.name());
        }
    }
    assert_eq!((blocks, report.outtype), (6, OutType::Bf16));
    // A requested type is that of all matrices.
    let bf16 = dir.path().join("bf16.gguf");
    converted(&folder, &bf16, &options().with_outtype(OutType::Bf16)).unwrap();
    let file = holdall::open(&bf16).unwrap();
    assert!(file.tensors().all(|tensor| *tensor.layout() == Layout::Dense));
}
