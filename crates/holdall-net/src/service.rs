//! What servers have in common.

use crate::meter::{By, Meter, Numbers};
use crate::pace::Pace;
use crate::shelf::{Access, FileCatalog, Log, RequestOutcome, ServerLimits, Tokens};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// What is served, to whom, how much of it at once, and who is told. Servers that are given clones of one serve the same, and
/// share its bounds and numbers.
#[derive(Clone)]
pub struct Service {
    pub(crate) shelf: Arc<dyn FileCatalog>,
    pub(crate) tokens: Tokens,
    pub(crate) bounds: ServerLimits,
    log: Log,
    shared: Arc<Shared>,
}

/// What clones have in common.
#[derive(Default)]
struct Shared {
    meter: Meter,
    pace: Pace,
    /// How fast bytes go to each machine that has clients here.
    paces: Mutex<HashMap<IpAddr, Weak<Pace>>>,
}

/// The most bytes that are read at a time for an answer, and the fewest where many are served.
pub(crate) const PIECE: u64 = 1 << 20;
pub(crate) const PIECE_MIN: u64 = 16 << 10;
/// Pieces in a second, where bytes of a second are counted.
const PIECES: u64 = 16;

impl Service {
    /// What is on `shelf`, to anybody, under the usual bounds.
    pub fn new(shelf: Arc<dyn FileCatalog>) -> Service {
        let (tokens, bounds) = (Tokens::default(), ServerLimits::default());
        Service { shelf, tokens, bounds, log: Arc::new(|_| {}), shared: Arc::default() }
    }

    /// What is served.
    pub fn shelf(&self) -> &Arc<dyn FileCatalog> {
        &self.shelf
    }

    /// Who may ask.
    pub fn with_tokens(mut self, tokens: Tokens) -> Service {
        self.tokens = tokens;
        self
    }

    /// Whether anybody may ask.
    pub fn is_open(&self) -> bool {
        self.tokens.is_open()
    }

    /// How much clients may have.
    pub fn with_bounds(mut self, bounds: ServerLimits) -> Service {
        self.bounds = bounds;
        self
    }

    /// Who is told what was asked for.
    pub fn with_log(mut self, log: Log) -> Service {
        self.log = log;
        self
    }

    /// A shelf with one file, `metrics`: clients, requests and bytes of this service as Prometheus reads them, as they
    /// are when it is opened. Neither names of files nor addresses of clients are among them.
    pub fn metrics(&self) -> Arc<dyn FileCatalog> {
        let shared = Arc::clone(&self.shared);
        Arc::new(Numbers::new(move || shared.meter.text()))
    }

    /// A client comes, unless there are as many as may be.
    pub(crate) fn enter(&self, by: By, client: SocketAddr) -> Option<Visit> {
        if !self.shared.meter.enter(by, self.bounds.clients) {
            return None;
        }
        let mut paces = self.shared.paces.lock().unwrap_or_else(PoisonError::into_inner);
        // An IPv6 host has many addresses: all of its network count as one.
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
        Some(Visit { service: self.clone(), by, client, pace })
    }

    /// A client is not taken.
    #[cfg(feature = "quic")]
    pub(crate) fn turn_away(&self, by: By) {
        self.shared.meter.turn_away(by);
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("tokens", &self.tokens)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

/// A client that is here.
pub(crate) struct Visit {
    service: Service,
    by: By,
    client: SocketAddr,
    pace: Arc<Pace>,
}

impl Visit {
    /// Bytes that may be on their way to it, while there are as many clients as now.
    pub(crate) fn share(&self) -> u64 {
        let bounds = &self.service.bounds;
        let clients = self.service.shared.meter.clients().max(1) as u64;
        bounds.in_flight.min(bounds.in_flight_of_all / clients).max(PIECE_MIN)
    }

    /// Bytes that are read at a time for one of its answers.
    pub(crate) fn piece(&self) -> u64 {
        let ServerLimits { rate, rate_of_all, .. } = self.service.bounds;
        let slowest = rate.into_iter().chain(rate_of_all).min();
        let paced = slowest.map_or(PIECE, |rate| (rate.get() / PIECES).max(1 << 10));
        (self.share() / 8).clamp(PIECE_MIN, PIECE).min(paced)
    }

    /// So many bytes are to be sent: how long it is until they may.
    pub(crate) fn delay(&self, bytes: u64) -> Duration {
        let now = Instant::now();
        let ServerLimits { rate, rate_of_all, .. } = self.service.bounds;
        let own = rate.map_or(Duration::ZERO, |rate| self.pace.delay(bytes, rate, now));
        let all = &self.service.shared.pace;
        let all = rate_of_all.map_or(Duration::ZERO, |rate| all.delay(bytes, rate, now));
        own.max(all)
    }

    /// So many bytes of an answer were sent.
    pub(crate) fn sent(&self, bytes: u64) {
        self.service.shared.meter.sent(self.by, bytes);
    }

    /// A request is answered until what this gives is dropped.
    pub(crate) fn answers(&self) -> Answers<'_> {
        self.service.shared.meter.answers(self.by, true);
        Answers(self)
    }

    /// What was asked for, and how it ended.
    pub(crate) fn tell(&self, name: &str, sent: u64, done: RequestOutcome) {
        self.service.shared.meter.done(self.by, done);
        let (client, by) = (self.client, self.by.name());
        (self.service.log)(&Access { client, by, name, sent, done });
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.service.shared.meter.leave(self.by);
    }
}

/// While a request is answered.
pub(crate) struct Answers<'a>(&'a Visit);

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        self.0.service.shared.meter.answers(self.0.by, false);
    }
}
