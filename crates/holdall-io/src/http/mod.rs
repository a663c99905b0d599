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
#[cfg(feature = "http")]
pub(crate) use url::shown;
