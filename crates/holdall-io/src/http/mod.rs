//! Files over HTTP: where requests may go, how they are made, what is believed of the answers.
//!
//! Every request runs under a [`Policy`]. It says which schemes and hosts may be asked; hosts are checked
//! by the addresses that their names give, and only addresses that passed are connected to, at every
//! redirect anew. Proxies named in the environment are not used: a proxy looks names up itself, so nobody
//! here could say what is reached.
//!
//! # How requests are made
//!
//! A policy's rules about hosts apply to the address that is connected to: our resolver looks up a name, drops
//! addresses that are not public, and gives the rest to the connector, so that no second look-up can give another
//! result. Redirects are followed here, and each is checked against the policy. `HttpSource` first asks for the
//! bytes that show the index of the format that the file's name suggests (`Format::index_location`): the first
//! 512 KiB, or the last 512 KiB and at the same time the start, or only the last if the name suggests nothing.
//! Each later request names the version that was seen. The HTTP library copies bodies and inspects every 16 bytes
//! of them; over plain TCP, long bodies are received directly into their place, and the connection is returned to
//! the library for the next request (`http/socket.rs`). Several files of a model are opened at once,
//! by clones of one `Client`, which share its connections. Linked files go into a store
//! (`carton/src/links/`) whose file names are hashes: one process downloads a file under a lock, and gives it its
//! name when it is complete.

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
pub(crate) use url::shown;
