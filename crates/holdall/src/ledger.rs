//! The ledger: which contents of a source file are in a rewritten one, for programs that use a
//! [`Writer`](crate::Writer).
//!
//! [`convert()`](crate::convert()), [`Edit`](crate::Edit) and the other operations compare the written file
//! with its source themselves, before it is published.

pub use holdall_core::ledger::{
    Expected, Ledger, Loss, LossKind, Record, Side, TensorChange, TieRule, compare,
};
pub use holdall_io::ledger::close;
