//! Files over HTTP: where requests may go, how they are made, what is believed of the answers.
//!
//! Every request runs under a [policy](holdall_io::http). It says which schemes and hosts may be asked; hosts are
//! checked by the addresses that their names give, and only addresses that passed are connected to, at every
//! redirect anew. Proxies named in the environment are not used: a proxy looks names up itself, so nobody
//! here could say what is reached.

pub use holdall_io::http::rules;
#[cfg(feature = "http")]
pub use holdall_io::http::{ContentRange, Hosts, Policy, Schemes, Timeouts, Url, retry_after};
pub use holdall_io::location::shown;
