//! The file formats that Holdall reads and writes. Each has a module; [`FORMATS`] is the list of all of them.
//!
//! A [`Format`] is a constant that describes a format; the formats of one module are a family. Its functions do no I/O:
//! they look at the bytes in a [`Window`] and return the index of the file, or the byte range that they need next.
//! [`shards`] has the models in several files, and `scan` looks for pickles in files of any format.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::dbg_macro,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used
)]

mod array;
#[cfg(feature = "carton")]
pub mod carton;
mod convert;
#[cfg(feature = "ztensor")]
mod declared;
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
    feature = "metatensor",
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
pub mod ztensor;
#[cfg(feature = "ztensor2")]
pub mod ztensor2;

pub use array::{Elements, add_array, add_arrays, array_header};
pub use convert::{convert_elements, out_of_float_range};
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

/// Defines the list of formats. Each line has the format's family and its constant.
macro_rules! formats {
    ($($family:tt => $format:path,)*) => {
        /// The formats of this build, in the order in which they are tried.
        pub static FORMATS: &[&Format] = &[$(#[cfg(feature = $family)] &$format),*];

        /// The family of each of [`FORMATS`].
        static FAMILY_OF_EACH: &[&str] = &[$(#[cfg(feature = $family)] $family),*];

        /// Every family of formats, and whether this build has it.
        static FAMILIES: &[(&str, bool)] = &[$(($family, cfg!(feature = $family))),*];
    };
}

// The list of formats, in the order of detection. The name of a family is also that of its folder here, in
// `corpus/accept` and in `corpus/reject`, of its page in `docs/spec`, of its cargo feature, and of its target in
// `fuzz`.
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

    // Before Carton, because Keras files are also zips.
    "hdf5" => hdf5::KERAS,
    // Late, because detecting it also needs the end of the file.
    "carton" => carton::FORMAT,
    // Detected by the end of the file alone.
    "tensorflow" => tensorflow::FORMAT,
    // The last of the zips, because any zip of arrays is one.
    "numpy" => numpy::NPZ,
    // The last of all, because such a file has no magic number.
    "onnx" => onnx::FORMAT,
}

holdall_core::error::rules! {
    /// Rules about recognising a format.
    pub static RULES;

    /// No format claims the bytes.
    pub UNKNOWN: Unsupported "format/unknown"
        "The first or the last bytes of a file identify a known format."
        remedies [ListFormats];
    /// A format that this build does not include.
    pub NOT_BUILT: Unsupported "format/not-built"
        "This build includes the format of the file."
        remedies [ListFormats];
    /// The file is empty.
    pub EMPTY: Malformed "format/empty" "A tensor file has at least one byte.";
}

/// Returns the format of the file in `window`.
///
/// # Errors
/// Returns [`EMPTY`] if the file is empty, [`NOT_BUILT`] if this build lacks its format, and [`UNKNOWN`] if no format
/// claims it. Returns [`Stop::Need`] if bytes are missing.
pub fn detect(window: &Window) -> Result<&'static Format, Stop> {
    if window.is_empty() {
        return Err(EMPTY.broken("the file has 0 bytes").into());
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

/// Recognises the format of the file in `window`, and decodes its index.
///
/// # Errors
/// Returns the errors of [`detect`] and of the format's decoder.
pub fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    (detect(window)?.decode)(window, limits)
}

/// Returns the byte range of the table of contents of the file in `window`; `None` if the format cannot find it without
/// decoding the file.
///
/// # Errors
/// Returns the errors of [`detect`] and those that the format finds before the table.
pub fn table(window: &Window, limits: &Limits) -> Result<Option<Range<u64>>, Stop> {
    detect(window)?.table.map(|find| find(window, limits)).transpose()
}

/// Returns the format with this id or file name extension.
pub fn by_name(name: &str) -> Option<&'static Format> {
    let name = name.to_ascii_lowercase();
    FORMATS.iter().copied().find(|f| f.id == name || f.extensions.contains(&name.as_str()))
}

/// Returns every family of formats once, in the order of the list, whether or not this build has it.
pub fn families() -> impl Iterator<Item = &'static str> {
    let is_first =
        |at: usize, family: &str| !FAMILIES.iter().take(at).any(|(other, _)| *other == family);
    let all = FAMILIES.iter().enumerate();
    all.filter(move |(at, (family, _))| is_first(*at, family)).map(|(_, (family, _))| *family)
}

/// Returns the formats of a family that this build has.
pub fn formats_of(family: &str) -> impl Iterator<Item = &'static Format> {
    let of_each = FORMATS.iter().copied().zip(FAMILY_OF_EACH);
    of_each.filter(move |(_, other)| **other == family).map(|(format, _)| format)
}

/// Returns the family of a format of this build.
pub fn family_of(format: &Format) -> Option<&'static str> {
    let mut of_each = FORMATS.iter().zip(FAMILY_OF_EACH);
    of_each.find(|(own, _)| own.id == format.id).map(|(_, family)| *family)
}

/// Returns `true` if this build has the formats of a family.
fn is_built(family: &str) -> bool {
    FAMILIES.iter().any(|(other, is_built)| *other == family && *is_built)
}

/// Returns the formats in which new files can be written.
pub fn writable() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().copied().filter(|format| format.encode.is_some())
}

/// Returns the format whose files have a schema.
pub fn with_schema() -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.has_schema)
}

/// The tables of rules of this crate, except those of the formats, which are in [`FORMATS`].
static TABLES: &[&[&Rule]] = &[RULES, shards::RULES];

/// Returns every rule of this crate and of the crates below it.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let own = TABLES.iter().copied().chain(FORMATS.iter().map(|format| format.rules));
    let own = own.flatten().copied();
    #[cfg(feature = "carton")]
    let own = own.chain(holdall_package::rules());
    own.chain(holdall_core::rules())
}
