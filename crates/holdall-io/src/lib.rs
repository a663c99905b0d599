//! Tensor files: opening files and fetching their bytes, loading tensors, and writing files.
//!
//! The format implementations (`holdall_core`, `holdall_formats`) state which bytes they need and where bytes go. This
//! crate fetches and merges those bytes on several threads, and publishes a written file either completely or not at
//! all. Everything else is built on it: packages (`holdall_carton`), records (`holdall_records`), and conversion,
//! editing and comparison in `holdall`. Use the `holdall` crate: it re-exports all of them, and of this crate the
//! types and functions that callers need.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

#[cfg(feature = "aio")]
pub mod aio;
#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
pub mod archive;
mod arrays;
pub mod buffer;
mod by_name;
#[cfg(feature = "http")]
pub mod cache;
mod cast;
mod casting;
pub mod checked;
#[cfg(feature = "pytorch")]
mod checkpoint;
mod composite;
pub mod compress;
mod copy;
mod dense;
pub mod error;
pub mod executor;
pub mod external;
mod file;
mod glob;
pub mod group;
pub mod held;
pub mod http;
mod index;
pub mod items;
pub mod journal;
pub mod ledger;
mod load;
pub mod location;
pub mod lock;
mod model;
mod model_folder;
mod open;
mod options;
#[cfg(feature = "carton")]
pub mod package;
pub mod planes;
pub mod platform;
mod quantized;
#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
pub mod recovered;
mod rename;
pub mod select;
mod shards;
pub mod sink;
pub mod source;
pub mod stores;
mod stream;
pub mod temporary;
mod verdict;
mod views;
mod work;
pub mod workers;
mod writer;

pub use checked::{Check, Checked};
pub use composite::check_described;
pub use dense::DensePieces;
pub use executor::Pieces;
pub use file::{File, Tensor};
pub use holdall_core::layout::number::{ElementType, Number};
pub use index::{fetch_ends, format_of, table_of};
pub use load::{BufferRange, LoadOptions, Loaded, LoadedMemory, LoadedTensor};
pub use location::Location;
pub use model::{FileRole, ModelFile};
pub use model_folder::{ModelFolder, without_infinities};
pub use open::{open, read_layouts};
pub use options::{Faults, Io, OpenOptions};
pub use shards::{is_model_folder, model_file, part_name};
pub use sink::{Durability, FileSink, Sink, StreamSink};
pub use source::{Access, ByteSource, ReadHints};
pub use stream::{StreamedTensor, TensorStream};
pub use verdict::{Strictness, Verdict};
pub use work::{Cancel, Work};
pub use writer::{Finished, WriteOptions, Writer};

use holdall_core::Rule;

/// The rule tables of this crate.
static TABLES: &[&[&Rule]] = &[
    error::RULES,
    #[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
    archive::RULES,
    http::rules::RULES,
    #[cfg(feature = "carton")]
    package::rules::RULES,
    stores::rules::RULES,
];

/// Returns every rule of this crate and of the crates that it depends on.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let own = TABLES.iter().copied().flatten().copied();
    #[cfg(feature = "net")]
    let own = own.chain(holdall_net::rules());
    own.chain(holdall_formats::rules()).chain(holdall_models::rules())
}
