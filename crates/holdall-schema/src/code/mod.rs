//! Generates code for the layout of records: structs of Rust, dtypes of NumPy, types of TypeScript, functions and
//! structs of WGSL.
//!
//! Rust and NumPy describe the bytes of a record. They cannot represent heap data, optional members and unions; for
//! these, the code contains a comment that says how each is read. WGSL reads every member with fixed bytes through
//! functions. TypeScript describes the JSON of records, which includes every member.

mod name;
mod python;
mod rust;
mod typescript;
mod wgsl;

use crate::error::Result;
use crate::kinds::{Content, Kind, Scalar, TypeId};
use crate::path::{Path, Segment};
use crate::schema::Schema;

holdall_error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A record that the language cannot represent.
    pub NO_EQUIVALENT_TYPE: Unsupported "schema/no-equivalent-type"
        "Rust, NumPy and WGSL types exist for records of numbers, fixed arrays and structs. Members in a heap have no fixed bytes, and neither do unions, except in WGSL."
        hint "make it a member of a struct; TypeScript has types for every record";
}

/// A language to generate code for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lang {
    /// `#[repr(C)]` structs with `#[derive(Record)]`.
    Rust,
    /// NumPy's dtypes.
    Python,
    /// Types of the JSON of records.
    TypeScript,
    /// WGSL functions that read members from a buffer, and structs if WGSL has types for the members.
    Wgsl,
}

impl Lang {
    /// Every language.
    pub const ALL: [Lang; 4] = [Lang::Rust, Lang::Python, Lang::TypeScript, Lang::Wgsl];

    /// Returns the name of the language: `rust`, `python`, `typescript` or `wgsl`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Lang::Rust => "rust",
            Lang::Python => "python",
            Lang::TypeScript => "typescript",
            Lang::Wgsl => "wgsl",
        }
    }

    /// Returns the language with this name.
    pub fn from_name(name: &str) -> Option<Lang> {
        Lang::ALL.into_iter().find(|lang| lang.as_str() == name)
    }
}

/// Returns source code for the values of a type. `name` is the name of its struct; nested structs are named after it
/// and their members. Names that are not valid in the language are changed, with a comment.
///
/// # Errors
/// Returns `schema/no-equivalent-type` if the language cannot represent the record, `schema/open-shape` if a symbol has no
/// number.
pub fn code(schema: &Schema, ty: TypeId, name: &str, lang: Lang) -> Result<String> {
    let name = name::Names::type_name(name);
    match lang {
        Lang::Rust => rust::code(schema, ty, &name),
        Lang::Python => python::code(schema, ty, &name),
        Lang::TypeScript => typescript::code(schema, ty, &name),
        Lang::Wgsl => wgsl::code(schema, ty, &name),
    }
}

/// Describes a kind in a few words, for a comment.
fn describe(kind: &Kind) -> &'static str {
    match kind {
        Kind::Scalar(Scalar::Timestamp) => "a time",
        Kind::Scalar(_) => "a number",
        Kind::Enum(_) => "an enum",
        Kind::Array(_) => "an array",
        Kind::Struct(_) => "a struct",
        Kind::Union(_) => "a union",
        Kind::String => "text",
        Kind::Bytes => "bytes",
        Kind::Record => "JSON",
        Kind::Tensor(_) => "a tensor",
    }
}

/// Returns the path of a member of `parent`.
fn join(parent: &Path, name: &str) -> Path {
    parent.then(Segment::Name(name.into()))
}

/// Returns the error for a record that the language cannot represent.
fn no_mirror(kind: &Kind, language: &str) -> crate::Error {
    NO_EQUIVALENT_TYPE.broken(format!(
        "{language} has no type for a record that is a `TypeDef:{}`",
        kind.as_str()
    ))
}

/// Returns `true` if a dtype takes whole bytes.
fn is_whole(dtype: crate::TensorDType) -> bool {
    matches!(Content::from_name(dtype.as_str()), Some(Content::Elements(_)))
}

/// `1 byte`, `8 bytes`.
fn bytes(n: u64) -> String {
    format!("{n} byte{}", if n == 1 { "" } else { "s" })
}

/// Formats the numbers of a list with commas between them.
fn list(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// Indents each line of `text` by `by`.
fn indented(text: &str, by: &str) -> String {
    text.lines().map(|line| format!("{by}{line}\n")).collect()
}
