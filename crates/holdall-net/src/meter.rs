//! Metrics of a service.

use crate::catalog::{Entry, FileCatalog, RequestOutcome, ServedFile};
use crate::protocol::FileId;
use crate::rules::NO_FILE;
use bytes::Bytes;
use holdall_core::model::Hasher;
use holdall_core::{Algorithm, Digest, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The protocol of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Http,
    #[cfg(feature = "quic")]
    Quic,
}

impl Protocol {
    const ALL: &[Protocol] = &[
        Protocol::Http,
        #[cfg(feature = "quic")]
        Protocol::Quic,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            #[cfg(feature = "quic")]
            Protocol::Quic => "quic",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Meter {
    counts: [Counts; Protocol::ALL.len()],
    /// Number of requests, by protocol and outcome.
    requests: Mutex<BTreeMap<(Protocol, &'static str), u64>>,
}

#[derive(Debug, Default)]
struct Counts {
    clients: AtomicUsize,
    came: AtomicU64,
    turned_away: AtomicU64,
    answering: AtomicUsize,
    sent: AtomicU64,
}

impl Meter {
    fn counts(&self, protocol: Protocol) -> &Counts {
        &self.counts[protocol as usize]
    }

    /// Counts a client, unless `most` clients are connected already. Returns whether it was accepted.
    pub(crate) fn enter(&self, protocol: Protocol, most: usize) -> bool {
        let counts = self.counts(protocol);
        if counts.clients.fetch_add(1, Ordering::AcqRel) >= most {
            counts.clients.fetch_sub(1, Ordering::AcqRel);
            self.turn_away(protocol);
            return false;
        }
        counts.came.fetch_add(1, Ordering::Relaxed);
        true
    }

    pub(crate) fn turn_away(&self, protocol: Protocol) {
        self.counts(protocol).turned_away.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self, protocol: Protocol) {
        self.counts(protocol).clients.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns the number of connected clients.
    pub(crate) fn clients(&self) -> usize {
        self.counts.iter().map(|counts| counts.clients.load(Ordering::Acquire)).sum()
    }

    pub(crate) fn count_response(&self, protocol: Protocol, begins: bool) {
        let answering = &self.counts(protocol).answering;
        match begins {
            true => answering.fetch_add(1, Ordering::Relaxed),
            false => answering.fetch_sub(1, Ordering::Relaxed),
        };
    }

    pub(crate) fn sent(&self, protocol: Protocol, bytes: u64) {
        self.counts(protocol).sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn finish_request(&self, protocol: Protocol, outcome: RequestOutcome) {
        let outcome = match outcome {
            RequestOutcome::Whole => "whole",
            RequestOutcome::Left => "left",
            RequestOutcome::Refused(code) => code,
        };
        let mut all = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *all.entry((protocol, outcome)).or_default() += 1;
    }

    /// Returns the metrics in Prometheus' text format.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let mut each = |name: &str, kind: &str, help: &str, read: &dyn Fn(&Counts) -> u64| {
            head(&mut out, name, kind, help);
            for protocol in Protocol::ALL {
                // Writing to a `String` cannot fail.
                let _ = writeln!(
                    out,
                    "{name}{{protocol=\"{}\"}} {}",
                    protocol.name(),
                    read(self.counts(*protocol))
                );
            }
        };
        each("holdall_clients", "gauge", "Clients that are connected.", &|counts| {
            counts.clients.load(Ordering::Acquire) as u64
        });
        each("holdall_clients_total", "counter", "Clients that were accepted.", &|counts| {
            counts.came.load(Ordering::Relaxed)
        });
        let help =
            "Clients that were turned away because the server had its maximum number of clients.";
        each("holdall_clients_turned_away_total", "counter", help, &|counts| {
            counts.turned_away.load(Ordering::Relaxed)
        });
        each("holdall_answering", "gauge", "Requests that are being answered.", &|counts| {
            counts.answering.load(Ordering::Relaxed) as u64
        });
        each(
            "holdall_sent_bytes_total",
            "counter",
            "Bytes of answers that were sent.",
            &|counts| counts.sent.load(Ordering::Relaxed),
        );
        let name = "holdall_requests_total";
        let help = "Requests by outcome: whole, left (by the client), or the code of the rule that was broken.";
        head(&mut out, name, "counter", help);
        for ((protocol, outcome), count) in
            &*self.requests.lock().unwrap_or_else(PoisonError::into_inner)
        {
            let _ = writeln!(
                out,
                "{name}{{protocol=\"{}\",outcome=\"{outcome}\"}} {count}",
                protocol.name()
            );
        }
        out
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A catalog with one file, `metrics`.
pub(crate) struct Numbers<F>(F);

const NAME: &str = "metrics";

impl<F: Fn() -> String> Numbers<F> {
    pub(crate) fn new(counts: F) -> Numbers<F> {
        Numbers(counts)
    }
}

impl<F: Fn() -> String + Send + Sync> FileCatalog for Numbers<F> {
    fn open(&self, name: &str) -> Result<Arc<dyn ServedFile>> {
        match name == NAME {
            true => Ok(Arc::new(Text(Bytes::from((self.0)())))),
            false => Err(NO_FILE.broken("the only file here is `metrics`")),
        }
    }

    fn list(&self) -> Result<Vec<Entry>> {
        Ok(vec![Entry { name: NAME.to_owned(), len: (self.0)().len() as u64 }])
    }
}

struct Text(Bytes);

impl ServedFile for Text {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn id(&self) -> FileId {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(&self.0);
        match hasher.finish() {
            Digest::Sha256(bytes) => FileId(bytes),
            _ => FileId([0; 32]),
        }
    }

    fn index(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        Ok(self.0.slice(range.start as usize..range.end as usize))
    }

    fn kind(&self) -> &'static str {
        "text/plain; version=0.0.4"
    }
}
