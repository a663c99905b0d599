//! Strict JSON, as schemas, records and headers are read.

pub use holdall_json::{Number, Reader, Token, parse, parse_at, write_string};
