//! The HTTP server, and the state that its clients share.

use super::answer::{Answer, Responder};
use super::http1;
use super::request::{HEAD_MAX, Request};
use crate::catalog::RequestOutcome;
use crate::meter::Protocol;
#[cfg(feature = "http2")]
use crate::quic::Identity;
use crate::rules::LISTEN;
use crate::service::Service;
use holdall_core::{Error, Result};
use std::fmt;
use std::io::{self, Read as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Options of an [`HttpServer`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The origin whose web pages may read the files (CORS); `*` for every origin. Protocol default, no other origin
    /// may.
    pub cors: Option<String>,
    /// Headers added to every response, as names and values.
    pub headers: Vec<(&'static str, &'static str)>,
    /// The certificate and key for TLS. Without them, the server does not accept TLS.
    #[cfg(feature = "http2")]
    pub identity: Option<Arc<Identity>>,
    /// Whether clients that do not use TLS are served.
    pub plain: PlainHttp,
}

/// The handling of clients that use plain HTTP, where anyone on the network can read what they send, including their
/// token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PlainHttp {
    /// Serve them (the default).
    #[default]
    Allow,
    /// Refuse every request with an error that says to use TLS.
    Refuse,
}

/// Serves files over HTTP, on its own threads, until it is stopped or dropped.
pub struct HttpServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

/// The state that all clients of a server share.
pub(super) struct Shared {
    pub(super) service: Service,
    options: HttpOptions,
    #[cfg(feature = "http2")]
    pub(super) tls: Option<Arc<rustls::ServerConfig>>,
    pub(super) plain: PlainHttp,
    is_loopback: bool,
    is_ending: AtomicBool,
    /// Number of responses that must be sent before the server ends.
    answering: AtomicUsize,
}

/// Counts as one running response until it is dropped.
pub(super) struct BusyGuard<'a>(&'a AtomicUsize);

/// The time for which bytes from a client are still read after the last response.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval at which a thread that waits for a client checks whether the server is being stopped.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(200);

impl HttpServer {
    /// Starts a server at the address `listen`. Port 0 chooses a free port.
    ///
    /// # Errors
    /// Returns `net/listen` if the address cannot be used, or no thread can be started; `net/identity` if the certificate or
    /// key is invalid.
    pub fn start(service: Service, listen: SocketAddr, options: HttpOptions) -> Result<HttpServer> {
        let failed =
            |e: io::Error| LISTEN.broken(format!("cannot listen at {listen} (TCP)")).because(e);
        #[cfg(feature = "http2")]
        let tls = match &options.identity {
            Some(identity) => Some(Arc::new(identity.tls(super::begin::PROTOCOLS)?)),
            None => None,
        };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            service,
            #[cfg(feature = "http2")]
            tls,
            plain: options.plain,
            options,
            is_loopback: address.ip().is_loopback(),
            is_ending: AtomicBool::new(false),
            answering: AtomicUsize::new(0),
        });
        let own = Arc::clone(&shared);
        let accept = move || accept(&listener, &own);
        let thread = std::thread::Builder::new().name("holdall-http".to_owned()).spawn(accept);
        Ok(HttpServer { address, shared, listener: Some(thread.map_err(failed)?) })
    }

    /// Returns the address the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more clients and requests, waits at most `grace` for running responses, and stops.
    pub fn stop(mut self, grace: Duration) {
        self.end();
        let until = Instant::now() + grace;
        while self.shared.answering.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Serves until the process ends.
    pub fn wait(mut self) {
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }

    fn end(&mut self) {
        self.shared.is_ending.store(true, Ordering::Release);
        if let Some(listener) = self.listener.take() {
            // The thread waits for a client, so connect as one. If that fails, the thread ends with the process.
            if TcpStream::connect_timeout(&self.address, POLL_INTERVAL).is_ok() {
                let _ = listener.join();
            }
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").field("address", &self.address).finish_non_exhaustive()
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_ending() {
            return;
        }
        let Ok(stream) = stream else {
            // For example, because too many files are open: try again later.
            std::thread::sleep(POLL_INTERVAL);
            continue;
        };
        let own = Arc::clone(shared);
        let Ok(peer) = stream.peer_addr() else { continue };
        let Some(visit) = shared.service.enter(Protocol::Http, peer) else {
            let _ = http1::refuse(&stream);
            continue;
        };
        let serve = move || {
            // A client that goes away is not an error.
            #[cfg(feature = "http2")]
            let _ = super::begin::serve(&own, stream, &visit);
            #[cfg(not(feature = "http2"))]
            let _ = match own.plain {
                PlainHttp::Allow => http1::serve(&own, &stream, &visit),
                PlainHttp::Refuse => http1::refuse_plain(&own, &stream, &visit),
            };
        };
        // If no thread can be started, the client's connection is dropped with the closure.
        let _ = std::thread::Builder::new().name("holdall-http".to_owned()).spawn(serve);
    }
}

/// Closes a connection after the last response. Reads what the client still sends, for at most [`CLOSE_TIMEOUT`]: a
/// socket that is closed with unread bytes would reset the connection, and the client would lose the response. Stops
/// once the client is silent for `silence`.
pub(super) fn close_after(mut stream: &TcpStream, silence: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(silence))?;
    stream.shutdown(Shutdown::Write)?;
    let until = Instant::now() + CLOSE_TIMEOUT;
    let (mut part, mut left) = ([0; 4096], 4 * HEAD_MAX);
    while left > 0 && Instant::now() < until {
        match stream.read(&mut part)? {
            0 => break,
            n => left = left.saturating_sub(n),
        }
    }
    Ok(())
}

impl Shared {
    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Counts a response as running until the returned guard is dropped.
    pub(super) fn answering(&self) -> BusyGuard<'_> {
        self.answering.fetch_add(1, Ordering::AcqRel);
        BusyGuard(&self.answering)
    }

    /// Returns the response to a request, or to bytes that are not a valid request (`None`).
    pub(super) fn answer(&self, request: Option<&Request<'_>>) -> Answer {
        let Shared { service, options, is_loopback, .. } = self;
        Responder { service, options, is_loopback: *is_loopback }.answer(request)
    }
}

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Why a response could not be sent completely.
pub(super) enum Unsent {
    Client(io::Error),
    File(Error),
}

impl From<io::Error> for Unsent {
    fn from(e: io::Error) -> Unsent {
        Unsent::Client(e)
    }
}

impl Answer {
    /// Returns how the request ended.
    pub(super) fn done(&self, sending: &Result<(), Unsent>) -> RequestOutcome {
        match (sending, self.refused) {
            (Err(Unsent::File(e)), _) => RequestOutcome::Refused(e.code()),
            (Err(Unsent::Client(_)), _) => RequestOutcome::Left,
            (Ok(()), Some(code)) => RequestOutcome::Refused(code),
            (Ok(()), None) => RequestOutcome::Whole,
        }
    }
}

pub(super) fn is_timeout(e: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(e.kind(), E::WouldBlock | E::TimedOut | E::Interrupted)
}
