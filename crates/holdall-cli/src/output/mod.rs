//! How things are printed.

pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;
