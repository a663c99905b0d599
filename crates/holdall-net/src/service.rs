//! The state that servers of all protocols share.

use crate::catalog::{Access, FileCatalog, Log, RequestOutcome, ServerLimits, Tokens};
use crate::meter::{Meter, Numbers, Protocol};
use crate::pace::Pace;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Files to serve, with access tokens, limits and a log. Servers started with clones of one `Service` serve the same
/// files, and share its limits and metrics.
#[derive(Clone)]
pub struct Service {
    pub(crate) catalog: Arc<dyn FileCatalog>,
    pub(crate) tokens: Tokens,
    pub(crate) limits: ServerLimits,
    log: Log,
    shared: Arc<Shared>,
}

/// The state that all clones share.
#[derive(Default)]
struct Shared {
    meter: Meter,
    pace: Pace,
    /// Rate limiters, one per client machine.
    paces: Mutex<HashMap<IpAddr, Weak<Pace>>>,
}

/// Maximum bytes that are read at a time for a response, and the minimum when there are many clients.
pub(crate) const PIECE: u64 = 1 << 20;
pub(crate) const PIECE_MIN: u64 = 16 << 10;
/// Pieces per second, if the rate is limited.
const PIECES: u64 = 16;

impl Service {
    /// Serves the files of `catalog` to everyone, with the default limits.
    pub fn new(catalog: Arc<dyn FileCatalog>) -> Service {
        let (tokens, limits) = (Tokens::default(), ServerLimits::default());
        Service { catalog, tokens, limits, log: Arc::new(|_| {}), shared: Arc::default() }
    }

    /// Returns the catalog of served files.
    pub fn catalog(&self) -> &Arc<dyn FileCatalog> {
        &self.catalog
    }

    /// Sets the tokens that clients need.
    pub fn with_tokens(mut self, tokens: Tokens) -> Service {
        self.tokens = tokens;
        self
    }

    /// Returns `true` if clients need no token.
    pub fn is_open(&self) -> bool {
        self.tokens.is_open()
    }

    /// Sets the limits for clients.
    pub fn with_limits(mut self, limits: ServerLimits) -> Service {
        self.limits = limits;
        self
    }

    /// Sets the function that is called after each request.
    pub fn with_log(mut self, log: Log) -> Service {
        self.log = log;
        self
    }

    /// Returns a catalog with one file, `metrics`: the number of clients, requests and bytes of this service, in
    /// Prometheus' text format, at the time the file is opened. It contains neither file names nor client addresses.
    pub fn metrics(&self) -> Arc<dyn FileCatalog> {
        let shared = Arc::clone(&self.shared);
        Arc::new(Numbers::new(move || shared.meter.text()))
    }

    /// Registers a client. Returns `None` if the maximum number of clients is connected.
    pub(crate) fn enter(&self, protocol: Protocol, client: SocketAddr) -> Option<Visit> {
        if !self.shared.meter.enter(protocol, self.limits.clients) {
            return None;
        }
        let mut paces = self.shared.paces.lock().unwrap_or_else(PoisonError::into_inner);
        // An IPv6 host has many addresses: its whole /64 network counts as one.
        let host = match client.ip() {
            IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
                Some(ip) => ip.into(),
                None => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
            },
            ip => ip,
        };
        let pace = match paces.get(&host).and_then(Weak::upgrade) {
            Some(pace) => pace,
            None => {
                let pace = Arc::new(Pace::default());
                paces.retain(|_, pace| pace.strong_count() > 0);
                paces.insert(host, Arc::downgrade(&pace));
                pace
            }
        };
        drop(paces);
        Some(Visit { service: self.clone(), protocol, client, pace })
    }

    /// Counts a client that was turned away.
    #[cfg(feature = "quic")]
    pub(crate) fn turn_away(&self, protocol: Protocol) {
        self.shared.meter.turn_away(protocol);
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("tokens", &self.tokens)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// A connected client.
pub(crate) struct Visit {
    service: Service,
    protocol: Protocol,
    client: SocketAddr,
    pace: Arc<Pace>,
}

impl Visit {
    /// Returns the maximum number of bytes in flight to this client, given the current number of clients.
    pub(crate) fn share(&self) -> u64 {
        let limits = &self.service.limits;
        let clients = self.service.shared.meter.clients().max(1) as u64;
        limits.in_flight.min(limits.in_flight_of_all / clients).max(PIECE_MIN)
    }

    /// Returns the number of bytes to read at a time for one of the client's responses.
    pub(crate) fn piece(&self) -> u64 {
        let ServerLimits { rate, rate_of_all, .. } = self.service.limits;
        let slowest = rate.into_iter().chain(rate_of_all).min();
        let paced = slowest.map_or(PIECE, |rate| (rate.get() / PIECES).max(1 << 10));
        (self.share() / 8).clamp(PIECE_MIN, PIECE).min(paced)
    }

    /// Counts `bytes` as sent, and returns how long to wait before sending them.
    pub(crate) fn delay(&self, bytes: u64) -> Duration {
        let now = Instant::now();
        let ServerLimits { rate, rate_of_all, .. } = self.service.limits;
        let own = rate.map_or(Duration::ZERO, |rate| self.pace.delay(bytes, rate, now));
        let all = &self.service.shared.pace;
        let all = rate_of_all.map_or(Duration::ZERO, |rate| all.delay(bytes, rate, now));
        own.max(all)
    }

    /// Counts `bytes` of a response as sent.
    pub(crate) fn sent(&self, bytes: u64) {
        self.service.shared.meter.sent(self.protocol, bytes);
    }

    /// Counts a request as running until the returned guard is dropped.
    pub(crate) fn begin_response(&self) -> RunningResponse<'_> {
        self.service.shared.meter.count_response(self.protocol, true);
        RunningResponse(self)
    }

    /// Logs a request and its outcome.
    pub(crate) fn log_request(&self, name: &str, sent: u64, outcome: RequestOutcome) {
        self.service.shared.meter.finish_request(self.protocol, outcome);
        let (client, protocol) = (self.client, self.protocol.name());
        (self.service.log)(&Access { client, protocol, name, sent, outcome });
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.service.shared.meter.leave(self.protocol);
    }
}

/// Counts as one running request until it is dropped.
pub(crate) struct RunningResponse<'a>(&'a Visit);

impl Drop for RunningResponse<'_> {
    fn drop(&mut self) {
        self.0.service.shared.meter.count_response(self.0.protocol, false);
    }
}
