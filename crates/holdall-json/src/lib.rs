//! Strict JSON: a pull reader over a byte slice, values, and the few pieces of a writer.
//!
//! # What
//! The reader hands out one token at a time and builds nothing: a header with 10^5 entries streams
//! straight into an index. Strings without an escape are borrowed from the text. Schemas, records,
//! headers and what users bring are all read by these rules.
//!
//! # Layout
//! Text, as in RFC 8259. No byte order mark, no comments, no `NaN`.
//!
//! # Specification
//! RFC 8259, all of its grammar, by [`RULES`]: [`SYNTAX`], [`STRING`] and [`SURROGATE`] (section 7),
//! [`NUMBER`] (section 6), [`UTF8`] (section 8.1), [`TRUNCATED`], [`TRAILING`]. Section 4 leaves the
//! meaning of a repeated key open; callers refuse it ([`DUPLICATE_KEY`], found by [`duplicate`] or by
//! a flag for each known field).
//!
//! # Support
//! Reads everything, token by token ([`Reader`]; integers come as `u64` by [`Reader::u64`]) or, with
//! the feature `value`, into a `serde_json::Value` (`parse`). Writes strings ([`write_string`]).
//!
//! # Deviations
//! None from the RFC. Nesting is limited, which its section 9 allows.
//!
//! # Untrusted input
//! Nesting: bounded by the limit given to [`Reader::new`], and [`Reader::skip`] does not recurse.
//! Numbers: digits beyond 64 bits are [`INTEGER`]. Strings: an unescaped copy is never longer
//! than its text. Nothing is allocated by a number in the text.
#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::unwrap_used
)]

mod number;
#[cfg(feature = "value")]
mod parse;
mod reader;
mod string;
mod write;

use holdall_error as error;
pub use number::Number;
#[cfg(feature = "value")]
pub use parse::{parse, parse_at};
pub use reader::{Reader, Token, duplicate};
#[cfg(feature = "value")]
pub use serde_json::Value;
pub use string::hex_digit;
pub use write::write_string;

crate::error::rules! {
    /// Every rule of JSON text.
    pub static RULES;

    /// The text is not UTF-8.
    pub UTF8: Malformed "json/utf8" "JSON text is valid UTF-8.";
    /// A byte that cannot stand where it does.
    pub SYNTAX: Malformed "json/syntax" "JSON text follows the grammar of RFC 8259.";
    /// The text stops inside a value.
    pub TRUNCATED: Malformed "json/truncated" "JSON text ends after its value, not inside it.";
    /// Something follows the value.
    pub TRAILING: Malformed "json/trailing" "Only whitespace follows the one JSON value.";
    /// A bad escape or a control character in a string.
    pub STRING: Malformed "json/string"
        "A JSON string holds no bare control characters, and only the escapes of RFC 8259.";
    /// Half of a surrogate pair.
    pub SURROGATE: Malformed "json/surrogate"
        "An escaped surrogate is the first half of a pair, followed by the second.";
    /// Digits that are not a JSON number.
    pub NUMBER: Malformed "json/number"
        "A JSON number has no leading zeros, digits around its point and in its exponent, and fits \
         a double.";
    /// A count that is negative, broken or too large.
    pub INTEGER: Malformed "json/integer"
        "A count is an integer from 0 to 2^64 - 1, written without a point or an exponent.";
    /// A value of another type than the format wants here.
    pub TYPE: Malformed "json/type" "Every JSON value has the type its format gives it.";
    /// Nested too deeply.
    pub DEPTH: Limit "json/depth" "JSON nests at most `Limits::depth` levels deep."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// A key twice in one object.
    pub DUPLICATE_KEY: Malformed "json/duplicate-key" "The keys of one JSON object are unique.";
}
