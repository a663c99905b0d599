//! The file formats that Holdall reads and writes: a folder for each, and [`FORMATS`], the one list of them.
//!
//! A [`Format`] is a constant that describes itself; the constants of one folder are a family. Its functions do no I/O: they look at the bytes in a
//! [`Window`] and return what the file contains, or the range of bytes that they still need.
//! [`shards`] has the models that are several files, `scan` looks for pickles in files of any format.
#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::unwrap_used
)]

mod array;
#[cfg(feature = "carton")]
pub mod carton;
mod convert;
mod element;
#[cfg(feature = "flax")]
pub mod flax;
pub mod folders;
mod foreign;
mod format;
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
#[cfg(feature = "onnx")]
pub mod onnx;
#[cfg(feature = "pytorch")]
pub mod pytorch;
#[cfg(feature = "safetensors")]
pub mod safetensors;
#[cfg(feature = "pytorch")]
pub mod scan;
pub mod shards;
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
pub use convert::{beyond_float, convert_elements};
pub use element::{schema_dtype, stored_as};
#[cfg(any(feature = "hdf5", feature = "numpy"))]
pub use structured::npy_type;

#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
pub use foreign::unknown_zip;
pub use format::{
    ContentDigest, DecodeExternal, ExternalFiles, FindOldEnds, FindTable, Format, IndexLocation,
    ModelPart, NewEncoder, OldEnd, Parts, Shards,
};

#[allow(unused_imports, reason = "a build may have no format that is written")]
use format::writer;
use holdall_core::error::Rule;
use holdall_core::limits::Limits;
use holdall_core::model::Index;
use holdall_core::window::{Stop, Window};
use std::ops::Range;

/// Makes the list of formats from a line for each: the format's family, and its constant.
macro_rules! formats {
    ($($family:tt => $format:path,)*) => {
        /// The formats of this build, in the order in which they are tried.
        pub static FORMATS: &[&Format] = &[$(#[cfg(feature = $family)] &$format),*];

        /// The family of each of [`FORMATS`].
        static FAMILY_OF_EACH: &[&str] = &[$(#[cfg(feature = $family)] $family),*];

        /// The family of every format, and whether this build has it.
        static FAMILIES: &[(&str, bool)] = &[$(($family, cfg!(feature = $family))),*];
    };
}

// The one list, in the order of detection. A family is the name of its folder here and in `corpus/accept` and `corpus/reject`,
// of its page in `docs/spec`, of its cargo feature and of its target in `fuzz`.
formats! {
    "ztensor" => ztensor::FORMAT,
    "ztensor2" => ztensor2::FORMAT,
    "numpy" => numpy::NPY,
    // Before safetensors, whose files start in the same way.
    "metatensor" => metatensor::FORMAT,
    "gguf" => gguf::FORMAT,
    "tflite" => tflite::FORMAT,
    "safetensors" => safetensors::FORMAT,
    "pytorch" => pytorch::FORMAT,
    "hdf5" => hdf5::FORMAT,
    "flax" => flax::FORMAT,
    // `cargo xtask new-format` adds a line here: before the formats that look at more than the first bytes.

    // Before cartons, which are zips as what Keras writes.
    "hdf5" => hdf5::KERAS,
    // Late, because it looks at the end of a file too.
    "carton" => carton::FORMAT,
    // Told by the end of a file alone.
    "tensorflow" => tensorflow::FORMAT,
    // Last of the zips, because it asks for nothing but arrays in one.
    "numpy" => numpy::NPZ,
    // Last of all, because nothing marks such a file.
    "onnx" => onnx::FORMAT,
}

holdall_core::error::rules! {
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

/// Returns every family of formats once, in the order of the list, whether or not this build has it.
pub fn families() -> impl Iterator<Item = &'static str> {
    let is_first = |at: usize, family: &str| !FAMILIES.iter().take(at).any(|(of, _)| *of == family);
    let all = FAMILIES.iter().enumerate();
    all.filter(move |(at, (family, _))| is_first(*at, family)).map(|(_, (family, _))| *family)
}

/// Returns the formats of a family that this build has.
pub fn formats_of(family: &str) -> impl Iterator<Item = &'static Format> {
    let of_each = FORMATS.iter().copied().zip(FAMILY_OF_EACH);
    of_each.filter(move |(_, of)| **of == family).map(|(format, _)| format)
}

/// Returns the family of a format of this build.
pub fn family_of(format: &Format) -> Option<&'static str> {
    let mut of_each = FORMATS.iter().zip(FAMILY_OF_EACH);
    of_each.find(|(own, _)| own.id == format.id).map(|(_, family)| *family)
}

/// Whether this build has the formats of a family.
fn is_built(family: &str) -> bool {
    FAMILIES.iter().any(|(of, is_built)| *of == family && *is_built)
}

/// The formats that files are written in from nothing.
pub fn writable() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().copied().filter(|format| format.encode.is_some())
}

/// The format whose files have a schema.
pub fn with_schema() -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.has_schema)
}

/// The tables of rules of this crate; those of each format are in [`FORMATS`].
static TABLES: &[&[&Rule]] = &[RULES, shards::RULES];

/// Every rule of this crate and of those below it.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let own = TABLES.iter().copied().chain(FORMATS.iter().map(|format| format.rules));
    let own = own.flatten().copied();
    #[cfg(feature = "carton")]
    let own = own.chain(holdall_package::rules());
    own.chain(holdall_core::rules())
}
