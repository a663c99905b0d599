//! Strict JSON, as used for schemas, records and headers.

pub use holdall_json::{Number, Reader, Token, parse, parse_at, write_string};
