//! What a service has done, in numbers.

use crate::protocol::FileId;
use crate::rules::NO_FILE;
use crate::shelf::{Entry, FileCatalog, RequestOutcome, ServedFile};
use bytes::Bytes;
use holdall_core::model::Hasher;
use holdall_core::{Algorithm, Digest, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// By which protocol a client comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    Http,
    #[cfg(feature = "quic")]
    Quic,
}

impl By {
    const ALL: &[By] = &[
        By::Http,
        #[cfg(feature = "quic")]
        By::Quic,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            By::Http => "http",
            #[cfg(feature = "quic")]
            By::Quic => "quic",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Meter {
    of: [Counts; By::ALL.len()],
    /// Requests by how they ended.
    done: Mutex<BTreeMap<(By, &'static str), u64>>,
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
    fn counts(&self, by: By) -> &Counts {
        &self.of[by as usize]
    }

    /// Whether there is room for one more of at most so many.
    pub(crate) fn enter(&self, by: By, most: usize) -> bool {
        let counts = self.counts(by);
        if counts.clients.fetch_add(1, Ordering::AcqRel) >= most {
            counts.clients.fetch_sub(1, Ordering::AcqRel);
            self.turn_away(by);
            return false;
        }
        counts.came.fetch_add(1, Ordering::Relaxed);
        true
    }

    pub(crate) fn turn_away(&self, by: By) {
        self.counts(by).turned_away.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self, by: By) {
        self.counts(by).clients.fetch_sub(1, Ordering::AcqRel);
    }

    /// Clients that are here.
    pub(crate) fn clients(&self) -> usize {
        self.of.iter().map(|counts| counts.clients.load(Ordering::Acquire)).sum()
    }

    pub(crate) fn answers(&self, by: By, begins: bool) {
        let answering = &self.counts(by).answering;
        match begins {
            true => answering.fetch_add(1, Ordering::Relaxed),
            false => answering.fetch_sub(1, Ordering::Relaxed),
        };
    }

    pub(crate) fn sent(&self, by: By, bytes: u64) {
        self.counts(by).sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn done(&self, by: By, done: RequestOutcome) {
        let how = match done {
            RequestOutcome::Whole => "whole",
            RequestOutcome::Left => "left",
            RequestOutcome::Refused(code) => code,
        };
        let mut all = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *all.entry((by, how)).or_default() += 1;
    }

    /// As Prometheus reads it.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let mut each = |name: &str, kind: &str, help: &str, of: &dyn Fn(&Counts) -> u64| {
            head(&mut out, name, kind, help);
            for by in By::ALL {
                // A text takes it.
                let _ = writeln!(out, "{name}{{by=\"{}\"}} {}", by.name(), of(self.counts(*by)));
            }
        };
        each("holdall_clients", "gauge", "Clients that are connected.", &|counts| {
            counts.clients.load(Ordering::Acquire) as u64
        });
        each("holdall_clients_total", "counter", "Clients that were taken.", &|counts| {
            counts.came.load(Ordering::Relaxed)
        });
        let help = "Clients that were turned away because there were too many.";
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
        let help =
            "Requests by how they ended: whole, left by the client, or the rule that was broken.";
        head(&mut out, name, "counter", help);
        for ((by, how), count) in &*self.done.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(out, "{name}{{by=\"{}\",done=\"{how}\"}} {count}", by.name());
        }
        out
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A shelf with the file `metrics`.
pub(crate) struct Numbers<F>(F);

const NAME: &str = "metrics";

impl<F: Fn() -> String> Numbers<F> {
    pub(crate) fn new(of: F) -> Numbers<F> {
        Numbers(of)
    }
}

impl<F: Fn() -> String + Send + Sync> FileCatalog for Numbers<F> {
    fn open(&self, name: &str) -> Result<Arc<dyn ServedFile>> {
        match name == NAME {
            true => Ok(Arc::new(Text(Bytes::from((self.0)())))),
            false => Err(NO_FILE.broken("there are numbers alone")),
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
