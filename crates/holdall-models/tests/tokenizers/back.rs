//! Stub.
pub(super) const BROKEN: [&str; 2] = ["tokenizer/metadata", "tokenizer/no-files"];
