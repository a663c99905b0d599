//! Output.

mod json;
pub(crate) mod remedy;
pub(crate) use json::as_json;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;
