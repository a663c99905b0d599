//! Serving files, until Python closes the server.

use crate::errors::{Raise, misuse};
use holdall::Result;
use holdall::serve::http::PlainHttp;
use holdall::serve::{
    self, Access, FileCatalog as _, Files, Protocols, ServeOptions, ServerLimits, Service, Serving,
    Tokens,
};
use pyo3::prelude::*;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The options of a server, under the names of the Python half.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ServeArgs {
    listen: String,
    only: Option<String>,
    identity: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    tokens: Option<Vec<String>>,
    token_file: Option<PathBuf>,
    plain_http: Option<bool>,
    cors: Option<String>,
    metrics: Option<String>,
    hash: bool,
    rate: Option<u64>,
    rate_of_all: Option<u64>,
    clients: usize,
    files: usize,
    requests: usize,
    in_flight: u64,
    idle_timeout: f64,
}

/// Converts a number of seconds.
fn seconds(py: Python<'_>, number: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(number).map_err(|_| {
        misuse(
            py,
            "python/option",
            &format!("the timeout is {number}; expected seconds, at least 0"),
            None,
        )
    })
}

impl ServeArgs {
    /// Serves the files at these paths.
    fn start(
        self,
        py: Python<'_>,
        paths: Vec<PathBuf>,
        log: Option<Py<PyAny>>,
    ) -> PyResult<(Arc<Files>, Serving)> {
        let mut options = ServeOptions::new().with_listen(address(py, "listen", &self.listen)?);
        options = match self.only.as_deref() {
            None => options,
            Some("quic") => options.with_protocols(Protocols::Quic),
            Some("http") => options.with_protocols(Protocols::Http),
            Some(other) => {
                let message = format!("only is \"quic\", \"http\" or None, not {other:?}");
                return Err(misuse(py, "python/option", &message, None));
            }
        };
        options = match self.plain_http {
            None => options,
            Some(true) => options.with_plain_http(PlainHttp::Allow),
            Some(false) => options.with_plain_http(PlainHttp::Refuse),
        };
        if let Some(origin) = &self.cors {
            options = options.with_cors(origin);
        }
        if let Some(at) = &self.metrics {
            options = options.with_metrics(address(py, "metrics", at)?);
        }
        if self.hash {
            options = options.with_hashes();
        }
        let mut limits = ServerLimits::default();
        (limits.clients, limits.files, limits.requests) = (self.clients, self.files, self.requests);
        (limits.in_flight, limits.idle_timeout) = (self.in_flight, seconds(py, self.idle_timeout)?);
        (limits.rate, limits.rate_of_all) =
            (rate(py, "rate", self.rate)?, rate(py, "rate_of_all", self.rate_of_all)?);
        let start = || -> Result<(Arc<Files>, Serving)> {
            let files = Arc::new(Files::new(paths)?);
            let mut service = Service::new(Arc::clone(&files) as Arc<_>).with_limits(limits);
            if let Some(log) = log {
                service = service.with_log(Arc::new(move |access: &Access<'_>| tell(&log, access)));
            }
            match (self.tokens, &self.token_file) {
                (Some(tokens), _) => service = service.with_tokens(Tokens::new(tokens)?),
                (None, Some(path)) => service = service.with_tokens(serve::read_tokens(path)?),
                (None, None) => {}
            }
            match (&self.certificate, &self.key, &self.identity) {
                (Some(certificate), Some(key), _) => {
                    options = options.with_identity(serve::read_certificate(certificate, key)?);
                }
                (_, _, Some(path)) => options = options.with_identity(serve::read_identity(path)?),
                _ => {}
            }
            let serving = Serving::start(&service, &options)?;
            Ok((files, serving))
        };
        py.detach(start).raise(py)
    }
}

fn address(py: Python<'_>, option: &str, text: &str) -> PyResult<SocketAddr> {
    text.parse().map_err(|_| {
        let message = format!("{option} is an IP address with a port, not {text:?}");
        misuse(py, "python/option", &message, Some("\"127.0.0.1:0\" is any port of this machine"))
    })
}

/// Converts a rate in bytes per second.
fn rate(py: Python<'_>, option: &str, number: Option<u64>) -> PyResult<Option<NonZeroU64>> {
    match number {
        Some(0) => {
            let message = format!("{option} is 0; it is bytes a second, from 1 on");
            Err(misuse(py, "python/option", &message, None))
        }
        number => Ok(number.and_then(NonZeroU64::new)),
    }
}

/// Calls a Python function in a thread of the server. Exceptions are passed to
/// `sys.unraisablehook`.
fn tell(log: &Py<PyAny>, access: &Access<'_>) {
    // Nothing is logged when the interpreter shuts down.
    let _ = Python::try_attach(|py| {
        let Access { client, protocol, name, sent, outcome, .. } = access;
        let reported =
            log.call1(py, (client.to_string(), *protocol, *name, *sent, outcome.to_string()));
        if let Err(e) = reported {
            e.write_unraisable(py, Some(log.bind(py)));
        }
    });
}

/// A running server.
#[pyclass(frozen, name = "Server", module = "holdall._holdall")]
pub(crate) struct NativeServer {
    files: Arc<Files>,
    serving: Mutex<Option<Serving>>,
}

impl NativeServer {
    fn with<T>(&self, py: Python<'_>, read: impl FnOnce(&Serving) -> T) -> PyResult<T> {
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        match &*serving {
            Some(serving) => Ok(read(serving)),
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
        how: ServeArgs,
        log: Option<Py<PyAny>>,
    ) -> PyResult<NativeServer> {
        let (files, serving) = how.start(py, paths, log)?;
        Ok(NativeServer { files, serving: Mutex::new(Some(serving)) })
    }

    /// Returns host and port, the hash of the certificate, and the address of the metrics.
    fn head(&self, py: Python<'_>) -> PyResult<(String, Option<String>, Option<String>)> {
        self.with(py, |s| {
            let metrics = s.metrics().map(|at| format!("http://{at}/metrics"));
            (s.address().to_string(), s.certificate_sha256().map(str::to_owned), metrics)
        })
    }

    /// Returns names and lengths of the files.
    fn files(&self, py: Python<'_>) -> PyResult<Vec<(String, u64)>> {
        let all = py.detach(|| self.files.list()).raise(py)?;
        Ok(all.into_iter().map(|entry| (entry.name, entry.len)).collect())
    }

    /// Returns the address of a file for a scheme (`holdall`, `http` or `https`); `None` if it is
    /// not served over it.
    fn url(&self, py: Python<'_>, name: &str, scheme: &str) -> PyResult<Option<String>> {
        self.with(py, |s| match scheme {
            "http" => s.http_url(name),
            "https" => s.https_url(name),
            _ => s.url(name),
        })
    }

    /// Returns the number of clients that are connected over QUIC.
    fn clients(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, Serving::clients)
    }

    #[getter]
    fn closed(&self) -> bool {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Shuts down the server: waits up to `timeout` seconds for responses in progress.
    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        let timeout = seconds(py, timeout)?;
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| serving.map(|serving| serving.stop(timeout)));
        Ok(())
    }
}

impl Drop for NativeServer {
    fn drop(&mut self) {
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Its threads may be calling the log function, for which they need the interpreter.
        let _ = Python::try_attach(|py| py.detach(|| drop(serving)));
    }
}
