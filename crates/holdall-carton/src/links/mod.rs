//! `LINKS`: files of a package that are somewhere else, fetched into a store and out of it.
//!
//! A file is named by its SHA-256, so it does not matter which of its addresses it comes from, nor whether
//! the server is trusted: what comes is hashed while it is written, and has its name only once the hash is
//! right.

pub mod rules;

#[cfg(feature = "http")]
mod decode;
#[cfg(feature = "http")]
mod download;
#[cfg(feature = "http")]
mod fetch;
#[cfg(feature = "http")]
mod shrink;
#[cfg(feature = "http")]
mod store;

#[cfg(feature = "http")]
pub use super::hex;
#[cfg(feature = "http")]
pub use fetch::LinkFetcher;
#[cfg(feature = "http")]
pub use shrink::{LinkedFile, Shrink, fetch, missing, whole};
#[cfg(feature = "http")]
pub use store::{CACHE, Store};
