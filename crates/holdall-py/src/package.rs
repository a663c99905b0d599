//! Open packages.

use crate::describe::Declared;
use crate::errors::{Raise, misuse};
use crate::file::NativeFile;
use crate::model::{Loading, NativeModel};
use crate::remote::Remote;
use crate::work::{far, run_apart, run_with};
use crate::{describe, options, plain, values};
use bytes::Bytes;
use holdall::carton::links::{self, LinkFetcher};
use holdall::carton::{
    FileLocation, Package, PackageVerifyOptions, PageForm, Recipe, Strictness, TensorRow,
    UnpackOptions, hex,
};
use holdall::plain::ToPlain as _;
use holdall::source::MemorySource;
use holdall::{OpenOptions, fields};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The origin of a package.
#[derive(Clone)]
enum Origin {
    Path(PathBuf),
    Memory(Bytes),
}

/// The caller's description of a folder without `carton.toml`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Folder<'py> {
    runner: Option<String>,
    framework_version: Option<String>,
    inputs: Option<Vec<Declared<'py>>>,
    outputs: Option<Vec<Declared<'py>>>,
}

impl Folder<'_> {
    /// Converts the description for the library.
    fn recipe(self, py: Python<'_>, options: &OpenOptions) -> PyResult<Recipe> {
        let mut recipe = Recipe::new();
        recipe.runner = self.runner;
        recipe.framework_version = self.framework_version;
        recipe.inputs = self.inputs.map(|all| describe::declared(py, all)).transpose()?;
        recipe.outputs = self.outputs.map(|all| describe::declared(py, all)).transpose()?;
        recipe.open = options.clone();
        Ok(recipe)
    }
}

/// An open package.
#[pyclass(frozen, name = "Package", module = "holdall._holdall")]
pub(crate) struct NativePackage {
    package: Mutex<Option<Package>>,
    name: String,
    origin: Origin,
    options: OpenOptions,
    remote: Remote,
}

impl NativePackage {
    /// Returns the package, unless it is closed.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Package> {
        let package = self.package.lock().unwrap_or_else(PoisonError::into_inner).clone();
        package.ok_or_else(|| {
            let message = format!("{}: the package is closed", self.name);
            misuse(py, "python/closed", &message, Some("open it again; arrays made before stay"))
        })
    }

    /// Returns the fetcher of linked files for this package.
    pub(crate) fn fetcher(&self) -> holdall::Result<LinkFetcher> {
        self.remote.fetcher()
    }

    /// Returns the policy for requests.
    pub(crate) fn policy(&self) -> holdall::http::Policy {
        self.remote.policy()
    }

    fn new(package: Package, origin: Origin, options: OpenOptions, remote: Remote) -> Self {
        let name = package.name().to_owned();
        NativePackage { package: Mutex::new(Some(package)), name, origin, options, remote }
    }
}

#[pymethods]
impl NativePackage {
    /// Opens a package: a file, an unpacked folder, or an address; for a folder without
    /// `carton.toml`, `description` describes how to run its model.
    #[staticmethod]
    #[pyo3(signature = (path, io, check, limits, allow, stores, cache, offline, description))]
    #[allow(clippy::too_many_arguments)] // Keywords of one Python function.
    fn open(
        py: Python<'_>,
        path: PathBuf,
        io: &str,
        check: &str,
        limits: Option<&Bound<'_, PyDict>>,
        allow: Vec<String>,
        stores: BTreeMap<String, String>,
        cache: Option<PathBuf>,
        offline: bool,
        description: Option<Folder<'_>>,
    ) -> PyResult<NativePackage> {
        let mut remote = Remote::new(py, &allow, stores, cache, offline)?;
        let options = remote.apply(options::open(py, io, check, limits)?, &path);
        let (at, with) = (path.clone(), options.clone());
        let recipe = description.map(|description| description.recipe(py, &options)).transpose()?;
        let package = run_apart(py, far(&path), move || match recipe {
            Some(recipe) => recipe.open(&at).map(|(package, _)| package),
            None => Package::open_with(&at, &with),
        })?;
        Ok(NativePackage::new(package, Origin::Path(path), options, remote))
    }

    /// Opens a package in memory.
    #[staticmethod]
    #[pyo3(signature = (data, name, check, limits, allow, stores, cache, offline))]
    #[allow(clippy::too_many_arguments)] // Keywords of one Python function.
    fn open_bytes(
        py: Python<'_>,
        data: PyBackedBytes,
        name: String,
        check: &str,
        limits: Option<&Bound<'_, PyDict>>,
        allow: Vec<String>,
        stores: BTreeMap<String, String>,
        cache: Option<PathBuf>,
        offline: bool,
    ) -> PyResult<NativePackage> {
        let mut remote = Remote::new(py, &allow, stores, cache, offline)?;
        let options = options::open(py, "auto", check, limits)?;
        let options = remote.apply(options, name.as_ref());
        let data = Bytes::from_owner(data);
        let source = Arc::new(MemorySource::new(data.clone()));
        let package = py.detach(|| Package::open_source(source, name, &options)).raise(py)?;
        Ok(NativePackage::new(package, Origin::Memory(data), options, remote))
    }

    /// Closes the package.
    fn close(&self, py: Python<'_>) {
        let package = self.package.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(package));
    }

    #[getter]
    fn closed(&self) -> bool {
        self.package.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Returns the package's description of its model.
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let version = holdall::carton::FORMAT.reads.last().copied();
        let package = self.get(py)?;
        let description = package.description().to_plain();
        plain::to_python(py, description.and(fields!(version: version)))
    }

    /// Returns a page that shows the package, as HTML or as Markdown.
    fn page(&self, py: Python<'_>, html: bool) -> PyResult<String> {
        let package = self.get(py)?;
        let form = if html { PageForm::Html } else { PageForm::Markdown };
        run_apart(py, u64::MAX, move || package.page(form))
    }

    /// Returns the model hash, if there is one.
    fn hash(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.get(py)?.hash().map(|hash| hex(&hash)))
    }

    /// Returns warnings about the package.
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain::to_python(py, self.get(py)?.warnings())
    }

    /// Returns path, length, SHA-256, location, link target, and addresses of each file.
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let package = self.get(py)?;
        let out = PyList::empty(py);
        for file in package.files() {
            let location = match file.location {
                FileLocation::Zip => "zip",
                FileLocation::Disk => "disk",
                _ => "links",
            };
            let urls = file.sha256.and_then(|sha256| {
                let mut rows = package.links().urls.iter();
                rows.find(|(other, _)| *other == sha256).map(|(_, urls)| urls)
            });
            let urls = PyTuple::new(py, urls.map_or(&[][..], Vec::as_slice))?;
            let sha256 = file.sha256.as_ref().map(hex);
            out.append((&file.path, file.len, sha256, location, &file.target, urls))?;
        }
        Ok(out)
    }

    /// Returns the names of the tensors of self-tests and examples.
    fn value_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.get(py)?.tensors().iter().map(|row: &TensorRow| row.name.clone()).collect())
    }

    /// Returns the value of a tensor by name.
    fn value<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let package = self.get(py)?;
        let name = name.to_owned();
        let value = run_apart(py, u64::MAX, move || package.value(&name))?;
        values::to_python(py, &value)
    }

    /// Returns the bytes of a file, checked against its hash.
    fn read<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyBytes>> {
        let package = self.get(py)?;
        let len = package.file(path).and_then(|f| f.len).unwrap_or(u64::MAX);
        let path = path.to_owned();
        let bytes = run_apart(py, len, move || package.read(&path))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Opens a tensor file in the package.
    fn open_file(&self, py: Python<'_>, path: &str) -> PyResult<NativeFile> {
        let package = self.get(py)?;
        let path = path.to_owned();
        run_apart(py, u64::MAX, move || package.open_file(&path)).map(NativeFile::new)
    }

    /// Returns the package as a tensor file; `None` for a folder.
    fn tensors(&self, py: Python<'_>) -> PyResult<Option<NativeFile>> {
        let name = self.get(py)?.name().to_owned();
        let opened = match self.origin.clone() {
            Origin::Path(path) if path.is_dir() => return Ok(None),
            Origin::Path(path) => py.detach(|| self.options.open(path)),
            Origin::Memory(data) => py.detach(|| self.options.open_bytes(data, name)),
        };
        opened.raise(py).map(|file| Some(NativeFile::new(file)))
    }

    /// Checks every byte.
    #[pyo3(signature = (strict, threads, progress))]
    fn verify<'py>(
        &self,
        py: Python<'py>,
        strict: bool,
        threads: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let package = self.get(py)?;
        let strictness = if strict { Strictness::Strict } else { Strictness::Usual };
        let options = PackageVerifyOptions::new().with_strictness(strictness);
        let report = run_with(py, u64::MAX, threads, progress, |work| {
            package.verify(&options.with_work(work))
        })?;
        plain::to_python(py, &report)
    }

    /// Writes the files to a folder; returns the differences between the package and the folder.
    #[pyo3(signature = (to, model, overwrite, threads, progress))]
    fn unpack(
        &self,
        py: Python<'_>,
        to: PathBuf,
        model: bool,
        overwrite: bool,
        threads: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<String>> {
        let package = self.get(py)?;
        let options = UnpackOptions::new().with_overwrite(overwrite);
        run_with(py, u64::MAX, threads, progress, |work| {
            let options = options.with_work(work);
            let report = match model {
                true => package.unpack_model_with(&to, &options),
                false => package.unpack_with(&to, &options),
            };
            report.map(|report| report.left_behind)
        })
    }

    /// Downloads the linked files to the cache; returns their number.
    #[pyo3(signature = (progress))]
    fn fetch(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        let package = self.get(py)?;
        run_with(py, u64::MAX, None, progress, |work| {
            let fetcher = self.fetcher()?.with_work(work);
            links::fetch(&package, &fetcher).map(|()| links::missing(&package).len())
        })
    }

    /// Unpacks and loads the model, which executes code from the package.
    fn load(&self, py: Python<'_>, loading: Loading<'_>) -> PyResult<NativeModel> {
        NativeModel::load(py, self.get(py)?, loading)
    }
}
