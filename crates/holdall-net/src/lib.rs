//! Files that are served, and streamed: `docs/spec/stream.md`.
//!
//! [`protocol`] is what both sides say, as state machines that do no I/O and know no clock: bytes of a stream in, what is
//! to be done out. `quic` drives both sides of it (the feature of that name), [`http`] serves the same files to whoever knows
//! HTTP. Neither knows what a tensor is: a [`Shelf`] has files, a file has bytes, and some of them are its index, which
//! are sent unasked. Whoever gets those decodes them as if the file were here, and asks for the rest by ranges.

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
pub use shelf::{Access, Bounds, Done, Entry, Log, Served, Shelf, Tokens};

use holdall_core::Rule;

/// The tables of rules of this crate.
static TABLES: &[&[&Rule]] = &[rules::RULES];

/// Every rule of this crate.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    TABLES.iter().copied().flatten().copied()
}
