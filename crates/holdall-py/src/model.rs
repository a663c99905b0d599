//! Models that were loaded, and their self-tests. Only what is here executes anything of a package.

use crate::errors::{Raise as _, misuse};
use crate::work::run;
use crate::{describe, plain, values};
use holdall::carton::{Package, TensorValue};
use holdall::{Result, Work};
use holdall_run::self_test::{Override, self_tests};
use holdall_run::{LogLine, Model, Settings};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Whoever waits for the model now: asked whether it is still wanted.
type Waiting = Arc<Mutex<Option<Work>>>;

/// What a caller says of how a model is loaded.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Loading<'py> {
    options: Bound<'py, PyDict>,
    python: Option<PathBuf>,
    environment: Vec<(OsString, Option<OsString>)>,
    timeout: Option<f64>,
    log: Option<Py<PyAny>>,
    /// Commands of runners by name: those of the package `holdall`, and the caller's, which come first.
    #[cfg_attr(not(unix), allow(dead_code))]
    own_runners: Vec<(String, Vec<OsString>)>,
    #[cfg_attr(not(unix), allow(dead_code))]
    runners: Vec<(String, Vec<OsString>)>,
    /// The command that is the program `holdall`.
    #[cfg_attr(not(unix), allow(dead_code))]
    program: Vec<OsString>,
}

impl Loading<'_> {
    /// The runners that there are.
    #[cfg(unix)]
    fn runners(&self) -> Result<holdall_run::Runners> {
        use holdall_run::{Config, Program, Runners};
        let all = |runners: Runners, of: &[(String, Vec<OsString>)]| {
            let program = |(name, command): &(String, Vec<OsString>)| {
                Program::new(name.as_str(), command.iter().cloned())
            };
            of.iter().map(program).fold(runners, Runners::with)
        };
        let mut runners = all(Runners::default(), &self.own_runners);
        // An engine in this process could not be ended when the time is over.
        if self.timeout.is_some() && runners.names().contains(&"onnx") && !self.program.is_empty() {
            let serve = ["runner", "serve", "onnx"].map(OsString::from);
            runners = runners.with(Program::new("onnx", self.program.iter().cloned().chain(serve)));
        }
        Ok(all(runners.with_config(&Config::load()?), &self.runners))
    }
}

/// A model that was loaded. Calls take turns.
#[pyclass(frozen, name = "Model", module = "holdall._holdall")]
pub(crate) struct NativeModel {
    model: Mutex<Option<Model>>,
    package: Package,
    waiting: Waiting,
    /// The process that loaded it. In one that was forked from that no lock is waited for: the thread that holds it
    /// is not there.
    process: u32,
}

impl NativeModel {
    /// Unpacks and loads the model of a package.
    pub(crate) fn load(
        py: Python<'_>,
        package: Package,
        loading: Loading<'_>,
    ) -> PyResult<NativeModel> {
        let waiting = Waiting::default();
        let asked = Arc::clone(&waiting);
        let mut settings = Settings::default().with_cancelled(move || {
            let work = asked.lock().unwrap_or_else(PoisonError::into_inner);
            work.as_ref().is_some_and(|work| work.check().is_err())
        });
        if let Some(timeout) = loading.timeout {
            let timeout = Duration::try_from_secs_f64(timeout).ok().filter(|t| !t.is_zero());
            let Some(timeout) = timeout else {
                let message = "timeout is a number of seconds over 0";
                return Err(misuse(py, "python/option", message, None));
            };
            settings = settings.with_timeout(timeout);
        }
        #[cfg(unix)]
        {
            settings = settings.with_runners(loading.runners().raise(py)?);
        }
        let Loading { options, python, environment, log, .. } = loading;
        for (name, value) in describe::options(&options)? {
            settings = settings.with_option(name, value);
        }
        if let Some(python) = python {
            settings = settings.with_python(python);
        }
        for (name, value) in environment {
            settings = match value {
                Some(value) => settings.with_variable(name, value),
                None => settings.with_own_variable(name),
            };
        }
        if let Some(log) = log {
            settings = settings.with_log(move |line| tell(&log, &line));
        }
        let model = run(py, u64::MAX, |work| {
            *waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
            Model::load(&package, &settings).map_err(|e| e.in_source(package.name()))
        })?;
        let process = std::process::id();
        Ok(NativeModel { model: Mutex::new(Some(model)), package, waiting, process })
    }

    /// Whether this process was forked from the one that loaded the model.
    fn is_elsewhere(&self) -> bool {
        self.process != std::process::id()
    }

    /// Does something with the model: without the GIL, one call after the other.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Model) -> Result<T> + Send,
    ) -> PyResult<T> {
        if self.is_elsewhere() {
            let name = self.package.name();
            let message = format!("{name}: the model was loaded in process {}", self.process);
            return Err(misuse(py, "run/closed", &message, Some("load it in this process")));
        }
        let done = run(py, u64::MAX, |work| {
            let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
            *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
            let done = model.as_mut().map(call).transpose();
            done.map_err(|e| match e.source_name() {
                None => e.in_source(self.package.name()),
                Some(_) => e,
            })
        })?;
        done.ok_or_else(|| closed(py, self.package.name()))
    }
}

#[pymethods]
impl NativeModel {
    /// What is odd: options that the runner does not know.
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |model| Ok(model.warnings().to_vec()))
    }

    /// Runs the model. Values without names are the declared inputs in their order.
    #[pyo3(signature = (names, given))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        names: Option<Vec<String>>,
        given: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let given: Vec<TensorValue> =
            given.iter().map(values::from_python).collect::<PyResult<_>>()?;
        let outputs = self.with(py, |model| {
            let inputs = match names {
                Some(names) => names.into_iter().zip(given).collect(),
                None => model.in_order(given)?,
            };
            model.run(inputs)
        })?;
        values::named(py, &outputs)
    }

    /// Runs the package's self-tests.
    #[pyo3(signature = (rtol, atol, equal_nan))]
    fn test<'py>(
        &self,
        py: Python<'py>,
        rtol: Option<f64>,
        atol: Option<f64>,
        equal_nan: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if [rtol, atol].into_iter().flatten().any(|x| x.is_nan() || x < 0.0) {
            let message = "rtol and atol are numbers from 0 on";
            return Err(misuse(py, "python/option", message, None));
        }
        let change = Override { rtol, atol, equal_nan };
        let value = |name: &str| self.package.value(name);
        let reports = self.with(py, |model| Ok(self_tests(model, &value, change, &mut |_| {})))?;
        plain::of(py, &reports)
    }

    /// Lets go of the model, and ends its process if it has one.
    fn close(&self, py: Python<'_>) {
        if self.is_elsewhere() {
            // The runner and its files are in use over there.
            return;
        }
        py.detach(|| drop(self.model.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }

    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        if self.is_elsewhere() {
            return self.model.try_lock().is_ok_and(|model| model.is_none());
        }
        py.detach(|| self.model.lock().unwrap_or_else(PoisonError::into_inner).is_none())
    }
}

impl Drop for NativeModel {
    /// Without the GIL, which the threads that hand on what the model prints may want.
    fn drop(&mut self) {
        let model = self.model.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.process != std::process::id() {
            std::mem::forget(model);
            return;
        }
        if model.is_none() {
            return;
        }
        let model = Mutex::new(model);
        let end = || drop(model.lock().unwrap_or_else(PoisonError::into_inner).take());
        if Python::try_attach(|py| py.detach(end)).is_none() {
            end();
        }
    }
}

#[cold]
fn closed(py: Python<'_>, name: &str) -> PyErr {
    let message = format!("{name}: the model is closed");
    misuse(py, "python/closed", &message, Some("load it again"))
}

/// Hands on a line that a model printed. What `log` raises, `SystemExit` too, is told to
/// `sys.unraisablehook` and has no further effect: this thread is nobody's to end.
fn tell(log: &Py<PyAny>, line: &LogLine) {
    let _ = Python::try_attach(|py| {
        let log = log.bind(py);
        if let Err(e) = log.call1((&line.text, line.is_error)) {
            e.write_unraisable(py, Some(log));
        }
    });
}
