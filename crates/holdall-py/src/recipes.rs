//! Models of the Hugging Face hub and GGUF files, by recipes.

use crate::errors::Raise as _;
use crate::file::NativeFile;
use crate::options::{self, Writing};
use crate::plain;
use crate::value;
use crate::work::run_with;
use crate::writer::{PyWrite, Target};
use holdall::recipe::{self, MetadataSetting, ModelConvert, ModelRestore, OutType, Recipe};
use holdall::{Limits, WriteOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// Options for a conversion by a recipe, from keywords of the Python half.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ByRecipe {
    outtype: String,
    /// The text of the recipe, and its name for messages.
    recipe: Option<(String, Vec<u8>)>,
    name: Option<String>,
    pre_tokenizer: Option<String>,
    tokenizer: bool,
    /// Keys of the metadata, their values, and the names of their types.
    metadata: Vec<(String, Py<PyAny>, Option<String>)>,
    max_shard_size: Option<options::Size>,
    max_shard_tensors: Option<u64>,
}

impl ByRecipe {
    fn outtype(&self, py: Python<'_>) -> PyResult<OutType> {
        OutType::from_name(&self.outtype).ok_or_else(|| {
            let known: Vec<&str> = OutType::all().map(OutType::as_str).collect();
            options::unknown(py, "outtype", &self.outtype, &known.join(", "))
        })
    }

    fn recipe(&self, py: Python<'_>, limits: &Limits) -> PyResult<Option<Recipe>> {
        let Some((name, text)) = &self.recipe else { return Ok(None) };
        let recipe = Recipe::parse(text, limits).map_err(|e| e.in_source(name));
        recipe.raise(py).map(Some)
    }

    fn options(
        &self,
        py: Python<'_>,
        limits: &Limits,
        write: WriteOptions,
    ) -> PyResult<ModelConvert> {
        let mut options = ModelConvert::new(write).with_outtype(self.outtype(py)?);
        for (key, value, kind) in &self.metadata {
            let value = value::from_python(value.bind(py), 0)?;
            let setting = MetadataSetting::new(key, value);
            options = options.with_metadata([match kind {
                Some(kind) => setting.with_type(kind),
                None => setting,
            }]);
        }
        if let Some(size) = &self.max_shard_size {
            options = options.with_max_shard_len(size.bytes(py, "max_shard_size")?);
        }
        if let Some(count) = self.max_shard_tensors {
            options = options.with_max_shard_tensors(count);
        }
        if let Some(recipe) = self.recipe(py, limits)? {
            options = options.with_recipe(recipe);
        }
        if let Some(name) = &self.name {
            options = options.with_name(name);
        }
        if let Some(name) = &self.pre_tokenizer {
            options = options.with_pre_tokenizer(name);
        }
        Ok(if self.tokenizer { options } else { options.without_tokenizer() })
    }
}

/// Returns the names and the texts of the built-in recipes.
#[pyfunction]
pub(crate) fn recipe_texts() -> Vec<(&'static str, &'static str)> {
    recipe::builtin().to_vec()
}

/// Returns the description of the recipe in a text: its name, what it is for, and its architectures.
#[pyfunction]
pub(crate) fn recipe_described(
    py: Python<'_>,
    text: &[u8],
) -> PyResult<(String, String, Vec<String>)> {
    let recipe = Recipe::parse(text, &holdall::Limits::default()).raise(py)?;
    let (name, about) = (recipe.name().to_owned(), recipe.about().to_owned());
    Ok((name, about, recipe.architectures().to_vec()))
}

/// Writes the model in a folder, whose tensors `file` has, as a GGUF file.
#[pyfunction]
#[pyo3(signature = (folder, file, target, writing, by, progress))]
pub(crate) fn model_convert<'py>(
    py: Python<'py>,
    folder: PathBuf,
    file: &NativeFile,
    target: &Bound<'py, PyAny>,
    writing: Writing<'py>,
    by: ByRecipe,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (file, threads) = (file.get(py)?, writing.threads);
    let (write, target) = (writing.options(py)?, Target::from_object(target)?);
    let by = by.options(py, file.limits(), write.clone())?;
    let report = run_with(py, u64::MAX, threads, progress, |work| {
        let options = by.with_work(work);
        match target {
            Target::Path(path) => recipe::convert_model(&folder, &file, path, &options),
            Target::Object(object) => {
                let out = PyWrite::new(object);
                recipe::convert_model_to(&folder, &file, out, &options).map(|(report, _)| report)
            }
        }
    })?;
    plain::to_python(py, &report)
}

/// Writes the adapter in a folder, whose tensors `file` has, as a GGUF file.
#[pyfunction]
#[pyo3(signature = (folder, file, base, base_file, target, writing, by, progress))]
#[expect(clippy::too_many_arguments, reason = "keywords of the Python half")]
pub(crate) fn adapter_convert<'py>(
    py: Python<'py>,
    folder: PathBuf,
    file: &NativeFile,
    base: PathBuf,
    base_file: Option<&NativeFile>,
    target: &Bound<'py, PyAny>,
    writing: Writing<'py>,
    by: ByRecipe,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (file, threads) = (file.get(py)?, writing.threads);
    let base_file = base_file.map(|file| file.get(py)).transpose()?;
    let (write, target) = (writing.options(py)?, Target::from_object(target)?);
    let by = by.options(py, file.limits(), write.clone())?;
    let report = run_with(py, u64::MAX, threads, progress, |work| {
        let options = by.with_work(work);
        let mut adapter = recipe::Adapter::new(&folder, &file, &base);
        if let Some(file) = &base_file {
            adapter = adapter.with_base_file(file);
        }
        match target {
            Target::Path(path) => recipe::convert_adapter(&adapter, path, &options),
            Target::Object(object) => {
                let written = recipe::convert_adapter_to(&adapter, PyWrite::new(object), &options);
                written.map(|(report, _)| report)
            }
        }
    })?;
    plain::to_python(py, &report)
}

/// Writes the metadata and the tokenizer of the model in a folder as a GGUF file without tensors.
#[pyfunction]
#[pyo3(signature = (folder, limits, target, writing, by))]
pub(crate) fn model_vocabulary<'py>(
    py: Python<'py>,
    folder: PathBuf,
    limits: Option<&Bound<'py, PyDict>>,
    target: &Bound<'py, PyAny>,
    writing: Writing<'py>,
    by: ByRecipe,
) -> PyResult<Bound<'py, PyAny>> {
    let limits = options::open(py, "auto", "off", limits)?.limits().clone();
    let (write, threads) = (writing.options(py)?, writing.threads);
    let target = Target::from_object(target)?;
    let by = by.options(py, &limits, write)?;
    let report = run_with(py, u64::MAX, threads, None, |work| {
        let options = by.with_work(work);
        match target {
            Target::Path(path) => recipe::convert_vocabulary(&folder, path, &options, &limits),
            Target::Object(object) => {
                let out = PyWrite::new(object);
                let written = recipe::convert_vocabulary_to(&folder, out, &options, &limits);
                written.map(|(report, _)| report)
            }
        }
    })?;
    plain::to_python(py, &report)
}

/// Writes the model of a GGUF file as a folder.
#[pyfunction]
#[pyo3(signature = (file, folder, config, writing, by, progress))]
pub(crate) fn model_restore<'py>(
    py: Python<'py>,
    file: &NativeFile,
    folder: PathBuf,
    config: Option<String>,
    writing: Writing<'py>,
    by: ByRecipe,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (file, threads) = (file.get(py)?, writing.threads);
    let (write, outtype) = (writing.options(py)?, by.outtype(py)?);
    let recipe = by.recipe(py, file.limits())?;
    let report = run_with(py, u64::MAX, threads, progress, |work| {
        let kind = file.attributes().get("general.type").and_then(holdall::Value::as_text);
        let is_adapter = kind == Some("adapter");
        let recipe = match (recipe, &config) {
            (Some(recipe), _) => recipe,
            // A configuration says more than tensors do: several families have the same ones.
            (None, Some(text)) => {
                let config = holdall::Value::from_json(text, file.limits().depth)?;
                recipe::find(&config, file.limits())?
            }
            (None, None) => recipe::find_back(&file)?,
        };
        let mut options = ModelRestore::new(write.with_work(work), recipe).with_outtype(outtype);
        if let Some(text) = config {
            options = options.with_config(text);
        }
        match is_adapter {
            true => recipe::restore_adapter(&file, folder, &options),
            false => recipe::restore_model(&file, folder, &options),
        }
    })?;
    plain::to_python(py, &report)
}

/// Compares a converted model with the folder that it was made from.
#[pyfunction]
#[pyo3(signature = (folder, file, converted, by, threads, progress))]
pub(crate) fn model_diff<'py>(
    py: Python<'py>,
    folder: PathBuf,
    file: &NativeFile,
    converted: &NativeFile,
    by: ByRecipe,
    threads: Option<usize>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (file, converted) = (file.get(py)?, converted.get(py)?);
    let by = by.options(py, file.limits(), WriteOptions::new())?;
    let diff = run_with(py, u64::MAX, threads, progress, |work| {
        recipe::diff_model(&folder, &file, &converted, &by.with_work(work))
    })?;
    plain::to_python(py, &diff)
}
