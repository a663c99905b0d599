//! Remote files: the policy for requests, and the fetcher of files that packages only link to.

use crate::errors::Raise as _;
use crate::errors::misuse;
#[cfg(feature = "stores")]
use crate::work::run_apart;
use holdall::cache::BlockCache;
use holdall::carton::Fetcher;
use holdall::carton::links::{LinkFetcher, Store};
use holdall::http::{Hosts, Policy, Schemes};
#[cfg(feature = "stores")]
use holdall::stores::StoreOptions;
use holdall::{Limits, OpenOptions, Result};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
#[cfg(feature = "stores")]
use std::sync::{Mutex, PoisonError};

/// The caller's options for remote files.
#[derive(Clone)]
pub(crate) struct Remote {
    policy: Policy,
    #[cfg(feature = "stores")]
    stores: holdall::stores::StoreOptions,
    cache: Option<BlockCache>,
    offline: bool,
    limits: Limits,
}

impl Remote {
    /// `allow` has the words of the command's option: `http`, `private-hosts`; `stores` has the
    /// options of object stores; `cache` is a folder for blocks; if it is empty, the system's.
    pub(crate) fn new(
        py: Python<'_>,
        allow: &[String],
        stores: BTreeMap<String, String>,
        cache: Option<PathBuf>,
        offline: bool,
    ) -> PyResult<Remote> {
        let cache = match cache {
            Some(folder) if folder.as_os_str().is_empty() => {
                Some(BlockCache::standard().raise(py)?)
            }
            folder => folder.map(BlockCache::new),
        };
        let mut policy = Policy::new();
        for word in allow {
            policy = match word.as_str() {
                "http" => policy.with_schemes(Schemes::HttpToo),
                "private-hosts" => policy.with_hosts(Hosts::Any),
                other => {
                    let message = format!("allow has \"http\", \"private-hosts\", not {other:?}");
                    return Err(misuse(py, "python/option", &message, None));
                }
            };
        }
        #[cfg(feature = "stores")]
        let stores = {
            let with = |all: StoreOptions, (name, value): (String, String)| all.with(&name, value);
            stores.into_iter().try_fold(StoreOptions::new(), with).raise(py)?
        };
        #[cfg(not(feature = "stores"))]
        let _ = stores;
        Ok(Remote {
            policy,
            #[cfg(feature = "stores")]
            stores,
            cache,
            offline,
            limits: Limits::default(),
        })
    }

    /// Applies the options for opening `path`. Linked files are fetched under the limits of
    /// `options`.
    pub(crate) fn apply(&mut self, options: OpenOptions, path: &Path) -> OpenOptions {
        self.limits = options.limits().clone();
        let is_address = path.to_string_lossy().contains("://");
        let policy = if is_address { self.policy() } else { self.policy.clone() };
        #[cfg(feature = "stores")]
        let options = options.with_store_options(self.stores.clone());
        let options = match &self.cache {
            Some(cache) => options.with_cache(cache.clone()),
            None => options,
        };
        let fetcher = OnDemand { remote: self.clone(), made: OnceLock::new() };
        options.with_policy(policy).with_fetcher(Arc::new(fetcher))
    }

    /// Returns the policy for requests. Certificate authorities are those in the file that
    /// `SSL_CERT_FILE` names, as for other programs, if it can be read.
    pub(crate) fn policy(&self) -> Policy {
        let path = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty());
        let pem = path.and_then(|path| std::fs::read(path).ok());
        let with = pem.and_then(|pem| self.policy.clone().with_certificates(&pem).ok());
        with.unwrap_or_else(|| self.policy.clone())
    }

    /// Returns the fetcher that downloads linked files to the cache.
    ///
    /// # Errors
    /// Returns an I/O error if the system has no cache folder.
    pub(crate) fn fetcher(&self) -> Result<LinkFetcher> {
        let store = Store::standard()?;
        let fetcher = match self.offline {
            true => LinkFetcher::offline(store),
            false => LinkFetcher::new(store, &self.policy()),
        };
        Ok(fetcher.with_limits(self.limits.clone()))
    }
}

/// A file that is uploaded to an object store when it is complete.
#[cfg(feature = "stores")]
#[pyclass(name = "Staged", module = "holdall._holdall", frozen)]
pub(crate) struct NativeStaged(Mutex<Option<Staged>>);

/// A single file, or the files of a folder.
#[cfg(feature = "stores")]
enum Staged {
    File(holdall::stores::Staged),
    Folder(holdall::stores::StagedFolder),
}

#[cfg(feature = "stores")]
#[pymethods]
impl NativeStaged {
    /// Begins a file for an address.
    #[new]
    fn new(
        py: Python<'_>,
        address: String,
        overwrite: bool,
        allow: Vec<String>,
        stores: BTreeMap<String, String>,
    ) -> PyResult<NativeStaged> {
        let mut remote = Remote::new(py, &allow, stores, None, false)?;
        let options = remote.apply(OpenOptions::new(), address.as_ref());
        let staged = run_apart(py, u64::MAX, move || match address.ends_with('/') {
            true => options.stage_folder(&address, overwrite).map(Staged::Folder),
            false => options.stage(&address, overwrite).map(Staged::File),
        })?;
        Ok(NativeStaged(Mutex::new(Some(staged))))
    }

    /// Returns the path to write to; `None` once it is published.
    fn path(&self) -> Option<PathBuf> {
        let staged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        staged.as_ref().map(|staged| match staged {
            Staged::File(staged) => staged.path().to_owned(),
            Staged::Folder(staged) => staged.path().to_owned(),
        })
    }

    /// Uploads the file.
    fn publish(&self, py: Python<'_>) -> PyResult<()> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(staged) => run_apart(py, u64::MAX, move || match staged {
                Staged::File(staged) => staged.publish(),
                Staged::Folder(staged) => staged.publish(),
            }),
            None => Ok(()),
        }
    }

    /// Removes the local file.
    fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A fetcher that is created when the first linked file is read: most packages have no links, and
/// need no cache.
struct OnDemand {
    remote: Remote,
    made: OnceLock<Result<LinkFetcher>>,
}

impl Fetcher for OnDemand {
    fn fetch(&self, sha256: [u8; 32], urls: &[String], at_most: u64) -> Result<PathBuf> {
        self.made.get_or_init(|| self.remote.fetcher()).clone()?.fetch(sha256, urls, at_most)
    }
}
