//! Metatensor's schemas (`docs/spec/metatensor.md`), which describe the values of a file and the layout of their bytes.
//! Pure: no I/O, and nothing is ever fetched.
//!
//! The feature `validate`, on by default, adds [`Checker`], which checks values against standard keywords (minima,
//! patterns, conditions) with the `jsonschema` crate, most of this crate's dependencies. Without the feature
//! [`Checker::new`] fails with `schema/not-built`. Everything else works without it: compiling, layouts, access,
//! encoding and decoding of records (which check kinds, lengths and members themselves), and evolution.
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

mod access;
pub mod calendar;
#[cfg(feature = "validate")]
mod check;
pub mod code;
mod compile;
mod document;
mod dtype;
pub mod evolve;
mod extent;
mod forms;
mod header;
pub mod infer;
mod kinds;
mod layout;
mod limits;
mod meaning;
mod order;
mod outline;
mod path;
pub mod record;
mod refs;
pub mod rules;
mod schema;
mod standard;
#[cfg(not(feature = "validate"))]
mod unchecked;
mod vocabulary;

pub use access::{Accessor, Column, ReadScalar, Typed, Values};
#[cfg(feature = "validate")]
pub use check::Checker;
#[cfg(feature = "validate")]
use check::is_value;
pub use document::{Document, Reading, record_schema, record_text, self_contained};
pub use dtype::TensorDType;
pub use evolve::{
    Bump, Chain, Change, ChangeKind, ConversionInput, Convert, Converters, Filled, HeapDefaults,
    MemberStep, Migrator, MissingTensors, Resolution, ResolveOptions, Side, StepKind, TensorChange,
    TensorConverter, TensorSource, Verdict, by_chain, by_value, changes_json, diff, resolve,
    resolve_tensor,
};
pub use extent::Symbols;
pub use forms::normalize;
pub use holdall_error as error;
pub use holdall_error::{Error, Result, Rule};
pub use infer::{InferOptions, Inference, Width};
pub use kinds::{
    Align, Array, Content, Dim, Enum, IndexWidth, Kind, Len, Member, Scalar, Struct, TensorType,
    Type, TypeId, Union, Variant,
};
pub use layout::{LayoutItem, PresenceBit, RecordLayout};
pub use limits::SchemaLimits;
pub use meaning::{Meaning, TimeUnit};
pub use order::OrderedJson;
pub use outline::{Base, Outline, OutlineRow, RowPresence};
pub use path::{Path, Segment, write_name};
pub use record::{Elements, Encoder, Entry, Heap};
pub use refs::{def_name, reference};
pub use schema::{
    AdditionalMembers, Extent, Node, NodeId, Object, Presence, Property, Root, Schema,
};
pub use standard::has_value_constraints;
#[cfg(not(feature = "validate"))]
pub use unchecked::Checker;
#[cfg(not(feature = "validate"))]
use unchecked::is_value;
pub use vocabulary::Vocabulary;

/// The attribute of a file of any format that contains its schema as JSON text (section 7.2).
pub const SCHEMA_ATTRIBUTE: &str = "metatensor.schema";
/// The attribute of a file that contains the plain values next to its tensors: the JSON text of an object from path to
/// value.
pub const VALUES_ATTRIBUTE: &str = "metatensor.values";
/// The attribute of datasets and blobs that contains their schema as JSON text: that of a record, or of the blob's
/// node, with the `$defs` that it needs.
pub const TENSOR_SCHEMA_ATTRIBUTE: &str = "metatensor.kind";

/// Returns every rule of this crate.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let own = [rules::RULES, record::rules::RULES, evolve::rules::RULES, infer::RULES, code::RULES];
    [holdall_json::RULES].into_iter().chain(own).flatten().copied()
}
