//! Files over HTTP: allowed targets, how requests are made, and which answers are trusted.
//!
//! Every request runs under a [policy](holdall_io::http), which gives the allowed schemes and hosts. A host's
//! name is resolved and its addresses are checked, again at every redirect, and connections go only to
//! addresses that passed. Proxies named in the environment are not used: a proxy resolves names itself, so
//! the address that it connects to could not be checked.

pub use holdall_io::http::rules;
#[cfg(feature = "http")]
pub use holdall_io::http::{ContentRange, Hosts, Policy, Schemes, Timeouts, Url, retry_after};
pub use holdall_io::location::redacted;
