//! The pure half of Holdall: what tensor files mean, with no way to touch a disk or a network.
//!
//! A decoder of a format looks at the bytes in a [`Window`] and returns either an [`Index`] (the contents of the
//! file) or the range of bytes that it still needs. The code that fetches bytes (from a memory map, a file, an HTTP
//! server) is in crates above this one, so a decoder is the same code everywhere and can be fuzzed from a byte slice.
//!
//! This crate knows no format; `holdall-formats` has them. [`model`] has the types of an index (tensor, component,
//! dtype, attributes, digest), [`wire`] reads and writes the encodings that formats are made of (CBOR, TOML, zip),
//! [`codec`] decompresses under a limit, [`read`] plans reads and turns stored bytes into elements, [`layout`] gives
//! components a meaning (dense, sparse, quantized), and [`mod@encode`] is the write side.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(
    clippy::dbg_macro,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    clippy::print_stdout
)]

pub mod codec;
pub mod diff;
pub mod encode;
pub mod layout;
pub mod ledger;
pub mod limits;
pub mod model;
pub mod read;
pub mod window;
pub mod wire;

pub use bytes::Bytes;
pub use encode::{
    ComponentRef, ComponentSpec, Encode, EncodeOptions, Stored, TensorSpec, ValueCheck,
};
pub use error::{Error, ErrorKind, Remedy, Result, Rule};
/// Holdall's error type: the broken rule, whose fault it is, where it happened, and what can be done about it.
pub use holdall_error as error;
pub use limits::{LIMITS, Limit, LimitUnit, Limits, NameCase};
pub use model::{
    Algorithm, Attributes, ByteOrder, Checksum, Component, DType, Digest, Encoding, Index,
    IndexBuilder, Layout, LogicalType, Role, TensorInfo, Value, Warning,
};
pub use read::{Extent, Plan};
pub use window::{Stop, Window};

/// The tables of rules of this crate. Formats have tables of their own, and those of codecs are in [`codec::CODECS`].
static TABLES: &[&[&Rule]] = &[
    limits::RULES,
    window::RULES,
    model::attributes::RULES,
    model::builder::RULES,
    layout::RULES,
    read::RULES,
    layout::sparse::RULES,
    layout::quantized::RULES,
    layout::delta::RULES,
    #[cfg(feature = "updates")]
    layout::update::RULES,
    layout::planes::RULES,
    layout::records::RULES,
    layout::strided::RULES,
    layout::described::RULES,
    wire::cbor::RULES,
    #[cfg(feature = "flatbuffer")]
    wire::flatbuffer::RULES,
    #[cfg(feature = "msgpack")]
    wire::msgpack::RULES,
    wire::npy::RULES,
    #[cfg(feature = "protobuf")]
    wire::protobuf::RULES,
    #[cfg(feature = "sstable")]
    wire::sstable::RULES,
    wire::tar::RULES,
    #[cfg(feature = "layouts")]
    wire::toml::RULES,
    #[cfg(feature = "zip")]
    wire::zip::RULES,
    #[cfg(feature = "pickle")]
    wire::pickle::RULES,
    encode::RULES,
    ledger::RULES,
];

/// Returns all rules of this crate and of the crates below it.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let own = TABLES.iter().copied().flatten().copied();
    own.chain(codec::rules()).chain(holdall_schema::rules())
}
