//! Files that packages link to.

pub(crate) mod fetch;
pub(crate) mod shrink;

use crate::session::Session;
use holdall::carton::Fetcher;
use holdall::carton::links::{LinkFetcher, Store};
use holdall::http::Policy;
use holdall::{Limits, Result};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Returns the fetcher of linked files that the options describe.
pub(crate) fn fetcher(session: &Session) -> Result<LinkFetcher> {
    OnDemand::new(session).make()
}

/// A fetcher that is created when the first linked file is needed: most commands need none, and thus no cache.
pub(crate) struct OnDemand {
    policy: Policy,
    limits: Limits,
    offline: bool,
    made: OnceLock<Result<LinkFetcher>>,
}

impl OnDemand {
    pub(crate) fn new(session: &Session) -> OnDemand {
        OnDemand {
            policy: crate::input::policy(session),
            limits: session.global.limits(),
            offline: session.global.offline,
            made: OnceLock::new(),
        }
    }

    fn make(&self) -> Result<LinkFetcher> {
        let store = Store::standard()?;
        let fetcher = match self.offline {
            true => LinkFetcher::offline(store),
            false => LinkFetcher::new(store, &self.policy),
        };
        Ok(fetcher.with_limits(self.limits.clone()))
    }
}

impl Fetcher for OnDemand {
    fn fetch(&self, sha256: [u8; 32], urls: &[String], at_most: u64) -> Result<PathBuf> {
        self.made.get_or_init(|| self.make()).clone()?.fetch(sha256, urls, at_most)
    }
}
