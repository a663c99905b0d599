//! Making packages: of folders and model files, without what is linked to, and with it.

use crate::describe::{Declared, Tested};
use crate::errors::{Raise, misuse, raise};
use crate::package::NativePackage;
use crate::work::run_with;
use crate::{describe, reports, values};
use holdall::carton::links::{self, Shrink, hex};
use holdall::carton::{
    Content, Description, Follow, Inferred, PackReport, Package, Packer, Packing, rules::PART,
};
use holdall::{FileSink, Limits, Warning};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};

/// What a caller says of a package that is made.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Said<'py> {
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
    from_toml: Option<PathBuf>,
}

/// What is odd about what is packed.
#[derive(Default)]
struct Odd {
    warnings: Vec<Warning>,
    /// An input or output of a model that no package can declare, and why.
    undeclared: Option<(String, String)>,
}

/// Makes a package of a folder or a model's file. Gives its report, and what is odd about the model.
#[pyfunction]
#[pyo3(signature = (model, to, said, tensors, misc, compress, follow_links, overwrite, progress))]
#[allow(clippy::too_many_arguments)] // Keywords of one Python function.
pub(crate) fn pack<'py>(
    py: Python<'py>,
    model: PathBuf,
    to: PathBuf,
    said: Said<'py>,
    tensors: Vec<(String, Bound<'py, PyAny>)>,
    misc: Vec<(String, PathBuf)>,
    compress: Option<&str>,
    follow_links: bool,
    overwrite: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let packing = match compress {
        None => Packing::Stored,
        Some("zstd") => Packing::Zstd,
        Some("deflate") => Packing::Deflate,
        Some(other) => {
            let message = format!("compress is \"zstd\", \"deflate\" or None, not {other:?}");
            return Err(misuse(py, "python/option", &message, None));
        }
    };
    let follow = if follow_links { Follow::All } else { Follow::Inside };
    let mut odd = Odd::default();
    let mut packer = packer(py, &model, follow, said, &mut odd)?.with_packing(packing);
    for (name, value) in tensors {
        packer = packer.with_tensor(name, values::from_python(&value)?);
    }
    for (name, path) in misc {
        packer = packer.with_file(format!("misc/{name}"), Content::Path(path));
    }
    let report = run_with(py, u64::MAX, None, progress, |work| {
        packer.with_work(work).write(&to, overwrite)
    })?;
    odd.warnings.extend(report.warnings.iter().cloned());
    let d = report_of(py, &report, &odd.warnings)?;
    d.set_item("undeclared", odd.undeclared)?;
    Ok(d)
}

/// The parts of the package but for tensors and files of examples.
fn packer(
    py: Python<'_>,
    from: &Path,
    follow: Follow,
    said: Said<'_>,
    odd: &mut Odd,
) -> PyResult<Packer> {
    let metadata = from.metadata().map_err(|e| {
        let rule = &holdall::error::IO;
        raise(py, &rule.broken(format!("opening: {e}")).with_io(e).in_source(from.display()))
    })?;
    if !metadata.is_dir() {
        if from.extension().is_some_and(|e| e.eq_ignore_ascii_case("carton")) {
            let e = PART.broken("this is a package already, not a model's file");
            let e = e.with_hint("unpack it, and pack the folder").in_source(from.display());
            return Err(raise(py, &e));
        }
        let Some(name) = from.file_name().and_then(|name| name.to_str()) else {
            let e = PART.broken("this is no name of a file, or not UTF-8");
            return Err(raise(py, &e.in_source(from.display())));
        };
        let path = format!("model/{name}");
        let found = match &said.from_toml {
            Some(_) => Inferred::default(),
            None => py.detach(|| Inferred::from_file(from)).raise(py)?,
        };
        odd.undeclared = found.undeclared;
        let packer = Packer::new(described(py, said, found.description, odd)?);
        return Ok(packer.with_file(path, Content::Path(from.to_owned())));
    }
    let packer = py.detach(|| Packer::from_folder(from, follow)).raise(py)?;
    let is_described = from.join("carton.toml").exists();
    if is_described && !said.says_something() {
        return Ok(packer);
    }
    let found = match is_described && said.from_toml.is_none() {
        true => py.detach(|| Package::open(from)).raise(py)?.description().clone(),
        false => Description::default(),
    };
    let description = described(py, said, found, odd)?;
    if is_described || from.join("model").is_dir() {
        return Ok(packer.with_description(description));
    }
    let packer = py.detach(|| Packer::from_model(from, follow)).raise(py)?;
    Ok(packer.with_description(description))
}

impl Said<'_> {
    /// Whether it changes what a package says of itself.
    fn says_something(&self) -> bool {
        let texts = [
            &self.name,
            &self.short_description,
            &self.description,
            &self.license,
            &self.repository,
            &self.homepage,
            &self.runner,
            &self.framework_version,
        ];
        texts.iter().any(|t| t.is_some())
            || self.from_toml.is_some()
            || self.options.is_some()
            || self.platforms.is_some()
            || self.inputs.is_some()
            || self.outputs.is_some()
            || self.self_tests.is_some()
    }
}

/// The description that was given, or else was found, with what is said in place of it.
fn described(
    py: Python<'_>,
    said: Said<'_>,
    found: Description,
    odd: &mut Odd,
) -> PyResult<Description> {
    let is_new = said.from_toml.is_none();
    let mut d = match &said.from_toml {
        None => found,
        Some(path) => {
            let failed = |e: std::io::Error| {
                let rule = &holdall::error::IO;
                rule.broken(format!("reading: {e}")).with_io(e).in_source(path.display())
            };
            let text = std::fs::read(path).map_err(|e| raise(py, &failed(e)))?;
            let parsed = Description::parse(&text, &Limits::default());
            let (d, warnings) = parsed.map_err(|e| e.in_source(path.display())).raise(py)?;
            odd.warnings.extend(warnings);
            d
        }
    };
    for (to, from) in [
        (&mut d.model_name, said.name),
        (&mut d.short_description, said.short_description),
        (&mut d.model_description, said.description),
        (&mut d.license, said.license),
        (&mut d.repository, said.repository),
        (&mut d.homepage, said.homepage),
    ] {
        if from.is_some() {
            *to = from;
        }
    }
    if let Some(runner) = said.runner {
        d.runner.name = runner;
    }
    if let Some(version) = said.framework_version {
        describe::check_version(py, &version)?;
        d.runner.framework_version = version;
    }
    if d.runner.compat_version == 0 && is_new {
        d.runner.compat_version = 1;
    }
    for (name, value) in
        said.options.iter().map(describe::options).collect::<PyResult<Vec<_>>>()?.concat()
    {
        d.runner.options.retain(|(known, _)| *known != name);
        d.runner.options.push((name, value));
    }
    if let Some(platforms) = said.platforms {
        d.required_platforms = platforms;
    }
    if let Some(inputs) = said.inputs {
        d.inputs = describe::declared(py, inputs)?;
    }
    if let Some(outputs) = said.outputs {
        d.outputs = describe::declared(py, outputs)?;
    }
    if let Some(tests) = said.self_tests {
        d.self_tests = tests.into_iter().map(describe::tested).collect();
    }
    if d.runner.name.is_empty() || d.runner.framework_version.is_empty() {
        let e = PART.broken("nothing says what runs the model, or of which version");
        let hint = "say so, for example runner=\"python\", framework_version=\">=3.10\"";
        return Err(raise(py, &e.with_hint(hint)));
    }
    Ok(d)
}

/// Writes a package without the files that are somewhere else.
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
) -> PyResult<Bound<'py, PyDict>> {
    let of = package.get(py)?;
    let policy = package.policy();
    let prepare = || {
        FileSink::check(&to, overwrite)?;
        let mut shrink = Shrink::new(&of, &policy);
        for (path, url) in &links {
            shrink = shrink.with_link(path, url)?;
        }
        if let Some(template) = &base_url {
            let large: Vec<_> = shrink.candidates(at_least).map(|f| f.path.clone()).collect();
            for path in &large {
                shrink = shrink.with_template(path, template)?;
            }
        }
        if of.manifest().is_none() {
            let e = PART.broken("there is no `MANIFEST`, which has the hashes of files");
            return Err(e.with_hint("pack the folder first").in_source(of.name()));
        }
        if shrink.linked().is_empty() {
            let e = PART.broken("no file of the package is chosen");
            let hint = "choose with links={path: url} or base_url=, and see at_least";
            return Err(e.with_hint(hint).in_source(of.name()));
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
    report_of(py, &report, &report.warnings)
}

/// Writes a package with everything in it that another one links to.
#[pyfunction]
#[pyo3(signature = (package, to, overwrite, progress))]
pub(crate) fn fetch<'py>(
    py: Python<'py>,
    package: &NativePackage,
    to: PathBuf,
    overwrite: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let of = package.get(py)?;
    let report = run_with(py, u64::MAX, None, progress, |work| {
        let fetcher = package.fetcher()?.with_work(work);
        links::whole(&of, &fetcher, &to, overwrite)
    })?;
    report_of(py, &report, &report.warnings)
}

fn report_of<'py>(
    py: Python<'py>,
    report: &PackReport,
    warnings: &[Warning],
) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("hash", hex(&report.hash))?;
    d.set_item("nbytes", report.len)?;
    d.set_item("files", report.files)?;
    d.set_item("linked", report.linked)?;
    d.set_item("warnings", reports::warnings(py, warnings)?)?;
    Ok(d)
}
