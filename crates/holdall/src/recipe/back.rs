//! The way back: a GGUF file as a folder of the Hugging Face hub.

use super::source::FileTensors;
use super::{ModelConvertReport, OutType, Recipe, items_of};
use crate::convert::ConvertReport;
use crate::error::io;
use holdall_core::encode::EncodeOptions;
use holdall_core::error::Escape as _;
use holdall_core::ledger::Expected;
use holdall_core::limits::Limits;
use holdall_core::{Attributes, Result, TensorSpec, Value, Warning};
use holdall_formats::by_name;
use holdall_io::error::SHARDS_TARGET;
use holdall_io::items::{self, Sharing};
use holdall_io::sink::{FileSink, FolderSink};
use holdall_io::{File, WriteOptions, Writer, ledger};
use holdall_models::recipe::Input;
use holdall_models::tokenizer::{RestoredTokenizer, TokenizerOptions};
use std::path::Path;
use std::sync::Arc;

/// Options of the way back. The recipe must be chosen: several families of models have the same architecture in GGUF.
#[derive(Debug, Clone)]
pub struct ModelRestore {
    write: WriteOptions,
    pub(super) recipe: Recipe,
    pub(super) outtype: OutType,
    pub(super) config: Option<String>,
}

impl ModelRestore {
    /// Creates options that follow `recipe` backwards, and write all tensors in the type of the matrices: F16 or BF16,
    /// or F32 for quantized ones.
    pub fn new(write: WriteOptions, recipe: Recipe) -> ModelRestore {
        ModelRestore { write, recipe, outtype: OutType::Auto, config: None }
    }

    /// Sets the type of all tensors: F32, F16 or BF16.
    pub fn with_outtype(mut self, outtype: OutType) -> ModelRestore {
        self.outtype = outtype;
        self
    }

    /// Uses this text as `config.json`, in place of one that is made of the metadata.
    pub fn with_config(mut self, text: impl Into<String>) -> ModelRestore {
        self.config = Some(text.into());
        self
    }
}

/// Writes the model of a GGUF file to `folder`: `model.safetensors`, `config.json` and the files of the tokenizer. The
/// folder appears when it is complete.
///
/// # Errors
/// Returns `recipe/architecture` if the recipe writes files of another architecture; `recipe/no-inverse` if it cannot be
/// followed backwards; `recipe/left-over` if it does not write a tensor of
/// the file; Io.
pub fn restore_model(
    file: &File,
    folder: impl AsRef<Path>,
    options: &ModelRestore,
) -> Result<ModelConvertReport> {
    write_folder(file, folder.as_ref(), "model.safetensors", options, || prepare(file, options))
}

/// Writes a folder: a file of tensors, and texts.
pub(super) fn write_folder(
    file: &File,
    folder: &Path,
    name: &str,
    options: &ModelRestore,
    prepare: impl FnOnce() -> Result<Prepared>,
) -> Result<ModelConvertReport> {
    let write = &options.write;
    let sink = FolderSink::create(folder, write.overwrite, &SHARDS_TARGET)?;
    let tensors = sink.path().join(name);
    let Prepared { plan, mut report, texts, expected } = prepare()?;
    let mut write = write.clone();
    write.attributes = metadata();
    if let Some(format) = by_name("safetensors") {
        write = write.with_format(format).with_encode(EncodeOptions::new());
    }
    let encoder = write.encoder(write.format_for(&tensors)?)?;
    let items = items_of(plan, &mut report.convert);
    let items = items::arrange(items, &*encoder, Sharing::Copy)?;
    write.work.begin(report.convert.decoded_len);
    let mut writer =
        Writer::new(FileSink::create(&tensors, false, write.durability)?, encoder, &write);
    let specs: Vec<TensorSpec> = items.iter().map(|item| item.spec.clone()).collect();
    writer.declare(&specs)?;
    items::write(&mut writer, items, &write.work)?;
    let finished = writer.close()?;
    report.convert.left_behind.extend(ledger::close(file, finished.record(), &expected)?);
    report.convert.target_len = finished.len();
    finished.publish()?;
    report.convert.files.push(name.to_owned());
    for (name, bytes) in texts {
        let path = sink.path().join(&name);
        let parent = path.parent().unwrap_or(sink.path());
        std::fs::create_dir_all(parent).map_err(|e| io(e, "creating a folder"))?;
        std::fs::write(&path, &bytes).map_err(|e| io(e, "writing").in_source(path.display()))?;
        report.convert.target_len += bytes.len() as u64;
        report.convert.files.push(name);
    }
    sink.finish(write.durability)?;
    Ok(report)
}

/// Runs the checks of [`restore_model`] without writing. Returns the tensors that it would write, in order, and the
/// report.
///
/// # Errors
/// Returns the errors of [`restore_model`], before anything is written.
pub fn plan_restore(
    file: &File,
    options: &ModelRestore,
) -> Result<(Vec<TensorSpec>, ModelConvertReport)> {
    let Prepared { plan, mut report, texts, .. } = prepare(file, options)?;
    let items = items_of(plan, &mut report.convert);
    report.convert.files.push("model.safetensors".to_owned());
    report.convert.files.extend(texts.into_iter().map(|(name, _)| name));
    Ok((items.into_iter().map(|item| item.spec).collect(), report))
}

pub(super) struct Prepared {
    pub(super) plan: holdall_models::recipe::Plan,
    pub(super) report: ModelConvertReport,
    /// Files to write, by name.
    pub(super) texts: Vec<(String, Vec<u8>)>,
    pub(super) expected: Expected,
}

fn prepare(file: &File, options: &ModelRestore) -> Result<Prepared> {
    let in_file = |e: holdall_core::Error| e.in_source(file.name());
    let (limits, recipe) = (file.limits(), &options.recipe);
    let mut left_behind = Vec::new();
    let mut warnings = Vec::new();
    let has_tokenizer = file.attributes().get("tokenizer.ggml.model").is_some();
    let tokenizer = match has_tokenizer {
        true => {
            let mut own = TokenizerOptions::new();
            if let Some(name) = recipe.architectures().first() {
                own = own.with_architecture(name);
            }
            Some(
                RestoredTokenizer::from_attributes(file.attributes(), &own, limits)
                    .map_err(in_file)?,
            )
        }
        false => None,
    };
    let (text, config) = match &options.config {
        Some(text) => (text.clone(), parsed(text, limits)?),
        None => {
            let config = config_of(file, recipe, tokenizer.as_ref()).map_err(in_file)?;
            let message = "`config.json` has only what the metadata of the file has";
            warnings.push(Warning::new("recipe/config-made", message));
            (config.to_json(), config)
        }
    };
    recipe.check_architecture(&config, file.attributes()).map_err(in_file)?;
    let text = match without_quantization(&config) {
        None => text,
        Some((config, keys)) => {
            for key in keys {
                let key = key.escaped();
                left_behind.push(format!("`{key}` of the configuration: no tensor is quantized"));
            }
            if holdall_io::without_infinities(&text) != text {
                let message = "NaN and infinities of the configuration: they are null";
                left_behind.push(message.to_owned());
            }
            config.to_json()
        }
    };
    let mut texts = vec![("config.json".to_owned(), text.into_bytes())];
    if let Some(tokenizer) = &tokenizer {
        left_behind.extend(tokenizer.lost.iter().cloned());
        for name in tokenizer.files.names() {
            let bytes = tokenizer.files.file(name).unwrap_or_default();
            texts.push((name.to_owned(), bytes.to_vec()));
        }
    }
    let input = Input {
        config: &config,
        files: &[],
        source: Arc::new(FileTensors::new(file)?),
        outtype: options.outtype,
        name: "",
        tokens: None,
    };
    let plan = recipe.plan_back(&input).map_err(in_file)?;
    left_behind.extend(
        plan.left_out.iter().map(|left| format!("tensor `{}`: {}", left.name, left.reason)),
    );
    left_behind.extend(foreign_keys(file, recipe));
    let mut expected = Expected::new();
    expected.replace_attributes();
    for tensor in file.tensors() {
        expected.tensor(tensor.name()).left_out = true;
    }
    let mut report = ModelConvertReport {
        recipe: recipe.name().to_owned(),
        outtype: plan.outtype,
        convert: ConvertReport::empty(file),
        set_keys: Vec::new(),
    };
    report.convert.warnings = file.warnings().to_vec();
    report.convert.warnings.extend(warnings);
    report.convert.left_behind = left_behind;
    Ok(Prepared { plan, report, texts, expected })
}

/// Keys of the metadata that a conversion makes.
const MADE_KEYS: [&str; 6] = [
    "general.architecture",
    "general.type",
    "general.name",
    "general.size_label",
    "general.file_type",
    "general.quantization_version",
];

/// Returns the keys of the metadata that no file of the folder has: all but those that a conversion makes, the model's
/// own, which are in `config.json`, and the tokenizer's.
fn foreign_keys(file: &File, recipe: &Recipe) -> Vec<String> {
    let architecture = recipe.gguf_architecture().unwrap_or_default();
    let is_known = |key: &str| {
        let first = key.split('.').next().unwrap_or_default();
        MADE_KEYS.contains(&key) || ["tokenizer", "split", architecture].contains(&first)
    };
    let keys = file.attributes().iter().map(|(key, _)| key);
    let of_key = |key: &str| format!("metadata `{}`: the folder has no such value", key.escaped());
    keys.filter(|key| !is_known(key)).map(of_key).collect()
}

/// Returns a configuration with what the metadata has.
pub(super) fn config_of(
    file: &File,
    recipe: &Recipe,
    tokenizer: Option<&RestoredTokenizer>,
) -> Result<Value> {
    let config = recipe.config(file.attributes())?;
    let Value::Map(mut pairs) = config else { return Ok(config) };
    for (key, number) in tokenizer.into_iter().flat_map(|tokenizer| &tokenizer.config) {
        if !pairs.iter().any(|(own, _)| own.as_text() == Some(key)) {
            pairs.push((Value::Text(key.clone()), Value::Integer((*number).into())));
        }
    }
    Ok(Value::Map(pairs))
}

/// Keys of a configuration that say how its tensors are quantized.
const QUANTIZATION: [&str; 2] = ["quantization_config", "compression_config"];

/// Returns a configuration without what it says of quantized tensors, also in the configurations of its parts, and the
/// keys that are gone. Returns `None` if it says nothing.
fn without_quantization(config: &Value) -> Option<(Value, Vec<String>)> {
    fn cut(value: &Value, prefix: &str, gone: &mut Vec<String>) -> Value {
        let Value::Map(pairs) = value else { return value.clone() };
        let mut out = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let name = key.as_text().unwrap_or_default();
            if QUANTIZATION.contains(&name) && *value != Value::Null {
                gone.push(format!("{prefix}{name}"));
                continue;
            }
            let value = match prefix.is_empty() && name.ends_with("_config") {
                true => cut(value, &format!("{name}."), gone),
                false => value.clone(),
            };
            out.push((key.clone(), value));
        }
        Value::Map(out)
    }
    let mut gone = Vec::new();
    let cut = cut(config, "", &mut gone);
    (!gone.is_empty()).then_some((cut, gone))
}

pub(super) fn parsed(text: &str, limits: &Limits) -> Result<Value> {
    Value::from_json(&holdall_io::without_infinities(text), limits.depth)
}

/// Returns the metadata of the file of tensors: libraries require the name of the framework.
fn metadata() -> Attributes {
    Attributes::from_iter([("format".to_owned(), Value::Text("pt".to_owned()))])
}
