//! Carton packages as files of tensors. `holdall-package` defines the meaning of their texts.
//!
//! # Contents
//! The tensors are those in a package's `tensor_data/`: numbers are dense, strings have the layout `strings`, and
//! nested tensors the layout `nested`. A tensor whose file is only in `LINKS` has the layout `linked` and no
//! components, unless the caller fetched the file ([`decode_linked`]). The attributes of the file are those in
//! `carton.toml`.
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
//! The same as [`holdall_package`].
//!
//! # Untrusted input
//! See [`holdall_package`]: paths are checked together, and the length of a text is checked before it is parsed.

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
        (STRINGS, "a tensor of strings"),
        (NESTED, "a nested tensor"),
        (LINKED, "a tensor whose file is only linked to"),
    ],
    // A package is opened as such, not as a model file.
    is_model_file: |_, _| false,
    rules: RULES,
    ..Format::read_by(detect::detect, decode::decode)
};
