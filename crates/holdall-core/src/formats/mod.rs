//! One module per file format, each a constant that describes itself, and the one list of them.
#![deny(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::unwrap_used
)]

mod array;
#[cfg(feature = "carton")]
pub mod carton;
mod element;
#[cfg(feature = "flax")]
pub mod flax;
mod foreign;
#[cfg(feature = "gguf")]
pub mod gguf;
#[cfg(feature = "hdf5")]
pub mod hdf5;
#[cfg(any(
    feature = "metatensor",
    feature = "safetensors",
    feature = "gguf",
    feature = "hdf5",
    feature = "numpy",
    feature = "pytorch"
))]
#[cfg_attr(not(any(feature = "metatensor", feature = "safetensors")), allow(dead_code))]
mod header;
#[cfg(any(
    feature = "safetensors",
    feature = "gguf",
    feature = "hdf5",
    feature = "numpy",
    feature = "pytorch"
))]
#[cfg_attr(
    not(any(feature = "safetensors", feature = "gguf", feature = "numpy", feature = "pytorch")),
    allow(dead_code)
)]
mod kept;
#[cfg(feature = "metatensor")]
pub mod metatensor;
#[cfg(any(feature = "pytorch", feature = "flax"))]
#[cfg_attr(not(feature = "pytorch"), allow(dead_code))]
mod named;
#[cfg(feature = "numpy")]
pub mod numpy;
#[cfg(feature = "onnx-file")]
pub mod onnx;
#[cfg(feature = "pytorch")]
pub mod pytorch;
#[cfg(feature = "safetensors")]
pub mod safetensors;
#[cfg(any(feature = "hdf5", feature = "numpy"))]
mod structured;
#[cfg(feature = "tensorflow")]
pub mod tensorflow;
#[cfg(feature = "tflite")]
pub mod tflite;
#[cfg(feature = "ztensor")]
mod turns;
#[cfg(feature = "ztensor")]
pub mod ztensor;
#[cfg(feature = "ztensor2")]
pub mod ztensor2;

pub use array::{Elements, add_array, add_arrays, array_header};
pub use element::{schema_dtype, stored_as};

use crate::encode::{Encode, EncodeOptions};
use crate::error::{Result, Rule};
use crate::limits::Limits;
use crate::model::Index;
use crate::window::{Stop, Window};
use std::ops::Range;

/// Says where the table of contents of a file lies.
pub type FindTable = fn(&Window, &Limits) -> Result<Range<u64>, Stop>;

/// A file format: how to recognise it, read it and, where we do, write it.
#[derive(Debug)]
pub struct Format {
    /// Short name in code, output and `--to`: `ztensor`.
    pub id: &'static str,
    /// Name for people: `zTensor`.
    pub name: &'static str,
    /// File name extensions without the dot.
    pub extensions: &'static [&'static str],
    /// Versions that can be read, newest first; empty where the format has none.
    pub reads: &'static [&'static str],
    /// Versions that can be written, newest first; empty where the format has none.
    pub versions: &'static [&'static str],
    /// Whether the bytes are of this format. It claims a file as soon as it would be the right one
    /// to explain what is wrong with it.
    pub detect: fn(&Window) -> Result<bool, Stop>,
    /// What the file contains.
    pub decode: fn(&Window, &Limits) -> Result<Index, Stop>,
    /// Where its table of contents lies, where a few bytes tell that: with these and the table it is decoded.
    pub table: Option<FindTable>,
    /// An encoder, where the format can be written.
    pub encode: Option<NewEncoder>,
    /// Where that is which tells its contents: a file that is far away is asked for it first.
    pub told_by: Told,
    /// Whether what tells its contents is at the very end, so that a file can be edited in place.
    pub ends_in_manifest: bool,
    /// Where a file may have ended before, among some of its bytes, the last first: a file whose end was lost may have
    /// an older one.
    pub old_ends: Option<FindOldEnds>,
    /// Whether components start where a caller wants them aligned to.
    pub aligns: bool,
    /// Whether a file has a schema.
    pub has_schema: bool,
    /// Whether tensors are written into a file of it that is there, and not on their own.
    pub has_graph: bool,
    /// How a model is written in several files, where it can be.
    pub shards: Option<Shards>,
    /// How a file names others beside it that have bytes of its tensors, where it can.
    pub beside: Option<Beside>,
    /// The digest of what a file holds, however it lies in it, where the format defines one and the file has what it takes.
    pub content: Option<ContentDigest>,
    /// The rule that bytes of the data region which belong to no component are zero, where the format
    /// has one. Verifying finds it broken.
    pub gaps: Option<&'static Rule>,
    /// The code of the warning for bytes before a component that align it and are not zero, where writers
    /// of a file of that version set them to zero. Verifying gives it.
    pub padding: Option<fn(version: &str) -> Option<&'static str>>,
    /// Every rule its decoder and encoder can find broken.
    pub rules: &'static [&'static Rule],
}

impl Format {
    /// A format without a name and versions, which these read and nothing writes: others say what they have besides.
    pub const fn read_by(
        detect: fn(&Window) -> Result<bool, Stop>,
        decode: fn(&Window, &Limits) -> Result<Index, Stop>,
    ) -> Format {
        Format {
            id: "",
            name: "",
            extensions: &[],
            reads: &[],
            versions: &[],
            detect,
            decode,
            table: None,
            encode: None,
            told_by: Told::ByBoth,
            ends_in_manifest: false,
            old_ends: None,
            aligns: false,
            has_schema: false,
            has_graph: false,
            shards: None,
            beside: None,
            content: None,
            gaps: None,
            padding: None,
            rules: &[],
        }
    }
}

/// The ends of a file that tell its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// All is at its start, or is found from there.
    ByStart,
    /// A few bytes at its start say what it is, its end what is in it.
    ByEnd,
    /// What is in it is told at both ends.
    ByBoth,
}

/// What makes several files one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shards {
    /// An index file beside them, which says where each tensor is.
    Index,
    /// Each says which part it is.
    Parts,
    /// A file beside them, which says what they hold and which files they are.
    Root,
}

/// Files beside a file that have bytes of its tensors.
#[derive(Debug, Clone, Copy)]
pub struct Beside {
    /// The rule that a tensor breaks whose bytes are in such a file, where that is not at hand.
    pub away: &'static Rule,
    /// The rule that such files are in the folder of the one that names them.
    pub outside: &'static Rule,
    /// Which files the one in the window names, in the order in which they come.
    pub names: fn(&Window, &Limits) -> Result<Vec<String>, Stop>,
    /// The path, from their folder, of what a file of the first name calls by the second.
    pub path: fn(&str, &str) -> String,
    /// What the file in the window contains with those that are at hand, by the names it has for them, and their lengths: sources 1 and
    /// on of the index.
    pub decode: DecodeBeside,
}

/// The digest of what a file holds, where it has what that takes.
pub type ContentDigest = fn(&Window, &Limits) -> Result<Option<String>, Stop>;

/// Decodes a file with others beside it.
pub type DecodeBeside = fn(&Window, &Limits, &[(String, u64)]) -> Result<Index, Stop>;

/// Finds them.
pub type FindOldEnds = fn(&[u8]) -> Vec<OldEnd>;

/// A place where a file may have ended, as far as the bytes before it tell.
#[derive(Debug, Clone, Copy)]
pub struct OldEnd {
    /// Bytes before it of those that were looked at.
    pub at: usize,
    /// Bytes from what would be its table of contents to it.
    pub back: u64,
    /// Whether a table of contents may begin with such bytes; of 8 at least.
    pub begins: fn(&[u8]) -> bool,
}

/// Makes an encoder for one file.
pub type NewEncoder = fn(&EncodeOptions) -> Result<Box<dyn Encode>>;

/// How a format is written, in a build that writes.
#[allow(dead_code, reason = "a build may have no format that is written")]
const fn writer(new: NewEncoder) -> Option<NewEncoder> {
    if cfg!(feature = "write") { Some(new) } else { None }
}

/// All formats, in the order in which they are tried.
pub static FORMATS: &[&Format] = &[
    #[cfg(feature = "ztensor")]
    &ztensor::FORMAT,
    #[cfg(feature = "ztensor2")]
    &ztensor2::FORMAT,
    #[cfg(feature = "numpy")]
    &numpy::NPY,
    // Before safetensors, whose files start in the same way.
    #[cfg(feature = "metatensor")]
    &metatensor::FORMAT,
    #[cfg(feature = "gguf")]
    &gguf::FORMAT,
    #[cfg(feature = "tflite")]
    &tflite::FORMAT,
    #[cfg(feature = "safetensors")]
    &safetensors::FORMAT,
    #[cfg(feature = "pytorch")]
    &pytorch::FORMAT,
    #[cfg(feature = "hdf5")]
    &hdf5::FORMAT,
    #[cfg(feature = "flax")]
    &flax::FORMAT,
    // Before cartons, which are zips as what Keras writes.
    #[cfg(feature = "hdf5")]
    &hdf5::KERAS,
    // Late, because it looks at the end of a file too.
    #[cfg(feature = "carton")]
    &carton::FORMAT,
    // Told by the end of a file alone.
    #[cfg(feature = "tensorflow")]
    &tensorflow::FORMAT,
    // Last of the zips, because it asks for nothing but arrays in one.
    #[cfg(feature = "numpy")]
    &numpy::NPZ,
    // Last of all, because nothing marks such a file.
    #[cfg(feature = "onnx-file")]
    &onnx::FORMAT,
];

crate::error::rules! {
    /// Rules of recognising a format.
    pub static RULES;

    /// No format claims the bytes.
    pub UNKNOWN: Unsupported "format/unknown"
        "The first or the last bytes are those of a format that is known."
        remedies [ListFormats];
    /// A format that this build lacks.
    pub NOT_BUILT: Unsupported "format/not-built"
        "This build reads the format of the file."
        remedies [ListFormats];
    /// The file is empty.
    pub EMPTY: Malformed "format/empty" "A tensor file has at least one byte.";
    /// A version that cannot be written.
    pub UNKNOWN_VERSION: Misuse "format/unknown-version"
        "The format can be written in the version that is asked for.";
}

/// The format of the file in `window`.
///
/// # Errors
/// [`EMPTY`], [`NOT_BUILT`], [`UNKNOWN`].
pub fn detect(window: &Window) -> Result<&'static Format, Stop> {
    if window.is_empty() {
        return Err(EMPTY.broken("the file has no bytes").into());
    }
    if let Some(e) = foreign::not_built(window)? {
        return Err(e.into());
    }
    for format in FORMATS {
        if (format.detect)(window)? {
            return Ok(format);
        }
    }
    Err(foreign::unknown(window)?.into())
}

/// Recognises and decodes the file in `window`.
///
/// # Errors
/// As [`detect`], and whatever the format finds wrong.
pub fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    (detect(window)?.decode)(window, limits)
}

/// Where the table of contents of the file in `window` lies, as far as its format tells that without decoding it.
///
/// # Errors
/// As [`detect`], and what the format finds wrong on the way there.
pub fn table(window: &Window, limits: &Limits) -> Result<Option<Range<u64>>, Stop> {
    detect(window)?.table.map(|find| find(window, limits)).transpose()
}

/// The format with that id or file name extension.
pub fn by_name(name: &str) -> Option<&'static Format> {
    let name = name.to_ascii_lowercase();
    FORMATS.iter().copied().find(|f| f.id == name || f.extensions.contains(&name.as_str()))
}

/// The formats that files are written in from nothing.
pub fn writable() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().copied().filter(|format| format.encode.is_some())
}

/// The format whose files have a schema.
pub fn with_schema() -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.has_schema)
}
