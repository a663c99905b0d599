//! How errors are told apart and shown: rules that callers compare with, and texts of files made safe to print.

pub use holdall_core::error::{Detail, Shown, list, rules};
pub use holdall_io::error::{
    CANCELLED, EXISTS, EXTENSION, IO, NO_COMPONENT, NOT_FOUND, SAME_NAME, SELECT, io,
};
