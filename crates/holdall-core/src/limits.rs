//! Limits on what a file may demand of this process. Nothing is decoded or decompressed without them.
//!
//! One table, [`LIMITS`], describes all of them. The struct [`Limits`] and its defaults are made from it, and so are
//! the options of the command, the keys that Python and JavaScript accept, and the tables in the documentation.

use crate::error::{Escape as _, Result};
use crate::model::nearest;
use holdall_schema::SchemaLimits;

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// No limit has this name.
    pub UNKNOWN: Misuse "limits/unknown" "The name of a limit is one of those in the table of limits.";
    /// A limit cannot have this value.
    pub VALUE: Misuse "limits/value"
        "The value of a limit is a whole number, and at most what the table of limits allows.";
}

/// Makes the struct, its defaults, and the table.
macro_rules! limits {
    ($(
        $name:ident: $ty:ident = $default:expr, $unit:ident, $help:literal $(, at most $most:expr)?;
    )*) => {
        /// Limits on what a file may demand of this process. Numbers in a file are checked against them before anything
        /// is allocated or decompressed.
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub struct Limits {
            $(
                #[doc = $help]
                pub $name: $ty,
            )*
            /// Whether a file may have more or less data than its header describes. A tensor whose bytes are missing
            /// then gets a [fault](crate::TensorInfo::fault). For recovering the undamaged tensors of a damaged file.
            pub salvage: bool,
            /// Whether unknown values in a pickle are skipped. By default they are refused.
            pub skip_unknown: bool,
        }

        impl Default for Limits {
            fn default() -> Limits {
                Limits { $($name: $default,)* salvage: false, skip_unknown: false }
            }
        }

        /// All limits, in the order of the documentation.
        pub static LIMITS: &[Limit] = &[$(
            Limit {
                name: stringify!($name),
                unit: LimitUnit::$unit,
                default: $default,
                max: limits!(@most $ty $($most)?),
                help: $help,
                get: |limits| u64::try_from(limits.$name).unwrap_or(u64::MAX),
                set: |limits, value| limits.$name = $ty::try_from(value).unwrap_or($ty::MAX),
            },
        )*];
    };
    (@most $ty:ident $most:expr) => { $most };
    (@most $ty:ident) => { u64::MAX };
}

limits! {
    manifest_len: u64 = 1_000_000_000, Bytes,
        "Bytes of a zTensor manifest; of the blocks of a TensorFlow checkpoint's index.";
    header_len: u64 = 100_000_000, Bytes,
        "Bytes of a header (safetensors, Metatensor, GGUF) or of a zip's directory; of elements that an ONNX model stores in numeric fields; of values of variable length and virtual datasets in an HDF5 file, which are in memory.";
    text_len: u64 = 8 << 20, Bytes,
        "Bytes of each text of a package (`carton.toml`, `MANIFEST`, `LINKS`, `tensor_data/index.toml`) and of a description of layouts.";
    decoded_len: u64 = 4 << 30, Bytes,
        "Bytes that compressed components may decode to, each and all that are loaded at once, however few bytes they store; bytes of a dense copy of a sparse or quantized tensor.";
    expansion: u64 = 64, Times,
        "Beyond `decoded_len`, compressed components may decode to this many times their stored size.";
    fetched_len: u64 = 64 << 30, Bytes,
        "Bytes of a file that is fetched whole over a network, as sent.";
    files: u64 = 1 << 20, Count,
        "Entries of a zip or tar archive, files of a package, objects under a prefix of an object store.";
    tensors: u64 = 1 << 24, Count,
        "Tensors in a file.";
    rank: usize = 64, Count,
        "Dimensions of a tensor.";
    components: usize = 16_384, Count,
        "Components of a tensor.";
    depth: usize = 128, Count,
        "Levels of nesting of attribute values, headers and schemas.",
        // Values are read and written recursively.
        at most 512;
    schema_nodes: u64 = 1 << 20, Count,
        "Nodes of a Metatensor schema; paths that one question about it may touch.";
    attribute_values: u64 = 1 << 22, Count,
        "Values in all attributes of a file; keys, items of arrays and entries of maps count too.";
    zstd_window_log: u32 = 27, Bits,
        "Base-2 logarithm of the largest window that a zstd frame may need. Level 22 needs 27.",
        at most 31;
}

/// One limit: an entry of [`LIMITS`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Limit {
    /// The name of the field of [`Limits`].
    pub name: &'static str,
    /// The unit of the value.
    pub unit: LimitUnit,
    /// The value that [`Limits::default`] has.
    pub default: u64,
    /// The largest value that has an effect; a larger one is refused.
    pub max: u64,
    /// A description of the quantity that is limited; other limits are named in backticks, as fields of [`Limits`].
    pub help: &'static str,
    get: fn(&Limits) -> u64,
    set: fn(&mut Limits, u64),
}

/// The unit of a limit's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitUnit {
    /// Bytes.
    Bytes,
    /// Things: files, tensors, levels.
    Count,
    /// A factor.
    Times,
    /// Bits: a base-2 logarithm.
    Bits,
}

/// How an interface writes the names of limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameCase {
    /// `decoded_len`: Rust and Python.
    Snake,
    /// `decoded-len`: the command.
    Kebab,
    /// `decodedLen`: JavaScript.
    Camel,
}

impl NameCase {
    /// Spells the name of a limit, which is given as the field of [`Limits`].
    pub fn spell(self, name: &str) -> String {
        match self {
            NameCase::Snake => name.to_owned(),
            NameCase::Kebab => name.replace('_', "-"),
            NameCase::Camel => {
                let mut parts = name.split('_');
                let first = parts.next().unwrap_or_default().to_owned();
                parts.fold(first, |name, part| {
                    let (initial, rest) = part.split_at(part.len().min(1));
                    name + &initial.to_ascii_uppercase() + rest
                })
            }
        }
    }
}

impl Limit {
    /// Returns the limit with this name.
    ///
    /// # Errors
    /// Returns [`UNKNOWN`], with the most similar name and a list of all names, if there is no such limit.
    pub fn find(name: &str, case: NameCase) -> Result<&'static Limit> {
        let found = LIMITS.iter().find(|limit| limit.spelled(case) == name);
        found.ok_or_else(|| UNKNOWN.broken(Limit::unknown_name(name, case, &[])))
    }

    /// Returns the name as an interface spells it.
    pub fn spelled(&self, case: NameCase) -> String {
        case.spell(self.name)
    }

    /// Returns what the limit bounds, with the names of other limits as an interface spells them.
    pub fn described(&self, case: NameCase) -> String {
        LIMITS.iter().fold(self.help.to_owned(), |help, other| {
            help.replace(&format!("`{}`", other.name), &format!("`{}`", other.spelled(case)))
        })
    }

    /// Returns the limit's value in `limits`.
    pub fn get(&self, limits: &Limits) -> u64 {
        (self.get)(limits)
    }

    /// Sets the value in `limits`.
    ///
    /// # Errors
    /// Returns [`VALUE`] if the value is larger than [`Limit::max`].
    pub fn set(&self, limits: &mut Limits, value: u64) -> Result<()> {
        self.check(value, NameCase::Snake)?;
        (self.set)(limits, value);
        Ok(())
    }

    /// Checks a value for this limit, whose name an error spells as an interface does.
    ///
    /// # Errors
    /// Returns [`VALUE`] if the value is larger than [`Limit::max`].
    pub fn check(&self, value: u64, case: NameCase) -> Result<()> {
        if value > self.max {
            let (name, most) = (self.spelled(case), self.max);
            return Err(
                VALUE.broken(format!("the limit `{name}` must be at most {most}, not {value}"))
            );
        }
        Ok(())
    }

    /// Returns the text of an error about an unknown name: the nearest name, and a list of all limits and of `more`, those
    /// that only the interface has.
    pub fn unknown_name(name: &str, case: NameCase, more: &[&str]) -> String {
        let mut all: Vec<String> = LIMITS.iter().map(|limit| limit.spelled(case)).collect();
        all.extend(more.iter().map(|&name| name.to_owned()));
        let near = nearest(name, all.iter().map(String::as_str));
        let meant = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        let (name, all) = (name.escaped(), all.join(", "));
        format!("unknown limit `{name}`; {meant}the limits are {all}")
    }
}

impl Limits {
    /// Sets the limit with this name, which is written as an interface writes it.
    ///
    /// # Errors
    /// Returns [`UNKNOWN`] if no limit has the name, [`VALUE`] if the value is larger than [`Limit::max`].
    pub fn set(&mut self, name: &str, case: NameCase, value: u64) -> Result<()> {
        let limit = Limit::find(name, case)?;
        limit.check(value, case)?;
        limit.set(self, value)
    }

    /// Returns the limits that apply to schemas and records.
    pub fn schema_limits(&self) -> SchemaLimits {
        SchemaLimits::default()
            .with_nodes(self.schema_nodes)
            .with_depth(self.depth)
            .with_decoded_len(self.decoded_len)
    }
}
