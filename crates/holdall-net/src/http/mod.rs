//! The same files over HTTP: `GET` and `HEAD`, with ranges.
//!
//! Requests and responses are the same in each version of HTTP (modules `request` and `answer`); `http1` and `http2`
//! transfer them over a connection. Without the feature `http2`, the server speaks HTTP/1.1 in plain text only, for
//! loopback or behind a proxy; with it, TLS too, and HTTP/2 over both. Each client has a thread, and
//! [`ServerLimits`](crate::ServerLimits) limits the number of clients. A request head has at most 16 KiB, and must
//! arrive within [`ServerLimits::idle_timeout`](crate::ServerLimits::idle_timeout).

mod answer;
#[cfg(feature = "http2")]
mod begin;
mod http1;
#[cfg(feature = "http2")]
mod http2;
mod request;
mod server;

// Addresses of files have their names in this form.
pub use holdall_json::percent_encoded;
pub use server::{HttpOptions, HttpServer, PlainHttp};
