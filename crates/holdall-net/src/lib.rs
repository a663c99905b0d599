//! Files that are served, and streamed: `docs/spec/stream.md`.
//!
//! [`protocol`] is what both sides say, as state machines that do no I/O and know no clock: bytes of a stream in, what is
//! to be done out. `quic` drives both sides of it (the feature of that name), [`http`] serves the same files to whoever knows
//! HTTP. Neither knows what a tensor is: a [`Shelf`] has files, a file has bytes, and some of them are its index, which
//! are sent unasked. Whoever gets those decodes them as if the file were here, and asks for the rest by ranges.
//!
//! # The index comes first
//!
//! A server sends the bytes of a file's index without being asked, on the first stream: the bytes that a decoder
//! asks for. If a few bytes tell where they are (`Format::table`), it finds them without decoding; it does so
//! once for each file. They go into the client's window (`ByteSource::came`), where the same decoder opens the
//! file without asking again, whatever its format; the server needs to know nothing about tensors. Every read is
//! a stream of its own, with all its ranges and a priority. The protocol consists of state machines into which
//! bytes are pushed (`protocol/`), so tests can cut and interleave them freely; only `quic/` waits. Callers
//! block: their threads park, and quinn runs on two threads that all clients of a process share.

#![forbid(unsafe_code)]

pub mod http;
mod meter;
mod pace;
pub mod protocol;
#[cfg(feature = "quic")]
pub mod quic;
pub mod rules;
mod service;
mod shelf;
#[cfg(feature = "quic")]
mod wait;

pub use service::Service;
pub use shelf::{
    Access, Entry, FileCatalog, Log, RequestOutcome, ServedFile, ServerLimits, Tokens,
};

use holdall_core::Rule;

/// The tables of rules of this crate.
static TABLES: &[&[&Rule]] = &[rules::RULES];

/// Every rule of this crate.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    TABLES.iter().copied().flatten().copied()
}
