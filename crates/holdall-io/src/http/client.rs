//! Sending requests.

use super::answer::Body;
use super::rules::{ANSWER, FAILED, PRIVATE_HOST, REDIRECT};
use super::socket::{self, Sockets};
use super::{Answer, FailedTry, Hosts, Policy, Url, address};
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use ureq::config::{AutoHeaderValue, Config};
use ureq::http::{HeaderValue, Uri, Version};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Connector, NextTimeout, RustlsConnector};
use ureq::{Agent, Timeout};

/// An HTTP client with a policy. Cheap to clone; clones, also on other threads, share its connections.
#[derive(Clone, Default)]
pub struct Client {
    /// Created with the first request, together with the id of the process that created it. A process forked from that
    /// one must not share its connections, because the responses for both would be mixed up.
    agent: Arc<Mutex<Option<(u32, Agent)>>>,
    policy: Arc<Policy>,
    service: Option<Arc<dyn Service>>,
}

/// The number of idle connections that are kept: as many as files of a model are opened in parallel.
pub(super) const IDLE: usize = 32;

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.policy).finish()
    }
}

/// A service that is accessed over HTTP but needs more than plain HTTP: an object store, a hub.
pub trait Service: Send + Sync + fmt::Debug {
    /// Adds credentials to a request. Returns `true` if the request goes to this service. A request to another host
    /// must get no credentials, so that a redirect cannot leak them.
    ///
    /// # Errors
    /// Returns an error if the credentials in the environment cannot be used.
    fn sign(&self, request: &mut HttpRequest<'_>) -> Result<bool, FailedTry>;

    /// Learns from the response to a signed request. Returns the URL to use instead if the service has moved the file.
    fn redirect(&self, answer: &Answer) -> Option<Url> {
        let _ = answer;
        None
    }

    /// Converts a response to an error, by its status and the start of its body. Returns `None` for the default error.
    fn refused(&self, answer: &Answer, body: &[u8]) -> Option<FailedTry>;

    /// Returns the header, as `(name, value)`, that pins later requests to the version of a response, or `None`.
    fn pin(&self, answer: &Answer) -> Option<(&'static str, String)>;

    /// Returns `true` if the service supports ranges from the end.
    fn has_ends(&self) -> bool {
        true
    }
}

/// A request to be sent.
#[derive(Debug)]
pub struct HttpRequest<'a> {
    /// `GET`, `HEAD`, `PUT`, `POST` or `DELETE`.
    pub method: &'static str,
    /// The URL.
    pub url: Url,
    /// The headers, with names in lowercase.
    pub headers: Vec<(&'static str, String)>,
    /// The body. Empty for methods without one.
    pub body: &'a [u8],
}

impl<'a> HttpRequest<'a> {
    /// Creates a request without headers.
    pub fn new(method: &'static str, url: Url, body: &'a [u8]) -> HttpRequest<'a> {
        HttpRequest { method, url, headers: Vec::new(), body }
    }

    /// Adds a header.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> HttpRequest<'a> {
        self.headers.push((name, value.into()));
        self
    }
}

/// Options of a `GET` request.
#[derive(Debug, Clone, Copy, Default)]
pub struct GetOptions<'a> {
    /// The requested byte range. `None` for the whole file.
    pub part: Option<RequestedRange>,
    /// A header, as `(name, value)`, that makes the server return only the pinned version: `if-range` with a validator.
    pub condition: Option<(&'static str, &'a str)>,
    /// The accepted content encodings. `None` for `identity` only.
    pub encodings: Option<&'static str>,
}

/// A byte range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedRange {
    /// From the first offset to the second, half-open; not empty.
    Range(u64, u64),
    /// From this offset to the end.
    From(u64),
    /// This number of bytes at the end.
    Last(u64),
}

impl From<&Range<u64>> for RequestedRange {
    fn from(range: &Range<u64>) -> RequestedRange {
        RequestedRange::Range(range.start, range.end)
    }
}

impl fmt::Display for RequestedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // In the header, the last byte is inclusive.
            RequestedRange::Range(start, end) => {
                write!(f, "bytes={start}-{}", end.saturating_sub(1))
            }
            RequestedRange::From(start) => write!(f, "bytes={start}-"),
            RequestedRange::Last(len) => write!(f, "bytes=-{len}"),
        }
    }
}

impl Client {
    /// Creates a client with this policy.
    pub fn new(policy: &Policy) -> Client {
        Client { policy: Arc::new(policy.clone()), ..Client::default() }
    }

    fn agent(&self) -> Agent {
        let process = std::process::id();
        let mut made = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some((owner, agent)) if *owner == process => agent.clone(),
            _ => made.insert((process, agent(&self.policy))).1.clone(),
        }
    }

    /// Sets the service that requests are sent to.
    pub fn with_service(mut self, service: Arc<dyn Service>) -> Client {
        self.service = Some(service);
        self
    }

    /// Returns the service that requests are sent to.
    pub(crate) fn service(&self) -> Option<&dyn Service> {
        self.service.as_deref()
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Sends a `GET` request and follows redirects. Returns the response whatever its status, before its body is read.
    pub fn get(&self, url: &Url, ask: &GetOptions<'_>) -> Result<Answer, FailedTry> {
        let mut request = HttpRequest::new("GET", url.clone(), &[]);
        request = request.with("accept-encoding", ask.encodings.unwrap_or("identity"));
        if let Some(part) = ask.part {
            request = request.with("range", part.to_string());
            if let Some((name, value)) = ask.condition {
                request = request.with(name, value);
            }
        }
        self.send(&request)
    }

    /// Sends any request and follows redirects. A request with a body is only redirected if the server says to send the
    /// body again.
    pub fn send(&self, request: &HttpRequest<'_>) -> Result<Answer, FailedTry> {
        let mut url = request.url.clone();
        self.policy.check(&url)?;
        let mut redirects = 0;
        loop {
            let answer = self.once(request, &url, redirects > 0)?;
            let moved = answer.service.as_ref().and_then(|service| service.redirect(&answer));
            let brings = !matches!(request.method, "GET" | "HEAD");
            let is_redirect = match answer.status {
                307 | 308 => true,
                301..=303 => !brings,
                _ => false,
            };
            if !is_redirect && moved.is_none() {
                return Ok(answer);
            }
            redirects += 1;
            let location = answer.header("location");
            url = match (moved, location) {
                (Some(moved), _) => {
                    self.policy.redirect(&answer.url, &moved.to_request(), redirects)?
                }
                (None, Some(location)) => self.policy.redirect(&answer.url, location, redirects)?,
                (None, None) if answer.service.is_some() => return Ok(answer),
                (None, None) => {
                    let status = answer.status;
                    let e = REDIRECT.broken(format!(
                        "the server redirects with status {status}, without a `Location` header"
                    ));
                    return Err(e.into());
                }
            };
        }
    }

    /// Sends a request to `url`, without following redirects.
    fn once(
        &self,
        request: &HttpRequest<'_>,
        url: &Url,
        is_redirected: bool,
    ) -> Result<Answer, FailedTry> {
        let mut out = HttpRequest {
            method: request.method,
            url: url.clone(),
            headers: request.headers.clone(),
            body: request.body,
        };
        let mut service = self.service.clone();
        if let Some(asked) = &self.service
            && !asked.sign(&mut out)?
        {
            service = None;
        }
        let mut builder =
            ureq::http::Request::builder().method(out.method).uri(out.url.to_request());
        for (name, value) in &out.headers {
            builder = builder.header(*name, value);
        }
        if let Some(value) = out.url.authorization() {
            builder = builder.header("authorization", value);
        }
        let wrong = |_| FailedTry::from(FAILED.broken("the request has a header that is not text"));
        let response = match out.method {
            "PUT" | "POST" => self.agent().run(builder.body(out.body).map_err(wrong)?),
            _ => self.agent().run(builder.body(()).map_err(wrong)?),
        };
        // Over TLS, the socket has encrypted bytes, not those of the body.
        let door = socket::asked().filter(|_| !out.url.is_secure());
        let response = response.map_err(|e| {
            let failed = self.failed(&out.url, e);
            if is_redirected { redirected(failed, &out.url) } else { failed }
        })?;
        let (parts, body) = response.into_parts();
        let ends = |value: &HeaderValue| {
            value.to_str().is_ok_and(|text| text.to_ascii_lowercase().contains("close"))
        };
        let lasts = parts.version == Version::HTTP_11
            && !parts.headers.get_all("connection").iter().any(ends);
        Ok(Answer {
            url: out.url,
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: Body::new(body, door, lasts, self.policy.timeouts),
            service,
        })
    }

    fn failed(&self, url: &Url, e: ureq::Error) -> FailedTry {
        let timeouts = &self.policy.timeouts;
        let host = url.host();
        let waited = |what: &str, secs: f64| {
            let e = FAILED.broken(format!("{host} {what} within {secs} s"));
            FailedTry::passing(e.with_cause(io::Error::from(io::ErrorKind::TimedOut)))
        };
        match e {
            ureq::Error::Other(e) if e.is::<Refused>() => {
                let text = e.to_string();
                PRIVATE_HOST.broken(format!("the host {host} has {text}")).into()
            }
            ureq::Error::Other(e) if e.is::<NotFound>() => {
                FAILED.broken(format!("the host {host} is not found: {e}")).into()
            }
            ureq::Error::HostNotFound => {
                FAILED.broken(format!("the host {host} is not found")).into()
            }
            ureq::Error::Timeout(Timeout::Resolve) => {
                waited("is not found", timeouts.connect.as_secs_f64())
            }
            ureq::Error::Timeout(Timeout::Connect) => {
                waited("does not accept a connection", timeouts.connect.as_secs_f64())
            }
            ureq::Error::Timeout(_) => waited("does not respond", timeouts.stall.as_secs_f64()),
            ureq::Error::Io(e) => broken(e, format!("request to {host}")),
            e => failure(e),
        }
    }
}

/// Creates the library's agent for `policy`, which makes connections and keeps idle ones.
fn agent(policy: &Policy) -> Agent {
    let timeouts = &policy.timeouts;
    let config = Config::builder()
        .http_status_as_error(false)
        // This module follows redirects itself, and checks each against the policy.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("holdall/", env!("CARGO_PKG_VERSION")))
        .accept_encoding(AutoHeaderValue::None)
        .timeout_resolve(Some(timeouts.connect))
        .timeout_connect(Some(timeouts.connect))
        .timeout_recv_response(Some(timeouts.stall))
        .timeout_per_read(Some(timeouts.stall))
        .timeout_per_write(Some(timeouts.stall))
        .max_idle_connections(IDLE)
        .max_idle_connections_per_host(IDLE)
        .tls_config(TlsConfig::builder().root_certs(roots(policy)).build())
        .build();
    let connector = Sockets::default().chain(RustlsConnector::default());
    let resolver = PublicOnly { hosts: policy.hosts, inner: DefaultResolver::default() };
    Agent::with_parts(config, connector, resolver)
}

/// Adds to an error that it concerns `url`, to which a server redirected.
#[cold]
fn redirected(failed: FailedTry, url: &Url) -> FailedTry {
    let FailedTry { error, again } = failed;
    let to = url.to_string();
    FailedTry { error: error.within(format!("redirected to {}", to.escaped())), again }
}

/// Returns the certificate authorities to trust.
fn roots(policy: &Policy) -> RootCerts {
    if policy.authorities.is_empty() {
        return RootCerts::WebPki;
    }
    let own = policy.authorities.iter().map(|der| Certificate::from_der(der).to_owned());
    RootCerts::new_with_certs(&own.collect::<Vec<_>>())
}

/// Converts a network error that happened while doing `what`.
pub(super) fn broken(e: io::Error, what: impl fmt::Display) -> FailedTry {
    use io::ErrorKind as E;
    let kind = e.kind();
    // Never reported as a broken pipe: callers take that for a closed standard output.
    let described = |e: io::Error| FAILED.broken(format!("{what}: {e}"));
    match kind {
        E::UnexpectedEof | E::ConnectionReset | E::ConnectionAborted | E::BrokenPipe => {
            let error = match kind {
                E::UnexpectedEof => FAILED.broken(format!("{what}: the connection was cut off")),
                _ => described(e),
            };
            FailedTry::passing(error.with_cause(io::Error::from(E::ConnectionReset)))
        }
        E::TimedOut | E::WouldBlock | E::Interrupted => {
            FailedTry::passing(described(e).with_cause(io::Error::from(E::TimedOut)))
        }
        _ => FAILED.broken(what.to_string()).because(e).into(),
    }
}

/// Converts an error of the HTTP library that cannot name the URL.
pub(super) fn failure(e: ureq::Error) -> FailedTry {
    let error: Error = match e {
        ureq::Error::Protocol(e) => ANSWER.broken("the response is not valid HTTP").because(e),
        ureq::Error::LargeResponseHeader(..) => {
            ANSWER.broken("the headers of the response are too long")
        }
        ureq::Error::Rustls(e) => FAILED.broken("cannot establish a TLS connection").because(e),
        ureq::Error::Tls(e) => FAILED.broken(format!("cannot establish a TLS connection: {e}")),
        _ => FAILED.broken("the HTTP library cannot make the request"),
    };
    error.into()
}

/// A resolver that returns only addresses that may be connected to. The connection uses one of them, and the name is
/// not looked up again.
#[derive(Debug)]
struct PublicOnly {
    hosts: Hosts,
    inner: DefaultResolver,
}

impl Resolver for PublicOnly {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.inner.resolve(uri, config, timeout).map_err(|e| match e {
            ureq::Error::Io(e) => ureq::Error::Other(Box::new(NotFound(e.to_string()))),
            e => e,
        })?;
        if self.hosts == Hosts::Any {
            return Ok(found);
        }
        let mut kept = self.empty();
        for one in found.iter().filter(|a| address::is_public(a.ip())) {
            kept.push(*one);
        }
        match (kept.is_empty(), found.first()) {
            (true, Some(refused)) => {
                Err(ureq::Error::Other(Box::new(Refused(refused.ip().to_string()))))
            }
            _ => Ok(kept),
        }
    }
}

/// The address that the policy refused.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the address {}, which is not public", self.0)
    }
}

impl std::error::Error for Refused {}

/// The system's message for a host that was not found.
#[derive(Debug)]
struct NotFound(String);

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFound {}
