//! The same files over HTTP: `GET` and `HEAD`, with ranges.
//!
//! What is asked and answered is the same in each version: `request`, `answer`. `http1` and `http2` are how it goes over a connection.
//! Without the feature `http2` that is HTTP/1.1 in plain text, for loopback or behind a proxy; with it TLS too, and HTTP/2 in
//! both. A thread serves each client, as many as the [`Bounds`](crate::Bounds) say; what comes from it is held to 16 KiB a
//! request, and to its patience.

mod answer;
#[cfg(feature = "http2")]
mod begin;
mod http1;
#[cfg(feature = "http2")]
mod http2;
mod request;
mod server;

pub use request::{decoded, encoded};
pub use server::{HttpOptions, HttpServer, PlainHttp};
