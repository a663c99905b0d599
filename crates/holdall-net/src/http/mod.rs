//! The same files over HTTP/1.1: `GET` and `HEAD`, with ranges.
//!
//! Plain HTTP, for loopback or behind a proxy that does TLS. A thread serves each client, as many as the
//! [`Bounds`](crate::Bounds) say; what comes from it is held to 16 KiB a request, and to its patience.

mod answer;
mod request;
mod server;

pub use request::{decoded, encoded};
pub use server::{HttpOptions, HttpServer};
