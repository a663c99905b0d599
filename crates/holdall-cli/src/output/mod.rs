//! How things are printed.

pub(crate) mod json;
pub(crate) mod remedy;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;
