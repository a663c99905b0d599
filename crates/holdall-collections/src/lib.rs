//! Collections for the pure crates: hash maps and sets with a secret seed, a sort that adds little code for each
//! type, and the sorted order of many names.
//!
//! This crate knows nothing of tensors, errors or files, and depends on no other crate.

#![forbid(unsafe_code)]

mod hash;
mod names;
mod sorting;

#[cfg(target_family = "wasm")]
pub use hash::seed;
pub use hash::{HashMap, HashSet, SeededState};
pub use names::in_order;
pub use sorting::{sort, sort_by};
