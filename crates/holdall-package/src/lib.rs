//! Cartons: a model packed with its description, tests and hashes, in a zip or a folder.
//!
//! # Contents
//! A zip of plain files. `carton.toml` describes the model's inputs and outputs and the runner, `MANIFEST`
//! has the SHA-256 of every file, `model/` is for the runner, `tensor_data/` has tensors for self-tests and
//! examples, `misc/` files that examples show. Files may be missing if `LINKS` has addresses from which they
//! can be fetched.
//!
//! # Layout
//! ```text
//! zip
//!   carton.toml              TOML: inputs, outputs, self-tests, examples, runner
//!   MANIFEST                 `path=sha256` in each line, sorted; its own SHA-256 is the model's hash
//!   LINKS                    TOML: sha256 → addresses
//!   model/…                  anything
//!   tensor_data/index.toml   TOML: name, dtype, shape, file of each tensor
//!   tensor_data/*.bin        numbers: little-endian, in C order
//!   tensor_data/*.toml       texts: `data = […]`
//!   misc/…                   anything
//! ```
//!
//! # Specification
//! Version 1 of the published format; our own write-up is `docs/spec/carton.md`. Zip:
//! [`holdall_core::wire::zip`] and the `zip/…` rules. The texts: [`Description::parse`], [`Manifest::parse`],
//! [`Links::parse`], [`tensors::parse`], [`tensors::strings`]. Checks between them, for zips and folders:
//! [`PackageContents::new`].
//!
//! # Support
//! Reads all of version 1, and from later specifications `short_description`, `license`, `repository` and
//! `homepage`. Our extensions are `[self_test.compare]`, `[card]`, `[lineage]` and `[sbom]`, which other
//! readers ignore. Written by [`write`](mod@write) and packing. `holdall-formats` makes an index of the
//! tensors of `tensor_data`.
//!
//! # Deviations
//! The original compares no hashes, and notices neither unlisted files nor versions. We refuse packages that
//! break the specification, except for self-tests that do not fit the declarations: these cause warnings,
//! because published packages have them. Symbolic links are not in the specification, but the original writes
//! them.
//!
//! # Untrusted input
//! The directory is limited by [`holdall_core::Limits::header_len`] and [`holdall_core::Limits::files`].
//! Texts are limited by [`holdall_core::Limits::text_len`] after decoding, and their nesting and counts
//! before parsing. Data is decoded only if its declared length can be reached by its encoding. Paths are
//! checked as a set. Nothing of a package is ever executed here.

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

pub mod compare;
mod contents;
mod demands;
pub mod description;
mod fields;
mod fit;
mod hasher;
pub mod links;
pub mod manifest;
mod markdown;
pub mod onnx;
mod parse;
pub mod paths;
mod revise;
pub mod rules;
pub mod signature;
pub mod symlinks;
pub mod tensors;
pub mod value;
pub mod write;
mod zipped;

pub use compare::{Comparison, compare};
pub use contents::{FoundPath, PackageContents, PackedFile, Texts, sha256, wrong_hash};
pub use demands::unmet_requirements;
pub use description::{
    Description, DimSpec, Example, OptionValue, Reference, Runner, SelfTest, ShapeSpec, Tolerance,
    ValueSpec,
};
pub use hasher::{FileHasher, hash_of};
pub use links::Links;
pub use manifest::Manifest;
pub use revise::revise;
pub use rules::{RULES, warnings};
pub use tensors::{TensorKind, TensorRow};
pub use value::{Number, TensorValue, ValueType};
pub use zipped::{FetchedTexts, is_package, read as read_zip, texts as zip_texts};

use holdall_core::error::Rule;

/// The file that describes the package.
pub const CARTON_TOML: &str = "carton.toml";
/// The file that lists all other files with their hashes.
pub const MANIFEST_NAME: &str = "MANIFEST";
/// The file with the addresses of missing files.
pub const LINKS_NAME: &str = "LINKS";
/// The folder with the files of tensors.
pub const TENSOR_DATA: &str = "tensor_data";
/// The table of the tensors in that folder.
pub const TENSOR_INDEX: &str = "tensor_data/index.toml";
/// The layout of string tensors: one component, the bytes of a TOML file.
pub const STRINGS: &str = "strings";
/// The layout of nested tensors: no components; the attribute `inner` names other tensors.
pub const NESTED: &str = "nested";
/// The layout of tensors whose file is only in `LINKS`, not in the package.
pub const LINKED: &str = "linked";

/// The tables of rules of this crate.
static TABLES: &[&[&Rule]] = &[onnx::RULES, onnx::engine::RULES, signature::RULES, value::RULES];

/// Returns the rules of this crate.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    TABLES.iter().copied().flatten().copied()
}
