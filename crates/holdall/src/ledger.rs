//! What became of everything in a file that was written again: for those who write files with a [`Writer`](crate::Writer).
//!
//! [`convert()`](crate::convert()), [`Edit`](crate::Edit) and the others compare by themselves what they have written with their
//! source, before it is published.

pub use holdall_core::ledger::{
    Expected, Ledger, Loss, LossKind, Record, Side, TensorChange, TieRule, compare,
};
pub use holdall_io::ledger::close;
