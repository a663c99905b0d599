//! The pure half of Holdall: what tensor files mean, with no way to touch a disk or a network.
//!
//! A [`Format`] looks at the bytes in a [`Window`] and answers either with an [`Index`] (what the
//! file contains) or with the range it still needs. Whoever fetches bytes (a memory map, a file, an
//! HTTP client) sits above this crate, so every decoder is the same code everywhere, and can be
//! fuzzed from a byte slice.
//!
//! Where things live: [`model`] is the vocabulary (index, tensor, component, dtype, attributes,
//! digest), [`wire`] reads and writes the encodings formats are made of (CBOR, TOML, zip), [`codec`]
//! decompresses under a limit, [`read`] plans reads and turns stored bytes into elements, [`layout`] gives
//! components a meaning (dense, sparse, quantized), `scan` looks for pickles, [`shards`] knows models of
//! several files, and [`formats`] has one module per file format.
#![forbid(unsafe_code)]

pub mod codec;
pub mod diff;
pub mod encode;
pub mod formats;
pub mod layout;
pub mod limits;
pub mod model;
pub mod read;
#[cfg(feature = "pytorch")]
pub mod scan;
pub mod shards;
pub mod window;
pub mod wire;

pub use bytes::Bytes;
pub use encode::{ComponentRef, ComponentSpec, Encode, EncodeOptions, Stored, TensorSpec};
pub use error::{Error, ErrorKind, Remedy, Result, Rule};
pub use formats::{FORMATS, Format};
/// One error type: whose fault, which rule, where, and what to do about it.
pub use holdall_error as error;
pub use limits::{LIMITS, Limit, LimitUnit, Limits, NameCase};
pub use model::{
    Algorithm, Attributes, ByteOrder, Component, DType, Digest, Encoding, Index, IndexBuilder,
    Layout, LogicalType, Role, TensorInfo, Value, Warning,
};
pub use read::{Extent, Plan};
pub use window::{Stop, Window};

/// The tables of rules of this crate; those of the formats are in [`FORMATS`].
static TABLES: &[&[&Rule]] = &[
    limits::RULES,
    window::RULES,
    model::attributes::RULES,
    model::builder::RULES,
    codec::RULES,
    codec::zstd::RULES,
    codec::deflate::RULES,
    codec::filter::RULES,
    layout::RULES,
    read::RULES,
    layout::sparse::RULES,
    layout::quantized::RULES,
    layout::records::RULES,
    layout::strided::RULES,
    layout::described::RULES,
    wire::cbor::RULES,
    #[cfg(feature = "tflite")]
    wire::flatbuffer::RULES,
    #[cfg(feature = "flax")]
    wire::msgpack::RULES,
    wire::npy::RULES,
    #[cfg(any(feature = "carton", feature = "onnx-file", feature = "tensorflow"))]
    wire::protobuf::RULES,
    #[cfg(feature = "tensorflow")]
    wire::sstable::RULES,
    wire::tar::RULES,
    #[cfg(feature = "layouts")]
    wire::toml::RULES,
    #[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
    wire::zip::RULES,
    #[cfg(feature = "pytorch")]
    wire::pickle::RULES,
    formats::RULES,
    shards::RULES,
    #[cfg(feature = "carton")]
    formats::carton::onnx::RULES,
    #[cfg(feature = "carton")]
    formats::carton::signature::RULES,
    #[cfg(feature = "carton")]
    formats::carton::value::RULES,
];

/// Every rule of this crate and of those below it.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let formats = FORMATS.iter().map(|format| format.rules);
    TABLES.iter().copied().chain(formats).flatten().copied().chain(holdall_schema::rules())
}
