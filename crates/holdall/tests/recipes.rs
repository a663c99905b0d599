//! Models of the Hugging Face hub converted to GGUF by recipes. `corpus/recipes` has folders of tiny models, and what
//! llama.cpp's converter makes of them: the type, the shape and the start of the SHA-256 of every tensor.

use holdall::recipe::{
    self, ModelConvert, ModelConvertReport, OutType, Recipe, convert_model, plan_model,
};
use holdall::{Bytes, DType, Layout, Limits, Result, Role, Tensor, WriteOptions};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn corpus(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/recipes").join(case)
}

pub(crate) fn cases() -> Vec<String> {
    let entries = fs::read_dir(corpus("")).unwrap();
    let mut all: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    assert!(all.len() >= 64, "{all:?}");
    all
}

pub(crate) fn options() -> ModelConvert {
    ModelConvert::new(WriteOptions::new().with_overwrite(true)).without_tokenizer()
}

pub(crate) fn converted(
    folder: &Path,
    to: &Path,
    options: &ModelConvert,
) -> Result<ModelConvertReport> {
    convert_model(folder, &holdall::open(folder)?, to, options)
}

/// Returns the error of a plan, with its code and whole text.
pub(crate) fn refused(folder: &Path, options: &ModelConvert) -> (&'static str, String) {
    let file = holdall::open(folder).unwrap();
    let e = plan_model(folder, &file, "out.gguf", options).expect_err("the plan fails");
    (e.code(), e.to_string())
}

fn type_name(tensor: &Tensor) -> String {
    match tensor.layout() {
        Layout::Blocks(of) => of.as_str().to_uppercase(),
        _ => tensor.dtype().map_or_else(String::new, |dtype| dtype.as_str().to_uppercase()),
    }
}

fn data(tensor: &Tensor) -> Bytes {
    tensor.bytes(&Role::Data).unwrap()
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn tensors_are_those_of_llama_cpp() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.gguf");
    for case in cases() {
        let folder = corpus(&case);
        let text = fs::read_to_string(folder.join("expect.json")).unwrap();
        let expected: Json = serde_json::from_str(&text).unwrap();
        for (outtype, tensors) in expected["tensors"].as_object().unwrap() {
            let options = options().with_outtype(OutType::from_name(outtype).unwrap());
            let report =
                converted(&folder, &to, &options).unwrap_or_else(|e| panic!("{case}: {e}"));
            assert_eq!(report.outtype.as_str(), outtype);
            let file = holdall::open(&to).unwrap();
            let tensors = tensors.as_object().unwrap();
            assert_eq!(file.len(), tensors.len(), "{case} {outtype}");
            for (name, expected) in tensors {
                let tensor = file.tensor(name).unwrap_or_else(|e| panic!("{case}: {e}"));
                let shape: Vec<u64> = tensor.shape().iter().rev().copied().collect();
                let context = format!("{case} {outtype} {name}");
                assert_eq!(type_name(&tensor), expected[0].as_str().unwrap(), "{context}");
                assert_eq!(serde_json::json!(shape), expected[1], "{context}");
                // PyTorch's exponential is up to one place off.
                let is_state_space = ["mamba", "mamba2", "falconmamba", "jamba"].contains(&&*case);
                if !is_state_space || !name.ends_with("ssm_a") {
                    assert_eq!(hash(&data(&tensor)), expected[2].as_str().unwrap(), "{context}");
                }
            }
        }
    }
}

#[test]
fn metadata_is_that_of_llama_cpp() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.gguf");
    for case in cases() {
        let folder = corpus(&case);
        let text = fs::read_to_string(folder.join("expect.json")).unwrap();
        let expected: Json = serde_json::from_str(&text).unwrap();
        converted(&folder, &to, &options().with_outtype(OutType::F32)).unwrap();
        let file = holdall::open(&to).unwrap();
        let mut found: Json = serde_json::from_str(&file.attributes().to_json()).unwrap();
        let found = found.as_object_mut().unwrap();
        assert_eq!(found.remove("general.name").unwrap(), *case);
        assert_eq!(Json::Object(found.clone()), expected["metadata"], "{case}");
    }
}

/// Copies the tensors of a case into a folder with another configuration.
pub(crate) fn with_config(case: &str, edit: impl Fn(&mut Json)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(corpus(case)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = dir.path().join("config.json");
    let mut config = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    edit(&mut config);
    fs::write(path, config.to_string()).unwrap();
    dir
}

#[test]
fn configurations_of_transformers_4_mean_the_same() {
    let own = fs::read_to_string(corpus("llama3-bpe").join("config-v4.json")).unwrap();
    let dir = with_config("llama3-bpe", |config| *config = serde_json::from_str(&own).unwrap());
    let (a, b) = (dir.path().join("a.gguf"), dir.path().join("b.gguf"));
    let options = options().with_name("llama");
    converted(dir.path(), &a, &options).unwrap();
    converted(&corpus("llama3-bpe"), &b, &options).unwrap();
    assert_eq!(fs::read(a).unwrap(), fs::read(b).unwrap());
}

#[test]
fn keys_that_a_configuration_lacks_have_defaults() {
    let dir = with_config("granite", |config| {
        for key in ["rms_norm_eps", "rope_parameters"] {
            assert!(config.as_object_mut().unwrap().remove(key).is_some(), "{key}");
        }
    });
    let (a, b) = (dir.path().join("a.gguf"), dir.path().join("b.gguf"));
    let options = options().with_name("granite");
    converted(dir.path(), &a, &options).unwrap();
    converted(&corpus("granite"), &b, &options).unwrap();
    assert_eq!(fs::read(&a).unwrap(), fs::read(&b).unwrap());
    // Null is a value, which no default replaces.
    let null = with_config("granite", |config| config["rms_norm_eps"] = Json::Null);
    converted(null.path(), &a, &options).unwrap();
    let file = holdall::open(&a).unwrap();
    assert!(file.attributes().get("granite.attention.layer_norm_rms_epsilon").is_none());
}

#[test]
fn the_type_follows_from_the_first_matrix() {
    for (case, expected) in [("gpt2", OutType::F16), ("qwen2", OutType::Bf16)] {
        let folder = corpus(case);
        let file = holdall::open(&folder).unwrap();
        let (specs, report) = plan_model(&folder, &file, "out.gguf", &options()).unwrap();
        assert_eq!(report.outtype, expected, "{case}");
        let matrix = specs.iter().find(|spec| spec.name == "token_embd.weight").unwrap();
        let expected = if expected == OutType::F16 { DType::F16 } else { DType::Bf16 };
        assert_eq!(matrix.components[0].dtype, expected);
    }
}

#[test]
fn what_the_target_cannot_say_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let warnings = |folder: &Path| {
        let report = converted(folder, &dir.path().join("out.gguf"), &options()).unwrap();
        let all = report.convert.warnings.into_iter();
        all.filter(|w| w.code == "recipe/differs").map(|w| w.message).collect::<Vec<_>>()
    };
    assert!(warnings(&corpus("gptoss"))[0].contains("truncate"));
    assert!(warnings(&corpus("qwen3moe")).is_empty());
    let other = with_config("qwen3moe", |config| config["norm_topk_prob"] = false.into());
    assert!(warnings(other.path())[0].contains("norm_topk_prob"));
    let other = with_config("deepseek3", |config| {
        config.as_object_mut().unwrap().remove("scoring_func");
    });
    assert!(warnings(other.path())[0].contains("scoring_func"));
}

#[test]
fn tensors_that_are_left_out_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let report = converted(&corpus("roberta"), &dir.path().join("out.gguf"), &options()).unwrap();
    let left = &report.convert.left_behind;
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[0].starts_with("tensor `pooler.dense.bias`: "), "{left:?}");
    // A layer for further tokens.
    let other = with_config("deepseek3", |config| config["num_hidden_layers"] = 1.into());
    let report = converted(other.path(), &dir.path().join("out.gguf"), &options()).unwrap();
    let left = report.convert.left_behind;
    assert!(left.iter().all(|what| what.contains("model.layers.1.")) && left.len() > 10);
}

/// A tensor without elements, or of elements that share bytes, is not left out without a word.
#[test]
fn tensors_that_no_recipe_can_read_are_refused() {
    let folder = corpus("qwen2");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f4.zt");
    let mut spec = holdall::TensorSpec::dense("w", DType::U8, [4, 4]);
    spec.components[0].logical_type = Some(holdall::LogicalType::F4E2M1);
    spec.components[0].decoded_len = 8;
    let mut writer = holdall::Writer::create(&path, &WriteOptions::new()).unwrap();
    writer.add(spec, &[&[0x21; 8]]).unwrap();
    writer.finish().unwrap();
    let unknown = corpus("").join("../accept/ztensor/planes-unknown.zt");
    for (path, code) in [(path, "layout/element-size"), (unknown, "file/unknown-layout")] {
        let file = holdall::open(&path).unwrap();
        let e = plan_model(&folder, &file, "out.gguf", &options()).expect_err("refused");
        assert_eq!(e.code(), code, "{e}");
    }
}

#[test]
fn models_without_a_recipe_are_refused() {
    let dir = with_config("qwen2", |config| config["architectures"] = serde_json::json!(["Other"]));
    let (code, text) = refused(dir.path(), &options());
    assert_eq!(code, "recipe/unknown-architecture");
    assert!(text.contains("Other"), "{text}");
    // Only the chosen recipe decides.
    let qwen = recipe::builtin().iter().find(|(name, _)| *name == "qwen2").unwrap().1;
    let qwen = Recipe::parse(qwen.as_bytes(), &Limits::default()).unwrap();
    let to = dir.path().join("out.gguf");
    let report = converted(dir.path(), &to, &options().with_recipe(qwen)).unwrap();
    assert_eq!(report.recipe, "qwen2");
}

pub(crate) fn own(text: &str) -> Recipe {
    Recipe::parse(text.as_bytes(), &Limits::default()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A recipe for the tensors of `qwen2`, with further lines.
fn with_lines(lines: &str) -> String {
    format!("recipe = 'own'\nextends = 'qwen2'\n{lines}")
}

#[test]
fn a_further_family_needs_only_a_recipe() {
    let text = with_lines(
        "[let]\narch = \"'other'\"\n\
         [[tensors]]\nfrom = 'model.layers.{n}.self_attn.{x:q|k}_proj.{w:weight|bias}'\nto = 'blk.{n}.{x}.{w}'\n\
         steps = [{ unflatten = [2, -1] }, { unstack = 0 }, { concat = 0, only = [1, 0] }]\n\
         [metadata]\n'{arch}.list' = 'each(i, layers, i * 2)'\n'{arch}.read' = \"len(tensor('model.norm.weight')) + (tensor('none') ?? 1)\"\n'general.name' = 'null'",
    );
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.gguf");
    converted(&corpus("qwen2"), &to, &options().with_recipe(own(&text))).unwrap();
    let file = holdall::open(&to).unwrap();
    let json: Json = serde_json::from_str(&file.attributes().to_json()).unwrap();
    assert_eq!(json["general.architecture"], "other");
    assert_eq!(json["other.list"], serde_json::json!([0, 2]));
    assert_eq!(json["other.read"], 33);
    assert_eq!(json.get("general.name"), None);
    assert_eq!(file.tensor("blk.1.q.weight").unwrap().shape(), [32, 32]);
    assert!(file.tensor("blk.1.attn_q.weight").is_err());
}

#[test]
fn steps_move_elements_as_they_say() {
    // A tensor of 320 rows of 32 numbers, in BF16.
    let source = holdall::open(corpus("qwen2")).unwrap();
    let source = data(&source.tensor("model.embed_tokens.weight").unwrap());
    let element = |row: usize, column: usize| &source[(row * 32 + column) * 2..][..2];
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.gguf");
    let made = |steps: &str| {
        let rule = format!(
            "[[tensors]]\nfrom = 'model.embed_tokens.weight'\nto = 'x.weight'\nsteps = [{steps}]"
        );
        let options = options().with_recipe(own(&with_lines(&rule))).with_outtype(OutType::Bf16);
        converted(&corpus("qwen2"), &to, &options).unwrap();
        let file = holdall::open(&to).unwrap();
        let tensor = file.tensor("x.weight").unwrap();
        (tensor.shape().to_vec(), data(&tensor).to_vec())
    };
    let all = |rows: &[usize], columns: &[usize]| -> Vec<u8> {
        let row = |row: &usize| columns.iter().flat_map(|c| element(*row, *c).to_vec()).collect();
        rows.iter()
            .flat_map(|r| {
                let bytes: Vec<u8> = row(r);
                bytes
            })
            .collect()
    };
    let (rows, columns): (Vec<usize>, Vec<usize>) = ((0..320).collect(), (0..32).collect());
    let transposed: Vec<u8> =
        columns.iter().flat_map(|c| rows.iter().flat_map(|r| element(*r, *c).to_vec())).collect();
    assert_eq!(made("{ transpose = [0, 1] }"), (vec![32, 320], transposed.clone()));
    assert_eq!(made("{ permute = [1, 0] }, { transpose = [-1, -2] }").1, all(&rows, &columns));
    assert_eq!(made("{ slice = [3, 7] }"), (vec![4, 32], all(&rows[3..7], &columns)));
    assert_eq!(
        made("{ slice = [5, 'null'], axis = -1 }"),
        (vec![320, 27], all(&rows, &columns[5..]))
    );
    let halves: Vec<usize> = (0..160).flat_map(|r| [r, r + 160]).collect();
    let woven = "{ chunk = 2 }, { stack = 1 }, { flatten = 2 }";
    assert_eq!(made(woven), (vec![320, 32], all(&halves, &columns)));
    let even: Vec<usize> = (0..320).step_by(2).chain((1..320).step_by(2)).collect();
    let unwoven = "{ unflatten = [-1, 2] }, { unstack = 1 }, { concat = 0 }";
    assert_eq!(made(unwoven), (vec![320, 32], all(&even, &columns)));
    let reversed: Vec<usize> = (200..320).chain(0..200).collect();
    let swapped = "{ split = [200, -1] }, { concat = 0 }";
    assert_eq!(made(swapped).1, all(&rows, &columns));
    let cut = "{ split = [200, 120] }, { unsqueeze = 0, only = 1 }, { squeeze = 0, only = 1 }, { concat = 0 }";
    assert_eq!(made(cut).1, all(&rows, &columns));
    let turned = "{ reshape = [8, 40, 32] }, { unflatten = [-1], axis = 2 }, { split = [5, 3] }, { flatten = 2 }, { add = 0, only = 0, when = 'false' }, { concat = 0 }";
    assert_eq!(made(turned).1, all(&rows, &columns));
    assert_eq!(reversed.len(), 320);
}

#[test]
fn arithmetic_is_rounded_once() {
    let source = holdall::open(corpus("qwen2")).unwrap();
    let source = data(&source.tensor("model.norm.weight").unwrap());
    let numbers =
        source.chunks(2).map(|b| f32::from_bits(u32::from(b[0]) << 16 | u32::from(b[1]) << 24));
    let rule = "[[tensors]]\nfrom = 'model.norm.weight'\nto = 'output_norm.weight'\nsteps = [{ multiply = 3 }, { add = 0.1 }]";
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.gguf");
    converted(&corpus("qwen2"), &to, &options().with_recipe(own(&with_lines(rule)))).unwrap();
    let file = holdall::open(&to).unwrap();
    let expected: Vec<u8> = numbers.flat_map(|x| (x * 3.0 + 0.1).to_le_bytes()).collect();
    assert_eq!(data(&file.tensor("output_norm.weight").unwrap()).to_vec(), expected);
}

#[test]
fn state_spaces_get_negative_exponentials() {
    let folder = corpus("mamba");
    let source = holdall::open(&folder).unwrap();
    let logs = data(&source.tensor("backbone.layers.0.mixer.A_log").unwrap());
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.gguf");
    converted(&folder, &to, &options()).unwrap();
    let file = holdall::open(&to).unwrap();
    let found = data(&file.tensor("blk.0.ssm_a").unwrap());
    let number = |b: &[u8]| f64::from(f32::from_le_bytes(b.try_into().unwrap()));
    for (log, a) in logs.chunks(4).zip(found.chunks(4)) {
        let exact = -number(log).exp();
        assert!((number(a) - exact).abs() <= exact.abs() * 6e-8);
    }
}

#[test]
fn recipes_that_do_not_fit_are_refused() {
    let lines: [(&str, &str, &str); 14] = [
        ("recipe/text", "unknown = 1", "unknown key"),
        ("recipe/text", "[[tensors]]\nfrom = 'a'", "missing key `to`"),
        (
            "recipe/text",
            "[[tensors]]\nfrom = 'a'\nto = 'b'\nsteps = [{ turn = 1 }]",
            "expected one of",
        ),
        ("recipe/text", "[[tensors]]\nfrom = 'a{'\nto = 'b'", "unpaired brace"),
        ("recipe/text", "[[tensors]]\nfrom = 'a'\nto = 'b'\ngather = 'e'", "not captured"),
        ("recipe/text", "[files]\nx = '../secret.json'", "inside the model's folder"),
        ("recipe/expression", "[let]\nx = '1 +'", "found the end"),
        ("recipe/expression", "[let]\nx = 'open(1)'", "not a function"),
        ("recipe/value", "[metadata]\nx = '1 // 0'", "division by zero"),
        ("recipe/value", "[metadata]\nx = { value = 'missing', required = true }", "lacks"),
        (
            "recipe/value",
            "[let]\na = 'b'\nb = 'c'\nc = 'a + [1]'\n[metadata]\nx = 'each(i, -1, i)'",
            "each",
        ),
        (
            "recipe/shape",
            "[[tensors]]\nfrom = 'model.norm.weight'\nto = 'x'\nsteps = [{ transpose = [0, 1] }]",
            "no axis 1",
        ),
        (
            "recipe/shape",
            "[[tensors]]\nfrom = 'model.norm.weight'\nto = ['x', 'y']",
            "1 tensors for 2 names",
        ),
        ("recipe/incomplete", "[rename]\n'model.layers.{n}.mlp.up_proj.weight' = 'x'", "two rules"),
    ];
    for (code, lines, what) in lines {
        let text = with_lines(lines);
        let (found, message) = match Recipe::parse(text.as_bytes(), &Limits::default()) {
            Err(e) => (e.code(), e.to_string()),
            Ok(recipe) => refused(&corpus("qwen2"), &options().with_recipe(recipe)),
        };
        assert_eq!(found, code, "{lines}: {message}");
        assert!(message.contains(what), "{lines}: {message}");
    }
    let bare = own("recipe = 'bare'\n[rename]\n'model.norm.weight' = 'x'");
    let (code, message) = refused(&corpus("qwen2"), &options().with_recipe(bare));
    assert_eq!(code, "recipe/left-over");
    assert!(message.contains("`model.embed_tokens.weight`"), "{message}");
    // An expert is missing.
    let dir = with_config("qwen3moe", |config| config["num_local_experts"] = 5.into());
    let (code, message) = refused(dir.path(), &options());
    assert_eq!(code, "recipe/incomplete");
    assert!(message.contains("e = 4; expected 5"), "{message}");
}

#[test]
fn expressions_end() {
    let deep = format!("[let]\nx = '{}1{}'", "(".repeat(1000), ")".repeat(1000));
    let long = format!("[let]\nx = '1{}'", " + 1".repeat(5000));
    let names = format!(
        "[let]\n{}[metadata]\nx = 'x0'",
        (0..100).map(|n| format!("x{n} = 'x{} + x{}'\n", n + 1, n + 1)).collect::<String>()
    );
    let loops = "[metadata]\nx = 'len(each(a, 1000000, each(b, 1000000, b)))'";
    for (lines, code) in [
        (&*deep, "recipe/expression"),
        (&*long, "recipe/expression"),
        (&*names, "recipe/value"),
        (loops, "recipe/value"),
    ] {
        let text = with_lines(lines);
        let found = match Recipe::parse(text.as_bytes(), &Limits::default()) {
            Err(e) => e.code(),
            Ok(recipe) => refused(&corpus("qwen2"), &options().with_recipe(recipe)).0,
        };
        assert_eq!(found, code);
    }
}

#[test]
fn every_recipe_can_be_read() {
    for (name, text) in recipe::builtin() {
        let recipe = Recipe::parse(text.as_bytes(), &Limits::default());
        let recipe = recipe.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(recipe.name(), *name);
        assert!(!recipe.about().is_empty(), "{name}");
    }
}

#[test]
fn configurations_are_bounded() {
    let mut limits = Limits::default();
    limits.header_len = 10;
    let folder = corpus("qwen2");
    assert!(!recipe::is_model(&folder, &limits));
    assert!(recipe::is_model(&folder, &Limits::default()));
}

#[test]
fn the_way_back_leads_to_the_same_tensors() {
    let dir = tempfile::tempdir().unwrap();
    for case in cases() {
        // The rows of positions that RoBERTa does not use are gone; a quantized weight stays dense; the names of BERTs
        // come back with another prefix.
        if ["roberta", "qwen3-fp8", "bert-cls", "modernbert-model"].contains(&&*case) {
            continue;
        }
        let folder = corpus(&case);
        let source = holdall::open(&folder).unwrap();
        let first = source.tensors().find(|t| t.shape().len() >= 2).unwrap();
        let outtype = OutType::from_name(first.dtype().unwrap().as_str()).unwrap();
        let gguf = dir.path().join(format!("{case}.gguf"));
        let report = converted(&folder, &gguf, &options().with_outtype(outtype)).unwrap();
        let text = recipe::builtin().iter().find(|(name, _)| *name == report.recipe).unwrap().1;
        let recipe = own(text);
        let is_left_out = |tensor: &Tensor| {
            let start = format!("tensor `{}`: ", tensor.name());
            report.convert.left_behind.iter().any(|what| what.starts_with(&start))
        };
        let kept: Vec<Tensor> = source.tensors().filter(|tensor| !is_left_out(tensor)).collect();
        for config in [None, Some(fs::read_to_string(folder.join("config.json")).unwrap())] {
            let mut options = recipe::ModelRestore::new(WriteOptions::new(), recipe.clone());
            let back = dir.path().join(format!("{case}-{}", config.is_some()));
            if let Some(text) = config {
                options = options.with_config(text);
            }
            let file = holdall::open(&gguf).unwrap();
            recipe::restore_model(&file, &back, &options).unwrap_or_else(|e| panic!("{case}: {e}"));
            let restored = holdall::open(&back).unwrap();
            assert_eq!(restored.len(), kept.len(), "{case}");
            for tensor in &kept {
                let other = restored.tensor(tensor.name()).unwrap();
                let context = format!("{case} {}", tensor.name());
                assert_eq!(other.shape(), tensor.shape(), "{context}");
                assert_eq!(other.dtype(), tensor.dtype(), "{context}");
                // An exponential is rounded.
                if !tensor.name().ends_with("A_log") {
                    assert_eq!(data(&other), data(tensor), "{context}");
                }
            }
        }
    }
    let gguf = dir.path().join("roberta.gguf");
    converted(&corpus("roberta"), &gguf, &options()).unwrap();
    let text = recipe::builtin().iter().find(|(name, _)| *name == "roberta").unwrap().1;
    let options = recipe::ModelRestore::new(WriteOptions::new(), own(text));
    let file = holdall::open(&gguf).unwrap();
    let e = recipe::restore_model(&file, dir.path().join("roberta"), &options).unwrap_err();
    assert_eq!(e.code(), "recipe/no-inverse");
    assert!(!dir.path().join("roberta").exists());
}

/// The parameters of Apertus' activation are tensors in the folder and metadata in the file.
#[test]
fn metadata_that_a_folder_lacks_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let gguf = dir.path().join("apertus.gguf");
    converted(&corpus("apertus"), &gguf, &options()).unwrap();
    let text = recipe::builtin().iter().find(|(name, _)| *name == "apertus").unwrap().1;
    let options = recipe::ModelRestore::new(WriteOptions::new(), own(text));
    let file = holdall::open(&gguf).unwrap();
    let report = recipe::restore_model(&file, dir.path().join("back"), &options).unwrap();
    let named = &report.convert.left_behind;
    for key in ["xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps"] {
        assert!(named.iter().any(|line| line.contains(key)), "{key}: {named:?}");
    }
    assert!(
        !named.iter().any(|line| line.contains("general.") || line.contains("apertus.")),
        "{named:?}"
    );
}
