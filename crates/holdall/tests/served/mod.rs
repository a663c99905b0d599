//! A Holdall server on loopback.
#![allow(dead_code)] // Each test file uses its own part.

use holdall::http::{Hosts, Policy, Timeouts};
use holdall::serve::{
    Access, FileCatalog, Files, Identity, Log, Server, ServerLimits, Service, Tokens,
};
use holdall::{File, OpenOptions, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Returns the tests' policy: loopback, and no waiting.
pub(crate) fn policy() -> Policy {
    let mut timeouts = Timeouts::default();
    timeouts.pause = Duration::from_millis(1);
    timeouts.connect = Duration::from_secs(5);
    timeouts.stall = Duration::from_secs(1);
    Policy::new().with_hosts(Hosts::Any).with_timeouts(timeouts)
}

pub(crate) fn options() -> OpenOptions {
    OpenOptions::new().with_policy(policy())
}

/// For each request: the name, the bytes sent, and the outcome.
type Seen = Arc<Mutex<Vec<(String, u64, String)>>>;

/// A server that stops when this is dropped.
pub(crate) struct Served {
    pub(crate) server: Option<Server>,
    pub(crate) identity: Identity,
    /// The requests and their outcomes.
    pub(crate) seen: Seen,
    address: SocketAddr,
    catalog: Arc<dyn FileCatalog>,
    /// The metrics of the present server.
    metrics: Arc<dyn FileCatalog>,
}

impl Served {
    /// Starts a server of these files and folders.
    pub(crate) fn new<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Served {
        Served::start(
            Arc::new(Files::new(paths).unwrap()),
            Tokens::default(),
            ServerLimits::default(),
        )
    }

    pub(crate) fn start(
        catalog: Arc<dyn FileCatalog>,
        tokens: Tokens,
        limits: ServerLimits,
    ) -> Served {
        let identity = Identity::generate().unwrap();
        let seen = Seen::default();
        let any = "127.0.0.1:0".parse().unwrap();
        let service = Service::new(Arc::clone(&catalog)).with_tokens(tokens).with_limits(limits);
        let metrics = service.metrics();
        let server = Server::start(service.with_log(log(&seen)), any, &identity).unwrap();
        let address = server.address().unwrap();
        Served { server: Some(server), identity, seen, address, catalog, metrics }
    }

    /// Stops the server like a killed process, and starts another at the same address.
    pub(crate) fn restart(&mut self) {
        self.server.take();
        for _ in 0..200 {
            let service = Service::new(Arc::clone(&self.catalog)).with_log(log(&self.seen));
            let metrics = service.metrics();
            let server = Server::start(service, self.address, &self.identity);
            // The old server's threads may hold the socket for a moment.
            match server {
                Ok(server) => {
                    (self.server, self.metrics) = (Some(server), metrics);
                    return;
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        panic!("the address stays taken");
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("holdall://{}/{name}#sha256={}", self.address, self.identity.pin().unwrap())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn open(&self, name: &str) -> Result<File> {
        options().open(self.url(name))
    }

    /// Waits until this many requests were answered.
    pub(crate) fn settle(&self, count: usize) {
        let until = std::time::Instant::now() + Duration::from_secs(5);
        while self.seen.lock().unwrap().len() < count && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns the number of accepted connections.
    pub(crate) fn taken(&self) -> usize {
        let numbers = self.metrics.open("metrics").unwrap();
        let text = numbers.read(0..numbers.len()).unwrap();
        let text = String::from_utf8(text.to_vec()).unwrap();
        let digest =
            text.lines().find_map(|l| l.strip_prefix("holdall_clients_total{protocol=\"quic\"} "));
        digest.unwrap().parse().unwrap()
    }

    /// Returns the total of bytes sent.
    pub(crate) fn sent(&self) -> u64 {
        self.seen.lock().unwrap().iter().map(|(_, sent, _)| sent).sum()
    }
}

fn log(seen: &Seen) -> Log {
    let seen = Arc::clone(seen);
    Arc::new(move |access: &Access<'_>| {
        let request = (access.name.to_owned(), access.sent, access.outcome.to_string());
        seen.lock().unwrap().push(request);
    })
}
