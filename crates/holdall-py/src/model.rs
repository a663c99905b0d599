//! Loaded models, and their self-tests. This is the only code that executes parts of a package.

use crate::errors::{Raise as _, misuse};
use crate::work::{LOOK, run};
use crate::{describe, plain, values};
use holdall::carton::{Package, TensorValue};
use holdall::{Cancel, Result, Work};
use holdall_run::self_test::{ToleranceOverride, self_tests};
use holdall_run::{LogLine, Model, NamedValues, Settings, rules};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};
use std::thread::ThreadId;
use std::time::Duration;

/// The work that currently waits for the model, to check whether it is cancelled.
type Waiting = Arc<Mutex<Option<Work>>>;

/// A model, or `None` once it is closed.
type Shared = Arc<Mutex<Option<Model>>>;

/// The options for loading a model.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Loading<'py> {
    options: Bound<'py, PyDict>,
    python: Option<PathBuf>,
    environment: Vec<(OsString, Option<OsString>)>,
    timeout: Option<f64>,
    log: Option<Py<PyAny>>,
    /// Commands of runners by name: those of the package `holdall`, after the caller's.
    own_runners: Vec<(String, Vec<OsString>)>,
    runners: Vec<(String, Vec<OsString>)>,
    /// The command that starts the program `holdall`.
    program: Vec<OsString>,
}

impl Loading<'_> {
    /// Returns the available runners.
    fn runners(&self) -> Result<holdall_run::Runners> {
        use holdall_run::{Config, Program, Runners};
        let all = |runners: Runners, commands: &[(String, Vec<OsString>)]| {
            let program = |(name, command): &(String, Vec<OsString>)| {
                Program::new(name.as_str(), command.iter().cloned())
            };
            commands.iter().map(program).fold(runners, Runners::with)
        };
        let mut runners = all(Runners::default(), &self.own_runners);
        // An engine in this process could not be ended after the time limit.
        if self.timeout.is_some() && runners.names().contains(&"onnx") && !self.program.is_empty() {
            let serve = ["runner", "serve", "onnx"].map(OsString::from);
            runners = runners.with(Program::new("onnx", self.program.iter().cloned().chain(serve)));
        }
        Ok(all(runners.with_config(&Config::load()?), &self.runners))
    }
}

/// A loaded model. Calls run one after the other.
#[pyclass(frozen, name = "Model", module = "holdall._holdall")]
pub(crate) struct NativeModel {
    model: Shared,
    package: Package,
    waiting: Waiting,
    /// The calls whose outputs are being streamed.
    taken: Mutex<Vec<Weak<Taken>>>,
    /// The process that loaded the model. A forked process does not wait for locks, since the
    /// thread that holds them does not exist there.
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
        settings = settings.with_runners(loading.runners().raise(py)?);
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
                None => settings.with_inherited_variable(name),
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
        let model = Arc::new(Mutex::new(Some(model)));
        Ok(NativeModel { model, package, waiting, taken: Mutex::default(), process })
    }

    /// Returns whether this process was forked from the one that loaded the model.
    fn is_elsewhere(&self) -> bool {
        self.process != std::process::id()
    }

    /// Checks that this process loaded the model, and that a call would not wait for outputs that
    /// its own thread must take.
    fn check_here(&self, py: Python<'_>) -> PyResult<()> {
        let name = self.package.name();
        if self.is_elsewhere() {
            return Err(elsewhere(py, name, self.process));
        }
        let is_own = |taken: &Arc<Taken>| taken.thread == std::thread::current().id();
        if self.taken().iter().any(is_own) {
            let message = format!("{name}: outputs of the call before are still being taken");
            let hint = "take them all, or close what `stream` returned";
            return Err(misuse(py, "python/streaming", &message, Some(hint)));
        }
        Ok(())
    }

    /// Returns the calls whose outputs are being streamed.
    fn taken(&self) -> Vec<Arc<Taken>> {
        let mut all = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|taken| taken.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).filter(|taken| taken.is_open()).collect()
    }

    /// Calls a function with the model, without the GIL; calls run one after the other.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Model) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.check_here(py)?;
        let done = run(py, u64::MAX, |work| {
            let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
            *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
            let done = model.as_mut().map(call).transpose();
            done.map_err(|e| about(e, self.package.name()))
        })?;
        done.ok_or_else(|| closed(py, self.package.name()))
    }
}

#[pymethods]
impl NativeModel {
    /// Returns warnings, such as options that the runner does not know.
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |model| Ok(model.warnings().to_vec()))
    }

    /// Runs the model. Values without names are for the declared inputs in their order.
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
            let inputs = inputs(model, names, given)?;
            model.run(inputs)
        })?;
        values::named(py, &outputs)
    }

    /// Begins to run the model, and returns an iterator over its outputs.
    #[pyo3(signature = (names, given))]
    fn stream(
        &self,
        py: Python<'_>,
        names: Option<Vec<String>>,
        given: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<NativeAnswers> {
        self.check_here(py)?;
        if self.closed() {
            return Err(closed(py, self.package.name()));
        }
        let given: Vec<TensorValue> =
            given.iter().map(values::from_python).collect::<PyResult<_>>()?;
        let (give, answers) = sync_channel(1);
        let taken = Arc::new(Taken {
            answers: Mutex::new(Some(answers)),
            cancel: Cancel::new(),
            thread: std::thread::current().id(),
        });
        let wanted = Arc::downgrade(&taken);
        let (model, waiting) = (Arc::clone(&self.model), Arc::clone(&self.waiting));
        let name = self.package.name().to_owned();
        let (package, work) = (name.clone(), Work::new().with_cancel(&taken.cancel));
        let call = move || {
            let mut model = model.lock().unwrap_or_else(PoisonError::into_inner);
            if !wanted.upgrade().is_some_and(|taken| taken.is_open()) {
                return;
            }
            *waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
            let Some(model) = model.as_mut() else {
                let _ =
                    give.send(Err(rules::CLOSED.broken("the model is closed").in_source(package)));
                return;
            };
            let unwanted = || rules::CLOSED.broken("the outputs are no longer read");
            let ran = inputs(model, names, given).and_then(|inputs| {
                model.run_streaming(inputs, &mut |outputs| {
                    give.send(Ok(outputs)).map_err(|_| unwanted())
                })
            });
            if let Err(e) = ran {
                // The receiver may have been dropped.
                let _ = give.send(Err(about(e, &package)));
            }
        };
        std::thread::Builder::new().spawn(call)?;
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&taken));
        Ok(NativeAnswers { taken, name, process: self.process })
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
        let change = ToleranceOverride { rtol, atol, equal_nan };
        let value = |name: &str| self.package.value(name);
        let reports = self.with(py, |model| Ok(self_tests(model, &value, change, &mut |_| {})))?;
        plain::to_python(py, &reports)
    }

    /// Unloads the model, and ends its process if it has one.
    fn close(&self, py: Python<'_>) {
        if self.is_elsewhere() {
            // The runner and its files are used by the other process.
            return;
        }
        // The call would never end, because no code takes its outputs.
        self.taken().iter().for_each(|taken| taken.end());
        py.detach(|| drop(self.model.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }

    #[getter]
    fn closed(&self) -> bool {
        // If another thread holds it, that thread runs it.
        match self.model.try_lock() {
            Ok(model) => model.is_none(),
            Err(TryLockError::Poisoned(model)) => model.into_inner().is_none(),
            Err(TryLockError::WouldBlock) => false,
        }
    }
}

impl Drop for NativeModel {
    /// Without the GIL, which the threads that forward the model's log may need.
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // The thread that holds it may be in the other process.
            std::mem::forget(Arc::clone(&self.model));
            return;
        }
        let end = || drop(self.model.lock().unwrap_or_else(PoisonError::into_inner).take());
        // While outputs are being streamed, the thread of the call has the model, and drops it at
        // the end.
        if !self.taken().is_empty() {
            return;
        }
        if Python::try_attach(|py| py.detach(end)).is_none() {
            end();
        }
    }
}

/// A call whose outputs are being streamed, and the means to end it.
struct Taken {
    answers: Mutex<Option<Receiver<Result<NamedValues>>>>,
    cancel: Cancel,
    /// The thread that started the stream.
    thread: ThreadId,
}

impl Taken {
    fn is_open(&self) -> bool {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Stops the stream: the call ends when the model returns further outputs, or soon after.
    fn end(&self) {
        drop(self.answers.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// The outputs of a call, as the model returns them.
#[pyclass(frozen, name = "Answers", module = "holdall._holdall")]
pub(crate) struct NativeAnswers {
    taken: Arc<Taken>,
    /// The name of the package.
    name: String,
    process: u32,
}

#[pymethods]
impl NativeAnswers {
    /// Returns the next outputs; `None` after the last. Ctrl-C ends the call and unloads the
    /// model.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if self.process != std::process::id() {
            return Err(elsewhere(py, &self.name, self.process));
        }
        loop {
            let answer = py.detach(|| {
                let answers = self.taken.answers.lock().unwrap_or_else(PoisonError::into_inner);
                answers.as_ref().map(|answers| answers.recv_timeout(LOOK))
            });
            match answer {
                Some(Ok(Ok(outputs))) => return Ok(Some(values::named(py, &outputs)?)),
                Some(Ok(Err(e))) => {
                    self.taken.end();
                    return Err(e).raise(py);
                }
                None | Some(Err(RecvTimeoutError::Disconnected)) => {
                    self.taken.end();
                    return Ok(None);
                }
                Some(Err(RecvTimeoutError::Timeout)) => {
                    if let Err(e) = py.check_signals() {
                        self.taken.cancel.cancel();
                        self.taken.end();
                        return Err(e);
                    }
                }
            }
        }
    }

    /// Stops the stream.
    fn close(&self) {
        self.taken.end();
    }
}

impl Drop for NativeAnswers {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(Arc::clone(&self.taken));
            return;
        }
        self.taken.end();
    }
}

/// Returns the inputs of a call; values without names are for the declared inputs in their order.
fn inputs(
    model: &Model,
    names: Option<Vec<String>>,
    given: Vec<TensorValue>,
) -> Result<NamedValues> {
    match names {
        Some(names) => Ok(names.into_iter().zip(given).collect()),
        None => model.in_order(given),
    }
}

/// Adds the name of the package to an error without a source.
fn about(e: holdall::Error, package: &str) -> holdall::Error {
    match e.source_name() {
        None => e.in_source(package),
        Some(_) => e,
    }
}

#[cold]
fn elsewhere(py: Python<'_>, name: &str, process: u32) -> PyErr {
    let message = format!("{name}: the model was loaded in process {process}");
    misuse(py, "run/closed", &message, Some("load it in this process"))
}

#[cold]
fn closed(py: Python<'_>, name: &str) -> PyErr {
    let message = format!("{name}: the model is closed");
    misuse(py, "python/closed", &message, Some("load it again"))
}

/// Passes on a line that a model printed. Exceptions of `log`, including `SystemExit`, are
/// reported to `sys.unraisablehook` and have no further effect, since this thread has no caller.
fn tell(log: &Py<PyAny>, line: &LogLine) {
    let _ = Python::try_attach(|py| {
        let log = log.bind(py);
        if let Err(e) = log.call1((&line.text, line.is_error)) {
            e.write_unraisable(py, Some(log));
        }
    });
}
