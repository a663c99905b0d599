//! Adapters of LoRA: a folder of PEFT as a GGUF file that llama.cpp applies to a model, and back.

use super::back::{Prepared as PreparedFolder, config_of, parsed, write_folder};
use super::folder::{self, ModelTexts};
use super::source::FileTensors;
use super::{
    ModelConvert, ModelConvertReport, ModelRestore, Prepared, expected_attributes, items_of, run,
    writing,
};
use crate::convert::ConvertReport;
use holdall_core::layout::number::ElementType;
use holdall_core::ledger::Expected;
use holdall_core::{DType, Result, TensorSpec};
use holdall_io::File;
use holdall_io::error::SHARDS_TARGET;
use holdall_io::items::{self, Sharing};
use holdall_io::sink::{FileSink, StreamSink};
use holdall_models::recipe::{AdapterInput, Input, SourceTensor, check_adapter_alpha, set_keys};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

const CONFIG: &str = "adapter_config.json";

/// An adapter in a folder of PEFT, and its base model.
#[derive(Debug, Clone, Copy)]
pub struct Adapter<'a> {
    folder: &'a Path,
    file: &'a File,
    base: &'a Path,
    base_file: Option<&'a File>,
}

impl<'a> Adapter<'a> {
    /// Creates the description of the adapter in `folder`, whose tensors `file` has, for the model in the folder `base`, of
    /// which only the configuration is needed.
    pub fn new(folder: &'a Path, file: &'a File, base: &'a Path) -> Adapter<'a> {
        Adapter { folder, file, base, base_file: None }
    }

    /// Compares the shapes of the adapter with those of the base model's tensors.
    pub fn with_base_file(mut self, file: &'a File) -> Adapter<'a> {
        self.base_file = Some(file);
        self
    }
}

/// Returns `true` if the path is a folder with an `adapter_config.json`.
pub fn is_adapter(path: impl AsRef<Path>) -> bool {
    path.as_ref().join(CONFIG).is_file()
}

/// Writes an adapter to `path` as a GGUF file, by the recipe for its base model: what the recipe does with a matrix, it does
/// with its factors.
///
/// # Errors
/// Returns `recipe/adapter` if the adapter has no form in GGUF: if it is of another kind than LoRA, has tensors other than
/// factors, or if the recipe mixes rows and columns of a matrix; `recipe/left-over` if the recipe has no rule for a matrix that
/// it changes; the errors of [`super::convert_model`].
pub fn convert_adapter(
    adapter: &Adapter<'_>,
    path: impl AsRef<Path>,
    options: &ModelConvert,
) -> Result<ModelConvertReport> {
    let path = path.as_ref();
    let prepared = prepare(adapter, path, options)?;
    let sink = FileSink::create(path, options.write.overwrite, options.write.durability)?;
    run(Some(adapter.file), sink, prepared).map(|(report, ())| report)
}

/// Writes an adapter to the stream `to`, as [`convert_adapter`] does to a file.
///
/// # Errors
/// Returns the errors of [`convert_adapter`]; bytes written before an error stay written.
pub fn convert_adapter_to<W: Write>(
    adapter: &Adapter<'_>,
    to: W,
    options: &ModelConvert,
) -> Result<(ModelConvertReport, W)> {
    let prepared = prepare(adapter, Path::new("-"), options)?;
    run(Some(adapter.file), StreamSink::new(to), prepared)
}

/// Runs all checks of [`convert_adapter`] without writing. Returns the tensors that it would write, in order, and the report.
///
/// # Errors
/// Returns the errors of [`convert_adapter`], before anything is written.
pub fn plan_adapter(
    adapter: &Adapter<'_>,
    path: impl AsRef<Path>,
    options: &ModelConvert,
) -> Result<(Vec<TensorSpec>, ModelConvertReport)> {
    let prepared = prepare(adapter, path.as_ref(), options)?;
    let specs = prepared.items.into_iter().map(|item| item.spec).collect();
    Ok((specs, prepared.report))
}

fn prepare(adapter: &Adapter<'_>, path: &Path, options: &ModelConvert) -> Result<Prepared> {
    if options.shard_limits().is_some() {
        return Err(SHARDS_TARGET.broken("an adapter is one file, not a folder"));
    }
    let Adapter { folder, file, base, base_file } = *adapter;
    let limits = file.limits();
    let config = folder::json(&folder.join(CONFIG), limits)?;
    let texts = ModelTexts::read(base, limits)?;
    let in_base = |e: holdall_core::Error| e.in_source(base.display());
    let recipe = options.recipe_for(&texts.config, limits).map_err(in_base)?;
    let files = texts.files(base, recipe.files(), limits)?;
    let tensors = base_file.map(shapes).transpose()?.unwrap_or_default();
    let name = match &options.name {
        Some(name) => name.clone(),
        None => folder::name(folder),
    };
    let input = AdapterInput {
        config: &config,
        base: Input {
            config: &texts.config,
            files: &files,
            source: Arc::new(FileTensors::new(file)?),
            outtype: options.outtype,
            name: &name,
            tokens: None,
        },
        tensors: &tensors,
    };
    let plan = recipe.plan_adapter(&input).map_err(|e| e.in_source(folder.display()))?;
    let mut attributes = plan.metadata.clone();
    let set_keys = set_keys(&options.settings, &mut attributes, true)?;
    check_adapter_alpha(&attributes)?;
    let (write, encoder) = writing(options, attributes, path)?;
    let mut report = ModelConvertReport {
        recipe: recipe.name().to_owned(),
        outtype: plan.outtype,
        convert: ConvertReport::empty(file),
        set_keys,
    };
    let mut expected = expected_attributes();
    for tensor in file.tensors() {
        expected.tensor(tensor.name()).left_out = true;
    }
    let warnings = plan.warnings.clone();
    let items = items_of(plan, &mut report.convert);
    for item in &items {
        encoder.check_tensor(&item.spec)?;
    }
    report.convert.warnings = file.warnings().to_vec();
    report.convert.warnings.extend(warnings);
    report.convert.warnings.extend(items::warnings(&*encoder, items.iter().map(|item| &item.spec)));
    let items = items::arrange(items, &*encoder, Sharing::Copy)?;
    Ok(Prepared { items, encoder, write, report, expected, shards: None })
}

/// Returns the names and shapes of a model's tensors, of quantized weights too.
fn shapes(file: &File) -> Result<Vec<SourceTensor>> {
    let file = file.dequantized()?;
    let of_one = |tensor: holdall_io::Tensor| SourceTensor {
        name: tensor.name().to_owned(),
        shape: tensor.shape().to_vec(),
        element: ElementType::new(DType::F32, None),
        blocks: None,
    };
    Ok(file.tensors().map(of_one).collect())
}

/// Writes the adapter of a GGUF file to `folder`: `adapter_model.safetensors` and `adapter_config.json`, in the layout of PEFT.
/// The options should have the configuration of the base model. The folder appears when it is complete.
///
/// # Errors
/// Returns `recipe/adapter` if the file is no adapter of LoRA; the errors of [`super::restore_model`].
pub fn restore_adapter(
    file: &File,
    folder: impl AsRef<Path>,
    options: &ModelRestore,
) -> Result<ModelConvertReport> {
    let prepare = || {
        let in_file = |e: holdall_core::Error| e.in_source(file.name());
        let config = match &options.config {
            Some(text) => parsed(text, file.limits())?,
            None => config_of(file, &options.recipe, None).map_err(in_file)?,
        };
        let recipe = &options.recipe;
        recipe.check_architecture(&config, file.attributes()).map_err(in_file)?;
        let input = Input {
            config: &config,
            files: &[],
            source: Arc::new(FileTensors::new(file)?),
            outtype: options.outtype,
            name: "",
            tokens: None,
        };
        let back = recipe.plan_adapter_back(&input, file.attributes()).map_err(in_file)?;
        let mut expected = Expected::new();
        expected.replace_attributes();
        for tensor in file.tensors() {
            expected.tensor(tensor.name()).left_out = true;
        }
        let report = ModelConvertReport {
            recipe: recipe.name().to_owned(),
            outtype: back.plan.outtype,
            convert: ConvertReport::empty(file),
            set_keys: Vec::new(),
        };
        let texts = vec![(CONFIG.to_owned(), back.config.to_json().into_bytes())];
        Ok(PreparedFolder { plan: back.plan, report, texts, expected })
    };
    write_folder(file, folder.as_ref(), "adapter_model.safetensors", options, prepare)
}
