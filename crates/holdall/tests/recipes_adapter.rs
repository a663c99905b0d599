//! Adapters of LoRA converted by recipes: the change that the factors in the GGUF file make to the converted base model is the one
//! that they make to the base model before it is converted.

use crate::recipes::{corpus, options};
use holdall::recipe::{
    Adapter, MetadataSetting, ModelRestore, OutType, Recipe, builtin, convert_adapter,
    convert_model, plan_adapter, restore_adapter,
};
use holdall::{Convert, DType, Error, File, Limits, TensorSpec, WriteOptions, Writer};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const RANK: u64 = 3;
const ALPHA: f32 = 6.0;

/// A matrix of F32.
#[derive(Clone, PartialEq, Debug)]
struct Matrix {
    shape: Vec<u64>,
    values: Vec<f32>,
}

impl Matrix {
    /// Numbers that depend on the name.
    fn made(name: &str, rows: u64, columns: u64) -> Matrix {
        let mut seed = name.bytes().fold(7u64, |n, b| n.wrapping_mul(31).wrapping_add(b.into()));
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) % 17) as f32 / 16.0 - 0.5
        };
        let values = (0..rows * columns).map(|_| next()).collect();
        Matrix { shape: vec![rows, columns], values }
    }

    /// Returns the number of matrices, and the rows and columns of one.
    fn sizes(&self) -> (usize, usize, usize) {
        let [.., rows, columns] = self.shape.as_slice() else { panic!("{:?}", self.shape) };
        let count: u64 = self.shape[..self.shape.len() - 2].iter().product();
        (count as usize, *rows as usize, *columns as usize)
    }

    fn transposed(&self) -> Matrix {
        let (count, rows, columns) = self.sizes();
        let mut shape = self.shape.clone();
        let last = shape.len() - 1;
        shape.swap(last, last - 1);
        let mut values = Vec::new();
        for n in 0..count {
            for column in 0..columns {
                let at = |row: usize| (n * rows + row) * columns + column;
                values.extend((0..rows).map(|row| self.values[at(row)]));
            }
        }
        Matrix { shape, values }
    }

    fn times(&self, other: &Matrix) -> Matrix {
        let ((count, rows, inner), (_, _, columns)) = (self.sizes(), other.sizes());
        let mut values = Vec::new();
        for n in 0..count {
            for row in 0..rows {
                for column in 0..columns {
                    let product = |at: usize| {
                        self.values[(n * rows + row) * inner + at]
                            * other.values[(n * inner + at) * columns + column]
                    };
                    values.push((0..inner).map(product).sum());
                }
            }
        }
        let mut shape = self.shape.clone();
        *shape.last_mut().unwrap() = columns as u64;
        Matrix { shape, values }
    }

    fn plus(&self, other: &Matrix, factor: f32) -> Matrix {
        assert_eq!(self.shape, other.shape);
        let both = self.values.iter().zip(&other.values);
        Matrix { shape: self.shape.clone(), values: both.map(|(a, b)| a + b * factor).collect() }
    }
}

type Tensors = BTreeMap<String, Matrix>;

fn read(path: &Path) -> Tensors {
    let file = holdall::open(path).unwrap();
    let of_one = |tensor: holdall::Tensor| {
        let dense = tensor.to_dense().unwrap();
        assert_eq!(dense.dtype(), DType::F32, "{}", tensor.name());
        let values = dense.bytes().chunks_exact(4);
        let values = values.map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        (tensor.name().to_owned(), Matrix { shape: tensor.shape().to_vec(), values })
    };
    file.tensors().map(of_one).collect()
}

fn write(path: &Path, tensors: &Tensors) {
    let write = WriteOptions::new().with_overwrite(true);
    let mut writer = Writer::create(path, &write).unwrap();
    let spec = |(name, matrix): (&String, &Matrix)| {
        TensorSpec::dense(name, DType::F32, matrix.shape.clone())
    };
    writer.declare(&tensors.iter().map(spec).collect::<Vec<_>>()).unwrap();
    for (name, matrix) in tensors {
        let bytes: Vec<u8> = matrix.values.iter().flat_map(|x| x.to_le_bytes()).collect();
        writer.add(spec((name, matrix)), &[&bytes]).unwrap();
    }
    writer.finish().unwrap();
}

/// A base model in F32, in a folder of its own.
struct Base {
    dir: tempfile::TempDir,
    tensors: Tensors,
}

impl Base {
    fn new(case: &str) -> Base {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        let cast = Convert::new(WriteOptions::new()).with_dtype(holdall::FloatType::F32);
        holdall::convert(&holdall::open(corpus(case)).unwrap(), &path, &cast).unwrap();
        fs::copy(corpus(case).join("config.json"), dir.path().join("config.json")).unwrap();
        let tensors = read(&path);
        Base { dir, tensors }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Converts the model with these tensors.
    fn converted(&self, tensors: &Tensors) -> Tensors {
        let folder = self.path().join("merged");
        fs::create_dir_all(&folder).unwrap();
        fs::copy(self.path().join("config.json"), folder.join("config.json")).unwrap();
        write(&folder.join("model.safetensors"), tensors);
        let to = self.path().join("merged.gguf");
        let options = options().with_outtype(OutType::F32);
        convert_model(&folder, &holdall::open(&folder).unwrap(), &to, &options).unwrap();
        read(&to)
    }
}

fn is_embedding(module: &str) -> bool {
    let names = ["embed_tokens", "wte", "word_embeddings", "embed_in", "embeddings"];
    names.iter().any(|name| module.ends_with(name))
}

/// An adapter for matrices of a base model.
struct Made {
    folder: PathBuf,
    factors: BTreeMap<String, (Matrix, Matrix)>,
    config: serde_json::Value,
}

impl Made {
    fn new(base: &Base, case: &str, modules: &[String]) -> Made {
        let folder = base.path().join("adapter");
        let is_turned = |module: &str| case == "gpt2" && module.contains(".c_");
        let factors = modules.iter().map(|module| {
            let matrix = &base.tensors[&format!("{module}.weight")];
            let (_, rows, columns) = matrix.sizes();
            let (outputs, inputs) = match is_turned(module) || is_embedding(module) {
                true => (columns as u64, rows as u64),
                false => (rows as u64, columns as u64),
            };
            let a = Matrix::made(&format!("{module}.a"), RANK, inputs);
            let b = Matrix::made(&format!("{module}.b"), outputs, RANK);
            (module.clone(), (a, b))
        });
        let config = serde_json::json!({
            "peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": modules,
            "fan_in_fan_out": case == "gpt2", "base_model_name_or_path": case,
        });
        let made = Made { folder, factors: factors.collect(), config };
        made.write();
        made
    }

    fn tensors(&self) -> Tensors {
        let mut out = Tensors::new();
        for (module, (a, b)) in &self.factors {
            let names = match is_embedding(module) {
                true => [".lora_embedding_A", ".lora_embedding_B"],
                false => [".lora_A.weight", ".lora_B.weight"],
            };
            for (name, factor) in names.iter().zip([a, b]) {
                out.insert(format!("base_model.model.{module}{name}"), factor.clone());
            }
        }
        out
    }

    fn write(&self) {
        fs::create_dir_all(&self.folder).unwrap();
        write(&self.folder.join("adapter_model.safetensors"), &self.tensors());
        fs::write(self.folder.join("adapter_config.json"), self.config.to_string()).unwrap();
    }

    /// Returns the tensors of the base model with the changes of the adapter.
    fn merged(&self, base: &Base, scale: f32) -> Tensors {
        let mut out = base.tensors.clone();
        for (module, (a, b)) in &self.factors {
            let matrix = out.get_mut(&format!("{module}.weight")).unwrap();
            let product = b.times(a);
            let is_turned = self.config["fan_in_fan_out"] == true && module.contains(".c_");
            let change = match is_turned || is_embedding(module) {
                true => product.transposed(),
                false => product,
            };
            *matrix = matrix.plus(&change, scale);
        }
        out
    }

    fn plan(&self, base: &Base) -> Result<(), Error> {
        let file = holdall::open(&self.folder).unwrap();
        let adapter = Adapter::new(&self.folder, &file, base.path());
        plan_adapter(&adapter, "out.gguf", &options()).map(drop)
    }

    fn convert(&self, base: &Base, outtype: OutType) -> PathBuf {
        let to = base.path().join("adapter.gguf");
        let file = holdall::open(&self.folder).unwrap();
        let base_file = holdall::open(base.path().join("model.safetensors")).unwrap();
        let adapter = Adapter::new(&self.folder, &file, base.path()).with_base_file(&base_file);
        let options = options().with_outtype(outtype);
        let report = convert_adapter(&adapter, &to, &options).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(report.convert.left_behind, [""; 0]);
        to
    }
}

/// Applies the adapter of a GGUF file as llama.cpp does.
fn applied(base: &Tensors, adapter: &Tensors, scale: f32) -> Tensors {
    let mut out = base.clone();
    for (name, a) in adapter {
        let Some(name) = name.strip_suffix(".lora_a") else { continue };
        let b = &adapter[&format!("{name}.lora_b")];
        let change = match name {
            // Rows of `lora_a` are looked up.
            "token_embd.weight" => a.times(&b.transposed()),
            _ => b.times(a),
        };
        let matrix = out.get_mut(name).unwrap_or_else(|| panic!("{name}"));
        *matrix = matrix.plus(&change, scale);
    }
    out
}

fn assert_equal(found: &Tensors, expected: &Tensors, context: &str) {
    assert_eq!(found.len(), expected.len(), "{context}");
    for (name, own) in expected {
        let other = &found[name];
        assert_eq!(own.shape, other.shape, "{context} {name}");
        let differences = own.values.iter().zip(&other.values).map(|(a, b)| (a - b).abs());
        let largest = differences.fold(0.0, f32::max);
        assert!(largest < 1e-4, "{context} {name}: {largest}");
    }
}

/// Splits the matrices of a model into those that an adapter can change and the others.
fn matrices(base: &Base, case: &str) -> (Vec<String>, Vec<(String, &'static str)>) {
    let (mut fine, mut experts, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for (name, matrix) in &base.tensors {
        let Some(module) = name.strip_suffix(".weight").filter(|_| matrix.shape.len() == 2) else {
            continue;
        };
        let module = module.to_owned();
        // The layers are alike.
        if [".1.", ".2.", ".3."].iter().any(|layer| module.contains(layer))
            && !module.contains("expert")
        {
            continue;
        }
        match Made::new(base, case, std::slice::from_ref(&module)).plan(base) {
            Ok(()) => fine.push(module),
            Err(e) if e.code() == "recipe/incomplete" => experts.push(module),
            Err(e) => refused.push((module, e.code())),
        }
    }
    if !experts.is_empty() {
        fine.extend(experts);
    }
    (fine, refused)
}

#[test]
fn adapters_change_the_converted_model_as_they_change_the_model() {
    let all = [
        ("llama3-bpe", "llama"),
        ("qwen2", "qwen2"),
        ("gemma", "gemma"),
        ("phi3", "phi3"),
        ("gpt2", "gpt2"),
        ("mixtral", "mixtral"),
        ("falcon", "falcon"),
        ("bloom", "bloom"),
        ("gptneox", "gptneox"),
        ("qwen3moe", "qwen3moe"),
        ("glm4", "glm4"),
        ("olmo", "olmo"),
        ("qwen35", "qwen35"),
        ("starcoder2", "starcoder2"),
    ];
    for (case, recipe) in all {
        let base = Base::new(case);
        let (modules, refused) = matrices(&base, case);
        assert!(modules.len() > 3, "{case}: {modules:?}, {refused:?}");
        assert_eq!(refused, [], "{case}");
        let made = Made::new(&base, case, &modules);
        let gguf = made.convert(&base, OutType::F32);
        let scale = ALPHA / RANK as f32;
        let expected = base.converted(&made.merged(&base, scale));
        let own = base.converted(&base.tensors);
        let factors = read(&gguf);
        let found = applied(&own, &factors, scale);
        assert_equal(&found, &expected, case);
        let changed = own.iter().filter(|(name, matrix)| expected[*name] != **matrix).count();
        assert_eq!(factors.len(), 2 * changed, "{case}");

        let file = holdall::open(&gguf).unwrap();
        let text = file.attributes().to_json();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found["general.type"], "adapter");
        assert_eq!(found["adapter.type"], "lora");
        assert_eq!(found["adapter.lora.alpha"], 6.0);
        way_back(&base, &made, &file, recipe);
    }
}

/// The folder of PEFT has the same factors again.
fn way_back(base: &Base, made: &Made, file: &File, recipe: &str) {
    let (_, text) = builtin().iter().find(|(name, _)| *name == recipe).unwrap();
    let parsed = Recipe::parse(text.as_bytes(), &Limits::default()).unwrap();
    let config = fs::read_to_string(base.path().join("config.json")).unwrap();
    let options = ModelRestore::new(WriteOptions::new(), parsed).with_config(config);
    let folder = base.path().join("back");
    restore_adapter(file, &folder, &options).unwrap_or_else(|e| panic!("{recipe}: {e}"));
    let found = read(&folder.join("adapter_model.safetensors"));
    let names = |all: &Tensors| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&made.tensors()), "{recipe}");
    assert_eq!(found, made.tensors(), "{recipe}");
    let text = fs::read_to_string(folder.join("adapter_config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(config["r"], RANK);
    assert_eq!(config["lora_alpha"], 6);
    assert_eq!(config["fan_in_fan_out"], recipe == "gpt2");
}

/// Matrices that recipes leave out, and those whose rows become columns for some heads only.
#[test]
fn matrices_whose_factors_cannot_be_moved_are_refused() {
    let mut found = Vec::new();
    for case in ["deepseek2", "gptoss", "jamba", "lfm2", "llama4", "mamba2", "qwen3next", "roberta"]
    {
        let base = Base::new(case);
        let refused = matrices(&base, case).1.into_iter();
        found.extend(refused.map(|(module, code)| format!("{case} {module} {code}")));
    }
    let expected = [
        "deepseek2 model.layers.0.self_attn.kv_b_proj recipe/adapter",
        "roberta pooler.dense recipe/adapter",
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_scale_of_each_matrix_is_kept() {
    let base = Base::new("qwen2");
    let modules = ["q", "v"].map(|name| format!("model.layers.0.self_attn.{name}_proj"));
    let mut made = Made::new(&base, "qwen2", &modules);
    made.config["alpha_pattern"] = serde_json::json!({"v_proj": 12});
    made.config["use_rslora"] = true.into();
    made.write();
    let file = holdall::open(&made.folder).unwrap();
    let adapter = Adapter::new(&made.folder, &file, base.path());
    let to = base.path().join("scaled.gguf");
    let report = convert_adapter(&adapter, &to, &options()).unwrap();
    assert_eq!((report.outtype, report.convert.warnings.len()), (OutType::F32, 1));
    let attributes = holdall::open(&to).unwrap().attributes().clone();
    let alpha = attributes.get("adapter.lora.alpha").unwrap().as_f64().unwrap();
    assert!((alpha - 6.0 * 3f64.sqrt()).abs() < 1e-5);
    let factors = read(&to);
    let (_, b) = &made.factors[&modules[1]];
    let doubled: Vec<f32> = b.values.iter().map(|x| x * 2.0).collect();
    assert_eq!(factors["blk.0.attn_v.weight.lora_b"].values, doubled);
}

#[test]
fn adapters_that_gguf_cannot_express_are_refused() {
    let base = Base::new("llama3-bpe");
    let module = "model.layers.0.self_attn.q_proj".to_owned();
    let made = || Made::new(&base, "llama3-bpe", std::slice::from_ref(&module));
    made().plan(&base).unwrap();
    let refused = |made: &Made, word: &str| {
        made.write();
        let e = made.plan(&base).expect_err(word);
        assert!(e.to_string().contains(word), "{e}");
        e.code()
    };
    for (key, value, word) in [
        ("peft_type", serde_json::json!("IA3"), "IA3"),
        ("use_dora", true.into(), "DoRA"),
        ("lora_alpha", 0.into(), "lora_alpha"),
        ("alpha_pattern", serde_json::json!({"layers.[01]": 2}), "alpha_pattern"),
        ("layer_replication", serde_json::json!([[0, 1]]), "repeated"),
    ] {
        let mut made = made();
        made.config[key] = value;
        assert_eq!(refused(&made, word), "recipe/adapter", "{word}");
    }
    let with_tensor = |name: &str, shape: [u64; 2], word: &str| {
        let made = made();
        made.write();
        let mut tensors = made.tensors();
        tensors.insert(format!("base_model.model.{name}"), Matrix::made(name, shape[0], shape[1]));
        write(&made.folder.join("adapter_model.safetensors"), &tensors);
        let e = made.plan(&base).expect_err(word);
        assert!(e.to_string().contains(word), "{e}");
        e.code()
    };
    assert_eq!(with_tensor("lm_head.weight", [4, 4], "whole tensor"), "recipe/adapter");
    let bias = "model.layers.0.self_attn.q_proj.bias";
    assert_eq!(with_tensor(bias, [4, 4], "trained bias"), "recipe/adapter");
    let half = "model.layers.1.self_attn.q_proj.lora_A.weight";
    assert_eq!(with_tensor(half, [3, 32], "missing"), "recipe/adapter");
    let magnitude = "model.layers.0.self_attn.q_proj.lora_magnitude_vector";
    assert_eq!(with_tensor(magnitude, [1, 32], "DoRA"), "recipe/adapter");

    // A matrix that the model does not have, and one of another shape.
    let mut made_other = made();
    let factors = made_other.factors.pop_first().unwrap().1;
    made_other.factors.insert("model.layers.0.self_attn.x_proj".to_owned(), factors.clone());
    assert_eq!(refused(&made_other, "x_proj"), "recipe/left-over");
    made_other.factors.pop_first();
    made_other.factors.insert("model.layers.0.mlp.up_proj".to_owned(), factors);
    made_other.write();
    made_other.plan(&base).unwrap();
    let file = holdall::open(&made_other.folder).unwrap();
    let base_file = holdall::open(base.path().join("model.safetensors")).unwrap();
    let adapter = Adapter::new(&made_other.folder, &file, base.path()).with_base_file(&base_file);
    let e = plan_adapter(&adapter, "out.gguf", &options()).expect_err("another shape");
    assert!(e.code() == "recipe/adapter" && e.to_string().contains("up_proj"), "{e}");
    let mix = options().with_outtype(OutType::from_name("q4_k_m").unwrap());
    let e = plan_adapter(&adapter, "out.gguf", &mix).expect_err("a mix");
    assert_eq!(e.code(), "recipe/adapter");
}

#[test]
fn factors_get_the_type_that_is_asked_for() {
    let base = Base::new("llama3-bpe");
    let module = "model.layers.0.mlp.down_proj".to_owned();
    let made = Made::new(&base, "llama3-bpe", &[module]);
    for (name, a, b) in
        [("f16", "f16", "f16"), ("bf16", "bf16", "bf16"), ("q8_0", "gguf.q8_0", "f16")]
    {
        let to = made.convert(&base, OutType::from_name(name).unwrap());
        let file = holdall::open(to).unwrap();
        let stored = |name: &str| {
            let tensor = file.tensor(name).unwrap();
            match tensor.layout() {
                holdall::Layout::Dense => tensor.dtype().unwrap().to_string(),
                other => other.as_str().to_owned(),
            }
        };
        // Rows of the rank are too short for blocks.
        assert_eq!(stored("blk.0.ffn_down.weight.lora_a"), a);
        assert_eq!(stored("blk.0.ffn_down.weight.lora_b"), b);
    }
}

/// Returns the error of an adapter for one matrix of the base model's configuration, whether its tensors are known or not.
fn error_of(base: &Base, module: &str, rows: u64, columns: u64, has_tensors: bool) -> String {
    let mut made = Made::new(base, "", &[]);
    let a = Matrix::made("a", RANK, columns);
    made.factors.insert(module.to_owned(), (a, Matrix::made("b", rows, RANK)));
    made.write();
    let file = holdall::open(&made.folder).unwrap();
    let base_file = holdall::open(base.path().join("model.safetensors")).unwrap();
    let mut adapter = Adapter::new(&made.folder, &file, base.path());
    if has_tensors {
        adapter = adapter.with_base_file(&base_file);
    }
    match plan_adapter(&adapter, "out.gguf", &options()) {
        Ok(_) => String::new(),
        Err(e) => {
            assert_eq!(e.code(), "recipe/adapter", "{e}");
            e.to_string()
        }
    }
}

#[test]
fn matrices_that_the_base_model_lacks_are_refused() {
    let base = Base::new("qwen2");
    let q = |n: u32| format!("model.layers.{n}.self_attn.q_proj");
    assert!(error_of(&base, &q(7), 32, 32, true).contains("layers.7"));
    // The configuration alone tells the number of layers.
    assert!(error_of(&base, &q(7), 32, 32, false).contains("2 layers"));
    for has_tensors in [true, false] {
        assert_eq!(error_of(&base, &q(1), 32, 32, has_tensors), "");
    }
    // The weights of the logits are those of the embeddings.
    let base = Base::new("gemma");
    assert!(!base.tensors.contains_key("lm_head.weight"));
    assert!(error_of(&base, "lm_head", 320, 32, true).contains("lm_head.weight"));
    // Queries, keys and values are one matrix.
    let base = Base::new("phi3");
    assert!(error_of(&base, &q(0), 32, 32, true).contains("no such matrix"));
    // The names of adapters may have another prefix than the file.
    let base = Base::new("gpt2");
    let (rows, columns) = (base.tensors.iter())
        .find(|(name, _)| name.ends_with("h.0.mlp.c_fc.weight"))
        .map(|(_, matrix)| (matrix.shape[1], matrix.shape[0]))
        .unwrap();
    for prefix in ["transformer.", ""] {
        let module = format!("{prefix}h.0.mlp.c_fc");
        assert_eq!(error_of(&base, &module, rows, columns, true), "");
    }
}

#[test]
fn ranks_and_alphas_are_those_of_the_factors() {
    let base = Base::new("qwen2");
    let modules = ["q", "v"].map(|name| format!("model.layers.0.self_attn.{name}_proj"));
    let mut made = Made::new(&base, "qwen2", &modules);
    made.config["r"] = 8.into();
    made.write();
    let e = made.plan(&base).unwrap_err();
    assert!(e.code() == "recipe/adapter" && e.to_string().contains("says 8"), "{e}");
    made.config["rank_pattern"] = serde_json::json!({"q_proj": RANK, "v_proj": RANK});
    made.write();
    made.plan(&base).unwrap();

    let file = holdall::open(&made.folder).unwrap();
    let adapter = Adapter::new(&made.folder, &file, base.path());
    for text in ["adapter.lora.alpha=0", "adapter.lora.alpha=NaN", "adapter.lora.alpha=inf"] {
        let setting = MetadataSetting::parse(text).unwrap();
        let e = plan_adapter(&adapter, "out.gguf", &options().with_metadata([setting]));
        let e = e.expect_err(text);
        assert_eq!(e.code(), "recipe/adapter", "{text}: {e}");
    }
}

/// The factors of a Llama have another order than those of a Qwen.
#[test]
fn the_base_model_of_the_way_back_has_the_architecture_of_the_adapter() {
    let base = Base::new("llama3-bpe");
    let made = Made::new(&base, "", &["model.layers.0.self_attn.q_proj".to_owned()]);
    let file = holdall::open(made.convert(&base, OutType::F32)).unwrap();
    let (_, text) = builtin().iter().find(|(name, _)| *name == "qwen2").unwrap();
    let recipe = Recipe::parse(text.as_bytes(), &Limits::default()).unwrap();
    let config = fs::read_to_string(corpus("qwen2").join("config.json")).unwrap();
    let options = ModelRestore::new(WriteOptions::new(), recipe).with_config(config);
    let e = restore_adapter(&file, base.path().join("back"), &options).unwrap_err();
    assert_eq!(e.code(), "recipe/architecture", "{e}");
}
