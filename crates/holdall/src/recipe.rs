//! Converts a model from the tensors and files of one convention to those of another, by a recipe: a folder of the
//! Hugging Face hub to a GGUF file that llama.cpp runs.
//!
//! [`convert_model`] finds the recipe by the folder's `config.json`, or uses the one that it is given. Every tensor of
//! the folder is written, or named in [`ConvertReport::left_behind`]. [`restore_model`] follows a recipe backwards, and
//! [`diff_model`] compares a converted model with its source.

mod adapter;
mod back;
mod compare;
mod family;
mod folder;
mod source;

pub use adapter::{
    Adapter, convert_adapter, convert_adapter_to, is_adapter, plan_adapter, restore_adapter,
};
pub use back::{ModelRestore, plan_restore, restore_model};
pub use compare::{ConvertedTensor, Deviation, ModelDiff, Verdict, WorstBlock, diff_model};
pub use family::{FamilyNames, FamilyTensor, family_names, find_back};
pub use holdall_models::recipe::{MetadataSetting, Mix, OutType, Recipe, SetKey, builtin, find};

use crate::convert::ConvertReport;
use crate::convert::shards::{self, Shards};
use folder::ModelTexts;
use holdall_core::encode::Encode;
use holdall_core::ledger::Expected;
use holdall_core::model::{element_count, stored_size};
use holdall_core::{
    Attributes, ComponentSpec, DType, Layout, Limits, Result, Role, TensorSpec, Value,
};
use holdall_formats::by_name;
use holdall_io::error::SHARDS_TARGET;
use holdall_io::items::{self, ComponentSource, ComputedPieces, CopyMode, Item, Sharing};
use holdall_io::sink::{FileSink, Sink, StreamSink};
use holdall_io::{File, Work, WriteOptions, Writer, ledger};
use holdall_models::recipe::{Form, Input, Plan, SETTING, TensorSource, set_keys};
use holdall_models::tokenizer::{GGUF_TYPES, TokenizerMetadata, TokenizerOptions};
use source::{FileTensors, NoTensors};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Options of a conversion by a recipe.
#[derive(Debug, Clone)]
pub struct ModelConvert {
    write: WriteOptions,
    outtype: OutType,
    recipe: Option<Recipe>,
    name: Option<String>,
    pre_tokenizer: Option<String>,
    has_tokenizer: bool,
    settings: Vec<MetadataSetting>,
    max_shard_len: Option<u64>,
    max_shard_tensors: Option<u64>,
}

impl ModelConvert {
    /// Creates options that find the recipe by the model's configuration, and choose the type of its matrices by those
    /// of the source.
    pub fn new(write: WriteOptions) -> ModelConvert {
        ModelConvert {
            write,
            outtype: OutType::Auto,
            recipe: None,
            name: None,
            pre_tokenizer: None,
            has_tokenizer: true,
            settings: Vec::new(),
            max_shard_len: None,
            max_shard_tensors: None,
        }
    }

    /// Sets how the work is done: threads, progress, cancelling.
    pub fn with_work(mut self, work: Work) -> ModelConvert {
        self.write = self.write.with_work(work);
        self
    }

    /// Sets the type of the matrices. Vectors, and the tensors that the recipe names, stay F32.
    pub fn with_outtype(mut self, outtype: OutType) -> ModelConvert {
        self.outtype = outtype;
        self
    }

    /// Uses this recipe, whatever the configuration says.
    pub fn with_recipe(mut self, recipe: Recipe) -> ModelConvert {
        self.recipe = Some(recipe);
        self
    }

    /// Sets the name of the model (`general.name`). By default, it is the name of the folder.
    pub fn with_name(mut self, name: impl Into<String>) -> ModelConvert {
        self.name = Some(name.into());
        self
    }

    /// Uses this name of the pre-tokenizer (`tokenizer.ggml.pre`), and does not look at its rules.
    pub fn with_pre_tokenizer(mut self, name: impl Into<String>) -> ModelConvert {
        self.pre_tokenizer = Some(name.into());
        self
    }

    /// Writes no tokenizer.
    pub fn without_tokenizer(mut self) -> ModelConvert {
        self.has_tokenizer = false;
        self
    }

    /// Sets keys of the metadata, in place of the values of the recipe or next to them.
    /// [`ModelConvertReport::set_keys`] has the old values. Keys that follow from the tensors cannot be set.
    pub fn with_metadata(
        mut self,
        settings: impl IntoIterator<Item = MetadataSetting>,
    ) -> ModelConvert {
        self.settings.extend(settings);
        self
    }

    /// Writes a folder of files with at most `bytes` bytes of tensors each, the parts of a split GGUF file:
    /// `NAME-00001-of-00003.gguf` with the name of the model. The first has the metadata. A larger tensor gets its own
    /// file; if everything fits, there is only `NAME.gguf`. The folder appears when it is complete.
    pub fn with_max_shard_len(mut self, bytes: u64) -> ModelConvert {
        self.max_shard_len = Some(bytes);
        self
    }

    /// Writes a folder of files with at most `count` tensors each (at least one), alone or together with
    /// [`ModelConvert::with_max_shard_len`].
    pub fn with_max_shard_tensors(mut self, count: u64) -> ModelConvert {
        self.max_shard_tensors = Some(count);
        self
    }

    /// Returns the recipe for a model with this configuration.
    fn recipe_for(&self, config: &Value, limits: &Limits) -> Result<Recipe> {
        match &self.recipe {
            Some(recipe) => Ok(recipe.clone()),
            None => find(config, limits),
        }
    }

    /// Returns the limits of each file as `(bytes, tensors)`, or `None` if the target is one file.
    fn shard_limits(&self) -> Option<(u64, u64)> {
        let is_limited = self.max_shard_len.is_some() || self.max_shard_tensors.is_some();
        let or_all = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        is_limited.then(|| (or_all(self.max_shard_len), or_all(self.max_shard_tensors)))
    }
}

/// The result of a conversion by a recipe.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelConvertReport {
    /// The name of the recipe.
    pub recipe: String,
    /// The type of the matrices: never [`OutType::Auto`].
    pub outtype: OutType,
    /// The written tensors, and the content that the target lacks. [`ConvertReport::cast`] counts tensors whose elements changed their
    /// type.
    pub convert: ConvertReport,
    /// The keys of the metadata that the caller set.
    pub set_keys: Vec<SetKey>,
}

/// Returns `true` if the path is a folder with a `config.json` that names the architecture of a model.
pub fn is_model(path: impl AsRef<Path>, limits: &holdall_core::Limits) -> bool {
    let path = path.as_ref();
    path.is_dir() && ModelTexts::read(path, limits).is_ok_and(|texts| texts.names_architecture())
}

/// Writes the model in `folder`, whose tensors `file` has, to `path` as a GGUF file, or as a folder of the parts of one
/// ([`ModelConvert::with_max_shard_len`]).
///
/// # Errors
/// Returns `recipe/unknown-architecture` if there is no recipe for the model; `recipe/left-over` if the recipe has no rule for
/// a tensor; other rules of recipes, tokenizers and GGUF; Io. Nothing is written if there is an error.
pub fn convert_model(
    folder: &Path,
    file: &File,
    path: impl AsRef<Path>,
    options: &ModelConvert,
) -> Result<ModelConvertReport> {
    let path = path.as_ref();
    let mut prepared = prepare(folder, file, path, options)?;
    if let Some(shards) = prepared.shards.take() {
        return run_split(file, path, &shards, prepared);
    }
    let sink = FileSink::create(path, options.write.overwrite, options.write.durability)?;
    run(Some(file), sink, prepared).map(|(report, ())| report)
}

/// Writes the model in `folder` to the stream `to`, as [`convert_model`] does to a file.
///
/// # Errors
/// Returns the errors of [`convert_model`]; bytes written before an error stay written.
pub fn convert_model_to<W: Write>(
    folder: &Path,
    file: &File,
    to: W,
    options: &ModelConvert,
) -> Result<(ModelConvertReport, W)> {
    if options.shard_limits().is_some() {
        return Err(SHARDS_TARGET.broken("a stream is not a folder"));
    }
    let prepared = prepare(folder, file, Path::new("-"), options)?;
    run(Some(file), StreamSink::new(to), prepared)
}

/// Writes the metadata and the tokenizer of the model in `folder` to `path`, as a GGUF file without tensors. The folder
/// need not have tensors.
///
/// # Errors
/// Returns the errors of [`convert_model`] that do not concern tensors.
pub fn convert_vocabulary(
    folder: &Path,
    path: impl AsRef<Path>,
    options: &ModelConvert,
    limits: &Limits,
) -> Result<ModelConvertReport> {
    let path = path.as_ref();
    let prepared = prepare_vocabulary(folder, path, options, limits)?;
    let sink = FileSink::create(path, options.write.overwrite, options.write.durability)?;
    run(None, sink, prepared).map(|(report, ())| report)
}

/// Writes the metadata and the tokenizer of the model in `folder` to the stream `to`, as [`convert_vocabulary`] does to a
/// file.
///
/// # Errors
/// Returns the errors of [`convert_vocabulary`]; bytes written before an error stay written.
pub fn convert_vocabulary_to<W: Write>(
    folder: &Path,
    to: W,
    options: &ModelConvert,
    limits: &Limits,
) -> Result<(ModelConvertReport, W)> {
    let prepared = prepare_vocabulary(folder, Path::new("-"), options, limits)?;
    run(None, StreamSink::new(to), prepared)
}

/// Runs all checks of [`convert_model`] without writing. Returns the tensors that it would write, in order, and the
/// report.
///
/// # Errors
/// Returns the errors of [`convert_model`], before anything is written.
pub fn plan_model(
    folder: &Path,
    file: &File,
    path: impl AsRef<Path>,
    options: &ModelConvert,
) -> Result<(Vec<TensorSpec>, ModelConvertReport)> {
    let prepared = prepare(folder, file, path.as_ref(), options)?;
    let specs = prepared.items.into_iter().map(|item| item.spec).collect();
    Ok((specs, prepared.report))
}

struct Prepared {
    items: Vec<Item>,
    encoder: Box<dyn Encode>,
    write: WriteOptions,
    report: ModelConvertReport,
    expected: Expected,
    /// The files of the items, if the target is a folder.
    shards: Option<Shards>,
}

/// The plan of a conversion.
struct Planned {
    recipe: Recipe,
    /// The name of the model.
    name: String,
    plan: Plan,
    /// The metadata to write, with the tokenizer's.
    attributes: Attributes,
    /// The content of the tokenizer's files that the metadata cannot hold.
    left_behind: Vec<String>,
}

fn planned(
    folder: &Path,
    source: Arc<dyn TensorSource>,
    options: &ModelConvert,
    limits: &Limits,
) -> Result<Planned> {
    let in_folder = |e: holdall_core::Error| e.in_source(folder.display());
    let texts = ModelTexts::read(folder, limits)?;
    let recipe = options.recipe_for(&texts.config, limits).map_err(in_folder)?;
    let mut left_behind = Vec::new();
    let tokenizer = match options.has_tokenizer {
        true => {
            let mut own = TokenizerOptions::new();
            if let Some(name) = &options.pre_tokenizer {
                own = own.with_pre_tokenizer(name);
            }
            let files = folder::tokenizer_files(folder, limits)?;
            let made = TokenizerMetadata::from_files(&files, &own, limits).map_err(in_folder)?;
            left_behind.extend(made.omitted.iter().cloned());
            Some(made)
        }
        false => None,
    };
    let tokens =
        tokenizer.as_ref().and_then(|made| match made.attributes.get("tokenizer.ggml.tokens") {
            Some(Value::Array(all)) => Some(all.len() as u64),
            _ => None,
        });
    let name = match &options.name {
        Some(name) => name.clone(),
        None => folder::name(folder),
    };
    let files = texts.files(folder, recipe.files(), limits)?;
    let input = Input {
        config: &texts.config,
        files: &files,
        source,
        outtype: options.outtype,
        name: &name,
        tokens,
    };
    let plan = recipe.plan(&input).map_err(in_folder)?;
    let mut attributes = plan.metadata.clone();
    if let Some(tokenizer) = &tokenizer {
        tokenizer.add_to(&mut attributes);
    }
    Ok(Planned { recipe, name, plan, attributes, left_behind })
}

/// Returns the plan of a conversion whose tensors `file` has.
fn planned_for(folder: &Path, file: &File, options: &ModelConvert) -> Result<Planned> {
    let source = Arc::new(FileTensors::new(&file.dequantized()?)?);
    planned(folder, source, options, file.limits())
}

fn prepare(folder: &Path, file: &File, path: &Path, options: &ModelConvert) -> Result<Prepared> {
    let planned = planned_for(folder, file, options)?;
    let Planned { recipe, name, plan, mut attributes, mut left_behind } = planned;
    let set_keys = set_keys(&options.settings, &mut attributes, true)?;
    let (write, encoder) = writing(options, attributes, path)?;
    let mut write = write;
    if options.shard_limits().is_some() {
        write = shards::check(file, path, write)?;
    }
    let mut report = ModelConvertReport {
        recipe: recipe.name().to_owned(),
        outtype: plan.outtype,
        convert: ConvertReport::empty(file),
        set_keys,
    };
    for weight in file.quantized_weights()? {
        let names = weight.not_applied().iter();
        left_behind.extend(names.map(|name| {
            format!("tensor `{name}`: it does not change the values of `{}`", weight.name())
        }));
    }
    let mut expected = expected_attributes();
    for tensor in file.tensors() {
        expected.tensor(tensor.name()).left_out = true;
    }
    left_behind.extend(
        plan.left_out.iter().map(|left| format!("tensor `{}`: {}", left.name, left.reason)),
    );
    let warnings = plan.warnings.clone();
    let items = items_of(plan, &mut report.convert);
    for item in &items {
        encoder.check_tensor(&item.spec)?;
    }
    report.convert.warnings = file.warnings().to_vec();
    report.convert.warnings.extend(warnings);
    report.convert.warnings.extend(items::warnings(&*encoder, items.iter().map(|item| &item.spec)));
    report.convert.left_behind = left_behind;
    let order: Vec<String> = items.iter().map(|item| item.spec.name.clone()).collect();
    let items = items::arrange(items, &*encoder, Sharing::Copy)?;
    let shards = match options.shard_limits() {
        Some(most) => {
            let shards = Shards::new(&order, &items, most, write.format_for(path)?)?;
            Some(shards.with_stem(folder::file_stem(&name)))
        }
        None => None,
    };
    report.convert.files = shards.as_ref().map(Shards::files).unwrap_or_default();
    Ok(Prepared { items, encoder, write, report, expected, shards })
}

/// Keys of the metadata that describe tensors.
const KEYS_OF_TENSORS: [&str; 3] =
    ["general.size_label", "general.file_type", "general.quantization_version"];

fn prepare_vocabulary(
    folder: &Path,
    path: &Path,
    options: &ModelConvert,
    limits: &Limits,
) -> Result<Prepared> {
    if options.shard_limits().is_some() {
        return Err(SHARDS_TARGET.broken("a vocabulary is one file, not a folder"));
    }
    let planned = planned(folder, Arc::new(NoTensors), options, limits)?;
    let Planned { recipe, plan, mut attributes, left_behind, .. } = planned;
    for key in KEYS_OF_TENSORS {
        attributes.remove(key);
    }
    let set_keys = set_keys(&options.settings, &mut attributes, false)?;
    let (write, encoder) = writing(options, attributes, path)?;
    let mut convert = ConvertReport::without_source();
    convert.warnings = plan.warnings.clone();
    convert.left_behind = left_behind;
    let recipe = recipe.name().to_owned();
    let report = ModelConvertReport { recipe, outtype: plan.outtype, convert, set_keys };
    let expected = expected_attributes();
    Ok(Prepared { items: Vec::new(), encoder, write, report, expected, shards: None })
}

/// Returns the options for the file, with its metadata, and its encoder.
fn writing(
    options: &ModelConvert,
    attributes: Attributes,
    path: &Path,
) -> Result<(WriteOptions, Box<dyn Encode>)> {
    let mut write = options.write.clone();
    write.attributes = attributes;
    if let Some(format) = by_name("gguf") {
        write = write.with_format(format);
    }
    let encoder = write.encoder(write.format_for(path)?)?;
    encoder.check_attributes(&write.attributes)?;
    let stated = write.attributes.get(ALIGNMENT);
    if let (Some(stated), Some(align)) = (stated, write.encode.align)
        && stated.as_integer() != Some(align.into())
    {
        let message = format!("{} contradicts the alignment {align}", stated.to_json());
        return Err(SETTING.broken(message).within(format!("`{ALIGNMENT}`")));
    }
    Ok((write, encoder))
}

/// The key of the alignment of tensors.
const ALIGNMENT: &str = "general.alignment";

/// Returns what may change of the attributes: all are made anew.
fn expected_attributes() -> Expected {
    let mut expected = Expected::new();
    expected.drop_attributes();
    // The name of the library that wrote the tensors.
    expected.change_attribute("format");
    // It is read back only for values whose type is not the usual one.
    expected.change_attribute(GGUF_TYPES);
    expected
}

/// Returns the tensors of a plan as items to write, and counts them in the report.
fn items_of(plan: Plan, report: &mut ConvertReport) -> Vec<Item> {
    let plan = Arc::new(plan);
    let mut items = Vec::with_capacity(plan.outputs.len());
    for (at, output) in plan.outputs.iter().enumerate() {
        let shape = output.shape().to_vec();
        let (dtype, layout) = match output.form {
            Form::Float(dtype) => (dtype, Layout::Dense),
            Form::Blocks(of) | Form::SameBlocks(of) => (DType::U8, Layout::Blocks(of)),
            Form::AsItIs => (output.element().dtype, Layout::Dense),
        };
        let len = match output.form {
            Form::Blocks(of) | Form::SameBlocks(of) => of.stored_len(&shape),
            _ => {
                let count = element_count(&shape).unwrap_or(u64::MAX);
                stored_size(count, dtype, None).ok().flatten()
            }
        };
        let is_cast = match output.form {
            Form::Float(dtype) => output.element().dtype != dtype,
            Form::Blocks(_) => true,
            Form::SameBlocks(_) => false,
            Form::AsItIs => false,
        };
        let mut spec = TensorSpec::dense(&output.name, dtype, shape.clone());
        spec.layout = layout;
        spec.components = vec![ComponentSpec::new(Role::Data, dtype, len.unwrap_or(u64::MAX))];
        report.tensors += 1;
        report.cast += u64::from(is_cast);
        report.decoded_len = report.decoded_len.saturating_add(len.unwrap_or(0));
        let plan = plan.clone();
        let make = move || {
            let output = &plan.outputs[at];
            let name = output.name.clone();
            let pieces = plan.pieces(output);
            let pieces: ComputedPieces =
                Box::new(pieces.map(move |piece| piece.map_err(|e| e.in_tensor(name.as_str()))));
            Ok(pieces)
        };
        let feeds = vec![ComponentSource::Made(Box::new(make))];
        items.push(Item { spec, feeds, keep: CopyMode::Nothing });
    }
    items
}

fn run<S: Sink>(
    file: Option<&File>,
    sink: S,
    Prepared { items, encoder, write, mut report, expected, .. }: Prepared,
) -> Result<(ModelConvertReport, S::Done)> {
    write.work.begin(report.convert.decoded_len);
    let mut writer = Writer::new(sink, encoder, &write);
    let specs: Vec<TensorSpec> = items.iter().map(|item| item.spec.clone()).collect();
    writer.declare(&specs)?;
    items::write(&mut writer, items, &write.work)?;
    let finished = writer.close()?;
    if let Some(file) = file {
        let lost = ledger::close(file, finished.record(), &expected)?;
        report.convert.left_behind.extend(lost);
    }
    report.convert.target_len = finished.len();
    let done = finished.publish()?;
    Ok((report, done))
}

/// Writes the parts of a split file to a folder.
fn run_split(
    file: &File,
    folder: &Path,
    shards: &Shards,
    Prepared { items, write, mut report, expected, .. }: Prepared,
) -> Result<ModelConvertReport> {
    write.work.begin(report.convert.decoded_len);
    let len = report.convert.decoded_len;
    let written = shards::write_files(file, folder, shards, items, &write, len)?;
    let lost = ledger::close(file, &written.record, &expected)?;
    report.convert.left_behind.extend(lost);
    report.convert.target_len = written.len;
    written.folder.finish(write.durability)?;
    Ok(report)
}
