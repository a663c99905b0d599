//! JSON: the strict reader of [`holdall_schema::json`], and attribute values from it.

mod value;

pub use holdall_schema::json::{
    DEPTH, DUPLICATE_KEY, INTEGER, LOSSLESS, NOT_JSON, NUMBER, Number, RULES, Reader, STRING,
    SURROGATE, SYNTAX, TRAILING, TRUNCATED, TYPE, Token, UTF8, duplicate, hex_digit, parse,
    parse_at, write_string,
};
pub use value::{check, read_attributes, read_value};
