//! `LINKS`: files of a package that are stored elsewhere, fetched into a store and read from it.
//!
//! A file is identified by its SHA-256, so any of its addresses will do, and the server need not be trusted:
//! the bytes are hashed while they are written, and the file gets its name only if the hash is right.

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
pub use shrink::{LinkedFile, Shrink, embed_links, fetch, missing};
#[cfg(feature = "http")]
pub use store::{CACHE, Store};
