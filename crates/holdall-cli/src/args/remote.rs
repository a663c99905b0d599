//! Options for remote files: access, cache and object stores.

use crate::args::Global;
use clap::ValueEnum;

/// Parses `--store`. Secrets are refused, because all users of a machine can see command lines.
#[cfg(feature = "stores")]
pub(super) fn store(text: &str) -> Result<(String, String), String> {
    let open = holdall::stores::NON_SECRET_OPTIONS;
    let (name, value) =
        text.split_once('=').ok_or("write NAME=VALUE, for example region=eu-west-1")?;
    if !open.contains(&name) {
        return Err(format!(
            "unknown option `{name}`; expected one of {}; keys come from the environment and from profiles",
            open.join(", ")
        ));
    }
    let checked = holdall::stores::StoreOptions::new().with(name, value);
    checked.map(|_| (name.to_owned(), value.to_owned())).map_err(|e| e.message().to_owned())
}

/// A value of `--allow`: a feature of remote files that is forbidden by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Allow {
    Http,
    PrivateHosts,
}

impl Global {
    /// Returns the policy for HTTP requests.
    pub(crate) fn policy(&self) -> holdall::http::Policy {
        use holdall::http::{Hosts, Policy, Schemes};
        self.allow.iter().fold(Policy::new(), |policy, allow| match allow {
            Allow::Http => policy.with_schemes(Schemes::HttpToo),
            Allow::PrivateHosts => policy.with_hosts(Hosts::Any),
        })
    }

    /// Returns the cache for blocks of remote files.
    pub(crate) fn cache(&self) -> holdall::Result<Option<holdall::cache::BlockCache>> {
        use holdall::cache::BlockCache;
        let cache = match &self.cache {
            None => return Ok(None),
            Some(folder) if folder.as_os_str().is_empty() => BlockCache::standard()?,
            Some(folder) => BlockCache::new(folder),
        };
        Ok(Some(match self.cache_size {
            Some(bytes) => cache.with_size(bytes),
            None => cache,
        }))
    }

    /// Returns the options for object stores.
    #[cfg(feature = "stores")]
    pub(crate) fn stores(&self) -> holdall::stores::StoreOptions {
        let options = holdall::stores::StoreOptions::new();
        // Each option was validated when it was parsed.
        self.store.iter().fold(options, |options, (name, value)| {
            options.clone().with(name, value.as_str()).unwrap_or(options)
        })
    }
}
