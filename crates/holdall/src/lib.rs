//! Open, inspect, verify, convert, diff and edit tensor and model files, without loading them into
//! memory and without executing a byte of them.
//!
//! ```no_run
//! # fn main() -> holdall::Result<()> {
//! let file = holdall::open("model.safetensors")?;
//! for tensor in file.tensors() {
//!     println!("{} {:?}", tensor.name(), tensor.shape());
//! }
//! let weights = file.tensor("embed.weight")?.bytes(&holdall::Role::Data)?;
//! # let _ = weights;
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

pub mod buffer;
#[cfg(feature = "carton")]
pub mod carton;
mod compress;
pub mod convert;
mod copy;
pub mod diff;
pub mod edit;
pub mod error;
mod executor;
mod file;
mod glob;
pub mod group;
pub mod http;
#[cfg(target_os = "linux")]
mod in_place;
mod items;
mod load;
mod lock;
mod number;
mod open;
pub mod plain;
pub mod records;
mod rename;
mod repack;
mod scan;
pub mod select;
pub mod sink;
pub mod source;
pub mod stats;
pub mod verify;
mod views;
mod work;
mod workers;
mod writer;

pub use convert::{Convert, ConvertReport, convert, convert_to};
pub use diff::{Diff, DiffOptions, diff};
pub use edit::{Edit, EditReport, compact, compact_with};
pub use executor::Pieces;
pub use file::{File, Tensor};
pub use group::{Group, groups};
/// Headers of `.npy` files.
pub use holdall_core::wire::npy;
pub use holdall_core::{
    Algorithm, Attributes, ByteOrder, Bytes, Component, ComponentRef, ComponentSpec, DType, Digest,
    Encode, EncodeOptions, Encoding, Error, Extent, FORMATS, Format, Index, IndexBuilder, Kind,
    Layout, Limits, LogicalType, Plan, Remedy, Result, Role, Rule, Stop, Stored, TensorInfo,
    TensorSpec, Value, Warning, Window, formats, layout, model, read,
};
/// Strict JSON, as schemas, records and headers are read.
pub use holdall_json as json;
/// Schemas of records: what they are made of, and where their bytes lie.
pub use holdall_schema as schema;
pub use items::Sharing;
pub use load::{LoadOptions, Loaded, LoadedMemory, LoadedTensor, Place};
pub use number::{ElementType, Number};
pub use open::{Check, Io, OpenOptions, open};
pub use records::{Blob, Records};
pub use select::{Glob, Rename, Select};
pub use sink::{Durability, FileSink, Sink, StreamSink};
pub use source::{Access, ByteSource, Terms};
pub use stats::{Stats, StatsOptions, stats};
pub use verify::{VerifyOptions, VerifyReport, verify};
pub use work::{Cancel, Work};
pub use writer::{WriteOptions, Writer};

/// The tables of rules of this crate.
static TABLES: &[&[&Rule]] = &[
    error::RULES,
    http::rules::RULES,
    records::rules::RULES,
    #[cfg(feature = "carton")]
    carton::rules::RULES,
    #[cfg(feature = "carton")]
    carton::links::rules::RULES,
];

/// Every rule of this crate and of those below it.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    TABLES.iter().copied().flatten().copied().chain(holdall_core::rules())
}
