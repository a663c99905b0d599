//! Fetches linked files from the store or from their addresses.

use super::decode::ReportedProgress;
use super::download::Download;
use super::rules::{DECLARED, NO_ADDRESS, NOT_AN_ADDRESS, OFFLINE, UNREACHABLE};
use super::store::FileState;
use super::{Store, hex};
use crate::Fetcher;
use holdall_core::error::Escape as _;
use holdall_core::{Error, Limits, Result};
use holdall_io::Work;
use holdall_io::http::rules::TOO_LONG;
use holdall_io::http::{Client, Policy, Url};
use holdall_io::workers;
use std::fmt;
use std::path::PathBuf;

/// Fetches linked files: from a [`Store`], or from their addresses into it.
#[derive(Clone)]
pub struct LinkFetcher {
    store: Store,
    /// `None` if offline.
    client: Option<Client>,
    limits: Limits,
    work: Work,
}

/// Default number of files fetched at once.
const AT_ONCE: usize = 4;
const MAX_AT_ONCE: usize = 32;
/// Maximum number of addresses tried per file, so that a package cannot make its readers send many useless
/// requests.
const MAX_ADDRESSES: usize = 32;
/// Maximum number of addresses that an error lists.
const MAX_REPORTED_ADDRESSES: usize = 4;

impl LinkFetcher {
    /// Creates a fetcher that downloads under `policy` into `store`.
    pub fn new(store: Store, policy: &Policy) -> LinkFetcher {
        LinkFetcher { client: Some(Client::new(policy)), ..LinkFetcher::offline(store) }
    }

    /// Creates a fetcher that only reads from `store`.
    pub fn offline(store: Store) -> LinkFetcher {
        LinkFetcher { store, client: None, limits: Limits::default(), work: Work::default() }
    }

    /// Sets the limits for fetched files.
    pub fn with_limits(mut self, limits: Limits) -> LinkFetcher {
        self.limits = limits;
        self
    }

    /// Sets the number of threads, each of which fetches one file at a time (4 by default, at most 32), and
    /// the progress, whose total grows with each file whose server states a length.
    pub fn with_work(mut self, work: Work) -> LinkFetcher {
        self.work = work;
        self
    }

    /// Returns the store of fetched files.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Fetches several files into the store, a few at once: each with its hash, its addresses and its maximum
    /// length. Equal files are fetched once.
    ///
    /// # Errors
    /// Returns the error of the first file that failed, as from [`Fetcher::fetch`]. Fetches already in progress end
    /// first.
    pub fn fetch_all(&self, wanted: &[([u8; 32], &[String], u64)]) -> Result<()> {
        self.fetch_each(wanted, |e, _| e)
    }

    /// Fetches the files like [`LinkFetcher::fetch_all`]; `failed` adds the context of an error.
    pub(super) fn fetch_each(
        &self,
        wanted: &[([u8; 32], &[String], u64)],
        failed: impl Fn(Error, &[u8; 32]) -> Error + Sync,
    ) -> Result<()> {
        let mut wanted = wanted.to_vec();
        // The largest first: a file that is too long for one use may be right for another.
        wanted.sort_by_key(|(sha256, _, at_most)| (*sha256, std::cmp::Reverse(*at_most)));
        wanted.dedup_by_key(|(sha256, ..)| *sha256);
        workers::for_each(
            self.work.threads_or(AT_ONCE).min(MAX_AT_ONCE),
            wanted,
            || (),
            |(), (sha256, urls, at_most)| {
                let fetched = self.fetch(sha256, urls, at_most);
                fetched.map(drop).map_err(|e| failed(e, &sha256))
            },
        )
    }

    /// Tries the addresses of a file that is not in the store.
    fn download(
        &self,
        client: &Client,
        sha256: [u8; 32],
        urls: &[String],
        at_most: u64,
    ) -> Result<PathBuf> {
        let mut part = self.store.begin(&sha256)?;
        // Another process may have fetched it meanwhile.
        if self.store.state_of(&sha256)? == FileState::Sound {
            part.discard();
            return Ok(self.store.path(&sha256));
        }
        let mut progress = ReportedProgress { work: self.work.clone(), bytes: 0, expected: None };
        let mut failures = Vec::new();
        for url in urls.iter().take(MAX_ADDRESSES) {
            // An invalid address is the package's fault, not the caller's.
            let parsed = Url::parse(url).map_err(|e| e.with_rule(&NOT_AN_ADDRESS));
            let done = parsed.and_then(|url| {
                let download =
                    Download { client, limits: &self.limits, at_most, sha256: &sha256, url: &url };
                download.run(&mut part, &mut progress)
            });
            match done {
                Ok(()) => return self.store.publish(&sha256, part),
                // A disk error affects all addresses alike.
                Err(e) if e.code() == holdall_io::error::IO.code => {
                    part.keep_for_resume();
                    return Err(e);
                }
                Err(e) => {
                    if e.code() == TOO_LONG.code || e.code() == DECLARED.code {
                        // A longer file would be too long as well.
                        let _ = part.file.set_len(0);
                    }
                    failures.push((holdall_io::location::redacted(url.as_ref()), e));
                }
            }
        }
        part.keep_for_resume();
        Err(all_failed(&sha256, failures, urls.len().saturating_sub(MAX_ADDRESSES)))
    }
}

impl Fetcher for LinkFetcher {
    fn fetch(&self, sha256: [u8; 32], urls: &[String], at_most: u64) -> Result<PathBuf> {
        let held = self.store.state_of(&sha256)?;
        if held == FileState::Sound {
            return Ok(self.store.path(&sha256));
        }
        let name = hex(&sha256);
        let Some(client) = &self.client else {
            let e = match held {
                FileState::Damaged => {
                    OFFLINE.broken(format!("the file {name} in the cache is damaged"))
                }
                _ => OFFLINE.broken(format!("the file {name} is not in the cache")),
            };
            return Err(e.in_source(self.store.root().display()));
        };
        if urls.is_empty() {
            return Err(NO_ADDRESS.broken(format!("`LINKS` has no address for the file {name}")));
        }
        self.download(client, sha256, urls, at_most)
    }
}

impl fmt::Debug for LinkFetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkFetcher")
            .field("store", &self.store)
            .field("policy", &self.client.as_ref().map(Client::policy))
            .finish_non_exhaustive()
    }
}

/// Combines all failures into one error: under the rule that all addresses broke, if it is the same one.
/// `left` addresses were not tried.
fn all_failed(sha256: &[u8; 32], failures: Vec<(String, Error)>, left: usize) -> Error {
    let name = hex(sha256);
    let mut lines = Vec::new();
    for (url, e) in failures.iter().take(MAX_REPORTED_ADDRESSES) {
        // One line per address, whatever the system's message contains.
        let message = e.message().replace(['\r', '\n'], " ");
        lines.push(format!("{}: {} [{}]", url.escaped(), message.escaped(), e.code()));
    }
    if failures.len() > MAX_REPORTED_ADDRESSES {
        lines.push(format!("{} more addresses failed", failures.len() - MAX_REPORTED_ADDRESSES));
    }
    if left > 0 {
        lines.push(format!("{left} more addresses were not tried, only the first {MAX_ADDRESSES}"));
    }
    let message = format!("every address of the file {name} failed: {}", lines.join("; "));
    let is_one = failures.len() == 1;
    let mut failures = failures.into_iter();
    let Some((url, first)) = failures.next() else { return UNREACHABLE.broken(message) };
    if is_one {
        return first.within(format!("the file {name} from {}", url.escaped()));
    }
    match failures.all(|(_, e)| e.code() == first.code()) {
        true => first.rule().broken(message).with_cause(first),
        false => UNREACHABLE.broken(message),
    }
}
