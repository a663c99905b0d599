//! Servers and clients for files over QUIC and HTTP: `docs/spec/stream.md`.
//!
//! [`protocol`] has both sides of the protocol as state machines, without I/O and without a clock: received bytes go
//! in, frames and actions come out. `quic` (the feature of that name) runs them over QUIC; [`http`] serves the same
//! files to HTTP clients. None of them knows about tensors: a [`FileCatalog`] has files, a file has bytes, and some
//! byte ranges are its index. A client receives the index without requesting it, decodes it as if the file were local,
//! and requests further bytes by range.
//!
//! # The index comes first
//!
//! When a client opens a file, the server sends the file's index along with the response, on the first stream: exactly
//! the bytes a decoder would request. If the file's first or last bytes say where the index is
//! (`Format::index_location`), the server finds it without decoding the file, once per file. On the client, the index
//! goes into the source's window (`ByteSource::prefetched`), where the same decoder opens the file without another
//! request, whatever its format. Every read is one stream, with all its ranges and a priority. The state machines of
//! `protocol/` can be tested with bytes that are cut and interleaved freely; only `quic/` waits. Callers block: their
//! threads park, and quinn runs on two threads that all clients of a process share.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod catalog;
pub mod http;
mod meter;
mod pace;
pub mod protocol;
#[cfg(feature = "quic")]
pub mod quic;
pub mod rules;
mod service;
#[cfg(feature = "quic")]
mod wait;

pub use catalog::{
    Access, Entry, FileCatalog, Log, RequestOutcome, ServedFile, ServerLimits, Tokens,
};
pub use service::Service;

use holdall_core::Rule;

/// The rule tables of this crate.
static TABLES: &[&[&Rule]] = &[rules::RULES];

/// Returns all rules of this crate.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    TABLES.iter().copied().flatten().copied()
}
