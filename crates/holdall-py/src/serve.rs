//! Files that are served, until Python lets go of the server.

use crate::errors::{Raise, misuse};
use holdall::Result;
use holdall::serve::{
    self, Access, Bounds, Files, Over, ServeOptions, Service, Shelf as _, Tokens,
};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a caller says of a server, under the names of the Python half.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Serving {
    listen: String,
    only: Option<String>,
    identity: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    tokens: Option<Vec<String>>,
    token_file: Option<PathBuf>,
    cors: Option<String>,
    clients: usize,
    files: usize,
    requests: usize,
    in_flight: u64,
    patience: f64,
}

/// A number of seconds.
fn seconds(py: Python<'_>, of: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(of).map_err(|_| {
        misuse(py, "python/option", &format!("patience is {of}; it is seconds, from 0 on"), None)
    })
}

impl Serving {
    fn options(self, py: Python<'_>, log: Option<Py<PyAny>>) -> PyResult<ServeOptions> {
        let listen = self.listen.parse().map_err(|_| {
            let message = format!("listen is an IP address with a port, not {:?}", self.listen);
            misuse(
                py,
                "python/option",
                &message,
                Some("\"127.0.0.1:0\" is any port of this machine"),
            )
        })?;
        let over = match self.only.as_deref() {
            None => Over::Both,
            Some("quic") => Over::Quic,
            Some("http") => Over::Http,
            Some(other) => {
                let message = format!("only is \"quic\", \"http\" or None, not {other:?}");
                return Err(misuse(py, "python/option", &message, None));
            }
        };
        let mut bounds = Bounds::default();
        (bounds.clients, bounds.files, bounds.requests) = (self.clients, self.files, self.requests);
        (bounds.in_flight, bounds.patience) = (self.in_flight, seconds(py, self.patience)?);
        let mut options =
            ServeOptions::new().with_listen(listen).with_over(over).with_bounds(bounds);
        if let Some(origin) = self.cors {
            options = options.with_cors(origin);
        }
        if let Some(log) = log {
            options = options.with_log(Arc::new(move |access: &Access<'_>| tell(&log, access)));
        }
        let read = || -> Result<ServeOptions> {
            let identity = match (&self.certificate, &self.key, &self.identity) {
                (Some(certificate), Some(key), _) => {
                    Some(serve::read_certificate(certificate, key)?)
                }
                (_, _, Some(path)) => Some(serve::read_identity(path)?),
                _ => None,
            };
            if let Some(identity) = identity {
                options = options.with_identity(identity);
            }
            let tokens = match (self.tokens, &self.token_file) {
                (Some(tokens), _) => Some(Tokens::new(tokens)?),
                (None, Some(path)) => Some(serve::read_tokens(path)?),
                (None, None) => None,
            };
            Ok(match tokens {
                Some(tokens) => options.with_tokens(tokens),
                None => options,
            })
        };
        py.detach(read).raise(py)
    }
}

/// Tells a function of Python's, in a thread of the server's. What it raises goes to `sys.unraisablehook`.
fn tell(log: &Py<PyAny>, access: &Access<'_>) {
    // There is nobody to tell where the interpreter is on its way out.
    let _ = Python::try_attach(|py| {
        let Access { client, by, name, sent, done, .. } = access;
        let told = log.call1(py, (client.to_string(), *by, *name, *sent, done.to_string()));
        if let Err(e) = told {
            e.write_unraisable(py, Some(log.bind(py)));
        }
    });
}

/// A server that runs.
#[pyclass(frozen, name = "Server", module = "holdall._holdall")]
pub(crate) struct NativeServer {
    files: Arc<Files>,
    service: Mutex<Option<Service>>,
}

impl NativeServer {
    fn with<T>(&self, py: Python<'_>, of: impl FnOnce(&Service) -> T) -> PyResult<T> {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner);
        match &*service {
            Some(service) => Ok(of(service)),
            None => Err(misuse(py, "python/closed", "the server has ended", None)),
        }
    }
}

#[pymethods]
impl NativeServer {
    /// Serves the files at these paths.
    #[new]
    #[pyo3(signature = (paths, how, log))]
    fn new(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        how: Serving,
        log: Option<Py<PyAny>>,
    ) -> PyResult<NativeServer> {
        let options = how.options(py, log)?;
        let start = || -> Result<(Arc<Files>, Service)> {
            let files = Arc::new(Files::new(paths)?);
            let service = Service::start(Arc::clone(&files) as Arc<_>, &options)?;
            Ok((files, service))
        };
        let (files, service) = py.detach(start).raise(py)?;
        Ok(NativeServer { files, service: Mutex::new(Some(service)) })
    }

    /// Host and port, and the hash of the certificate.
    fn head(&self, py: Python<'_>) -> PyResult<(String, Option<String>)> {
        self.with(py, |s| (s.address().to_string(), s.pin().map(str::to_owned)))
    }

    /// Names and lengths of the files.
    fn files(&self, py: Python<'_>) -> PyResult<Vec<(String, u64)>> {
        let all = py.detach(|| self.files.list()).raise(py)?;
        Ok(all.into_iter().map(|entry| (entry.name, entry.len)).collect())
    }

    /// The address of a file, `holdall://…` or `http://…`; nothing where it is not served so.
    fn url(&self, py: Python<'_>, name: &str, http: bool) -> PyResult<Option<String>> {
        self.with(py, |s| if http { s.http_url(name) } else { s.url(name) })
    }

    /// Clients that are connected over QUIC.
    fn clients(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, Service::clients)
    }

    #[getter]
    fn closed(&self) -> bool {
        self.service.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Ends it: answers on their way are waited for, for so many seconds.
    fn close(&self, py: Python<'_>, patience: f64) -> PyResult<()> {
        let patience = seconds(py, patience)?;
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| service.map(|service| service.stop(patience)));
        Ok(())
    }
}

impl Drop for NativeServer {
    fn drop(&mut self) {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Its threads may be telling something, for which they need the interpreter.
        let _ = Python::try_attach(|py| py.detach(|| drop(service)));
    }
}
