//! Deltas between models.

use crate::errors::{Raise as _, misuse};
use crate::file::NativeFile;
use crate::options::Writing;
use crate::work::{run, run_with};
use crate::{options, plain};
use holdall::delta::{
    ApplyOptions, ChecksumKind, ConvertOptions, DeltaLayout, DeltaSource, FoldOptions, MakeOptions,
    UpdateOptions, apply, apply_updates, convert, fold, make, show, show_updates,
};
use holdall::{File, OpenOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};

/// How files are opened.
type Limits<'a, 'py> = Option<&'a Bound<'py, PyDict>>;

fn opening(py: Python<'_>, limits: Limits<'_, '_>) -> PyResult<OpenOptions> {
    options::open(py, "auto", "read", limits)
}

/// The layout that is written: its name, the number of the version, and the kind of checksums.
type Layout = (String, Option<u64>, String);

fn layout(py: Python<'_>, layout: &Layout) -> PyResult<(DeltaLayout, ChecksumKind)> {
    let found = DeltaLayout::from_name(&layout.0).ok_or_else(|| {
        let all: Vec<&str> = DeltaLayout::ALL.iter().map(|layout| layout.name()).collect();
        let message = format!("layout is one of {}, not {:?}", all.join(", "), layout.0);
        misuse(py, "python/option", &message, None)
    })?;
    Ok((found, ChecksumKind::from_name(&layout.2).raise(py)?))
}

/// Writes the delta from one model to another.
#[pyfunction]
#[pyo3(signature = (base, target, path, into, limits, writing, progress))]
#[allow(clippy::too_many_arguments)] // Keywords of one Python function.
pub(crate) fn delta_make<'py>(
    py: Python<'py>,
    base: PathBuf,
    target: PathBuf,
    path: PathBuf,
    into: Layout,
    limits: Option<&Bound<'py, PyDict>>,
    writing: Writing<'py>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let open = opening(py, limits)?;
    let mut options = MakeOptions::default();
    (options.layout, options.checksums) = layout(py, &into)?;
    options.version = into.1;
    let (write, threads) = (writing.options(py)?, writing.threads);
    let report = run_with(py, u64::MAX, threads, progress, |work| {
        options.write = write.with_work(work);
        make(&open.open(&base)?, &open.open(&target)?, &path, &options)
    })?;
    plain::to_python(py, &report)
}

/// The version to reach, and that of the base.
type Versions = (Option<u64>, Option<u64>);

/// Opens a delta, for which no versions can be given, or weight updates.
fn opened(
    py: Python<'_>,
    path: &Path,
    open: &OpenOptions,
    versions: Versions,
) -> PyResult<DeltaSource> {
    let source = run(py, u64::MAX, |_| DeltaSource::open(path, open))?;
    if matches!(source, DeltaSource::Delta(_)) && versions != (None, None) {
        let message =
            format!("{} is a delta, which leads from one base to one target", path.display());
        let hint = "to and version_of_base are for weight updates";
        return Err(misuse(py, "python/option", &message, Some(hint)));
    }
    Ok(source)
}

/// Writes the model that a delta or weight updates make of their base.
#[pyfunction]
#[pyo3(signature = (base, delta, path, versions, limits, writing, progress))]
#[allow(clippy::too_many_arguments)] // Keywords of one Python function.
pub(crate) fn delta_apply<'py>(
    py: Python<'py>,
    base: PathBuf,
    delta: PathBuf,
    path: PathBuf,
    versions: Versions,
    limits: Option<&Bound<'py, PyDict>>,
    writing: Writing<'py>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let open = opening(py, limits)?;
    let (write, threads) = (writing.options(py)?, writing.threads);
    let source = opened(py, &delta, &open, versions)?;
    let report = run_with(py, u64::MAX, threads, progress, |work| {
        let write = write.with_work(work);
        let base = open.open(&base)?;
        match &source {
            DeltaSource::Updates(updates) => {
                let mut options = UpdateOptions::default();
                (options.to, options.from) = versions;
                options.write = write;
                apply_updates(&base, updates, &path, &options)
            }
            DeltaSource::Delta(file) => {
                let mut options = ApplyOptions::default();
                options.write = write;
                apply(&base, file, &path, &options)
            }
        }
    })?;
    plain::to_python(py, &report)
}

/// Opens the target of a delta.
#[pyfunction]
#[pyo3(signature = (base, delta, check, limits))]
pub(crate) fn delta_open(
    py: Python<'_>,
    base: PathBuf,
    delta: PathBuf,
    check: &str,
    limits: Option<&Bound<'_, PyDict>>,
) -> PyResult<NativeFile> {
    let open = options::open(py, "auto", check, limits)?;
    let opened =
        run(py, u64::MAX, |_| holdall::delta::open(&open.open(&base)?, &open.open(&delta)?))?;
    Ok(NativeFile::new(opened))
}

/// Describes a delta, or weight updates.
#[pyfunction]
#[pyo3(signature = (delta, limits))]
pub(crate) fn delta_show<'py>(
    py: Python<'py>,
    delta: PathBuf,
    limits: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    enum Found {
        Delta(holdall::delta::DeltaReport),
        Updates(holdall::delta::UpdateReport),
    }
    let open = opening(py, limits)?;
    let shown = run(py, u64::MAX, |_| match DeltaSource::open(&delta, &open)? {
        DeltaSource::Updates(updates) => show_updates(&updates).map(Found::Updates),
        DeltaSource::Delta(file) => show(&file).map(Found::Delta),
    })?;
    match shown {
        Found::Delta(report) => plain::to_python(py, &report),
        Found::Updates(report) => plain::to_python(py, &report),
    }
}

/// Writes a delta or weight updates in another layout.
#[pyfunction]
#[pyo3(signature = (delta, base, path, into, versions, limits, writing, progress))]
#[allow(clippy::too_many_arguments)] // Keywords of one Python function.
pub(crate) fn delta_convert<'py>(
    py: Python<'py>,
    delta: PathBuf,
    base: Option<PathBuf>,
    path: PathBuf,
    into: Layout,
    versions: Versions,
    limits: Option<&Bound<'py, PyDict>>,
    writing: Writing<'py>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let open = opening(py, limits)?;
    let mut options = ConvertOptions::default();
    (options.layout, options.checksums) = layout(py, &into)?;
    (options.version, (options.to, options.from)) = (into.1, versions);
    let (write, threads) = (writing.options(py)?, writing.threads);
    let source = opened(py, &delta, &open, versions)?;
    let report = run_with(py, u64::MAX, threads, progress, |work| {
        options.write = write.with_work(work);
        let base = base.map(|base| open.open(base)).transpose()?;
        convert(&source, base.as_ref(), &path, &options)
    })?;
    plain::to_python(py, &report)
}

/// Writes one delta that has the effect of several.
#[pyfunction]
#[pyo3(signature = (deltas, path, limits, writing, progress))]
pub(crate) fn delta_fold<'py>(
    py: Python<'py>,
    deltas: Vec<PathBuf>,
    path: PathBuf,
    limits: Option<&Bound<'py, PyDict>>,
    writing: Writing<'py>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let open = opening(py, limits)?;
    let (write, threads) = (writing.options(py)?, writing.threads);
    let report = run_with(py, u64::MAX, threads, progress, |work| {
        let files = deltas.iter().map(|delta| open.open(delta));
        let files = files.collect::<holdall::Result<Vec<File>>>()?;
        let mut options = FoldOptions::default();
        options.write = write.with_work(work);
        fold(&files, &path, &options)
    })?;
    plain::to_python(py, &report)
}
