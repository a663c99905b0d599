//! Holdall's error type: the broken rule, whose fault it is, where it happened, and what can be done about it.

#![forbid(unsafe_code)]
#![deny(
    clippy::dbg_macro,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    clippy::print_stdout
)]

mod error;
mod remedy;
mod rule;
mod shown;

pub use error::{Error, Result};
pub use remedy::{Detail, Remedy};
pub use rule::{ErrorKind, Rule};
pub use shown::{EscapedText, Shown, list, message as cut_message};
