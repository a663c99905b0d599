//! One error type: the rule that was broken, whose fault that is, where it happened, and the remedies.

#![forbid(unsafe_code)]

mod error;
mod remedy;
mod rule;
mod shown;

pub use error::{Error, Result};
pub use remedy::{Detail, Remedy};
pub use rule::{ErrorKind, Rule};
pub use shown::{EscapedText, Shown, list, message as cut_message};
