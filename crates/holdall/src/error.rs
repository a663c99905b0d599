//! Rules that callers compare errors with, and escaping of texts from files so that they are safe to print.

pub use holdall_core::error::{Detail, Escape, list, rules};
pub use holdall_io::error::{
    CANCELLED, EXISTS, EXTENSION, IO, NO_COMPONENT, NOT_FOUND, SAME_NAME, SELECT, io,
};
