//! Code that mirrors records: structs of Rust, dtypes of NumPy, types of TypeScript, functions and structs of WGSL.
//!
//! Rust and NumPy mirror the bytes: what lies in the heap, may be absent or is one of several structs has no place
//! there, and the code says of each how it is read. WGSL reads all that has fixed bytes, by functions. TypeScript mirrors the JSON of records, which has all of it.

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

    /// Nothing in the language is like such a record.
    pub NO_MIRROR: Unsupported "schema/no-mirror"
        "Rust, NumPy and WGSL types exist for records of numbers, fixed arrays and structs. Members in a heap have no fixed bytes, and neither have unions, except in WGSL."
        hint "make it a member of a struct; TypeScript has types for every record";
}

/// A language that records have mirrors in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lang {
    /// `#[repr(C)]` structs with `#[derive(Record)]`.
    Rust,
    /// NumPy's dtypes.
    Python,
    /// Types of the JSON of records.
    TypeScript,
    /// Functions of WGSL that read members from a buffer, and structs where WGSL has them.
    Wgsl,
}

impl Lang {
    /// Every language.
    pub const ALL: [Lang; 4] = [Lang::Rust, Lang::Python, Lang::TypeScript, Lang::Wgsl];

    /// Its name: `rust`, `python`, `typescript`, `wgsl`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Lang::Rust => "rust",
            Lang::Python => "python",
            Lang::TypeScript => "typescript",
            Lang::Wgsl => "wgsl",
        }
    }

    /// The language of that name.
    pub fn from_name(name: &str) -> Option<Lang> {
        Lang::ALL.into_iter().find(|lang| lang.as_str() == name)
    }
}

/// The source text of what mirrors the values of a type: `name` is that of its struct, with those inside it named
/// after it and their members. Names that the language does not take are changed, and said where they stand.
///
/// # Errors
/// `schema/no-mirror`; `schema/open-shape` where a symbol has no number.
pub fn code(schema: &Schema, ty: TypeId, name: &str, lang: Lang) -> Result<String> {
    let name = name::Names::type_name(name);
    match lang {
        Lang::Rust => rust::code(schema, ty, &name),
        Lang::Python => python::code(schema, ty, &name),
        Lang::TypeScript => typescript::code(schema, ty, &name),
        Lang::Wgsl => wgsl::code(schema, ty, &name),
    }
}

/// A kind in a few words, for a comment.
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

/// The path of a member: `of.name`.
fn join(of: &Path, name: &str) -> Path {
    of.then(Segment::Name(name.into()))
}

/// The error for a record without a mirror.
fn no_mirror(kind: &Kind, language: &str) -> crate::Error {
    NO_MIRROR
        .broken(format!("a record that is a `TypeDef:{}` has none in {language}", kind.as_str()))
}

/// Whether a dtype of a blob or a tensor takes whole bytes.
fn is_whole(dtype: crate::TensorDType) -> bool {
    matches!(Content::from_name(dtype.as_str()), Some(Content::Elements(_)))
}

/// `1 byte`, `8 bytes`.
fn bytes(n: u64) -> String {
    format!("{n} byte{}", if n == 1 { "" } else { "s" })
}

/// The numbers of a list with commas between them.
fn list(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// Lines of `text`, each begun so.
fn indented(text: &str, by: &str) -> String {
    text.lines().map(|line| format!("{by}{line}\n")).collect()
}
