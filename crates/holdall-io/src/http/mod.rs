//! Files over HTTP: the policy for requests, sending them, and checking responses.
//!
//! Every request runs under a [`Policy`], which states the allowed schemes and hosts. A host is checked by the IP
//! addresses that its name resolves to, again for every redirect, and only checked addresses are connected to. Proxies
//! named in the environment are not used: a proxy resolves names itself, so the address that is reached could not be
//! checked.
//!
//! # How requests are made
//!
//! A policy's rules about hosts apply to the address that is connected to: our resolver looks up a name, drops
//! addresses that are not public, and passes the rest to the connector, so that no second look-up can return another
//! result. Redirects are followed here, and each is checked against the policy. `HttpSource` first requests the bytes
//! that contain the index of the format that the file's name suggests (`Format::index_location`): the first 512 KiB, or
//! the last 512 KiB and in parallel the start, or only the last 512 KiB if the name suggests no format. Each later
//! request is pinned to the version that the first one returned. The HTTP library copies bodies and inspects every 16
//! bytes of them; over plain TCP, long bodies are received directly into their destination, and the connection is then
//! reused for the next request (`http/socket.rs`). The files of a model are opened in parallel by clones of one
//! `Client`, which share its connections. Linked files go into a store (`carton/src/links/`) whose file names are
//! hashes: one process downloads a file under a lock, and gives it its name when it is complete.

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
pub use client::{Client, GetOptions, HttpRequest, RequestedRange, Service};
#[cfg(feature = "http")]
pub use header::{ContentRange, retry_after};
#[cfg(feature = "http")]
pub use policy::{Hosts, Policy, Schemes, Timeouts};
#[cfg(feature = "http")]
pub use retry::{FailedTry, Retry, retrying};
#[cfg(feature = "http")]
pub use url::Url;
#[cfg(feature = "stores")]
pub(crate) use url::decoded;
#[cfg(feature = "http")]
pub(crate) use url::redacted;
