//! `convert` of models of the Hugging Face hub to GGUF and back, and `recipe`.

use crate::command::holdall;
use std::fs;
use std::path::Path;

fn model(case: &str) -> String {
    format!("{}/../../corpus/recipes/{case}", env!("CARGO_MANIFEST_DIR"))
}

fn path(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).to_str().unwrap().to_owned()
}

/// Copies the model of a case, with another text in its configuration.
fn changed(dir: &tempfile::TempDir, case: &str, from: &str, to: &str) -> String {
    let copy = path(dir, "changed");
    fs::create_dir_all(&copy).unwrap();
    for entry in fs::read_dir(model(case)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), Path::new(&copy).join(entry.file_name())).unwrap();
    }
    let config = Path::new(&copy).join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(config, text.replace(from, to)).unwrap();
    copy
}

#[test]
fn a_folder_becomes_a_file_and_a_folder_again() {
    let dir = tempfile::tempdir().unwrap();
    let (gguf, back, source) = (path(&dir, "a.gguf"), path(&dir, "back"), model("mixtral"));
    let report =
        holdall(["convert", &source, &gguf, "--no-tokenizer", "--json"]).ends_with(0).json();
    assert_eq!((&report["recipe"], &report["outtype"]), (&"mixtral".into(), &"bf16".into()));
    assert_eq!(report["tensors"], 23);
    let found = holdall(["inspect", "--json", &gguf]).ends_with(0).json();
    assert_eq!(found["attributes"]["general.architecture"], "llama");
    let plan = holdall(["recipe", "reverse", "mixtral", &gguf, "--json"]).ends_with(0).json();
    assert_eq!(plan["tensors"], 41);
    let ran = holdall(["recipe", "reverse", "gpt2", &gguf]).ends_with(4);
    assert!(ran.err.contains("recipe/architecture"), "{}", ran.err);
    holdall(["convert", &gguf, &back, "--recipe", "mixtral"]).ends_with(0);
    holdall(["diff", &source, &back]).ends_with(0);
    // Without the name of a recipe it is an ordinary conversion.
    holdall(["convert", &gguf, &path(&dir, "plain.safetensors")]).ends_with(0);
}

#[test]
fn a_plan_is_shown_without_writing() {
    let dir = tempfile::tempdir().unwrap();
    let gguf = path(&dir, "a.gguf");
    let args = ["convert", &model("gpt2"), &gguf, "--no-tokenizer", "-n", "--outtype", "q8_0"];
    let report = holdall([&args[..], &["--json"]].concat()).ends_with(0).json();
    let plan = report["plan"].as_array().unwrap();
    let by_name = |name: &str| plan.iter().find(|t| t["name"] == name).unwrap();
    assert_eq!(by_name("blk.0.ffn_down.weight")["layout"], "gguf.q8_0");
    assert_eq!(by_name("blk.0.ffn_up.weight")["components"]["data"]["dtype"], "f16");
    holdall(args).ends_with(0);
    assert!(!Path::new(&gguf).exists());
}

#[test]
fn an_unknown_architecture_is_refused_and_plainly_converted_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let folder = changed(&dir, "qwen2", "Qwen2ForCausalLM", "OtherForCausalLM");
    let gguf = path(&dir, "a.gguf");
    let ran = holdall(["convert", &folder, &gguf]).ends_with(4);
    assert!(ran.err.contains("OtherForCausalLM"), "{}", ran.err);
    assert!(ran.err.contains("--recipe none"), "{}", ran.err);
    assert!(!Path::new(&gguf).exists());
    holdall(["convert", &folder, &gguf, "--recipe", "none"]).ends_with(0);
    let found = holdall(["inspect", "--json", &gguf]).ends_with(0).json();
    assert!(found["tensors"].to_string().contains("model.embed_tokens.weight"));
    // A recipe of the user's own.
    let recipe = path(&dir, "other.toml");
    let text = "recipe = 'other'\nextends = 'qwen2'\n[let]\narch = \"'other'\"\n";
    fs::write(&recipe, text).unwrap();
    let own = ["convert", &folder, &gguf, "--recipe", &recipe, "--no-tokenizer", "-f"];
    let ran = holdall(own).ends_with(0);
    assert!(ran.err.contains("recipe other"), "{}", ran.err);
}

#[test]
fn a_file_of_a_model_alone_is_written_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = format!("{}/model.safetensors", model("qwen2"));
    let ran = holdall(["convert", &file, &path(&dir, "a.gguf")]).ends_with(0);
    assert!(ran.err.contains("name the folder"), "{}", ran.err);
    let ran = holdall(["convert", &file, &path(&dir, "b.gguf"), "--recipe", "none"]).ends_with(0);
    assert!(!ran.err.contains("name the folder"), "{}", ran.err);
}

#[test]
fn a_model_is_written_in_parts_with_other_metadata() {
    let dir = tempfile::tempdir().unwrap();
    let (out, source) = (path(&dir, "out"), model("llama3-bpe"));
    let args =
        ["convert", &source, &out, "--to", "gguf", "--no-tokenizer", "--max-shard-size", "20kB"];
    let set = ["--set", "llama.context_length=77", "--set", "general.license=str:mit"];
    let plan = holdall([&args[..], &set, &["-n", "--json"]].concat()).ends_with(0).json();
    assert_eq!(plan["files"].as_array().unwrap().len(), 3);
    assert!(!Path::new(&out).exists());
    let ran = holdall([&args[..], &set].concat()).ends_with(0);
    assert!(ran.err.contains("3 files"), "{}", ran.err);
    assert!(ran.err.contains("set `llama.context_length` to 77 in place of 128"), "{}", ran.err);
    let first = format!("{out}/llama3-bpe-00001-of-00003.gguf");
    let found = holdall(["inspect", "--json", &first]).ends_with(0).json();
    assert_eq!(found["attributes"]["llama.context_length"], 77);
    assert_eq!(found["attributes"]["general.license"], "mit");
    let ran = holdall([&args[..], &["-f", "--set", "llama.block_count=3"]].concat()).ends_with(2);
    assert!(ran.err.contains("size of the tensors"), "{}", ran.err);
    holdall([&args[..], &["-f", "--set", "nothing"]].concat()).ends_with(2);
}

/// The folder of an adapter for `llama3-bpe` with both factors of one matrix, which has 32 rows and columns.
fn adapter(dir: &tempfile::TempDir) -> String {
    let folder = path(dir, "adapter");
    fs::create_dir(&folder).unwrap();
    let config = r#"{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}"#;
    fs::write(format!("{folder}/adapter_config.json"), config).unwrap();
    let name = "base_model.model.model.layers.0.self_attn.q_proj.lora";
    let header = format!(
        r#"{{"__metadata__":{{"format":"pt"}},"{name}_A.weight":{{"dtype":"F32","shape":[2,32],"data_offsets":[0,256]}},"{name}_B.weight":{{"dtype":"F32","shape":[32,2],"data_offsets":[256,512]}}}}"#
    );
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend((0..128u8).flat_map(|n| f32::from(n).to_le_bytes()));
    fs::write(format!("{folder}/adapter_model.safetensors"), bytes).unwrap();
    folder
}

#[test]
fn an_adapter_becomes_a_file_and_a_folder_again() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, base, gguf) = (adapter(&dir), model("llama3-bpe"), path(&dir, "lora.gguf"));
    let ran = holdall(["convert", &folder, &gguf]).ends_with(2);
    assert!(ran.err.contains("--base FOLDER"), "{}", ran.err);
    let args = ["convert", &folder, &gguf, "--base", &base];
    let plan = holdall([&args[..], &["-n", "--json"]].concat()).ends_with(0).json();
    assert_eq!(plan["plan"][0]["name"], "blk.0.attn_q.weight.lora_a");
    let ran = holdall(args).ends_with(0);
    assert!(ran.err.contains("2 tensors") && ran.err.contains("recipe llama"), "{}", ran.err);
    let found = holdall(["inspect", "--json", &gguf]).ends_with(0).json();
    assert_eq!(found["attributes"]["adapter.lora.alpha"], 4.0);
    let ran = holdall(["convert", &gguf, &path(&dir, "x"), "--recipe", "auto"]).ends_with(2);
    assert!(ran.err.contains("--base FOLDER"), "{}", ran.err);
    let back = path(&dir, "back");
    holdall(["convert", &gguf, &back, "--base", &base]).ends_with(0);
    holdall(["diff", &folder, &back]).ends_with(0);
    let config = fs::read_to_string(format!("{back}/adapter_config.json")).unwrap();
    assert!(config.contains("\"lora_alpha\":4"), "{config}");
    holdall([&args[..], &["-f", "--vocab-only"]].concat()).ends_with(2);
    holdall([&args[..], &["-f", "--dtype", "f16"]].concat()).ends_with(2);
}

#[test]
fn a_vocabulary_alone_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, gguf) = (path(&dir, "model"), path(&dir, "vocab.gguf"));
    fs::create_dir(&folder).unwrap();
    let tokenizer = format!("{}/../../corpus/tokenizers/llama3-bpe", env!("CARGO_MANIFEST_DIR"));
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(format!("{tokenizer}/{name}"), format!("{folder}/{name}")).unwrap();
    }
    fs::copy(format!("{}/config.json", model("llama3-bpe")), format!("{folder}/config.json"))
        .unwrap();
    let args = ["convert", &folder, &gguf, "--vocab-only", "--pre-tokenizer", "llama-bpe"];
    let ran = holdall(args).ends_with(0);
    assert!(ran.err.contains("no tensors"), "{}", ran.err);
    let found = holdall(["inspect", "--json", &gguf]).ends_with(0).json();
    assert_eq!(found["attributes"]["tokenizer.ggml.model"], "gpt2");
    holdall([&args[..], &["-f", "--no-tokenizer"]].concat()).ends_with(2);
}

#[test]
fn options_that_do_not_apply_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (gguf, source) = (path(&dir, "a.gguf"), model("qwen2"));
    for option in [&["--quantize", "q8_0"][..], &["-s", "model.norm.weight"], &["--dense"]] {
        let ran = holdall([&["convert", &source, &gguf], option].concat()).ends_with(2);
        assert!(ran.err.contains("--recipe none"), "{}", ran.err);
    }
    for (to, option) in [
        ("a.safetensors", &["--outtype", "f16"][..]),
        ("a.gguf", &["--recipe", "quen2"]),
        ("a.gguf", &["--outtype", "q9_0"]),
    ] {
        holdall([&["convert", &source, &path(&dir, to)], option].concat()).ends_with(2);
    }
    holdall(["convert", &source, &gguf, "--recipe", &path(&dir, "none.toml")]).ends_with(3);
    let config = format!("{source}/config.json");
    for (option, word) in [
        (["--config", &config], "`--config` does not apply"),
        (["--base", &source], "`--base` does not apply"),
    ] {
        let ran = holdall([&["convert", &source, &gguf], &option[..]].concat()).ends_with(2);
        assert!(ran.err.contains(word), "{}", ran.err);
    }
    let none = ["convert", &source, &gguf, "--recipe", "none", "--model-name", "x"];
    let ran = holdall(none).ends_with(2);
    assert!(ran.err.contains("`--model-name` requires a recipe"), "{}", ran.err);
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
}

/// RoBERTa's positions cannot come back, which only its configuration tells: its tensors are those of a BERT.
#[test]
fn a_configuration_chooses_the_recipe_of_the_way_back() {
    let dir = tempfile::tempdir().unwrap();
    let (gguf, back) = (path(&dir, "a.gguf"), path(&dir, "back"));
    holdall(["convert", &model("roberta"), &gguf, "--no-tokenizer"]).ends_with(0);
    let auto = ["convert", &gguf, &back, "--recipe", "auto"];
    let config = |case: &str| format!("{}/config.json", model(case));
    let ran = holdall([&auto[..], &["--config", &config("roberta")]].concat()).ends_with(4);
    assert!(ran.err.contains("recipe/no-inverse"), "{}", ran.err);
    let ran = holdall([&auto[..], &["--config", &config("qwen2")]].concat()).ends_with(4);
    assert!(ran.err.contains("`qwen2`") && ran.err.contains("`bert`"), "{}", ran.err);
    let parts = holdall([&auto[..], &["--max-shard-size", "1KB"]].concat()).ends_with(2);
    assert!(parts.err.contains("one file of tensors"), "{}", parts.err);
    assert!(!Path::new(&back).exists());
}

#[test]
fn recipes_are_listed_shown_and_checked() {
    let all = holdall(["recipe", "list", "--json"]).ends_with(0).json();
    let all = all.as_array().unwrap();
    assert!(all.len() >= 30);
    let by_name = |name: &str| all.iter().find(|recipe| recipe["name"] == name).unwrap();
    assert_eq!(by_name("mixtral")["architectures"][0], "MixtralForCausalLM");
    assert!(holdall(["recipe", "list"]).ends_with(0).out.contains("Llama, Mistral"));
    let text = holdall(["recipe", "show", "qwen3"]).ends_with(0).out;
    assert!(text.starts_with("recipe = \"qwen3\""), "{text}");
    holdall(["recipe", "show", "quen3"]).ends_with(2);
    holdall(["recipe", "check", "qwen3"]).ends_with(0);
    let report =
        holdall(["recipe", "check", "llama", &model("llama3-bpe"), "--json"]).ends_with(0).json();
    assert_eq!(report["tensors"], 21);
    let ran = holdall(["recipe", "check", "qwen2", &model("gpt2")]).ends_with(4);
    assert!(ran.err.contains("recipe/left-over"), "{}", ran.err);
    let dir = tempfile::tempdir().unwrap();
    let file = path(&dir, "bad.toml");
    fs::write(&file, "recipe = 'bad'\nrule = 1\n").unwrap();
    let ran = holdall(["recipe", "check", &file]).ends_with(1);
    assert!(ran.err.contains("line 2"), "{}", ran.err);
}

#[test]
fn a_converted_model_is_compared_with_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let (gguf, source) = (path(&dir, "a.gguf"), model("qwen2"));
    holdall(["convert", &source, &gguf, "--no-tokenizer", "--outtype", "q8_0"]).ends_with(0);
    let diff = ["diff", &source, &gguf, "--recipe", "auto", "--no-tokenizer"];
    let ran = holdall(diff).ends_with(0);
    assert!(ran.out.contains("same model:") && ran.out.contains("q8_0"), "{}", ran.out);
    let report = holdall([&diff[..], &["--json"]].concat()).ends_with(0).json();
    assert_eq!((&report["same"], &report["recipe"]), (&true.into(), &"qwen2".into()));
    let tensors = report["tensors"].as_array().unwrap();
    assert!(tensors.iter().all(|t| t["verdict"] == "exact" && t["differing"] == 0));

    // A bit in the last block of the file.
    let mut bytes = fs::read(&gguf).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last] ^= 4;
    fs::write(&gguf, bytes).unwrap();
    let ran = holdall(diff).ends_with(1);
    assert!(ran.out.contains("differs in 1 of "), "{}", ran.out);
    let report = holdall([&diff[..], &["--json"]].concat()).ends_with(1).json();
    let tensors = report["tensors"].as_array().unwrap();
    let wrong: Vec<_> = tensors.iter().filter(|t| t["verdict"] == "differs").collect();
    assert_eq!((wrong.len(), &wrong[0]["differing"]), (1, &1.into()));

    let ran = holdall(["diff", &gguf, &source, "--recipe", "auto"]).ends_with(2);
    assert!(ran.err.contains("name the folder first"), "{}", ran.err);
    holdall(["diff", &source, &gguf, "--recipe", "auto", "-s", "x"]).ends_with(2);
    holdall(["diff", &source, &gguf, "--recipe", "no-such"]).ends_with(2);
}

#[test]
fn a_mix_gives_each_matrix_its_type() {
    let dir = tempfile::tempdir().unwrap();
    let (gguf, source) = (path(&dir, "a.gguf"), model("qwen2"));
    let args = ["convert", &source, &gguf, "--no-tokenizer", "--outtype", "Q4_K_M", "--json"];
    let report = holdall(args).ends_with(0).json();
    assert_eq!(report["outtype"], "q4_k_m");
    let found = holdall(["inspect", "--json", &gguf]).ends_with(0).json();
    assert_eq!(found["attributes"]["general.file_type"], 15);
    let tensors = found["tensors"].as_array().unwrap();
    let layout = |name: &str| &tensors.iter().find(|t| t["name"] == name).unwrap()["layout"];
    // Rows of 32 elements are no blocks of 256.
    assert_eq!(layout("blk.0.attn_q.weight"), "gguf.q5_0");
    assert_eq!(layout("blk.1.attn_v.weight"), "gguf.q8_0");
    assert_eq!(layout("token_embd.weight"), "gguf.q8_0");
    holdall(["diff", &source, &gguf, "--recipe", "auto", "--no-tokenizer"]).ends_with(0);
}

#[test]
fn a_file_is_shown_by_the_names_of_its_family() {
    let dir = tempfile::tempdir().unwrap();
    let (gguf, source) = (path(&dir, "a.gguf"), model("mixtral"));
    holdall(["convert", &source, &gguf, "--no-tokenizer"]).ends_with(0);
    let ran = holdall(["inspect", &gguf, "--as", "hf"]).ends_with(0);
    assert!(ran.out.contains("model.layers.0.self_attn.q_proj.weight"), "{}", ran.out);
    let report = holdall(["inspect", &gguf, "--as", "hf", "--json"]).ends_with(0).json();
    assert_eq!(report["recipe"], "mixtral");
    let found = holdall(["inspect", &source, "--json"]).ends_with(0).json();
    let sorted = |all: &serde_json::Value| {
        let all = all.as_array().unwrap();
        let mut all: Vec<_> =
            all.iter().map(|t| (t["name"].to_string(), t["shape"].to_string())).collect();
        all.sort();
        all
    };
    assert_eq!(sorted(&report["tensors"]), sorted(&found["tensors"]));
    let experts = report["tensors"].as_array().unwrap();
    let expert = experts.iter().find(|t| t["sources"][0] == "blk.0.ffn_gate_exps.weight");
    assert!(expert.is_some());
    // Without the name of a recipe, the first one that fits leads back.
    holdall(["convert", &gguf, &path(&dir, "back"), "--recipe", "auto"]).ends_with(0);
    holdall(["diff", &source, &path(&dir, "back")]).ends_with(0);
    let ran = holdall(["inspect", &format!("{source}/model.safetensors"), "--as", "hf"]);
    assert!(ran.ends_with(4).err.contains("recipe/unknown-architecture"));
}
