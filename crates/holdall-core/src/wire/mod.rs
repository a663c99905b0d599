//! The encodings that formats are made of. Every number a file declares comes in through here, and
//! stays `u64` until it has been checked against the bytes that the file has.
#![deny(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::unwrap_used
)]

pub mod cbor;
pub mod cursor;
#[cfg(feature = "tflite")]
pub mod flatbuffer;
#[cfg(any(feature = "carton", feature = "onnx-file", feature = "flax", feature = "tensorflow"))]
pub mod forward;
#[cfg(feature = "flax")]
pub mod msgpack;
pub mod npy;
#[cfg(feature = "pytorch")]
pub mod pickle;
#[cfg(any(feature = "carton", feature = "onnx-file", feature = "tensorflow"))]
pub mod protobuf;
#[cfg(feature = "tensorflow")]
pub mod sstable;
pub mod tar;
#[cfg(feature = "layouts")]
pub mod toml;
#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
pub mod zip;
