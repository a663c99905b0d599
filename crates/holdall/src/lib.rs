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
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

#[cfg(feature = "aio")]
pub mod aio;
#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
pub mod archive;
#[cfg(feature = "http")]
pub mod cache;
#[cfg(feature = "carton")]
pub mod carton;
pub mod convert;
pub mod delta;
pub mod diff;
pub mod edit;
mod elements;
pub mod error;
mod form;
pub mod formats;
pub mod http;
pub mod json;
pub mod layout;
pub mod ledger;
pub mod npy;
pub mod operations;
pub mod plain;
pub mod quantized;
pub mod read;
pub mod recipe;
pub mod records;
mod repack;
pub mod salvage;
#[cfg(feature = "pytorch")]
pub mod scan;
pub mod schema;
#[cfg(feature = "serve")]
pub mod serve;
#[cfg(feature = "serve")]
mod serving;
pub mod sink;
pub mod source;
pub mod stats;
pub mod stores;
pub mod temporary;
pub mod verify;

pub use convert::{Convert, ConvertReport, DequantizedWeight, ExternalData, convert, convert_to};
pub use diff::{Diff, DiffOptions, diff};
pub use edit::{Edit, EditReport, compact, compact_with};
pub use form::{FormRule, ReformedTensor, TensorForm};
pub use holdall_core::layout::cast::{FloatType, Overflow};
pub use holdall_core::layout::described::Layouts;
pub use holdall_core::model::block::BLOCK_TYPES;
pub use holdall_core::model::{
    BlockType, Hasher, Row, RowKind, Tensors, element_count, nearest, stored_size,
};
pub use holdall_core::{
    Algorithm, Attributes, ByteOrder, Bytes, Checksum, Component, ComponentRef, ComponentSpec,
    DType, Digest, Encode, EncodeOptions, Encoding, Error, ErrorKind, Extent, Index, IndexBuilder,
    LIMITS, Layout, Limit, LimitUnit, Limits, LogicalType, NameCase, Plan, Remedy, Result, Role,
    Rule, Stop, Stored, TensorInfo, TensorSpec, Value, ValueCheck, Warning, Window,
};
pub use holdall_formats::{FORMATS, Format};
pub use holdall_io::{
    Access, BufferRange, ByteSource, Cancel, Check, DensePieces, Durability, ElementType, Faults,
    File, FileRole, FileSink, Finished, Io, LoadOptions, Loaded, LoadedMemory, LoadedTensor,
    Location, ModelFile, ModelFolder, Number, OpenOptions, Pieces, ReadHints, Sink, StreamSink,
    StreamedTensor, Tensor, TensorStream, Work, WriteOptions, Writer,
    buffer::Buffer,
    format_of,
    group::{Group, groups},
    is_model_folder,
    items::Sharing,
    model_file, open, read_layouts,
    select::{Cast, CastCount, Casts, Glob, Rename, Select},
};
pub use holdall_records::{Blob, Records, TensorRecords};
pub use salvage::{SalvageReport, salvage};
#[cfg(feature = "pytorch")]
pub use scan::{ScanReport, scan};
pub use stats::{Stats, StatsOptions, stats};
pub use verify::{VerifyOptions, VerifyReport, verify};

#[cfg(feature = "carton")]
fn rules_of_packages() -> impl Iterator<Item = &'static Rule> {
    holdall_carton::rules()
}

#[cfg(not(feature = "carton"))]
fn rules_of_packages() -> impl Iterator<Item = &'static Rule> {
    std::iter::empty()
}

/// Returns every rule of this crate and of the crates that it depends on.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let own = delta::rules();
    own.chain(holdall_records::rules()).chain(rules_of_packages()).chain(holdall_io::rules())
}
