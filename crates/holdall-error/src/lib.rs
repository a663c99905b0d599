//! Holdall's error type: the broken rule, whose fault it is, where it happened, and what can be done about it.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(
    clippy::dbg_macro,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    clippy::print_stdout
)]

mod error;
mod escape;
mod remedy;
mod rule;

pub use error::{Error, Result};
pub use escape::{Escape, EscapedText, list, message as cut_message};
pub use remedy::{Detail, Remedy};
pub use rule::{ErrorKind, Rule};
