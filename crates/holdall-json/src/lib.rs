//! Strict JSON: a pull reader over a byte slice, values, and the few pieces of a writer.
//!
//! # Overview
//! The reader returns one token at a time and allocates nothing: a header with 10^5 entries streams straight into an
//! index. Strings without an escape are borrowed from the text. Schemas, records, headers and users' input are all read
//! with the same rules.
//!
//! # Layout
//! Text, as in RFC 8259, without byte order mark, comments or `NaN`.
//!
//! # Specification
//! All of the grammar of RFC 8259, as [`RULES`]: [`SYNTAX`], [`STRING`] and [`SURROGATE`] (section 7), [`NUMBER`]
//! (section 6), [`UTF8`] (section 8.1), [`TRUNCATED`], [`TRAILING`]. Section 4 leaves the meaning of a repeated key
//! open; callers refuse repeated keys ([`DUPLICATE_KEY`], found by [`duplicate`] or by a flag for each known field).
//!
//! # Support
//! Reads all JSON, either token by token ([`Reader`]; integers as `u64` by [`Reader::u64`]) or, with the feature
//! `value`, into a `serde_json::Value` (`parse`). Writes strings ([`write_string`]).
//!
//! # Deviations
//! None from the RFC. The nesting depth is limited, which section 9 allows.
//!
//! # Untrusted input
//! The nesting depth is bounded by the limit given to [`Reader::new`], and [`Reader::skip`] does not recurse. Counts
//! that exceed 64 bits are refused ([`INTEGER`]). An unescaped copy of a string is never longer than its text. No
//! number in the text determines the size of an allocation.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::dbg_macro,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used
)]

mod number;
#[cfg(feature = "value")]
mod parse;
mod percent;
mod reader;
mod string;
mod write;

use holdall_error as error;
pub use number::Number;
#[cfg(feature = "value")]
pub use parse::{parse, parse_at};
pub use percent::{percent_decoded, percent_encoded};
pub use reader::{Reader, Token, duplicate};
#[cfg(feature = "value")]
pub use serde_json::Value;
pub use string::hex_digit;
pub use write::write_string;

crate::error::rules! {
    /// All rules of JSON text.
    pub static RULES;

    /// The text is not UTF-8.
    pub UTF8: Malformed "json/utf8" "JSON text is valid UTF-8.";
    /// A character is not allowed at its position.
    pub SYNTAX: Malformed "json/syntax" "JSON text follows the grammar of RFC 8259.";
    /// The text ends inside a value.
    pub TRUNCATED: Malformed "json/truncated" "JSON text ends after its value, not inside it.";
    /// Something follows the value.
    pub TRAILING: Malformed "json/trailing" "Only whitespace follows the one JSON value.";
    /// A string has an invalid escape or a control character.
    pub STRING: Malformed "json/string"
        "A JSON string has no unescaped control characters, and only the escapes of RFC 8259.";
    /// An escape is half of a surrogate pair.
    pub SURROGATE: Malformed "json/surrogate"
        "An escaped surrogate is the first half of a pair, followed by the second.";
    /// A number does not follow the grammar, or is too large for a double.
    pub NUMBER: Malformed "json/number"
        "A JSON number has no leading zeros, digits around its point and in its exponent, and fits \
         a double.";
    /// A count is negative, malformed or too large.
    pub INTEGER: Malformed "json/integer"
        "A count is an integer from 0 to 2^64 - 1, written without a point or an exponent.";
    /// A value does not have the type that the format requires.
    pub TYPE: Malformed "json/type" "Every JSON value has the type that its format requires.";
    /// The values are nested too deeply.
    pub DEPTH: Limit "json/depth" "JSON nests at most `Limits::depth` levels deep."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// An object has the same key twice.
    pub DUPLICATE_KEY: Malformed "json/duplicate-key" "The keys of one JSON object are unique.";
}
