//! One error type: whose fault, which rule, where, and what to do about it.

#![forbid(unsafe_code)]

pub mod calendar;
mod error;
pub mod hash;
pub mod names;
mod remedy;
mod rule;
mod shown;
pub mod sort;

pub use error::{Error, Result};
pub use remedy::{Detail, Remedy};
pub use rule::{ErrorKind, Rule};
pub use shown::{Cut, Shown, list, message as cut_message};
