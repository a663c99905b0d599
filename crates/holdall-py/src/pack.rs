//! Creating packages from folders and model files, and packages with or without linked files.

use crate::describe::{Declared, ExampleInput, Tested};
use crate::errors::{Raise, misuse};
use crate::package::NativePackage;
use crate::work::run_with;
use crate::{describe, plain, values};
use holdall::carton::links::{self, Shrink};
use holdall::carton::rules::PART;
use holdall::carton::{
    FileContent, FileSelection, Packing, Prepared, Recipe, SymlinkPolicy, package_path,
};
use holdall::plain::ToPlain as _;
use holdall::{FileSink, fields};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// The caller's description of a new package.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PackOptions<'py> {
    name: Option<String>,
    short_description: Option<String>,
    description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    homepage: Option<String>,
    runner: Option<String>,
    framework_version: Option<String>,
    options: Option<Bound<'py, PyDict>>,
    platforms: Option<Vec<String>>,
    inputs: Option<Vec<Declared<'py>>>,
    outputs: Option<Vec<Declared<'py>>>,
    self_tests: Option<Vec<Tested>>,
    examples: Option<Vec<ExampleInput>>,
    from_toml: Option<PathBuf>,
}

impl PackOptions<'_> {
    /// Converts the description for the library.
    fn recipe(
        self,
        py: Python<'_>,
        symlinks: SymlinkPolicy,
        selection: FileSelection,
    ) -> PyResult<Recipe> {
        let mut recipe = Recipe::new();
        recipe.name = self.name;
        recipe.short_description = self.short_description;
        recipe.description = self.description;
        recipe.license = self.license;
        recipe.repository = self.repository;
        recipe.homepage = self.homepage;
        recipe.runner = self.runner;
        recipe.framework_version = self.framework_version;
        recipe.options =
            self.options.as_ref().map(describe::options).transpose()?.unwrap_or_default();
        recipe.platforms = self.platforms;
        recipe.inputs = self.inputs.map(|all| describe::declared(py, all)).transpose()?;
        recipe.outputs = self.outputs.map(|all| describe::declared(py, all)).transpose()?;
        recipe.self_tests =
            self.self_tests.map(|all| all.into_iter().map(describe::tested).collect());
        recipe.examples =
            self.examples.map(|all| all.into_iter().map(describe::to_example).collect());
        recipe.from_toml = self.from_toml;
        (recipe.symlinks, recipe.selection) = (symlinks, selection);
        Ok(recipe)
    }
}

/// Creates a package of a folder or a model's file, next to it unless `to` is given. Returns its
/// path, its report, and warnings about the model.
#[pyfunction]
#[pyo3(signature = (model, to, description, tensors, misc, compress, follow_links, all_files, overwrite, progress))]
#[allow(clippy::too_many_arguments)] // Keywords of one Python function.
pub(crate) fn pack<'py>(
    py: Python<'py>,
    model: PathBuf,
    to: Option<PathBuf>,
    description: PackOptions<'py>,
    tensors: Vec<(String, Bound<'py, PyAny>)>,
    misc: Vec<(String, PathBuf)>,
    compress: Option<&str>,
    follow_links: bool,
    all_files: bool,
    overwrite: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(PathBuf, Bound<'py, PyAny>)> {
    let packing = match compress {
        None => Packing::Stored,
        Some("zstd") => Packing::Zstd,
        Some("deflate") => Packing::Deflate,
        Some(other) => {
            let message = format!("compress is \"zstd\", \"deflate\" or None, not {other:?}");
            return Err(misuse(py, "python/option", &message, None));
        }
    };
    let symlinks = if follow_links { SymlinkPolicy::All } else { SymlinkPolicy::Inside };
    let selection = if all_files { FileSelection::All } else { FileSelection::Usual };
    let to = to.unwrap_or_else(|| package_path(&model));
    let recipe = description.recipe(py, symlinks, selection)?;
    let Prepared { packer, mut warnings, undeclared, .. } =
        py.detach(|| recipe.prepare(&model)).raise(py)?;
    let mut packer = packer.with_packing(packing);
    for (name, value) in tensors {
        packer = packer.with_tensor(name, values::from_python(&value)?);
    }
    for (name, path) in misc {
        packer = packer.with_file(format!("misc/{name}"), FileContent::Path(path));
    }
    let report = run_with(py, u64::MAX, None, progress, |work| {
        packer.with_work(work).write(&to, overwrite)
    })?;
    warnings.extend(report.warnings.iter().cloned());
    let shown = report.to_plain().without("warnings");
    Ok((to, plain::to_python(py, shown.and(fields!(warnings: &warnings, undeclared: undeclared)))?))
}

/// Writes a package that only links to some of its files.
#[pyfunction]
#[pyo3(signature = (package, to, links, base_url, at_least, save_files, overwrite, progress))]
#[allow(clippy::too_many_arguments)] // Keywords of one Python function.
pub(crate) fn shrink<'py>(
    py: Python<'py>,
    package: &NativePackage,
    to: PathBuf,
    links: Vec<(String, String)>,
    base_url: Option<String>,
    at_least: u64,
    save_files: Option<PathBuf>,
    overwrite: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let package_ref = package.get(py)?;
    let policy = package.policy();
    let prepare = || {
        FileSink::check(&to, overwrite)?;
        let mut shrink = Shrink::new(&package_ref, &policy);
        for (path, url) in &links {
            shrink = shrink.with_link(path, url)?;
        }
        if let Some(template) = &base_url {
            let large: Vec<_> = shrink.candidates(at_least).map(|f| f.path.clone()).collect();
            for path in &large {
                shrink = shrink.with_template(path, template)?;
            }
        }
        if package_ref.hash().is_none() {
            let e = PART.broken("there is no `MANIFEST`, which has the hashes of files");
            return Err(e.with_hint("pack the folder first").in_source(package_ref.name()));
        }
        if shrink.linked().is_empty() {
            let e = PART.broken("no file of the package is chosen");
            let hint = "choose with links={path: url} or base_url=, and see at_least";
            return Err(e.with_hint(hint).in_source(package_ref.name()));
        }
        Ok(shrink)
    };
    let shrink = py.detach(prepare).raise(py)?;
    let report = run_with(py, u64::MAX, None, progress, |work| {
        if let Some(folder) = &save_files {
            shrink.save(folder, &work)?;
        }
        shrink.packer().with_work(work).write(&to, overwrite)
    })?;
    plain::to_python(py, &report)
}

/// Writes a package that contains all the files that another one links to.
#[pyfunction]
#[pyo3(signature = (package, to, overwrite, progress))]
pub(crate) fn fetch<'py>(
    py: Python<'py>,
    package: &NativePackage,
    to: PathBuf,
    overwrite: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let package_ref = package.get(py)?;
    let report = run_with(py, u64::MAX, None, progress, |work| {
        let fetcher = package.fetcher()?.with_work(work);
        links::embed_links(&package_ref, &fetcher, &to, overwrite)
    })?;
    plain::to_python(py, &report)
}
