//! Encodings that formats are made of. Every number that a file declares is read in this module, and stays a `u64`
//! until it was compared with the bytes of the file.
#![deny(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::unwrap_used
)]

pub mod cbor;
pub mod cursor;
#[cfg(feature = "flatbuffer")]
pub mod flatbuffer;
#[cfg(any(feature = "msgpack", feature = "protobuf"))]
pub mod forward;
#[cfg(feature = "msgpack")]
pub mod msgpack;
pub mod npy;
#[cfg(feature = "pickle")]
pub mod pickle;
#[cfg(feature = "protobuf")]
pub mod protobuf;
#[cfg(feature = "sstable")]
pub mod sstable;
pub mod tar;
#[cfg(feature = "layouts")]
pub mod toml;
#[cfg(feature = "zip")]
pub mod zip;
