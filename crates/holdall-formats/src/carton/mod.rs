//! Cartons as files of tensors. `holdall-package` has what their texts mean.
//!
//! # What
//! A package's `tensor_data/` as tensors: numbers are dense, texts have the layout `strings`, nested tensors `nested`, and
//! tensors whose file is only in `LINKS` `linked`, unless the caller fetched it ([`decode_linked`]): they have no components. The attributes of the file are what `carton.toml` says.
//!
//! # Layout
//! A zip of plain files: see [`holdall_package`].
//!
//! # Specification
//! `docs/spec/carton.md`.
//!
//! # Support
//! Read. Packages are written by packing, not by an encoder.
//!
//! # Deviations
//! Those of [`holdall_package`].
//!
//! # Untrusted input
//! See [`holdall_package`]: paths are checked as a set, texts are bounded before they are parsed.

mod decode;
mod detect;

pub use decode::decode_linked;

use crate::Format;
use holdall_package::{LINKED, NESTED, RULES, STRINGS};

/// Carton.
pub static FORMAT: Format = Format {
    id: "carton",
    name: "Carton",
    extensions: &["carton"],
    reads: &["1"],
    other_values: &[
        (STRINGS, "a tensor of texts"),
        (NESTED, "a nested tensor"),
        (LINKED, "a tensor whose file is only linked to"),
    ],
    // It is opened as a package.
    is_model_file: |_, _| false,
    rules: RULES,
    ..Format::read_by(detect::detect, decode::decode)
};
