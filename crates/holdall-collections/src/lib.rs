//! Collections for the pure crates: hash maps and sets with a secret seed, a sort that adds little code for each
//! type, the sorted order of many names, and parts of slices whose bounds are known.
//!
//! This crate knows nothing of tensors, errors or files, and depends on no other crate.

#![forbid(unsafe_code)]

mod hash;
mod known;
mod names;
mod sorting;

#[cfg(target_family = "wasm")]
pub use hash::seed;
pub use hash::{HashMap, HashSet, SeededState};
pub use known::{known_part, known_part_mut};
pub use names::in_order;
pub use sorting::{sort, sort_by};
