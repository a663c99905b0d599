//! What a caller chooses about opening a file.

use crate::checked::Check;
use holdall_core::layout::described::Layouts;
use holdall_core::{Index, Limits, Result};
use std::sync::Arc;

/// How the bytes of a file are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Io {
    /// [`Io::Map`] on local disks and [`Io::Read`] on network and user-space file systems, where
    /// mapping is many times slower. Loading much of a file that is not in the system's cache goes
    /// past the cache.
    #[default]
    Auto,
    /// Memory-map the file: views cost nothing until touched.
    Map,
    /// Read by position, through the system's cache.
    Read,
    /// Read by position; loads go past the system's cache (`O_DIRECT`) where the file system can.
    Direct,
}

/// What becomes of a file in which single tensors have a fault (an unknown dtype, a wrong length) and the table of
/// tensors is sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Faults {
    /// It opens. Those tensors are listed with their [fault](holdall_core::TensorInfo::fault), reading one of them fails
    /// with it, and all others can be read.
    #[default]
    Keep,
    /// It is refused for the first of them.
    Refuse,
}

/// What a caller chooses about opening a file.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    io: Io,
    check: Check,
    limits: Limits,
    pub(crate) faults: Faults,
    layouts: Arc<Layouts>,
    /// With the policy that addresses are opened under. Clones share its connections.
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
    /// [`Io::Auto`], [`Check::Read`], [`Faults::Keep`] and the default [`Limits`].
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Fetches bytes this way.
    pub fn with_io(mut self, io: Io) -> OpenOptions {
        self.io = io;
        self
    }

    /// Checks these digests on reading.
    pub fn with_check(mut self, check: Check) -> OpenOptions {
        self.check = check;
        self
    }

    /// What becomes of a file in which single tensors have a fault.
    pub fn with_faults(mut self, faults: Faults) -> OpenOptions {
        self.faults = faults;
        self
    }

    /// Holds the file to these limits.
    pub fn with_limits(mut self, limits: Limits) -> OpenOptions {
        self.limits = limits;
        self
    }

    /// Gives layouts that have no meaning by themselves the one that these descriptions say; see [`read_layouts`](crate::read_layouts).
    pub fn with_layouts(mut self, layouts: impl Into<Arc<Layouts>>) -> OpenOptions {
        self.layouts = layouts.into();
        self
    }

    /// Opens addresses on the web under this policy.
    #[cfg(feature = "http")]
    pub fn with_policy(mut self, policy: crate::http::Policy) -> OpenOptions {
        self.client = crate::http::Client::new(&policy);
        self
    }

    /// Keeps blocks of files that are elsewhere in this cache.
    #[cfg(feature = "http")]
    pub fn with_cache(mut self, cache: crate::cache::BlockCache) -> OpenOptions {
        self.cache = Some(cache);
        self
    }

    /// Uses object stores so: with these credentials, at this endpoint.
    #[cfg(feature = "stores")]
    pub fn with_store_options(mut self, options: crate::stores::StoreOptions) -> OpenOptions {
        self.stores = crate::stores::Stores::new(options);
        self
    }

    /// Gets files that packages only link to through `fetcher`.
    #[cfg(feature = "carton")]
    pub fn with_fetcher(mut self, fetcher: Arc<dyn crate::package::Fetcher>) -> OpenOptions {
        self.fetching = crate::package::Fetching(Some(fetcher));
        self
    }

    /// The same for a file that will change while it is open: read where it would be mapped.
    pub fn unmapped(&self) -> OpenOptions {
        let io = match self.io {
            Io::Auto | Io::Map => Io::Read,
            other => other,
        };
        OpenOptions { io, ..self.clone() }
    }

    /// How the caller wants bytes to be fetched.
    pub(crate) fn io(&self) -> Io {
        self.io
    }

    /// What layouts mean that have no meaning by themselves.
    pub(crate) fn layouts(&self) -> &Arc<Layouts> {
        &self.layouts
    }

    /// Which digests are checked.
    pub fn check(&self) -> Check {
        self.check
    }

    /// The limits that files are held to.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// An index, where its faults are kept or there are none.
    pub(crate) fn check_faults(&self, index: Index) -> Result<Index> {
        match self.faults {
            Faults::Keep => Ok(index),
            Faults::Refuse => index.sound(),
        }
    }
}
