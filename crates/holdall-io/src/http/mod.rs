//! Files over HTTP: where requests may go, how they are made, what is believed of the answers.
//!
//! Every request runs under a [`Policy`]. It says which schemes and hosts may be asked; hosts are checked
//! by the addresses that their names give, and only addresses that passed are connected to, at every
//! redirect anew. Proxies named in the environment are not used: a proxy looks names up itself, so nobody
//! here could say what is reached.

pub mod rules;

#[cfg(feature = "http")]
pub(crate) mod address;
#[cfg(feature = "http")]
mod answer;
#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
mod header;
#[cfg(feature = "http")]
mod policy;
#[cfg(feature = "http")]
mod retry;
#[cfg(feature = "http")]
mod socket;
#[cfg(feature = "http")]
mod url;

#[cfg(feature = "http")]
pub use answer::{Answer, Body, Validator};
#[cfg(feature = "http")]
pub use client::{Ask, Client, Outgoing, Part, Service};
#[cfg(feature = "http")]
pub use header::{ContentRange, retry_after};
#[cfg(feature = "http")]
pub use policy::{Hosts, Patience, Policy, Schemes};
#[cfg(feature = "http")]
pub use retry::{Again, Failed, retrying};
#[cfg(feature = "http")]
pub use url::Url;
#[cfg(feature = "stores")]
pub(crate) use url::decoded;

use std::path::Path;

/// A file's name as it may be printed: of an address on the web without what may be secret in it.
pub fn shown(path: &Path) -> String {
    #[cfg(feature = "quic")]
    if let Some(Ok(address)) = is_url(path).map(holdall_net::quic::Address::parse) {
        return address.to_string();
    }
    match is_url(path) {
        Some(url) if crate::stores::is_address(url) => crate::stores::shown(url),
        #[cfg(feature = "http")]
        Some(url) => url::shown(url),
        _ => path.display().to_string(),
    }
}

/// Whether an address is one of a file that another Holdall serves.
pub fn is_served(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("holdall"))
}

/// The text of `path` where it is an address rather than the name of a file: it begins with `http://`, `https://` or
/// `holdall://`, or with the scheme of an object store, in letters of any case; or with another scheme, where there is no such file.
pub fn is_url(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    let known = ["http", "https", "holdall"].iter().any(|s| scheme.eq_ignore_ascii_case(s));
    // One letter is a drive.
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (known || crate::stores::is_scheme(scheme) || (is_scheme && !path.exists())).then_some(text)
}
