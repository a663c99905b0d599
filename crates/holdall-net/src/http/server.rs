//! The server, and what its clients have in common.

use super::answer::{Answer, Responder};
use super::http1;
use super::request::{HEAD_MAX, Request};
use crate::meter::By;
#[cfg(feature = "http2")]
use crate::quic::Identity;
use crate::rules::LISTEN;
use crate::service::Service;
use crate::shelf::RequestOutcome;
use holdall_core::{Error, Result};
use std::fmt;
use std::io::{self, Read as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How files are served over HTTP.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HttpOptions {
    /// Which pages in browsers may read what is served: those of this origin, or of all (`*`); none without.
    pub cors: Option<String>,
    /// Headers that every answer has besides its own: names and values.
    pub headers: Vec<(&'static str, &'static str)>,
    /// Whom clients that speak TLS meet; without one TLS is not spoken.
    #[cfg(feature = "http2")]
    pub identity: Option<Arc<Identity>>,
    /// What becomes of clients that do not speak TLS.
    pub plain: PlainHttp,
}

/// What becomes of clients that speak HTTP in plain text, where anyone on the way reads what they send, their token included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PlainHttp {
    /// They are served.
    #[default]
    Allow,
    /// They are told that TLS is spoken here, whatever they ask.
    Refuse,
}

/// Serves files over HTTP, on threads of its own, until it is stopped or dropped.
pub struct HttpServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

/// What clients of a server have in common.
pub(super) struct Shared {
    pub(super) service: Service,
    options: HttpOptions,
    #[cfg(feature = "http2")]
    pub(super) tls: Option<Arc<rustls::ServerConfig>>,
    pub(super) plain: PlainHttp,
    is_loopback: bool,
    is_ending: AtomicBool,
    /// What is answered now and must be sent before the server ends.
    answering: AtomicUsize,
}

/// While something is answered.
pub(super) struct BusyGuard<'a>(&'a AtomicUsize);

/// The longest that bytes of a client are still read after the last answer.
pub(super) const PARTING: Duration = Duration::from_secs(2);
/// How often who waits for a client looks whether the server ends.
pub(super) const LOOK: Duration = Duration::from_millis(200);

impl HttpServer {
    /// Serves at `listen`.
    ///
    /// # Errors
    /// `net/listen`, `net/identity`.
    pub fn start(service: Service, listen: SocketAddr, options: HttpOptions) -> Result<HttpServer> {
        let failed =
            |e: io::Error| LISTEN.broken(format!("nobody can listen at {listen} (TCP)")).because(e);
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more clients and requests, waits for the answers that are on their way for at most so long, and ends.
    pub fn stop(mut self, patience: Duration) {
        self.end();
        let until = Instant::now() + patience;
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
            // It waits for a client: this is one. Where none can be, it ends with the process.
            if TcpStream::connect_timeout(&self.address, LOOK).is_ok() {
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
            // No more files may be open, for example: later there may be.
            std::thread::sleep(LOOK);
            continue;
        };
        let own = Arc::clone(shared);
        let Ok(peer) = stream.peer_addr() else { continue };
        let Some(visit) = shared.service.enter(By::Http, peer) else {
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
        // Where there are no more threads, the client is gone with what would have served it.
        let _ = std::thread::Builder::new().name("holdall-http".to_owned()).spawn(serve);
    }
}

/// Ends a connection after the last answer. A client that still sends gets the answer nevertheless: closing with bytes unread would
/// take it back. Who is silent for so long is done.
pub(super) fn part_with(mut stream: &TcpStream, silence: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(silence))?;
    stream.shutdown(Shutdown::Write)?;
    let until = Instant::now() + PARTING;
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

    /// Something is answered until what this gives is dropped.
    pub(super) fn answering(&self) -> BusyGuard<'_> {
        self.answering.fetch_add(1, Ordering::AcqRel);
        BusyGuard(&self.answering)
    }

    /// The answer to a request, or to bytes that are not one.
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

/// Why an answer was not sent whole.
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
    /// How it ended.
    pub(super) fn done(&self, sending: &Result<(), Unsent>) -> RequestOutcome {
        match (sending, self.refused) {
            (Err(Unsent::File(e)), _) => RequestOutcome::Refused(e.code()),
            (Err(Unsent::Client(_)), _) => RequestOutcome::Left,
            (Ok(()), Some(code)) => RequestOutcome::Refused(code),
            (Ok(()), None) => RequestOutcome::Whole,
        }
    }
}

pub(super) fn is_passing(e: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(e.kind(), E::WouldBlock | E::TimedOut | E::Interrupted)
}
