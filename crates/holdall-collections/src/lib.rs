//! Collections for the pure crates: hash maps and sets with a secret seed, a sort that adds little code for each
//! type, the sorted order of many names, and values that must exist.
//!
//! This crate knows nothing of tensors, errors or files, and depends on no other crate.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(
    clippy::dbg_macro,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    clippy::print_stdout
)]

mod debug_unwrap;
mod hash;
mod names;
mod sorting;

pub use debug_unwrap::DebugUnwrap;
#[cfg(target_family = "wasm")]
pub use hash::seed;
pub use hash::{HashMap, HashSet, SeededState};
pub use names::in_order;
pub use sorting::{sort, sort_by};
