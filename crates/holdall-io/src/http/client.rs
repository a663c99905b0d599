//! Requests.

use super::answer::Body;
use super::rules::{ANSWER, FAILED, PRIVATE_HOST, REDIRECT};
use super::socket::{self, Sockets};
use super::{Answer, FailedTry, Hosts, Policy, Url, address};
use holdall_core::error::Shown as _;
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

/// Asks servers under a policy. Cheap to clone; shared by threads, which share its connections.
#[derive(Clone, Default)]
pub struct Client {
    /// Made when it is asked for the first time, and of the process that made it: one that was forked from that must not share its
    /// connections, on which the answers of both would come.
    agent: Arc<Mutex<Option<(u32, Agent)>>>,
    policy: Arc<Policy>,
    service: Option<Arc<dyn Service>>,
}

/// Connections that are kept though nobody uses them now: as many as files of a model are opened at once.
pub(super) const IDLE: usize = 32;

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.policy).finish()
    }
}

/// What stands behind an address that is asked over HTTP and wants more than HTTP says: an object store, a hub.
pub trait Service: Send + Sync + fmt::Debug {
    /// Puts into a request what proves who asks, and says whether the request goes to the service at all. One to
    /// somebody else's host gets nothing, so that a redirect takes no secret along.
    ///
    /// # Errors
    /// Where there are credentials that cannot be used.
    fn sign(&self, request: &mut HttpRequest<'_>) -> Result<bool, FailedTry>;

    /// Takes note of an answer to what it signed; where what was asked for rather is, if that is elsewhere.
    fn heard(&self, answer: &Answer) -> Option<Url> {
        let _ = answer;
        None
    }

    /// The failure that an answer is, told by its status and the start of its body.
    fn refused(&self, answer: &Answer, body: &[u8]) -> Option<FailedTry>;

    /// The header that asks for the version of a file that an answer has, where `If-Range` is not the one.
    fn pin(&self, answer: &Answer) -> Option<(&'static str, String)>;

    /// Whether it knows ranges from the end.
    fn has_ends(&self) -> bool {
        true
    }
}

/// A request as it goes out.
#[derive(Debug)]
pub struct HttpRequest<'a> {
    /// `GET`, `HEAD`, `PUT`, `POST` or `DELETE`.
    pub method: &'static str,
    /// Where it goes.
    pub url: Url,
    /// Names in lowercase, with values.
    pub headers: Vec<(&'static str, String)>,
    /// Empty where the method has none.
    pub body: &'a [u8],
}

impl<'a> HttpRequest<'a> {
    /// A request without headers.
    pub fn new(method: &'static str, url: Url, body: &'a [u8]) -> HttpRequest<'a> {
        HttpRequest { method, url, headers: Vec::new(), body }
    }

    /// The same with a header more.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> HttpRequest<'a> {
        self.headers.push((name, value.into()));
        self
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct GetOptions<'a> {
    /// The bytes that are wanted; all of them without.
    pub part: Option<RequestedRange>,
    /// A header by which the answer is of the version that was seen, or none: `if-range` with a validator.
    pub condition: Option<(&'static str, &'a str)>,
    /// The content encodings that are understood; `identity` where there are none.
    pub encodings: Option<&'static str>,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedRange {
    /// Bytes from the first to the end, half-open; not empty.
    Range(u64, u64),
    /// All from this byte on.
    From(u64),
    /// So many bytes at the end.
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
            // The header counts the last byte in.
            RequestedRange::Range(start, end) => {
                write!(f, "bytes={start}-{}", end.saturating_sub(1))
            }
            RequestedRange::From(start) => write!(f, "bytes={start}-"),
            RequestedRange::Last(len) => write!(f, "bytes=-{len}"),
        }
    }
}

impl Client {
    /// One that keeps to `policy`.
    pub fn new(policy: &Policy) -> Client {
        Client { policy: Arc::new(policy.clone()), ..Client::default() }
    }

    fn agent(&self) -> Agent {
        let process = std::process::id();
        let mut made = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some((of, agent)) if *of == process => agent.clone(),
            _ => made.insert((process, agent(&self.policy))).1.clone(),
        }
    }

    /// The same, asking for this service.
    pub fn with_service(mut self, service: Arc<dyn Service>) -> Client {
        self.service = Some(service);
        self
    }

    /// What it asks for.
    pub(crate) fn service(&self) -> Option<&dyn Service> {
        self.service.as_deref()
    }

    /// What it keeps to.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The answer to one request, redirects followed. It may have any other status, and its body is still
    /// to come.
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

    /// The same of any request. One that brings bytes is redirected with them only where the server says so.
    pub fn send(&self, request: &HttpRequest<'_>) -> Result<Answer, FailedTry> {
        let mut url = request.url.clone();
        self.policy.check(&url)?;
        let mut redirects = 0;
        loop {
            let answer = self.once(request, &url, redirects > 0)?;
            let moved = answer.service.as_ref().and_then(|service| service.heard(&answer));
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
                        "the server redirects with status {status} but names no target"
                    ));
                    return Err(e.into());
                }
            };
        }
    }

    /// The answer to a request at `url`.
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
        // Bytes of TLS are not those of the body.
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
            body: Body::new(body, door, lasts, self.policy.patience),
            service,
        })
    }

    fn failed(&self, url: &Url, e: ureq::Error) -> FailedTry {
        let patience = &self.policy.patience;
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
                waited("is not found", patience.connect.as_secs_f64())
            }
            ureq::Error::Timeout(Timeout::Connect) => {
                waited("takes no connection", patience.connect.as_secs_f64())
            }
            ureq::Error::Timeout(_) => waited("does not answer", patience.stall.as_secs_f64()),
            ureq::Error::Io(e) => broken(e, format!("asking {host}")),
            e => failure(e),
        }
    }
}

/// What makes connections under `policy`, and keeps those that nobody uses now.
fn agent(policy: &Policy) -> Agent {
    let patience = &policy.patience;
    let config = Config::builder()
        .http_status_as_error(false)
        // Redirects are followed here, each under the policy.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("holdall/", env!("CARGO_PKG_VERSION")))
        .accept_encoding(AutoHeaderValue::None)
        .timeout_resolve(Some(patience.connect))
        .timeout_connect(Some(patience.connect))
        .timeout_recv_response(Some(patience.stall))
        .timeout_per_read(Some(patience.stall))
        .timeout_per_write(Some(patience.stall))
        .max_idle_connections(IDLE)
        .max_idle_connections_per_host(IDLE)
        .tls_config(TlsConfig::builder().root_certs(roots(policy)).build())
        .build();
    let connector = Sockets::default().chain(RustlsConnector::default());
    let resolver = PublicOnly { hosts: policy.hosts, inner: DefaultResolver::default() };
    Agent::with_parts(config, connector, resolver)
}

/// A failure at `url`, which a server named, not the caller.
#[cold]
fn redirected(failed: FailedTry, url: &Url) -> FailedTry {
    let FailedTry { error, again } = failed;
    let to = url.to_string();
    FailedTry { error: error.within(format!("redirected to {}", to.shown())), again }
}

/// Who may vouch for a server.
fn roots(policy: &Policy) -> RootCerts {
    if policy.authorities.is_empty() {
        return RootCerts::WebPki;
    }
    let own = policy.authorities.iter().map(|der| Certificate::from_der(der).to_owned());
    RootCerts::new_with_certs(&own.collect::<Vec<_>>())
}

/// An error of the network while doing `what`.
pub(super) fn broken(e: io::Error, what: impl fmt::Display) -> FailedTry {
    use io::ErrorKind as E;
    let kind = e.kind();
    // Never as a broken pipe: that is what a reader of our output causes.
    let told = |e: io::Error| FAILED.broken(format!("{what}: {e}"));
    match kind {
        E::UnexpectedEof | E::ConnectionReset | E::ConnectionAborted | E::BrokenPipe => {
            let error = match kind {
                E::UnexpectedEof => FAILED.broken(format!("{what}: the connection was cut off")),
                _ => told(e),
            };
            FailedTry::passing(error.with_cause(io::Error::from(E::ConnectionReset)))
        }
        E::TimedOut | E::WouldBlock | E::Interrupted => {
            FailedTry::passing(told(e).with_cause(io::Error::from(E::TimedOut)))
        }
        _ => FAILED.broken(what.to_string()).because(e).into(),
    }
}

/// What the HTTP library makes of an answer, where that cannot name the URL.
pub(super) fn failure(e: ureq::Error) -> FailedTry {
    let error: Error = match e {
        ureq::Error::Protocol(e) => ANSWER.broken("the answer is not HTTP").because(e),
        ureq::Error::LargeResponseHeader(..) => {
            ANSWER.broken("the headers of the answer are too long")
        }
        ureq::Error::Rustls(e) => FAILED.broken("TLS failed").because(e),
        ureq::Error::Tls(e) => FAILED.broken(format!("TLS failed: {e}")),
        _ => FAILED.broken("the HTTP library cannot make the request"),
    };
    error.into()
}

/// Finds hosts, and keeps only addresses that may be connected to. The connection is made to one of
/// those, and the name is not looked up again.
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

/// The address that was refused.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the address {}, which is not public", self.0)
    }
}

impl std::error::Error for Refused {}

/// What the system says of a host that it does not find.
#[derive(Debug)]
struct NotFound(String);

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFound {}
