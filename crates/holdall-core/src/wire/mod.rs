//! The encodings that formats are made of. Every number a file declares comes in through here, and
//! stays `u64` until it has been checked against what is there.
#![deny(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::unwrap_used
)]

pub mod cbor;
pub mod cursor;
pub mod npy;
#[cfg(feature = "pytorch")]
pub mod pickle;
#[cfg(any(feature = "carton", feature = "onnx-file"))]
pub mod protobuf;
pub mod tar;
pub mod toml;
#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
pub mod zip;
