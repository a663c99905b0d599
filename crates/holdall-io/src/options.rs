//! Options for opening a file.

use crate::checked::Check;
use holdall_core::layout::described::Layouts;
use holdall_core::{Index, Limits, Result};
use std::sync::Arc;

/// How the bytes of a file are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Io {
    /// [`Io::Map`] on local disks, [`Io::Read`] on network and user-space file systems, where mapping is many times
    /// slower. Loading a large part of a file that is not in the system's page cache bypasses that cache.
    #[default]
    Auto,
    /// Memory-maps the file: creating a view reads nothing.
    Map,
    /// Reads at offsets, through the system's page cache.
    Read,
    /// Reads at offsets; loads bypass the system's page cache (`O_DIRECT`) if the file system supports that.
    Direct,
}

/// How to open a file with an intact index in which some tensors have a fault, such as an unknown dtype or a wrong
/// length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Faults {
    /// Opens the file. The faulty tensors are listed with their [fault](holdall_core::TensorInfo::fault), which reading
    /// them returns; all other tensors can be read.
    #[default]
    Keep,
    /// Refuses the file, with the first fault as the error.
    Refuse,
}

/// Options for opening a file.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    io: Io,
    check: Check,
    limits: Limits,
    pub(crate) faults: Faults,
    layouts: Arc<Layouts>,
    /// The HTTP client, with the policy for addresses. Clones share its connections.
    #[cfg(feature = "http")]
    pub(crate) client: crate::http::Client,
    #[cfg(feature = "http")]
    pub(crate) cache: Option<crate::cache::BlockCache>,
    #[cfg(feature = "stores")]
    pub(crate) stores: crate::stores::Stores,
    #[cfg(feature = "carton")]
    pub(crate) fetching: crate::package::Fetching,
}

impl OpenOptions {
    /// Returns the default options: [`Io::Auto`], [`Check::Read`], [`Faults::Keep`] and the default [`Limits`].
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Sets how bytes are fetched.
    pub fn with_io(mut self, io: Io) -> OpenOptions {
        self.io = io;
        self
    }

    /// Sets which digests are checked on reading.
    pub fn with_check(mut self, check: Check) -> OpenOptions {
        self.check = check;
        self
    }

    /// Sets how files with faulty tensors are opened.
    pub fn with_faults(mut self, faults: Faults) -> OpenOptions {
        self.faults = faults;
        self
    }

    /// Sets the limits.
    pub fn with_limits(mut self, limits: Limits) -> OpenOptions {
        self.limits = limits;
        self
    }

    /// Sets descriptions of layouts that Holdall does not know; see [`read_layouts`](crate::read_layouts).
    pub fn with_layouts(mut self, layouts: impl Into<Arc<Layouts>>) -> OpenOptions {
        self.layouts = layouts.into();
        self
    }

    /// Sets the policy for HTTP requests.
    #[cfg(feature = "http")]
    pub fn with_policy(mut self, policy: crate::http::Policy) -> OpenOptions {
        self.client = crate::http::Client::new(&policy);
        self
    }

    /// Caches blocks of remote files in `cache`.
    #[cfg(feature = "http")]
    pub fn with_cache(mut self, cache: crate::cache::BlockCache) -> OpenOptions {
        self.cache = Some(cache);
        self
    }

    /// Sets the options of object stores, such as credentials and endpoint.
    #[cfg(feature = "stores")]
    pub fn with_store_options(mut self, options: crate::stores::StoreOptions) -> OpenOptions {
        self.stores = crate::stores::Stores::new(options);
        self
    }

    /// Sets the fetcher that retrieves files that packages only link to.
    #[cfg(feature = "carton")]
    pub fn with_fetcher(mut self, fetcher: Arc<dyn crate::package::Fetcher>) -> OpenOptions {
        self.fetching = crate::package::Fetching(Some(fetcher));
        self
    }

    /// Returns the same options for a file that will change while it is open: it is read where it would be mapped.
    pub fn unmapped(&self) -> OpenOptions {
        let io = match self.io {
            Io::Auto | Io::Map => Io::Read,
            other => other,
        };
        OpenOptions { io, ..self.clone() }
    }

    /// Returns how bytes are to be fetched.
    pub(crate) fn io(&self) -> Io {
        self.io
    }

    /// Returns the descriptions of layouts that Holdall does not know.
    pub(crate) fn layouts(&self) -> &Arc<Layouts> {
        &self.layouts
    }

    /// Returns which digests are checked.
    pub fn check(&self) -> Check {
        self.check
    }

    /// Returns the limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the index, or its first fault if faults are refused.
    pub(crate) fn check_faults(&self, index: Index) -> Result<Index> {
        match self.faults {
            Faults::Keep => Ok(index),
            Faults::Refuse => index.sound(),
        }
    }
}
